//! Language models inside models that also read images: settings in the field `text_config` of `config.json`.

use serde_json::{Map, Value, json};

use super::{hugging_face::QUANTIZATION, keys::Keys};
use crate::error::LoadError;

/// Model whose language model is supported.
struct Outer {
    model_type: &'static str,
    /// Value of `model_type` in `text_config`.
    inner: &'static str,
    /// Settings of the language model that published files leave out.
    defaults: fn() -> Value,
}

static OUTER: [Outer; 2] = [
    Outer {
        model_type: "gemma3",
        inner: "gemma3_text",
        defaults: || json!({ "vocab_size": 262_208, "num_attention_heads": 8 }),
    },
    Outer { model_type: "mistral3", inner: "mistral", defaults: || json!({}) },
];

/// Settings of the whole model that also hold for its language model.
const SHARED: [&str; 3] = ["bos_token_id", "eos_token_id", "tie_word_embeddings"];

/// Values of `model_type` of models whose language model is supported.
pub(super) fn text_tower_types() -> impl Iterator<Item = &'static str> {
    OUTER.iter().map(|outer| outer.model_type)
}

impl Keys {
    /// Replaces the settings of a model that also reads images by those of its language model. Returns false for other
    /// models.
    pub(super) fn enter_text_tower(&mut self, model_type: &str) -> Result<bool, LoadError> {
        let Some(outer) = OUTER.iter().find(|outer| outer.model_type == model_type) else { return Ok(false) };
        let mut inner: Map<String, Value> = self.required("text_config")?;
        for key in SHARED.into_iter().chain(QUANTIZATION) {
            if let Some(value) = self.get::<Value>(key)? {
                inner.insert(key.to_owned(), value);
            }
        }
        inner.entry("model_type").or_insert_with(|| json!(outer.inner));
        if let Value::Object(defaults) = (outer.defaults)() {
            for (key, value) in defaults {
                inner.entry(key).or_insert(value);
            }
        }
        *self = Self::of(inner);
        Ok(true)
    }
}
