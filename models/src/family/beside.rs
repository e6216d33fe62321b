//! What the files beside a checkpoint's `config.json` say.

use serde::Deserialize;

use super::{config::ModelConfig, hugging_face::OneOrMany};
use crate::error::LoadError;

/// Gives the bytes of a file beside a `config.json`, if it is there.
pub(crate) type Beside<'f> = &'f dyn Fn(&str) -> Result<Option<Vec<u8>>, LoadError>;

impl ModelConfig {
    /// Takes what the other files of a checkpoint's folder say, as transformers does: the tokens that end a text in
    /// `generation_config.json`, and in `tokenizer_config.json` whether a prompt begins with a token. `file` gives
    /// the bytes of those that are there.
    pub(crate) fn amend(&mut self, file: Beside<'_>) -> Result<(), LoadError> {
        if let Some(ids) = GenerationConfig::read(file)?.eos_token_id {
            self.eos_token_ids = ids.tokens()?;
        }
        if let Some(json) = file("tokenizer_config.json")? {
            let TokenizerConfig { add_bos_token, tokenizer_class } = serde_json::from_slice(&json)?;
            self.adds_bos = add_bos_token.unwrap_or_else(|| begins(tokenizer_class.as_deref()));
        }
        self.validate()
    }
}

/// Whether a tokenizer of this class puts a token before a prompt where nothing says so. The general class does what
/// its template says, which `Tokenizer` knows.
fn begins(class: Option<&str>) -> bool {
    class.is_none_or(|class| ["Llama", "Gemma", "PreTrained"].iter().any(|known| class.starts_with(known)))
}

/// What `generation_config.json` says of where texts begin and end.
#[derive(Deserialize, Default)]
pub(super) struct GenerationConfig {
    pub(super) eos_token_id: Option<OneOrMany>,
    pub(super) decoder_start_token_id: Option<i64>,
}

impl GenerationConfig {
    /// Empty if there is none.
    pub(super) fn read(file: Beside<'_>) -> Result<Self, LoadError> {
        match file("generation_config.json")? {
            Some(json) => Ok(serde_json::from_slice(&json)?),
            None => Ok(Self::default()),
        }
    }
}

#[derive(Deserialize)]
struct TokenizerConfig {
    add_bos_token: Option<bool>,
    tokenizer_class: Option<String>,
}
