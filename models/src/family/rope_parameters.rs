//! Rotary embedding settings of a `config.json`.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    config::LARGEST_DIMENSION,
    keys::Keys,
    rotary::{Llama3Scaling, RopeScaling, Rotary, Yarn},
};
use crate::error::{LoadError, invalid};

/// Contents of `rope_parameters`, or of its older name `rope_scaling`.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
pub(super) struct RopeParameters {
    rope_type: Option<String>,
    /// Older name of `rope_type`.
    r#type: Option<String>,
    pub(super) rope_theta: Option<f32>,
    partial_rotary_factor: Option<f32>,
    factor: Option<f32>,
    low_freq_factor: Option<f32>,
    high_freq_factor: Option<f32>,
    original_max_position_embeddings: Option<f32>,
    attention_factor: Option<f32>,
    beta_fast: Option<f32>,
    beta_slow: Option<f32>,
    mscale: Option<f32>,
    mscale_all_dim: Option<f32>,
    truncate: Option<bool>,
    short_factor: Option<Vec<f32>>,
    long_factor: Option<Vec<f32>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Rotary embedding and context length, which may be shorter than the model's.
pub(super) struct RotaryWithContext {
    pub(super) rotary: Rotary,
    pub(super) context_length: usize,
}

/// Defaults from which a family's rotary embedding is built.
pub(super) struct Start {
    pub(super) theta: f32,
    pub(super) head_dim: usize,
    pub(super) context_length: usize,
    /// Default for the rotated part of a head. `None` if the family always rotates all of it.
    pub(super) part: Option<f32>,
}

impl Keys {
    /// Reads the parameters from either of their two places. Differing values are an error.
    pub(super) fn rope_parameters(&self) -> Result<RopeParameters, LoadError> {
        let refuse = |found: String| Err(LoadError::Unsupported { what: "rotary settings that differ:", found });
        let parameters: Option<RopeParameters> = self.get("rope_parameters")?;
        let scaling: Option<RopeParameters> = self.get("rope_scaling")?;
        let mut parameters = match (parameters, scaling) {
            (Some(parameters), Some(scaling)) if !parameters.agrees_with(&scaling)? => {
                return refuse("rope_parameters beside another rope_scaling".to_owned());
            }
            (Some(parameters), _) | (None, Some(parameters)) => parameters,
            (None, None) => RopeParameters::default(),
        };
        for (key, inner) in [
            ("rope_theta", &mut parameters.rope_theta),
            ("partial_rotary_factor", &mut parameters.partial_rotary_factor),
            ("original_max_position_embeddings", &mut parameters.original_max_position_embeddings),
        ] {
            let outer: Option<f32> = self.get(key)?;
            if let (Some(outer), Some(inner)) = (outer, *inner)
                && outer != inner
            {
                return refuse(format!("{key} = {outer} beside rope_parameters.{key} = {inner}"));
            }
            *inner = inner.or(outer);
        }
        Ok(parameters)
    }
}

impl RopeParameters {
    /// Kind of scaling, by its new name or the old one.
    fn kind(&self) -> Result<&str, LoadError> {
        match (&self.rope_type, &self.r#type) {
            (Some(new), Some(old)) if new != old => {
                let found = format!("rope_type = {new} beside type = {old}");
                Err(LoadError::Unsupported { what: "rotary settings that differ:", found })
            }
            (Some(kind), _) | (None, Some(kind)) => Ok(kind),
            (None, None) => Ok("default"),
        }
    }

