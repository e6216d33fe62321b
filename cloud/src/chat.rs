//! Lookup of a model's chat template.
//!
//! These places are searched in order: `--chat-template`; `chat_template.jinja` and `tokenizer_config.json` beside a
//! model in a folder; the metadata of a GGUF file. Without a template a plain form is used. A model in a folder may
//! have another template for conversations with tools: `additional_chat_templates/tool_use.jinja` beside the former
//! file, or `tool_use` in the latter.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use outrider_models::{ChatError, ChatSource, ChatTemplate, ModelConfig, Tokenizer};
use serde::Deserialize;

/// Failure to load a chat template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The file of the template cannot be read.
    #[error("the chat template {path} cannot be read: {error}")]
    Read {
        /// Path of the template.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The template is not valid Jinja.
    #[error("{place}: {error}")]
    Syntax {
        /// File that has the template.
        place: String,
        /// Error of the Jinja parser.
        error: ChatError,
    },
    /// The file `tokenizer_config.json` cannot be parsed.
    #[error("{path} cannot be read: {error}")]
    Config {
        /// Path of `tokenizer_config.json`.
        path: String,
        /// Error of the JSON parser.
        error: serde_json::Error,
    },
}

/// Fields of `tokenizer_config.json` that a chat template needs.
#[derive(Debug, Default, Deserialize)]
struct TokenizerConfig {
    chat_template: Option<Templates>,
    bos_token: Option<Special>,
    eos_token: Option<Special>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<Named>),
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    template: String,
}

impl Templates {
    /// Returns the template for all conversations and the one for conversations with tools.
    fn default_and_tool_use(self) -> (Option<String>, Option<String>) {
        match self {
            Self::One(template) => (Some(template), None),
            Self::Named(all) => {
                let named = |name| all.iter().find(|named| named.name == name).map(|named| named.template.clone());
                (named("default"), named("tool_use"))
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Special {
    Text(String),
    Described { content: String },
}

impl Special {
    fn text(self) -> String {
        match self {
            Self::Text(text) | Self::Described { content: text } => text,
        }
    }
}

/// Loads the template at `path`, or else the own template of the model in the file or folder `model`, whose
/// configuration is given, or else the plain form.
///
/// # Errors
/// [`TemplateError`] if a template is found and cannot be used.
pub fn find(
    path: Option<&Path>,
    model: Option<&Path>,
    config: &ModelConfig,
    tokenizer: &Tokenizer,
) -> Result<ChatTemplate, TemplateError> {
    let folder = model.and_then(folder);
    let beside = match &folder {
        Some(folder) => tokenizer_config(&folder.join("tokenizer_config.json"))?,
        None => TokenizerConfig::default(),
    };
    let in_folder = |name: &str| folder.as_ref().map(|folder| folder.join(name)).filter(|file| file.is_file());
    let (place, template, tool_use) = match (path, in_folder("chat_template.jinja"), beside.chat_template) {
        (Some(file), ..) => (file.display().to_string(), Some(read(file)?), None),
        (None, Some(file), _) => {
            let tool_use = in_folder("additional_chat_templates/tool_use.jinja");
            (file.display().to_string(), Some(read(&file)?), tool_use.as_deref().map(read).transpose()?)
        }
        (None, None, Some(templates)) => {
            let (template, tool_use) = templates.default_and_tool_use();
            ("tokenizer_config.json".to_owned(), template, tool_use)
        }
        (None, None, None) => ("the model".to_owned(), config.chat_template.clone(), None),
    };
    let token = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
    let bos_token = beside.bos_token.map_or_else(|| token(config.bos_token_id), Special::text);
    let eos_token = beside.eos_token.map_or_else(|| token(config.eos_token_ids.first().copied()), Special::text);
    let compiled =
        ChatTemplate::new(ChatSource { template, tool_use, bos_token, eos_token, first_token: config.first_token() });
    compiled.map_err(|error| TemplateError::Syntax { place, error })
}

fn read(file: &Path) -> Result<String, TemplateError> {
    fs::read_to_string(file).map_err(|error| TemplateError::Read { path: file.display().to_string(), error })
}

/// Folder of a model's other files, if the model is a folder or a safetensors file.
fn folder(model: &Path) -> Option<PathBuf> {
    if model.is_dir() {
        return Some(model.to_owned());
    }
    let is_safetensors = model.extension().is_some_and(|extension| extension == "safetensors");
    is_safetensors.then(|| model.parent().map(Path::to_owned)).flatten()
}

fn tokenizer_config(path: &Path) -> Result<TokenizerConfig, TemplateError> {
    match fs::read(path) {
        Ok(json) => serde_json::from_slice(&json)
            .map_err(|error| TemplateError::Config { path: path.display().to_string(), error }),
        Err(_) => Ok(TokenizerConfig::default()),
    }
}

#[cfg(test)]
mod tests {
    use outrider_models::Conversation;

    use super::*;
    use crate::pair::PairPaths;

    #[test]
    fn a_folder_says_how_its_model_is_spoken_to() {
        let folder = std::env::temp_dir().join(format!("outrider-template-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let built_in = PairPaths::default();
        let (config, tokenizer) = (built_in.target().unwrap().config().clone(), built_in.tokenizer().unwrap());
        let rendered = |path: Option<&Path>, config: &ModelConfig| {
            let template = find(path, Some(&folder), config, &tokenizer)?;
            Ok::<_, TemplateError>(template.render(&Conversation::default(), 0).unwrap())
        };
        let with_tools = || {
            let tools = vec![serde_json::Map::new()];
            let template = find(None, Some(&folder), &config, &tokenizer).unwrap();
            template.render(&Conversation { tools, ..Conversation::default() }, 0)
        };
        assert_eq!(rendered(None, &config).unwrap(), "Assistant:");
        let own = ModelConfig { chat_template: Some("gguf".to_owned()), ..config.clone() };
        assert_eq!(rendered(None, &own).unwrap(), "gguf");
        let json = r#"{"bos_token": {"content": "<s>"}, "chat_template": [
            {"name": "tool_use", "template": "{{ tools }}"}, {"name": "default", "template": "{{ bos_token }}json"}
        ]}"#;
        fs::write(folder.join("tokenizer_config.json"), json).unwrap();
        assert_eq!(rendered(None, &own).unwrap(), "<s>json");
        assert_eq!(with_tools().unwrap(), "[{}]");
        fs::write(folder.join("chat_template.jinja"), "file").unwrap();
        assert_eq!(rendered(None, &own).unwrap(), "file");
        assert!(matches!(with_tools(), Err(ChatError::Tools)));
        fs::create_dir_all(folder.join("additional_chat_templates")).unwrap();
        fs::write(folder.join("additional_chat_templates/tool_use.jinja"), "with {{ tools }}").unwrap();
        assert_eq!((rendered(None, &own).unwrap(), with_tools().unwrap()), ("file".to_owned(), "with [{}]".to_owned()));
        fs::write(folder.join("given"), "given").unwrap();
        assert_eq!(rendered(Some(&folder.join("given")), &own).unwrap(), "given");
        fs::write(folder.join("given"), "{% if %}").unwrap();
        assert!(matches!(rendered(Some(&folder.join("given")), &own), Err(TemplateError::Syntax { .. })));
        fs::write(folder.join("tokenizer_config.json"), "{").unwrap();
        assert!(matches!(rendered(None, &own), Err(TemplateError::Config { .. })));
        fs::remove_dir_all(&folder).unwrap();
    }
}
