//! The shape and constants in the `config.json` of a Hugging Face checkpoint.

use serde::Deserialize;

use super::config::{LARGEST_DIMENSION, ModelConfig, RopeLayout, RopeScaling, invalid};
use crate::error::LoadError;

impl ModelConfig {
    /// Reads the `config.json` of a Hugging Face `LlamaForCausalLM`, or of a `MistralForCausalLM` without a window,
    /// which is the same.
    pub(crate) fn from_hugging_face(json: &[u8]) -> Result<Self, LoadError> {
        // What it is comes first: other architectures have other settings.
        let Architecture { model_type } = serde_json::from_slice(json)?;
        if !matches!(&*model_type, "llama" | "mistral") {
            return Err(LoadError::Unsupported { what: "model_type", found: model_type });
        }
        let raw: HuggingFace = serde_json::from_slice(json)?;
        raw.refuse_what_is_not_computed()?;
        let head_dim = match raw.head_dim {
            Some(head_dim) => head_dim,
            None if raw.num_attention_heads == 0 => 0,
            None => raw.hidden_size / raw.num_attention_heads,
        };
        let parameters = raw.rope_parameters()?;
        let rope_theta = raw.rope_theta.or(parameters.and_then(|p| p.rope_theta));
        let rope_theta = rope_theta.unwrap_or(10_000.0);
        let rope_scaling = match parameters {
            Some(parameters) => parameters.scaling(rope_theta, head_dim)?,
            None => RopeScaling::None,
        };
        let config = Self {
            vocab_size: raw.vocab_size,
            hidden_size: raw.hidden_size,
            intermediate_size: raw.intermediate_size,
            layers: raw.num_hidden_layers,
            heads: raw.num_attention_heads,
            kv_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
            head_dim,
            context_length: raw.max_position_embeddings,
            rms_norm_eps: raw.rms_norm_eps,
            rope_theta,
            rope_scaling,
            rope_layout: RopeLayout::HalfSplit,
            bos_token_id: token(raw.bos_token_id)?,
            adds_bos: true,
            eos_token_ids: raw.eos_token_id.map_or(Ok(Vec::new()), OneOrMany::tokens)?,
            tied_embeddings: raw.tie_word_embeddings,
            chat_template: None,
        };
        config.validate()?;
        Ok(config)
    }
}

#[derive(Deserialize)]
struct Architecture {
    model_type: String,
}

/// The fields of `config.json` that matter here.
#[derive(Deserialize)]
struct HuggingFace {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    #[serde(default = "default_context")]
    max_position_embeddings: usize,
    #[serde(default = "default_epsilon")]
    rms_norm_eps: f32,
    rope_theta: Option<f32>,
    rope_scaling: Option<RopeParameters>,
    rope_parameters: Option<RopeParameters>,
    #[serde(default = "default_activation")]
    hidden_act: String,
    /// Of Mistral; a Llama has none, whatever stands here.
    #[serde(default = "default_window")]
    sliding_window: serde_json::Value,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    bos_token_id: Option<i64>,
    eos_token_id: Option<OneOrMany>,
    quantization_config: Option<serde_json::Value>,
}

// What `LlamaConfig` has where a file says nothing.

fn default_context() -> usize {
    2048
}

fn default_epsilon() -> f32 {
    1e-6
}

/// Mistral's.
fn default_window() -> serde_json::Value {
    4096.into()
}

fn default_activation() -> String {
    "silu".to_owned()
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(i64),
    Many(Vec<i64>),
}

impl OneOrMany {
    pub(super) fn tokens(self) -> Result<Vec<u32>, LoadError> {
        let ids = match self {
            Self::One(id) => vec![id],
            Self::Many(ids) => ids,
        };
        ids.into_iter().filter_map(|id| token(Some(id)).transpose()).collect()
    }
}

/// A token's id; below 0 stands for none.
fn token(id: Option<i64>) -> Result<Option<u32>, LoadError> {
    let id = id.filter(|&id| id >= 0);
    id.map(|id| u32::try_from(id).map_err(|_| invalid("special token id", id, "below vocab_size"))).transpose()
}

#[derive(Deserialize, PartialEq)]
struct RopeParameters {
    rope_type: Option<String>,
    /// What it was called before.
    r#type: Option<String>,
    rope_theta: Option<f32>,
    partial_rotary_factor: Option<f32>,
    factor: Option<f32>,
    low_freq_factor: Option<f32>,
    high_freq_factor: Option<f32>,
    original_max_position_embeddings: Option<f32>,
}