    /// Returns whether both state the same, except that one may omit θ.
    fn agrees_with(&self, other: &Self) -> Result<bool, LoadError> {
        let plain = |of: &Self| Self { rope_type: None, r#type: None, rope_theta: None, ..of.clone() };
        let same_theta = self.rope_theta.is_none() || other.rope_theta.is_none() || self.rope_theta == other.rope_theta;
        Ok(self.kind()? == other.kind()? && plain(self) == plain(other) && same_theta)
    }

    /// Rotary embedding that the parameters describe.
    pub(super) fn rotary(&self, start: &Start) -> Result<RotaryWithContext, LoadError> {
        if let Some((key, value)) = self.others.iter().find(|(_, value)| !value.is_null()) {
            let key = format!("rope_parameters.{key}");
            return Err(LoadError::UnknownSetting { key, found: value.to_string() });
        }
        // Guards the arithmetic below; the rest of the head's shape is checked later.
        if start.head_dim == 0 || start.head_dim > LARGEST_DIMENSION {
            return Err(invalid("head_dim", start.head_dim, "between 1 and 2²⁴"));
        }
        let part = match (self.partial_rotary_factor, start.part) {
            (Some(stated), None) if stated != 1.0 => {
                let found = stated.to_string();
                return Err(LoadError::Unsupported { what: "partial_rotary_factor", found });
            }
            (stated, otherwise) => stated.or(otherwise).unwrap_or(1.0),
        };
        if !(part > 0.0 && part <= 1.0) {
            return Err(invalid("partial_rotary_factor", part, "above 0, at most 1"));
        }
        let dimensions = (start.head_dim as f32 * part) as usize;
        let theta = self.rope_theta.unwrap_or(start.theta);
        let need = |value: Option<f32>, key: &str| {
            value.ok_or_else(|| LoadError::MissingSetting { key: format!("rope_scaling.{key}") })
        };
        let original = self.original_max_position_embeddings.unwrap_or(start.context_length as f32);
        let (mut magnitude, mut context_length) = (1.0, start.context_length);
        let scaling = match self.kind()? {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: need(self.factor, "factor")? },
            // The frequencies are unscaled until a text exceeds the context length in training.
            "dynamic" => RopeScaling::None,
            "llama3" => {
                let scaling = Llama3Scaling {
                    factor: need(self.factor, "factor")?,
                    low: need(self.low_freq_factor, "low_freq_factor")?,
                    high: need(self.high_freq_factor, "high_freq_factor")?,
                    context: need(self.original_max_position_embeddings, "original_max_position_embeddings")?,
                };
                RopeScaling::PerFrequency { factors: scaling.factors(theta, dimensions) }
            }
            "yarn" => {
                let factor = need(self.factor, "factor")?;
                magnitude = self.attention_factor.unwrap_or_else(|| match (self.mscale, self.mscale_all_dim) {
                    (Some(one), Some(all)) if one != 0.0 && all != 0.0 => {
                        Yarn::magnitude(factor, one) / Yarn::magnitude(factor, all)
                    }
                    _ => Yarn::magnitude(factor, 1.0),
                });
                let (fast, slow) = (self.beta_fast.unwrap_or(32.0), self.beta_slow.unwrap_or(1.0));
                let yarn = Yarn { factor, fast, slow, context: original, whole: self.truncate.unwrap_or(true) };
                RopeScaling::PerFrequency { factors: yarn.factors(theta, dimensions) }
            }
            // Long texts use other frequencies at all positions, which would invalidate cached keys. The context is
            // therefore limited to that of the short factors.
            "longrope" | "su" => {
                let factor = self.factor.unwrap_or(start.context_length as f32 / original);
                magnitude = self.attention_factor.unwrap_or_else(|| long_magnitude(factor, original));
                context_length = context_length.min(original as usize);
                let factors = self.short_factor.clone();
                let key = || LoadError::MissingSetting { key: "rope_scaling.short_factor".to_owned() };
                RopeScaling::PerFrequency { factors: factors.ok_or_else(key)? }
            }
            other => return Err(LoadError::Unsupported { what: "rope scaling", found: other.to_owned() }),
        };
        let dimensions = (dimensions != start.head_dim).then_some(dimensions);
        let rotary = Rotary { theta, scaling, dimensions, magnitude, ..Rotary::default() };
        Ok(RotaryWithContext { rotary, context_length })
    }
}

/// LongRoPE's factor of sines and cosines (Ding et al. 2024, <https://arxiv.org/abs/2402.13753>), as in published
/// models.
pub(super) fn long_magnitude(factor: f32, original: f32) -> f32 {
    if factor > 1.0 { (1.0 + factor.ln() / original.ln()).sqrt() } else { 1.0 }
}
