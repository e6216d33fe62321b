//! Typed access to the settings of a GGUF file.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    fmt,
};

use super::{
    block::{Experts, Norm},
    config::{GuessChance, ModelConfig},
    ignored::is_ignored,
    rotary::{RopeLayout, RopeScaling, Rotary, Yarn},
};
use crate::error::{LoadError, invalid};

/// Metadata key of the chat template.
pub(crate) const CHAT_TEMPLATE: &str = "tokenizer.chat_template";

/// Value of a metadata entry. Arrays are skipped because no setting used here is an array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Skipped,
}

impl Value {
    /// Returns whether the value is false, zero or empty. Arrays are not: their elements are unknown.
    fn says_nothing(&self) -> bool {
        match self {
            Self::Unsigned(n) => *n == 0,
            Self::Signed(n) => *n == 0,
            Self::Float(x) => *x == 0.0,
            Self::Bool(truth) => !truth,
            Self::Text(text) => text.is_empty(),
            Self::Skipped => false,
        }
    }
}

/// Formats the value for error messages.
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

/// Metadata of a file, by key.
pub(crate) type Metadata = HashMap<String, Value>;

/// Metadata of a file of one architecture. Keys are given without the architecture prefix. Settings that were never
/// read are rejected by [`refuse_rest`](Self::refuse_rest).
pub(super) struct Settings<'m> {
    values: &'m Metadata,
    architecture: &'static str,
    layout: RopeLayout,
    read: RefCell<BTreeSet<String>>,
}

/// Settings without effect on the computation.
const WITHOUT_EFFECT: [&str; 1] = ["tensor_data_layout"];
/// Settings whose false or zero changes the computation of a model that has them.
const FALSE_MATTERS: [&str; 2] = ["expert_weights_norm", "use_parallel_residual"];

impl<'m> Settings<'m> {
    /// Creates a reader for an architecture. `layout`: pairing of rotated elements in its files.
    pub(super) fn new(values: &'m Metadata, architecture: &'static str, layout: RopeLayout) -> Self {
        Self { values, architecture, layout, read: RefCell::default() }
    }

    /// Full name of a key, with the architecture prefix.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// Value of a key that all architectures share.
    pub(super) fn shared(&self, key: &str) -> Option<&'m Value> {
        self.values.get(key)
    }

    /// Number under a key that all architectures share, if it is one.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match *self.shared(key)? {
            Value::Unsigned(n) => Some(n as f64),
            Value::Signed(n) => Some(n as f64),
            Value::Float(x) => Some(x),
            Value::Bool(_) | Value::Text(_) | Value::Skipped => None,
        }
    }

    /// Value of one of the architecture's own keys, which counts as read.
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

    /// Weights of the chance of a draft's guess, if the file has them.
    pub(super) fn guess_chance(&self) -> Result<Option<GuessChance>, LoadError> {
        let [bias, margin, probability] =
            ["bias", "margin", "probability"].map(|input| self.float(&format!("guess_chance.{input}")));
        let weights = bias?.zip(margin?).zip(probability?);
        Ok(weights.map(|((bias, margin), probability)| GuessChance { bias, margin, probability }))
    }

    /// Rejects a setting that is present and not zero.
    pub(super) fn refuse(&self, key: &str, what: &'static str) -> Result<(), LoadError> {
        match self.get(key) {
            Some(found) if !found.says_nothing() => Err(LoadError::Unsupported { what, found: found.to_string() }),
            _ => Ok(()),
        }
    }

    /// Size of the sliding window in tokens, if there is one.
    pub(super) fn window(&self) -> Result<Option<usize>, LoadError> {
        Ok(self.integer("attention.sliding_window")?.filter(|&tokens| tokens > 0).map(|tokens| tokens as usize))
    }

    /// Mixture of experts whose weights add up to one, if the model has one. Without a width of their own, experts have
    /// that of a feed-forward part.
    pub(super) fn experts(&self, config: &ModelConfig) -> Result<Option<Experts>, LoadError> {
        let size = |key: &str| -> Result<Option<usize>, LoadError> {
            Ok(self.integer(key)?.filter(|&size| size > 0).map(|size| size as usize))
        };
        let width = size("expert_feed_forward_length")?.unwrap_or(config.intermediate_size);
        // 1 stands for softmax.
        if let Some(found) = self.integer("expert_gating_func")?.filter(|&found| found > 1) {
            return Err(LoadError::Unsupported { what: "expert_gating_func", found: found.to_string() });
        }
        let Some(count) = size("expert_count")? else { return Ok(None) };
        let missing = || LoadError::MissingSetting { key: self.key("expert_used_count") };
        let used = size("expert_used_count")?.ok_or_else(missing)?;
        Ok(Some(Experts { count, used, width, normalized: true, bias: false, clamp: None }))
    }

    /// Token id under a key that all architectures share.
    pub(super) fn token(&self, key: &str) -> Result<Option<u32>, LoadError> {
        let Some(id) = self.values.get(key).map(|value| integer(key, value)).transpose()? else {
            return Ok(None);
        };
        u32::try_from(id).map(Some).map_err(|_| invalid(key, id, "a token id"))
    }

    /// Constant ε of norms of this kind.
    pub(super) fn epsilon(&self, norm: Norm) -> Result<f32, LoadError> {
        let key = match norm {
            Norm::Rms => "attention.layer_norm_rms_epsilon",
            Norm::Layer => "attention.layer_norm_epsilon",
        };
        self.float(key)?.ok_or_else(|| LoadError::MissingSetting { key: self.key(key) })
    }

    /// Rotary embedding in the settings. `whole`: YaRN's bounds are rounded to whole indices, which files do not say.
    pub(super) fn rotary(&self, config: &ModelConfig, whole: bool) -> Result<Rotary, LoadError> {
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
        // Describes training only.
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
                let turns = |key: &str, otherwise: f32| Ok::<_, LoadError>(self.float(key)?.unwrap_or(otherwise));
                let fast = turns("rope.scaling.yarn_beta_fast", 32.0)?;
                let slow = turns("rope.scaling.yarn_beta_slow", 1.0)?;
                let yarn = Yarn { factor, fast, slow, context, whole };
                RopeScaling::PerFrequency { factors: yarn.factors(theta, dimensions) }
            }
            (Some(other), _) => {
                return Err(LoadError::Unsupported { what: "rope scaling", found: other.to_owned() });
            }
        };
        let dimensions = (dimensions != config.head_dim).then_some(dimensions);
        Ok(Rotary { theta, scaling, layout: self.layout, dimensions, magnitude })
    }

    /// Rejects settings of the architecture that were never read, unless they say nothing.
    pub(super) fn refuse_rest(&self) -> Result<(), LoadError> {
        let read = self.read.borrow();
        let unknown = |(key, value): &(&String, &Value)| {
            let own = key.strip_prefix(self.architecture).and_then(|rest| rest.strip_prefix('.'));
            let is_inert = |own| WITHOUT_EFFECT.contains(&own) || value.says_nothing() && !FALSE_MATTERS.contains(&own);
            own.is_some_and(|own| !is_inert(own)) && !read.contains(*key) && !is_ignored(key)
        };
        // Smallest key, for a deterministic error.
        match self.values.iter().filter(unknown).min_by_key(|(key, _)| *key) {
            None => Ok(()),
            Some((key, value)) => Err(LoadError::UnknownSetting { key: key.clone(), found: value.to_string() }),
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
