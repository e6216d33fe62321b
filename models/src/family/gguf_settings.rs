//! The shape and constants in the settings of a GGUF file of architecture `llama`.

use std::{collections::HashMap, fmt};

use super::{
    config::{ModelConfig, RopeLayout, RopeScaling, invalid},
    weights::WeightName,
};
use crate::error::LoadError;

/// Key of the text that makes a prompt of a conversation.
pub(crate) const CHAT_TEMPLATE: &str = "tokenizer.chat_template";

/// A metadata value. Arrays are only counted: none of those that matter here is an array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Skipped,
}

/// As an error tells it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(n) => n.fmt(f),
            Self::Signed(n) => n.fmt(f),
            Self::Float(x) => x.fmt(f),
            Self::Bool(truth) => truth.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Skipped => f.write_str("an array or a long text"),
        }
    }
}

/// Settings by their keys.
pub(crate) type Metadata = HashMap<String, Value>;

impl ModelConfig {
    /// Reads the settings of a GGUF file of architecture `llama`, of which `shape_of` gives the tensors' shapes by
    /// name.
    pub(crate) fn from_gguf<'f>(
        settings: &Metadata,
        shape_of: impl Fn(&str) -> Option<&'f [u64]>,
    ) -> Result<Self, LoadError> {
        let settings = &Settings(settings);
        match settings.text("general.architecture")? {
            Some("llama") => {}
            Some(other) => {
                return Err(LoadError::Unsupported { what: "architecture", found: other.to_owned() });
            }
            None => {
                return Err(LoadError::MissingSetting { key: "general.architecture".to_owned() });
            }
        }
        refuse_what_is_not_computed(settings)?;
        let embedding = WeightName::EMBEDDING.gguf();
        let Some(table) = shape_of(&embedding) else {
            return Err(LoadError::MissingTensor { name: embedding });
        };
        let vocab_size = match (table.first(), settings.integer("llama.vocab_size")?) {
            (Some(&rows), None) => rows,
            (Some(&rows), Some(stated)) if rows == stated => rows,
            (_, stated) => {
                let expected = "the number of rows of the embedding table";
                return Err(invalid("llama.vocab_size", stated.unwrap_or_default(), expected));
            }
        };
        let heads = settings.required("llama.attention.head_count")?;
        let hidden_size = settings.required("llama.embedding_length")?;
        let head_dim = match settings.integer("llama.attention.key_length")? {
            Some(stated) => stated,
            None => hidden_size.checked_div(heads).unwrap_or(0),
        };
        for key in ["llama.attention.value_length", "llama.rope.dimension_count"] {
            if let Some(found) = settings.integer(key)?.filter(|&found| found != head_dim) {
                return Err(LoadError::Unsupported { what: "head shape", found: format!("{key} = {found}") });
            }
        }
        let mut config = Self {
            vocab_size: size("llama.vocab_size", vocab_size)?,
            hidden_size: size("llama.embedding_length", hidden_size)?,
            intermediate_size: size("llama.feed_forward_length", settings.required("llama.feed_forward_length")?)?,
            layers: size("llama.block_count", settings.required("llama.block_count")?)?,
            heads: size("llama.attention.head_count", heads)?,
            kv_heads: match settings.integer("llama.attention.head_count_kv")? {
                Some(kv_heads) => size("llama.attention.head_count_kv", kv_heads)?,
                None => size("llama.attention.head_count", heads)?,
            },
            head_dim: size("llama.attention.key_length", head_dim)?,
            context_length: size("llama.context_length", settings.required("llama.context_length")?)?,
            rms_norm_eps: match settings.float("llama.attention.layer_norm_rms_epsilon")? {
                Some(epsilon) => epsilon,
                None => {
                    let key = "llama.attention.layer_norm_rms_epsilon".to_owned();
                    return Err(LoadError::MissingSetting { key });
                }
            },
            rope_theta: settings.float("llama.rope.freq_base")?.unwrap_or(10_000.0),
            rope_scaling: rope_scaling(settings)?,
            rope_layout: RopeLayout::Interleaved,
            bos_token_id: settings.token("tokenizer.ggml.bos_token_id")?,
            adds_bos: settings.0.get("tokenizer.ggml.add_bos_token") != Some(&Value::Bool(false)),
            eos_token_ids: Vec::new(),
            tied_embeddings: shape_of(&WeightName::HEAD.gguf()).is_none(),
            // Longer ones are skipped, like everything that is not needed to run the model.
            chat_template: match settings.0.get(CHAT_TEMPLATE) {
                Some(Value::Text(template)) => Some(template.clone()),
                _ => None,
            },
        };
        for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            let id = settings.token(&format!("tokenizer.ggml.{key}"))?;
            config.eos_token_ids.extend(id.filter(|id| !config.eos_token_ids.contains(id)));
        }
        config.validate()?;
        Ok(config)
    }
}

fn refuse_what_is_not_computed(settings: &Settings<'_>) -> Result<(), LoadError> {
    for (what, key) in
        [("mixture of experts", "llama.expert_count"), ("sliding window", "llama.attention.sliding_window")]
    {
        if let Some(found) = settings.integer(key)?.filter(|&found| found != 0) {
            return Err(LoadError::Unsupported { what, found: found.to_string() });
        }
    }
    match settings.0.get("llama.attention.causal") {
        None | Some(Value::Bool(true)) => Ok(()),
        Some(other) => Err(LoadError::Unsupported { what: "attention.causal", found: other.to_string() }),
    }
}

fn rope_scaling(settings: &Settings<'_>) -> Result<RopeScaling, LoadError> {
    let factor = match settings.float("llama.rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => settings.float("llama.rope.scale_linear")?,
    };
    match (settings.text("llama.rope.scaling.type")?, factor) {
        (Some("none"), _) | (None, None) => Ok(RopeScaling::None),
        (None | Some("linear"), Some(factor)) => Ok(RopeScaling::Linear { factor }),
        (Some("linear"), None) => Err(LoadError::MissingSetting { key: "llama.rope.scaling.factor".to_owned() }),
        (Some(other), _) => Err(LoadError::Unsupported { what: "rope scaling", found: other.to_owned() }),
    }
}

/// A file's metadata, read by key and type.
struct Settings<'m>(&'m Metadata);

impl Settings<'_> {
    fn text(&self, key: &str) -> Result<Option<&str>, LoadError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(key, other, "text")),
        }
    }

    fn integer(&self, key: &str) -> Result<Option<u64>, LoadError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(n)) => Ok(Some(*n)),
            Some(Value::Signed(n)) if *n >= 0 => Ok(Some(n.unsigned_abs())),
            Some(other) => Err(invalid(key, other, "an integer, not negative")),
        }
    }

    fn required(&self, key: &str) -> Result<u64, LoadError> {
        self.integer(key)?.ok_or_else(|| LoadError::MissingSetting { key: key.to_owned() })
    }

    fn float(&self, key: &str) -> Result<Option<f32>, LoadError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Float(x)) => Ok(Some(*x as f32)),
            Some(other) => Err(invalid(key, other, "a float")),
        }
    }

    fn token(&self, key: &str) -> Result<Option<u32>, LoadError> {
        let Some(id) = self.integer(key)? else {
            return Ok(None);
        };
        u32::try_from(id).map(Some).map_err(|_| invalid(key, id, "a token id"))
    }
}

fn size(key: &str, value: u64) -> Result<usize, LoadError> {
    usize::try_from(value).map_err(|_| invalid(key, value, "a size"))
}
