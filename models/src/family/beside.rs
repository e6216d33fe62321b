//! What the files beside a checkpoint's `config.json` say.

use std::{fs, io, path::Path};

use serde::Deserialize;

use super::{config::ModelConfig, hugging_face::OneOrMany};
use crate::error::LoadError;

impl ModelConfig {
    /// Takes what the other files of a checkpoint's folder say, as transformers does: the tokens that end a text in
    /// `generation_config.json`; in `tokenizer_config.json` whether a prompt begins with a token, and the chat template,
    /// unless `chat_template.jinja` has it.
    pub(crate) fn amend(&mut self, folder: &Path) -> Result<(), LoadError> {
        if let Some(json) = read(&folder.join("generation_config.json"))? {
            let GenerationConfig { eos_token_id } = serde_json::from_slice(&json)?;
            if let Some(ids) = eos_token_id {
                self.eos_token_ids = ids.tokens()?;
            }
        }
        if let Some(json) = read(&folder.join("tokenizer_config.json"))? {
            let TokenizerConfig { add_bos_token, tokenizer_class, chat_template } = serde_json::from_slice(&json)?;
            if !add_bos_token.unwrap_or_else(|| begins(tokenizer_class.as_deref())) {
                self.bos_token_id = None;
            }
            self.chat_template = chat_template.and_then(ChatTemplates::usual);
        }
        if let Some(template) = read(&folder.join("chat_template.jinja"))? {
            self.chat_template = Some(String::from_utf8_lossy(&template).into_owned());
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

#[derive(Deserialize)]
struct GenerationConfig {
    eos_token_id: Option<OneOrMany>,
}

#[derive(Deserialize)]
struct TokenizerConfig {
    add_bos_token: Option<bool>,
    tokenizer_class: Option<String>,
    chat_template: Option<ChatTemplates>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ChatTemplates {
    One(String),
    Many(Vec<ChatTemplate>),
}

#[derive(Deserialize)]
struct ChatTemplate {
    name: String,
    template: String,
}

impl ChatTemplates {
    /// The only one, or the one that is taken where nobody asks for another.
    fn usual(self) -> Option<String> {
        match self {
            Self::One(template) => Some(template),
            Self::Many(many) => many.into_iter().find(|one| one.name == "default").map(|one| one.template),
        }
    }
}
