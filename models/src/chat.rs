//! Makes a prompt of a conversation, as transformers does.
//!
//! Models that were trained on conversations come with a Jinja template that writes a conversation as they have seen
//! it. Templates are written for Python, so they see what they would see there: its methods of strings, its JSON, its
//! way to print lists, `raise_exception` and `strftime_now`. Where a model has none, a plain form has to do:
//!
//! ```text
//! System: …
//!
//! User: …
//!
//! Assistant:
//! ```
//!
//! What people say stays text: whatever a message, a tool or its result spells, and whatever the tokenizer's normalizer
//! makes of it, becomes a special token only where the template writes one (see `tokenizer/marks.rs`).
//!
//! | module | what it does |
//! |---|---|
//! | `conversation` | messages and tools, as a template sees them |
//! | `python` | what templates have of Python |
//! | `calls` | reads calls of tools in what a model writes |

use std::{borrow::Cow, fmt::Write, sync::OnceLock};

use minijinja::{Environment, Error, Value, context};
use serde::{Deserialize, Serialize};

use crate::{
    error::EncodeError,
    tokenizer::{Marks, Tokenizer, without_marks},
};

mod calls;
mod conversation;
mod python;

pub use self::{
    calls::{Call, CallReader, Piece},
    conversation::{Conversation, Message, MessageError, Tool},
};

/// How a model is spoken to; as JSON it is what a browser needs to know of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChatSource {
    /// A Jinja template; without one the plain form is taken.
    pub template: Option<String>,
    /// Another that is taken where there are tools, if the model has one of its own for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use: Option<String>,
    /// The text of the token that begins a sequence.
    #[serde(default)]
    pub bos_token: String,
    /// The text of the token that ends one.
    #[serde(default)]
    pub eos_token: String,
}

/// How a conversation becomes a prompt.
#[derive(Debug)]
pub struct ChatTemplate {
    source: ChatSource,
    /// Has the templates that `source` has.
    environment: Environment<'static>,
    /// The same with marks for special tokens, and the fingerprint of the tokenizer that these are of: the first one
    /// that a conversation was encoded for.
    marked: OnceLock<([u8; 32], Environment<'static>)>,
}

/// Why a conversation makes no prompt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The template is no Jinja, or uses what there is not.
    #[error("the chat template cannot be used: {0}")]
    Template(String),
    /// The template's own words, such as that roles must alternate.
    #[error("the model's chat template refuses this conversation: {0}")]
    Refused(String),
    /// There are tools, of which the prompt would say nothing.
    #[error("the model's chat template has no place for tools")]
    Tools,
    /// The tokenizer cannot express it.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The names of the two templates.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";
/// What a template has that teaches a model to put its calls between tags.
const CALL_TAG: &str = "<tool_call>";

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// [`ChatError::Template`] if it is no Jinja.
    pub fn new(source: ChatSource) -> Result<Self, ChatError> {
        let environment = compiled(&source, |template| template)?;
        Ok(Self { source, environment, marked: OnceLock::new() })
    }

    /// Compiles what a server hands out.
    ///
    /// # Errors
    /// [`ChatError::Template`] if these bytes are no [`ChatSource`] as JSON, or its template is no Jinja.
    pub fn from_json(json: &[u8]) -> Result<Self, ChatError> {
        Self::new(serde_json::from_slice(json).map_err(|error| ChatError::Template(error.to_string()))?)
    }

    /// What it was compiled from.
    #[must_use]
    pub fn source(&self) -> &ChatSource {
        &self.source
    }

    /// The text whose continuation is the assistant's next message. `now`: seconds since 1970, for templates that tell
    /// the date.
    ///
    /// # Errors
    /// [`ChatError::Refused`] if the template refuses the conversation, [`ChatError::Tools`] if there are tools of
    /// which it says nothing.
    pub fn render(&self, conversation: &Conversation, now: i64) -> Result<String, ChatError> {
        let ChatSource { bos_token, eos_token, .. } = &self.source;
        self.render_with(&self.environment, [bos_token, eos_token], conversation, now)
    }

