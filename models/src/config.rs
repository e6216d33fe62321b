//! The numbers that define a model of the Llama architecture.

use serde::Deserialize;

use crate::error::LoadError;

/// Shape and constants of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Number of token ids; a row of logits is this long.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward part.
    pub intermediate_size: usize,
    /// Number of transformer blocks.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Largest number of tokens in a sequence.
    pub context_length: usize,
    /// ε of RMSNorm.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding's frequencies.
    pub rope_theta: f32,
    /// How the frequencies are stretched for long contexts.
    pub rope_scaling: RopeScaling,
    /// Which elements of a head are rotated together.
    pub rope_layout: RopeLayout,
    /// Token that begins a sequence, if the model has one.
    pub bos_token_id: Option<u32>,
    /// Tokens that end a sequence.
    pub eos_token_ids: Vec<u32>,
    /// Whether the output head is the embedding table.
    pub tied_embeddings: bool,
    /// The Jinja template that makes a prompt of a conversation, if a GGUF file has one.
    pub chat_template: Option<String>,
}

/// How rotary frequencies deviate from θ^(−2i/d).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All are divided by one factor.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Each is divided by its own factor; `head_dim / 2` of them. Llama 3's scaling in either container.
    PerFrequency {
        /// The divisors, highest frequency first.
        factors: Vec<f32>,
    },
}

/// Which two elements of a head form the plane that is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Elements 2i and 2i + 1: GGUF files of architecture `llama`, whose q and k rows are permuted for it.
    Interleaved,
    /// Elements i and i + head_dim / 2: Hugging Face checkpoints.
    HalfSplit,
}

impl ModelConfig {
    /// Radians by which a position turns each pair of a head's elements, `head_dim / 2` of them, the highest first.
    #[must_use]
    pub fn rope_frequencies(&self) -> Vec<f32> {
        let frequency = |i: usize| {
            let exponent = 2.0 * i as f64 / self.head_dim as f64;
            let frequency = libm::pow(f64::from(self.rope_theta), -exponent) as f32;
            match &self.rope_scaling {
                RopeScaling::None => frequency,
                RopeScaling::Linear { factor } => frequency / factor,
                RopeScaling::PerFrequency { factors } => frequency / factors[i],
            }
        };
        (0..self.head_dim / 2).map(frequency).collect()
    }

    /// Checks what the loaders cannot see from tensor shapes.
    pub(crate) fn validate(&self) -> Result<(), LoadError> {
        let positive = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("layers", self.layers),
            ("heads", self.heads),
            ("kv_heads", self.kv_heads),
            ("head_dim", self.head_dim),
            ("context_length", self.context_length),
        ];
        for (key, value) in positive {
            // The product of any two stays far from overflow, also in 32-bit address spaces.
            if value == 0 || value > LARGEST_DIMENSION {
                return Err(invalid(key, value, "between 1 and 2²⁴"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(invalid("kv_heads", self.kv_heads, "a divisor of heads"));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(invalid("head_dim", self.head_dim, "even"));
        }
        if self.heads.checked_mul(self.head_dim).is_none_or(|width| width > LARGEST_DIMENSION) {
            return Err(invalid("head_dim", self.head_dim, "heads × head_dim at most 2²⁴"));
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps > 0.0) {
            return Err(invalid("rms_norm_eps", self.rms_norm_eps, "finite and positive"));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return Err(invalid("rope_theta", self.rope_theta, "finite and positive"));
        }
        let factors: &[f32] = match &self.rope_scaling {
            RopeScaling::None => &[],
            RopeScaling::Linear { factor } => std::slice::from_ref(factor),
            RopeScaling::PerFrequency { factors } => factors,
        };
        if let Some(factor) = factors.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
            return Err(invalid("rope_scaling", factor, "factors that are finite and positive"));
        }
        for &id in self.eos_token_ids.iter().chain(&self.bos_token_id) {
            if id as usize >= self.vocab_size {
                return Err(invalid("special token id", id, "below vocab_size"));
            }
        }
        Ok(())
    }

    /// Reads the `config.json` of a Hugging Face `LlamaForCausalLM`.
    pub(crate) fn from_hugging_face(json: &[u8]) -> Result<Self, LoadError> {
        let raw: HuggingFace = serde_json::from_slice(json)?;
        raw.refuse_what_is_not_computed()?;
        let head_dim = match raw.head_dim {
            Some(head_dim) => head_dim,
            None if raw.num_attention_heads == 0 => 0,
            None => raw.hidden_size / raw.num_attention_heads,
        };
        let parameters = raw.rope_parameters.as_ref().or(raw.rope_scaling.as_ref());
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
            bos_token_id: raw.bos_token_id,
            eos_token_ids: match raw.eos_token_id {
                None => Vec::new(),
                Some(OneOrMany::One(id)) => vec![id],
                Some(OneOrMany::Many(ids)) => ids,
            },
            tied_embeddings: raw.tie_word_embeddings,
            chat_template: None,
        };
        config.validate()?;
        Ok(config)
    }
}

/// No dimension of a real model comes near it; a guard against arithmetic and allocation on nonsense.
const LARGEST_DIMENSION: usize = 1 << 24;

pub(crate) fn invalid(key: &str, found: impl ToString, expected: &'static str) -> LoadError {
    LoadError::InvalidSetting { key: key.to_owned(), found: found.to_string(), expected }
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
    max_position_embeddings: usize,
    rms_norm_eps: f32,
    rope_theta: Option<f32>,
    rope_scaling: Option<RopeParameters>,
    rope_parameters: Option<RopeParameters>,
    hidden_act: String,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    bos_token_id: Option<u32>,
    eos_token_id: Option<OneOrMany>,
    quantization_config: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

#[derive(Deserialize)]
struct RopeParameters {
    #[serde(alias = "type")]
    rope_type: Option<String>,
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
        if self.model_type != "llama" {
            return refuse("model_type", self.model_type.clone());
        }
        if self.hidden_act != "silu" {
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
}

impl RopeParameters {
    fn scaling(&self, theta: f32, head_dim: usize) -> Result<RopeScaling, LoadError> {
        if self.partial_rotary_factor.is_some_and(|part| part != 1.0) {
            let found = format!("{:?}", self.partial_rotary_factor);
            return Err(LoadError::Unsupported { what: "partial_rotary_factor", found });
        }
        let need = |value: Option<f32>, key: &str| {
            value.ok_or_else(|| LoadError::MissingSetting { key: format!("rope_scaling.{key}") })
        };
        match self.rope_type.as_deref() {
            None | Some("default") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor: need(self.factor, "factor")? }),
            Some("llama3") => {
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
            Some(other) => Err(LoadError::Unsupported { what: "rope scaling", found: other.to_owned() }),
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
