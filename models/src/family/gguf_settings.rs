//! The shape and constants in the settings of a GGUF file: what all families have.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    fmt,
};

use super::{
    Family,
    block::{Block, Layers, Norm, Position},
    config::{ModelConfig, invalid},
    rotary::{RopeScaling, Rotary, Yarn},
    weights::{Container, WeightName},
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
    /// Reads the settings of a GGUF file, of which `shape_of` gives the tensors' shapes by name.
    pub(crate) fn from_gguf<'f>(
        settings: &Metadata,
        shape_of: impl Fn(&str) -> Option<&'f [u64]>,
    ) -> Result<(&'static Family, Self), LoadError> {
        let family = match settings.get("general.architecture") {
            Some(Value::Text(architecture)) => Family::of_architecture(architecture)?,
            Some(other) => return Err(invalid("general.architecture", other, "text")),
            None => return Err(LoadError::MissingSetting { key: "general.architecture".to_owned() }),
        };
        let has_tensor = |name: &str| shape_of(name).is_some();
        let settings = &Settings::new(settings, family);
        settings.refuse("expert_count", "mixture of experts")?;
        settings.refuse("expert_used_count", "mixture of experts")?;
        let stored_name = |name: WeightName| name.of(family, Container::Gguf);
        let embedding = stored_name(WeightName::EMBEDDING);
        let Some(table) = shape_of(&embedding) else {
            return Err(LoadError::MissingTensor { name: embedding });
        };
        let vocab_size = match (table.first(), settings.integer("vocab_size")?) {
            (Some(&rows), None) => rows,
            (Some(&rows), Some(stated)) if rows == stated => rows,
            (_, stated) => {
                let expected = "the number of rows of the embedding table";
                return Err(invalid(&settings.key("vocab_size"), stated.unwrap_or_default(), expected));
            }
        };
        let heads = settings.required("attention.head_count")?;
        let hidden_size = settings.required("embedding_length")?;
        let head_dim = match settings.integer("attention.key_length")? {
            Some(stated) => stated,
            None => hidden_size.checked_div(heads).unwrap_or(0),
        };
        if let Some(found) = settings.integer("attention.value_length")?.filter(|&found| found != head_dim) {
            let found = format!("{} = {found}", settings.key("attention.value_length"));
            return Err(LoadError::Unsupported { what: "head shape", found });
        }
        let size =
            |key: &str, value: u64| usize::try_from(value).map_err(|_| invalid(&settings.key(key), value, "a size"));
        let mut config = Self {
            vocab_size: size("vocab_size", vocab_size)?,
            hidden_size: size("embedding_length", hidden_size)?,
            intermediate_size: size("feed_forward_length", settings.required("feed_forward_length")?)?,
            layers: size("block_count", settings.required("block_count")?)?,
            heads: size("attention.head_count", heads)?,
            kv_heads: size("attention.head_count_kv", settings.integer("attention.head_count_kv")?.unwrap_or(heads))?,
            head_dim: size("attention.key_length", head_dim)?,
            context_length: size("context_length", settings.required("context_length")?)?,
            norm_epsilon: settings.epsilon()?,
            // Nothing says whether there are biases but the tensors themselves.
            block: Block {
                norm: family.norm,
                projection_bias: has_tensor(&stored_name(WeightName::QUERY_BIAS)),
                output_bias: has_tensor(&stored_name(WeightName::ATTENTION_OUTPUT_BIAS)),
                feed_forward_bias: has_tensor(&stored_name(WeightName::DOWN_BIAS)),
                ..Block::default()
            },
            bos_token_id: settings.token("tokenizer.ggml.bos_token_id")?,
            adds_bos: settings.values.get("tokenizer.ggml.add_bos_token") != Some(&Value::Bool(false)),
            eos_token_ids: Vec::new(),
            tied_embeddings: shape_of(&stored_name(WeightName::HEAD)).is_none(),
            // Longer ones are skipped, like everything that is not needed to run the model.
            chat_template: match settings.values.get(CHAT_TEMPLATE) {
                Some(Value::Text(template)) => Some(template.clone()),
                _ => None,
            },
        };
        for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            let id = settings.token(&format!("tokenizer.ggml.{key}"))?;
            config.eos_token_ids.extend(id.filter(|id| !config.eos_token_ids.contains(id)));
        }
        // Families compute with the shape.
        config.validate()?;
        match settings.get("attention.causal") {
            None | Some(Value::Bool(true)) => {}
            Some(other) => {
                return Err(LoadError::Unsupported { what: "attention.causal", found: other.to_string() });
            }
        }
        if family.has_rotary_in_gguf() {
            config.block.position =
                Position::Rotary { global: settings.rotary(&config)?, local: None, unturned: Layers::None };
        }
        (family.gguf)(settings, &mut config)?;
        settings.refuse_rest()?;
        config.validate()?;
        Ok((family, config))
    }
}

/// The metadata of a file of one architecture, read by key and type. Keys are given without the architecture's name
/// in front; what nobody has asked for is refused.
pub(super) struct Settings<'m> {
    values: &'m Metadata,
    architecture: &'static str,
    family: &'static Family,
    read: RefCell<BTreeSet<String>>,
}