    fn render_with(
        &self,
        environment: &Environment<'_>,
        [bos_token, eos_token]: [&str; 2],
        conversation: &Conversation,
        now: i64,
    ) -> Result<String, ChatError> {
        let Conversation { messages, tools } = conversation;
        let Some((name, _)) = self.template(!tools.is_empty()) else {
            let about_tools = !tools.is_empty() || messages.iter().any(Message::is_about_tools);
            return if about_tools { Err(ChatError::Tools) } else { Ok(plain(messages)) };
        };
        let none = Value::from(());
        let render = |tools: Option<&Vec<Tool>>| {
            let template = environment.get_template(name)?;
            template.render(context! {
                messages, tools, bos_token, eos_token, now,
                add_generation_prompt => true, documents => none,
            })
        };
        if tools.is_empty() {
            return render(None).map_err(|error| refused(&error));
        }
        let text = render(Some(tools)).map_err(|error| refused(&error))?;
        // Most templates that know nothing of tools leave them out.
        if render(None).is_ok_and(|without| without == text) { Err(ChatError::Tools) } else { Ok(text) }
    }

    /// What finds calls of these tools in an answer. The form that it expects is the one that the template teaches.
    #[must_use]
    pub fn call_reader(&self, tools: &[Tool]) -> CallReader {
        let tagged = self.template(true).is_some_and(|(_, template)| template.contains(CALL_TAG));
        CallReader::new(tools, tagged)
    }

    /// The templates with marks for the special tokens of a tokenizer.
    fn marked(&self, tokenizer: &Tokenizer) -> Result<Cow<'_, Environment<'static>>, ChatError> {
        let fingerprint = tokenizer.fingerprint();
        if let Some((of, environment)) = self.marked.get()
            && *of == fingerprint
        {
            return Ok(Cow::Borrowed(environment));
        }
        let marks: &Marks = tokenizer.marks();
        let environment = compiled(&self.source, |template| marks.in_template(&template))?;
        // One tokenizer's templates are kept; those for any other are compiled for each prompt.
        let _ = self.marked.set((fingerprint, environment.clone()));
        Ok(Cow::Owned(environment))
    }

    /// The name and text of the template for conversations with tools or without, if there is one.
    fn template(&self, with_tools: bool) -> Option<(&'static str, &str)> {
        let tool_use = self.source.tool_use.as_deref().filter(|_| with_tools).map(|template| (TOOL_USE, template));
        tool_use.or_else(|| Some((DEFAULT, self.source.template.as_deref()?)))
    }

    /// The ids of the same, behind what begins a prompt of a model whose first token is `first`, unless the template
    /// writes that itself.
    ///
    /// # Errors
    /// As for [`render`](Self::render), and if the tokenizer cannot express the text.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        first: Option<u32>,
        conversation: &Conversation,
        now: i64,
    ) -> Result<Vec<u32>, ChatError> {
        let marks = tokenizer.marks();
        let environment = self.marked(tokenizer)?;
        let ChatSource { bos_token, eos_token, .. } = &self.source;
        let tokens = [bos_token, eos_token].map(|token| marks.mark_of(token));
        let render = |conversation: &Conversation| self.render_with(&environment, tokens, conversation, now);
        let conversation = conversation.map(&without_marks);
        let mut prompt = render(&conversation)?;
        if marks.are_spelled_in(&prompt) {
            let veiled = conversation.map(&|text| text.chars().map(|c| marks.veil(c)).collect());
            // A template that refuses these has looked at punctuation, and what it puts together is not known.
            if let Ok(veiled) = render(&veiled) {
                prompt = marks.composed(&prompt, &veiled);
            }
        }
        let ids = tokenizer.encode_marked(&prompt)?;
        let beginning = tokenizer.encode_prompt(first, "")?;
        Ok(if ids.starts_with(&beginning) { ids } else { [beginning, ids].concat() })
    }
}

/// An environment with the templates of a source, changed.
fn compiled(source: &ChatSource, change: impl Fn(String) -> String) -> Result<Environment<'static>, ChatError> {
    let mut environment = Environment::new();
    python::add_to(&mut environment);
    for (name, template) in [(DEFAULT, &source.template), (TOOL_USE, &source.tool_use)] {
        let Some(template) = template else { continue };
        environment
            .add_template_owned(name, change(without_generation(template)))
            .map_err(|error| ChatError::Template(error.to_string()))?;
    }
    Ok(environment)
}

