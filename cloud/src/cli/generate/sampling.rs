//! Sampling parameters of `outrider generate`: arguments, then the target's recommendations, then fixed defaults.

use clap::Args;
use outrider_codec::frame::SamplingParameters;
use outrider_models::RecommendedSampling;
use outrider_speculation::session::options::numbers::{NumberInfo, TEMPERATURE, TOP_K, TOP_P};
use serde::{Deserialize, Serialize};

use super::beside;
use crate::sampling::SamplingDefaults;

#[derive(Debug, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SamplingArgs {
    #[arg(long, value_name = "T", allow_negative_numbers = true, help = help(&TEMPERATURE))]
    temperature: Option<f32>,
    #[arg(long, value_name = "k", allow_negative_numbers = true, help = help(&TOP_K))]
    top_k: Option<u32>,
    #[arg(long, value_name = "p", allow_negative_numbers = true, help = help(&TOP_P))]
    top_p: Option<f32>,
}

fn help(number: &NumberInfo) -> String {
    format!("{} [default: the target's recommendation, or else {}]", number.explanation, number.default)
}

/// The part of `/v1/info` that is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    sampling: SamplingDefaults,
}

impl SamplingArgs {
    /// Parameters of generations.
    pub(super) fn parameters(&self) -> SamplingParameters {
        SamplingParameters {
            temperature: self.temperature.unwrap_or(TEMPERATURE.default as f32),
            top_k: self.top_k.unwrap_or(TOP_K.default as u32),
            top_p: self.top_p.unwrap_or(TOP_P.default as f32),
        }
    }

    /// Takes recommendations of the target's files for parameters that were not given.
    pub(super) fn follow(&mut self, recommended: &RecommendedSampling) {
        if !recommended.ignored.is_empty() {
            let ignored = recommended.ignored.join(", ");
            tracing::warn!("the model's files recommend {ignored}, which is not supported and is ignored");
        }
        self.take(recommended.into());
    }

    /// Takes the defaults of a server for parameters that were not given. A server that does not tell them has none.
    pub(super) async fn learn_from(&mut self, session: &str, token: Option<&str>) {
        let is_complete = self.temperature.is_some() && self.top_k.is_some() && self.top_p.is_some();
        if is_complete {
            return;
        }
        let described = beside::fetch(session, "v1/info", token).await;
        if let Some(info) = described.and_then(|json| serde_json::from_slice::<Info>(&json).ok()) {
            self.take(info.sampling);
        }
    }

    fn take(&mut self, defaults: SamplingDefaults) {
        let taken = SamplingDefaults {
            temperature: defaults.temperature.filter(|_| self.temperature.is_none()),
            top_k: defaults.top_k.filter(|_| self.top_k.is_none()),
            top_p: defaults.top_p.filter(|_| self.top_p.is_none()),
        };
        if !taken.is_empty() {
            tracing::warn!("sampling as the target recommends: {taken}; --temperature, --top-k and --top-p change it");
        }
        self.temperature = self.temperature.or(taken.temperature);
        self.top_k = self.top_k.or(taken.top_k);
        self.top_p = self.top_p.or(taken.top_p);
    }

    /// Sets parameters that are still open to their fixed defaults.
    pub(super) fn complete(&mut self) -> SamplingParameters {
        let parameters = self.parameters();
        self.temperature = Some(parameters.temperature);
        self.top_k = Some(parameters.top_k);
        self.top_p = Some(parameters.top_p);
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_before_recommendations() {
        let mut sampling = SamplingArgs { temperature: Some(0.0), top_k: None, top_p: None };
        sampling.take(SamplingDefaults { temperature: Some(0.6), top_k: Some(20), top_p: None });
        assert_eq!(sampling.complete(), SamplingParameters { temperature: 0.0, top_k: 20, top_p: 0.95 });
        let json = serde_json::to_string(&sampling).unwrap();
        assert_eq!(json, r#"{"temperature":0.0,"topK":20,"topP":0.95}"#);
    }
}
