//! Makes a prompt of a conversation.
//!
//! Models that were trained on conversations come with a Jinja template that writes a conversation as they have seen
//! it. It is looked for, in this order, in `--chat-template`, in `chat_template.jinja` and `tokenizer_config.json`
//! beside a target in a folder, and in the metadata of a GGUF file. Where there is none, a plain form has to do:
//!
//! ```text
//! System: …
//!
//! User: …
//!
//! Assistant:
//! ```

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use minijinja::{Environment, Error, ErrorKind, context};
use minijinja_contrib::pycompat;
use outrider_models::{ModelConfig, Tokenizer};
use serde::{Deserialize, Serialize};

use crate::pair::PairPaths;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What it says.
    pub content: String,
}

/// How a conversation becomes a prompt.
#[derive(Debug, Clone, Default)]
pub enum ChatTemplate {
    /// The plain form.
    #[default]
    Plain,
    /// A model's own.
    Jinja(Arc<Jinja>),
}

/// A compiled template.
#[derive(Debug)]
pub struct Jinja {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
}

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// It cannot be read.
    #[error("the chat template {path} cannot be read: {error}")]
    Read {
        /// Where from.
        path: String,
        /// Why not.
        error: io::Error,
    },
    /// It is no Jinja.
    #[error("the chat template of {place} cannot be used: {error}")]
    Syntax {
        /// Where from.
        place: String,
        /// Why not.
        error: Error,
    },
    /// `tokenizer_config.json` is not what it should be.
    #[error("{path} cannot be read: {error}")]
    Config {
        /// Where it is.
        path: String,
        /// Why not.
        error: serde_json::Error,
    },
}

/// What is wanted of a `tokenizer_config.json`.
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

impl ChatTemplate {
    /// The template at `path`, or else the target's own, or else the plain form.
    ///
    /// # Errors
    /// [`TemplateError`] if there is one that cannot be used.
    pub fn find(
        path: Option<&Path>,
        pair: &PairPaths,
        config: &ModelConfig,
        tokenizer: &Tokenizer,
    ) -> Result<Self, TemplateError> {
        let folder = pair.target.as_deref().and_then(folder);
        let beside = match &folder {
            Some(folder) => tokenizer_config(&folder.join("tokenizer_config.json"))?,
            None => TokenizerConfig::default(),
        };
        let file = path.map(Path::to_owned).or_else(|| {
            let file = folder.as_ref()?.join("chat_template.jinja");
            file.is_file().then_some(file)
        });
        let (place, source) = match (file, beside.chat_template, &config.chat_template) {
            (Some(file), ..) => {
                let path = file.display().to_string();
                let read = fs::read_to_string(&file);
                (path.clone(), read.map_err(|error| TemplateError::Read { path, error })?)
            }
            (None, Some(Templates::One(source)), _) => ("tokenizer_config.json".to_owned(), source),
            (None, Some(Templates::Named(all)), _) => match all.into_iter().find(|named| named.name == "default") {
                Some(default) => ("tokenizer_config.json".to_owned(), default.template),
                None => return Ok(Self::Plain),
            },
            (None, None, Some(source)) => ("the target".to_owned(), source.clone()),
            (None, None, None) => return Ok(Self::Plain),
        };
        let token = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
        let bos = beside.bos_token.map_or_else(|| token(config.bos_token_id), Special::text);
        let eos = beside.eos_token.map_or_else(|| token(config.eos_token_ids.first().copied()), Special::text);
        Self::jinja(source, bos, eos).map_err(|error| TemplateError::Syntax { place, error })
    }

    /// A template with the texts of a model's first and last token.
    ///
    /// # Errors
    /// If it is no Jinja.
    pub fn jinja(source: String, bos_token: String, eos_token: String) -> Result<Self, Error> {
        let mut environment = Environment::new();
        // As in transformers, for which templates are written.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |reason: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, reason))
        });
        environment.add_template_owned("chat", source)?;
        Ok(Self::Jinja(Arc::new(Jinja { environment, bos_token, eos_token })))
    }

    /// The prompt whose continuation is the assistant's next message.
    ///
    /// # Errors
    /// If the template refuses the conversation.
    pub fn render(&self, messages: &[Message]) -> Result<String, Error> {
        match self {
            Self::Plain => {
                let mut prompt = String::new();
                for Message { role, content } in messages {
                    let role = match role.as_str() {
                        "system" => "System",
                        "assistant" => "Assistant",
                        _ => "User",
                    };
                    // Writing to a String cannot fail.
                    let _ = write!(prompt, "{role}: {content}\n\n");
                }
                prompt.push_str("Assistant:");
                Ok(prompt)
            }
            Self::Jinja(jinja) => {
                let Jinja { environment, bos_token, eos_token } = &**jinja;
                environment.get_template("chat")?.render(context! {
                    messages, bos_token, eos_token, add_generation_prompt => true,
                })
            }
        }
    }
}