impl HuggingFace {
    fn refuse_what_is_not_computed(&self) -> Result<(), LoadError> {
        let refuse = |what, found: String| Err(LoadError::Unsupported { what, found });
        if self.model_type == "mistral" && !self.sliding_window.is_null() {
            return refuse("sliding window", self.sliding_window.to_string());
        }
        if !matches!(&*self.hidden_act, "silu" | "swish") {
            return refuse("hidden_act", self.hidden_act.clone());
        }
        if self.attention_bias || self.mlp_bias {
            return refuse("bias", "in linear layers".to_owned());
        }
        match &self.quantization_config {
            None | Some(serde_json::Value::Null) => Ok(()),
            Some(found) => refuse("quantization_config", found.to_string()),
        }
    }

    /// How positions turn, which may be said in two places. Where they differ, one would be ignored.
    fn rope_parameters(&self) -> Result<Option<&RopeParameters>, LoadError> {
        let refuse = |found: String| Err(LoadError::Unsupported { what: "rotary settings that differ:", found });
        let parameters = match (&self.rope_parameters, &self.rope_scaling) {
            (Some(parameters), Some(scaling)) if !parameters.agrees_with(scaling)? => {
                return refuse("rope_parameters beside another rope_scaling".to_owned());
            }
            (Some(parameters), _) | (None, Some(parameters)) => parameters,
            (None, None) => return Ok(None),
        };
        match (self.rope_theta, parameters.rope_theta) {
            (Some(outer), Some(inner)) if outer != inner => {
                refuse(format!("rope_theta = {outer} beside rope_parameters.rope_theta = {inner}"))
            }
            _ => Ok(Some(parameters)),
        }
    }
}

impl RopeParameters {
    /// The kind of scaling, by its new name or the old one.
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

    /// Whether both say the same, but for a θ that one leaves to the other.
    fn agrees_with(&self, other: &Self) -> Result<bool, LoadError> {
        let numbers = |of: &Self| {
            let Self { partial_rotary_factor, factor, low_freq_factor, high_freq_factor, .. } = *of;
            [partial_rotary_factor, factor, low_freq_factor, high_freq_factor, of.original_max_position_embeddings]
        };
        let same_theta = self.rope_theta.is_none() || other.rope_theta.is_none() || self.rope_theta == other.rope_theta;
        Ok(self.kind()? == other.kind()? && numbers(self) == numbers(other) && same_theta)
    }

    fn scaling(&self, theta: f32, head_dim: usize) -> Result<RopeScaling, LoadError> {
        if self.partial_rotary_factor.is_some_and(|part| part != 1.0) {
            let found = format!("{:?}", self.partial_rotary_factor);
            return Err(LoadError::Unsupported { what: "partial_rotary_factor", found });
        }
        let need = |value: Option<f32>, key: &str| {
            value.ok_or_else(|| LoadError::MissingSetting { key: format!("rope_scaling.{key}") })
        };
        match self.kind()? {
            "default" => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear { factor: need(self.factor, "factor")? }),
            "llama3" => {
                let scaling = Llama3Scaling {
                    factor: need(self.factor, "factor")?,
                    low: need(self.low_freq_factor, "low_freq_factor")?,
                    high: need(self.high_freq_factor, "high_freq_factor")?,
                    context: need(self.original_max_position_embeddings, "original_max_position_embeddings")?,
                };
                // Guards the division below; the rest of the head's shape is checked later.
                if head_dim == 0 || head_dim > LARGEST_DIMENSION {
                    return Err(invalid("head_dim", head_dim, "between 1 and 2²⁴"));
                }
                Ok(RopeScaling::PerFrequency { factors: scaling.factors(theta, head_dim) })
            }
            other => Err(LoadError::Unsupported { what: "rope scaling", found: other.to_owned() }),
        }
    }
}

/// Llama 3.1's frequency-dependent stretching: wavelengths below `context / high` are kept, those above
/// `context / low` are stretched by `factor`, in between the two frequencies are mixed linearly.
struct Llama3Scaling {
    factor: f32,
    low: f32,
    high: f32,
    context: f32,
}

impl Llama3Scaling {
    fn factors(&self, theta: f32, head_dim: usize) -> Vec<f32> {
        let scale = |i: usize| {
            let exponent = 2.0 * i as f64 / head_dim as f64;
            let frequency = f64::from(theta).powf(-exponent);
            let wavelength = std::f64::consts::TAU / frequency;
            let turns = f64::from(self.context) / wavelength;
            if turns > f64::from(self.high) {
                1.0
            } else if turns < f64::from(self.low) {
                self.factor
            } else {
                let kept = (turns - f64::from(self.low)) / f64::from(self.high - self.low);
                (1.0 / ((1.0 - kept) / f64::from(self.factor) + kept)) as f32
            }
        };
        (0..head_dim / 2).map(scale).collect()
    }
}