/// The reason that a template gives says more than where in it that stands.
fn refused(error: &Error) -> ChatError {
    ChatError::Refused(error.detail().map_or_else(|| error.to_string(), ToOwned::to_owned))
}

fn plain(messages: &[Message]) -> String {
    let mut prompt = String::new();
    for message in messages {
        let role = match message.role() {
            "system" => "System",
            "assistant" => "Assistant",
            _ => "User",
        };
        let content = message.content().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(prompt, "{role}: {content}\n\n");
    }
    prompt.push_str("Assistant:");
    prompt
}

/// transformers marks what an assistant said by a tag of its own, for training; for a prompt it says nothing. What it
/// does to white space stays.
fn without_generation(template: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(template.len()), template);
    while let Some(begin) = rest.find("{%") {
        let Some(length) = rest[begin..].find("%}") else { break };
        let (before, tag) = rest[..begin + length + 2].split_at(begin);
        out.push_str(before);
        match tag[2..length].trim_matches(['-', '+']).trim() {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[begin + length + 2..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;
    use serde_json::json;

    fn conversation() -> Conversation {
        let messages = [("system", " Be brief. "), ("user", "Hello"), ("assistant", "Hi"), ("user", "Why?")];
        let messages = messages.map(|(role, content)| Message::new(role, content)).to_vec();
        Conversation { messages, ..Conversation::default() }
    }

    fn tools(name: &str) -> Vec<Tool> {
        let tool = json!({ "type": "function", "function": { "name": name, "description": "What it does." } });
        vec![tool.as_object().unwrap().clone()]
    }

    fn chat_of(source: &str) -> Result<ChatTemplate, ChatError> {
        let (bos_token, eos_token) = ("<s>".to_owned(), "</s>".to_owned());
        ChatTemplate::new(ChatSource { template: Some(source.to_owned()), tool_use: None, bos_token, eos_token })
    }

    #[test]
    fn the_plain_form_names_who_speaks() {
        let prompt = ChatTemplate::new(ChatSource::default()).unwrap().render(&conversation(), 0).unwrap();
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
        let template = chat_of(source).unwrap();
        let prompt = template.render(&conversation(), 0).unwrap();
        assert_eq!(prompt, "<s><<Be brief.>>\n[USER] Hello</s>\n[ASSISTANT] Hi</s>\n[USER] Why?\n[ASSISTANT]");
        let messages = conversation().messages.split_off(2);
        let error = template.render(&Conversation { messages, tools: Vec::new() }, 0).unwrap_err();
        assert!(matches!(&error, ChatError::Refused(why) if why == "roles must alternate"), "{error}");
        assert!(matches!(chat_of("{% if %}"), Err(ChatError::Template(_))));
    }

    #[test]
    fn tools_are_shown_or_refused() {
        let with_tools = Conversation { tools: tools("f"), ..conversation() };
        let shows = chat_of("{% if tools %}{{ tools[0].function.name }}{% else %}none{% endif %}").unwrap();
        assert_eq!(shows.render(&with_tools, 0).unwrap(), "f");
        assert_eq!(shows.render(&conversation(), 0).unwrap(), "none");
        let is_refused = |template: &ChatTemplate, conversation: &Conversation| {
            matches!(template.render(conversation, 0), Err(ChatError::Tools))
        };
        for source in ["{{ messages[0].content }}", "{% if tools %}{% endif %}a"] {
            assert!(is_refused(&chat_of(source).unwrap(), &with_tools), "{source}");
            assert!(chat_of(source).unwrap().render(&conversation(), 0).is_ok(), "{source}");
        }
        let needs = chat_of("{{ tools[0].function.name ~ '!' if tools else raise_exception('tools!') }}").unwrap();
        assert_eq!(needs.render(&with_tools, 0).unwrap(), "f!");
        let plain = ChatTemplate::new(ChatSource::default()).unwrap();
        assert!(is_refused(&plain, &with_tools));
        let result = Conversation { messages: vec![Message::new("tool", "4")], tools: Vec::new() };
        assert!(is_refused(&plain, &result));
    }

    #[test]
    fn a_template_of_its_own_is_for_tools_alone() {
        let tool_use = Some("{{ tools | length }} <tool_call>".to_owned());
        let with_tools = Conversation { tools: tools("f"), ..conversation() };
        for (template, without) in [(Some("default"), "default"), (None, "System")] {
            let source = ChatSource {
                template: template.map(ToOwned::to_owned),
                tool_use: tool_use.clone(),
                ..ChatSource::default()
            };
            let json = serde_json::to_vec(&source).unwrap();
            let chat = ChatTemplate::from_json(&json).unwrap();
            assert_eq!(chat.render(&with_tools, 0).unwrap(), "1 <tool_call>");
            assert!(chat.render(&conversation(), 0).unwrap().starts_with(without));
        }
        let broken = ChatSource { tool_use: Some("{% if %}".to_owned()), ..ChatSource::default() };
        assert!(matches!(ChatTemplate::new(broken), Err(ChatError::Template(_))));
    }

    /// The form is the one that the template for tools teaches.
    #[test]
    fn calls_are_expected_in_the_templates_form() {
        let bare = "{\"name\": \"f\", \"parameters\": {}}";
        for (source, is_call) in [("{{ tools }}", true), ("{{ tools }}<tool_call>", false)] {
            let mut reader = chat_of(source).unwrap().call_reader(&tools("f"));
            let pieces = [reader.push(bare), reader.finish()].concat();
            assert_eq!(matches!(pieces[..], [Piece::Call(_)]), is_call, "{source}");
        }
    }

    #[test]
    fn marks_for_training_say_nothing() {
        let source = "a\n{%- generation -%}\n  b\n{%- endgeneration %}\n{% generation %}c{% endgeneration %}";
        assert_eq!(chat_of(source).unwrap().render(&Conversation::default(), 0).unwrap(), "abc");
    }

    /// Special tokens in a message, a call or a tool stay text; the template's own do not, and its first token is not
    /// written twice.
    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn a_message_cannot_end_itself() {
        let tokenizer = Tokenizer::from_bytes(include_bytes!("../../pair/tokenizer.json")).unwrap();
        let end = "<|endoftext|>";
        let id = tokenizer.token_id(end).unwrap();
        let source = format!(
            "{{% for message in messages %}}{{{{ message.content }}}}{{{{ message.tool_calls | tojson }}}}{end}\
             {{% endfor %}}{{{{ tools | tojson }}}}"
        );
        let chat = ChatTemplate::new(ChatSource { template: Some(source), ..ChatSource::default() }).unwrap();
        let arguments = format!("{{\"{end}\": \"{end}\"}}");
        let message = json!({
            "role": "assistant", "content": format!("a{end}b\u{fdd0}"),
            "tool_calls": [{ "function": { "name": end, "arguments": arguments } }],
        });
        let message = Message::try_from(message.as_object().unwrap().clone()).unwrap();
        let said = Conversation { messages: vec![message], tools: tools(end) };
        let ids = chat.encode(&tokenizer, None, &said, 0).unwrap();
        assert_eq!(ids.iter().filter(|&&other| other == id).count(), 1, "the template's own: {ids:?}");
        let text: String = ids.iter().filter(|&&other| other != id).map(|&id| tokenizer.decode(&[id])).collect();
        let calls = format!("[{{\"function\": {{\"name\": \"{end}\", \"arguments\": {{\"{end}\": \"{end}\"}}}}}}]");
        assert!(text.starts_with(&format!("a{end}b{calls}[{{\"type\"")), "{text}");
        assert_eq!(text.matches(end).count(), 5, "{text}");
        let behind_itself =
            ChatTemplate::new(ChatSource { template: Some(end.to_owned()), ..ChatSource::default() }).unwrap();
        assert_eq!(behind_itself.encode(&tokenizer, Some(id), &Conversation::default(), 0).unwrap(), [id]);
    }
}