/// Settings that leave the computation as it is.
const WITHOUT_EFFECT: [&str; 1] = ["tensor_data_layout"];

impl<'m> Settings<'m> {
    fn new(values: &'m Metadata, family: &'static Family) -> Self {
        let architecture = family.architecture.unwrap_or_default();
        Self { values, architecture, family, read: RefCell::default() }
    }

    /// The whole name of a key.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// The value of one of the architecture's own keys.
    pub(super) fn get(&self, key: &str) -> Option<&'m Value> {
        let key = self.key(key);
        let value = self.values.get(&key);
        self.read.borrow_mut().insert(key);
        value
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'m str>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(&self.key(key), other, "text")),
        }
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<u64>, LoadError> {
        self.get(key).map(|value| integer(&self.key(key), value)).transpose()
    }

    pub(super) fn required(&self, key: &str) -> Result<u64, LoadError> {
        self.integer(key)?.ok_or_else(|| LoadError::MissingSetting { key: self.key(key) })
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f32>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(x)) => Ok(Some(*x as f32)),
            Some(other) => Err(invalid(&self.key(key), other, "a float")),
        }
    }

    /// Refuses a setting that is there and not zero.
    pub(super) fn refuse(&self, key: &str, what: &'static str) -> Result<(), LoadError> {
        match self.get(key) {
            None | Some(Value::Unsigned(0) | Value::Signed(0) | Value::Bool(false)) => Ok(()),
            Some(Value::Float(0.0)) => Ok(()),
            Some(found) => Err(LoadError::Unsupported { what, found: found.to_string() }),
        }
    }

    /// The number of tokens in a sliding window, if there is one.
    pub(super) fn window(&self) -> Result<Option<usize>, LoadError> {
        Ok(self.integer("attention.sliding_window")?.filter(|&tokens| tokens > 0).map(|tokens| tokens as usize))
    }

    fn token(&self, key: &str) -> Result<Option<u32>, LoadError> {
        let Some(id) = self.values.get(key).map(|value| integer(key, value)).transpose()? else {
            return Ok(None);
        };
        u32::try_from(id).map(Some).map_err(|_| invalid(key, id, "a token id"))
    }

    fn epsilon(&self) -> Result<f32, LoadError> {
        let key = match self.family.norm {
            Norm::Rms => "attention.layer_norm_rms_epsilon",
            Norm::Layer => "attention.layer_norm_epsilon",
        };
        self.float(key)?.ok_or_else(|| LoadError::MissingSetting { key: self.key(key) })
    }

    fn rotary(&self, config: &ModelConfig) -> Result<Rotary, LoadError> {
        let theta = self.float("rope.freq_base")?.unwrap_or(10_000.0);
        let dimensions = match self.integer("rope.dimension_count")? {
            Some(stated) if stated <= config.head_dim as u64 => stated as usize,
            Some(stated) => return Err(invalid(&self.key("rope.dimension_count"), stated, "at most the head's")),
            None => config.head_dim,
        };
        let factor = match self.float("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => self.float("rope.scale_linear")?,
        };
        let original = self.integer("rope.scaling.original_context_length")?;
        // Says how it was trained, which changes nothing.
        self.get("rope.scaling.finetuned");
        let attention_factor = self.float("rope.scaling.attn_factor")?;
        let mut magnitude = attention_factor.unwrap_or(1.0);
        let missing = || LoadError::MissingSetting { key: self.key("rope.scaling.factor") };
        let scaling = match (self.text("rope.scaling.type")?, factor) {
            (Some("none"), _) | (None, None) => RopeScaling::None,
            (None | Some("linear"), Some(factor)) => RopeScaling::Linear { factor },
            (Some("linear" | "yarn"), None) => return Err(missing()),
            (Some("yarn"), Some(factor)) => {
                let context = original.unwrap_or(config.context_length as u64) as f32;
                magnitude *= Yarn::magnitude(factor, 1.0);
                let yarn = Yarn { factor, fast: 32.0, slow: 1.0, context, whole: true };
                RopeScaling::PerFrequency { factors: yarn.factors(theta, dimensions) }
            }
            (Some(other), _) => {
                return Err(LoadError::Unsupported { what: "rope scaling", found: other.to_owned() });
            }
        };
        let dimensions = (dimensions != config.head_dim).then_some(dimensions);
        Ok(Rotary { theta, scaling, layout: self.family.gguf_layout, dimensions, magnitude })
    }

    /// Refuses settings of the architecture that nobody has asked for.
    fn refuse_rest(&self) -> Result<(), LoadError> {
        let read = self.read.borrow();
        let own = |key: &&String| {
            let rest = key.strip_prefix(self.architecture).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| !WITHOUT_EFFECT.contains(&rest)) && !read.contains(*key)
        };
        // The least, so that the same file always gives the same answer.
        match self.values.keys().filter(own).min() {
            None => Ok(()),
            Some(key) => Err(LoadError::UnknownSetting { key: key.clone(), found: self.values[key].to_string() }),
        }
    }
}

fn integer(key: &str, value: &Value) -> Result<u64, LoadError> {
    match value {
        Value::Unsigned(n) => Ok(*n),
        Value::Signed(n) if *n >= 0 => Ok(n.unsigned_abs()),
        other => Err(invalid(key, other, "an integer, not negative")),
    }
}
