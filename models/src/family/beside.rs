//! What the files beside a checkpoint's `config.json` say.

use std::{fs, io, path::Path};

use serde::Deserialize;

use super::{config::ModelConfig, hugging_face::OneOrMany};
use crate::error::LoadError;

impl ModelConfig {
    /// Takes what the other files of a checkpoint's folder say, as transformers does: the tokens that end a text in
    /// `generation_config.json`, and in `tokenizer_config.json` whether a prompt begins with a token.
    pub(crate) fn amend(&mut self, folder: &Path) -> Result<(), LoadError> {
        if let Some(ids) = GenerationConfig::read(folder)?.eos_token_id {
            self.eos_token_ids = ids.tokens()?;
        }
        if let Some(json) = read(&folder.join("tokenizer_config.json"))? {
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

/// The bytes of a file, if it is there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What `generation_config.json` says of where texts begin and end.
#[derive(Deserialize, Default)]
pub(super) struct GenerationConfig {
    pub(super) eos_token_id: Option<OneOrMany>,
    pub(super) decoder_start_token_id: Option<i64>,
}

impl GenerationConfig {
    /// That of a folder; empty if there is none.
    pub(super) fn read(folder: &Path) -> Result<Self, LoadError> {
        match read(&folder.join("generation_config.json"))? {
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