/// Where a target's other files are.
fn folder(target: &Path) -> Option<PathBuf> {
    if target.is_dir() {
        return Some(target.to_owned());
    }
    let is_safetensors = target.extension().is_some_and(|extension| extension == "safetensors");
    is_safetensors.then(|| target.parent().map(Path::to_owned)).flatten()
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
    use super::*;

    fn conversation() -> Vec<Message> {
        let message = |role: &str, content: &str| Message { role: role.to_owned(), content: content.to_owned() };
        vec![
            message("system", " Be brief. "),
            message("user", "Hello"),
            message("assistant", "Hi"),
            message("user", "Why?"),
        ]
    }

    #[test]
    fn the_plain_form_names_who_speaks() {
        let prompt = ChatTemplate::Plain.render(&conversation()).unwrap();
        assert_eq!(prompt, "System:  Be brief. \n\nUser: Hello\n\nAssistant: Hi\n\nUser: Why?\n\nAssistant:");
    }

    /// Written for this test in the manner of published ones: blocks on lines of their own, methods and slices of
    /// Python.
    #[test]
    fn templates_mean_what_they_mean_in_python() {
        let source = "\
{{- bos_token -}}
{%- if messages[0]['role'] == 'system' %}
    {{- '<<' + messages[0]['content'].strip() + '>>\\n' }}
    {%- set messages = messages[1:] %}
{%- endif %}
{% for message in messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('roles must alternate') }}
    {% endif %}
    {{- '[' ~ message.role.upper() ~ '] ' ~ message.content }}{{ eos_token if not loop.last }}
{% endfor %}
{% if add_generation_prompt %}
[ASSISTANT]
{%- endif %}
";
        let template = ChatTemplate::jinja(source.to_owned(), "<s>".to_owned(), "</s>".to_owned()).unwrap();
        let prompt = template.render(&conversation()).unwrap();
        assert_eq!(prompt, "<s><<Be brief.>>\n[USER] Hello</s>\n[ASSISTANT] Hi</s>\n[USER] Why?\n[ASSISTANT]");
        let error = template.render(&conversation()[2..]).unwrap_err();
        assert!(error.to_string().contains("roles must alternate"), "{error}");
        assert!(ChatTemplate::jinja("{% if %}".to_owned(), String::new(), String::new()).is_err());
    }

    #[test]
    fn a_folder_says_how_its_model_is_spoken_to() {
        let folder = std::env::temp_dir().join(format!("outrider-template-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let pair = PairPaths { target: Some(folder.clone()), ..PairPaths::default() };
        let built_in = PairPaths::default();
        let (config, tokenizer) = (built_in.target().unwrap().config().clone(), built_in.tokenizer().unwrap());
        let rendered = |path: Option<&Path>, config: &ModelConfig| {
            let template = ChatTemplate::find(path, &pair, config, &tokenizer)?;
            Ok::<_, TemplateError>(template.render(&conversation()).unwrap())
        };
        assert!(rendered(None, &config).unwrap().ends_with("Assistant:"));
        let own = ModelConfig { chat_template: Some("gguf".to_owned()), ..config.clone() };
        assert_eq!(rendered(None, &own).unwrap(), "gguf");
        let json = r#"{"bos_token": {"content": "<s>"}, "chat_template": [{"name": "default", "template": "{{ bos_token }}json"}]}"#;
        fs::write(folder.join("tokenizer_config.json"), json).unwrap();
        assert_eq!(rendered(None, &own).unwrap(), "<s>json");
        fs::write(folder.join("chat_template.jinja"), "file").unwrap();
        assert_eq!(rendered(None, &own).unwrap(), "file");
        fs::write(folder.join("given"), "given").unwrap();
        assert_eq!(rendered(Some(&folder.join("given")), &own).unwrap(), "given");
        fs::write(folder.join("tokenizer_config.json"), "{").unwrap();
        assert!(matches!(rendered(None, &own), Err(TemplateError::Config { .. })));
        fs::remove_dir_all(&folder).unwrap();
    }
}
