//! Sampling parameters for requests that give none: those that the target's files recommend.

use std::fmt;

use outrider_models::RecommendedSampling;
use serde::{Deserialize, Serialize};

/// Sampling parameters for requests that give none. `None` leaves the default of the API or the command.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SamplingDefaults {
    /// Temperature; 0 is greedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Number of most likely tokens to sample from; 0 is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Probability mass of nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
}

impl From<&RecommendedSampling> for SamplingDefaults {
    fn from(recommended: &RecommendedSampling) -> Self {
        let &RecommendedSampling { temperature, top_k, top_p, .. } = recommended;
        Self { temperature, top_k, top_p }
    }
}

impl SamplingDefaults {
    /// Returns true if no parameter has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Lists the values, such as `temperature 0.6, top-k 20`.
impl fmt::Display for SamplingDefaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { temperature, top_k, top_p } = self;
        let values = [
            temperature.map(|value| format!("temperature {value}")),
            top_k.map(|value| format!("top-k {value}")),
            top_p.map(|value| format!("top-p {value}")),
        ];
        f.write_str(&values.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}
