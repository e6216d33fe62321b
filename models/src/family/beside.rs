//! Settings in the files next to a checkpoint's `config.json`.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{config::ModelConfig, hugging_face::OneOrMany, recommended::RecommendedSampling};
use crate::error::LoadError;

/// Reads a file next to `config.json`; `None` if it does not exist.
pub(crate) type Beside<'f> = &'f dyn Fn(&str) -> Result<Option<Vec<u8>>, LoadError>;

impl ModelConfig {
    /// Applies the other files of a checkpoint's folder, as transformers does: end-of-text tokens and
    /// recommended sampling from `generation_config.json`, and from `tokenizer_config.json` the flag for a
    /// begin-of-sequence token.
    pub(crate) fn amend(&mut self, file: Beside<'_>) -> Result<(), LoadError> {
        let GenerationConfig { eos_token_id, others, .. } = GenerationConfig::read(file)?;
        if let Some(ids) = eos_token_id {
            self.eos_token_ids = ids.tokens()?;
        }
        self.sampling = RecommendedSampling::from_hugging_face(|name| others.get(name)?.as_f64());
        if let Some(json) = file("tokenizer_config.json")? {
            let TokenizerConfig { add_bos_token, tokenizer_class } = parsed("tokenizer_config.json", &json)?;
            self.adds_bos = add_bos_token.unwrap_or_else(|| begins(tokenizer_class.as_deref()));
        }
        self.validate()
    }
}

/// Default of `add_bos_token` for a tokenizer class. The general class follows its template, which `Tokenizer` applies.
fn begins(class: Option<&str>) -> bool {
    class.is_none_or(|class| ["Llama", "Gemma", "PreTrained"].iter().any(|known| class.starts_with(known)))
}

/// Parses a file next to `config.json`; an error names it.
fn parsed<T: DeserializeOwned>(file: &'static str, json: &[u8]) -> Result<T, LoadError> {
    serde_json::from_slice(json).map_err(|error| LoadError::Beside { file, error })
}

/// Contents of `generation_config.json`: tokens that begin and end a text, and sampling.
#[derive(Deserialize, Default)]
pub(super) struct GenerationConfig {
    pub(super) eos_token_id: Option<OneOrMany>,
    /// All other values, by name.
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl GenerationConfig {
    /// Reads the file; all fields are empty if it does not exist.
    pub(super) fn read(file: Beside<'_>) -> Result<Self, LoadError> {
        match file("generation_config.json")? {
            Some(json) => parsed("generation_config.json", &json),
            None => Ok(Self::default()),
        }
    }
}

#[derive(Deserialize)]
struct TokenizerConfig {
    add_bos_token: Option<bool>,
    tokenizer_class: Option<String>,
}
