//! What the files beside a checkpoint's `config.json` say.

use serde::Deserialize;

use super::{config::ModelConfig, hugging_face::OneOrMany};
use crate::error::LoadError;

impl ModelConfig {
    /// Takes what the other files of a checkpoint's folder say, as transformers does: the tokens that end a text in
    /// `generation_config.json`, and in `tokenizer_config.json` whether a prompt begins with a token. `file` gives
    /// the bytes of those that are there.
    pub(crate) fn amend(&mut self, file: impl Fn(&str) -> Result<Option<Vec<u8>>, LoadError>) -> Result<(), LoadError> {
        if let Some(json) = file("generation_config.json")? {
            let GenerationConfig { eos_token_id } = serde_json::from_slice(&json)?;
            if let Some(ids) = eos_token_id {
                self.eos_token_ids = ids.tokens()?;
            }
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

#[derive(Deserialize)]
struct GenerationConfig {
    eos_token_id: Option<OneOrMany>,
}

#[derive(Deserialize)]
struct TokenizerConfig {
    add_bos_token: Option<bool>,
    tokenizer_class: Option<String>,
}
