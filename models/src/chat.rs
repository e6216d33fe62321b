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
//! What people say stays text: a special token spelled out in a message does not become that token.

use std::fmt::Write;

use chrono::DateTime;
use minijinja::{
    Environment, Error, ErrorKind, Output, State, Value, context,
    value::{Kwargs, ValueKind},
};
use minijinja_contrib::pycompat;
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::{error::EncodeError, tokenizer::Tokenizer};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What it says.
    pub content: String,
}

/// How a model is spoken to; as JSON it is what a browser needs to know of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChatSource {
    /// A Jinja template; without one the plain form is taken.
    pub template: Option<String>,
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
    environment: Option<Environment<'static>>,
}

/// Why a conversation makes no prompt.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The template is no Jinja, or uses what there is not.
    #[error("the chat template cannot be used: {0}")]
    Template(String),
    /// The template's own words, such as that roles must alternate.
    #[error("the model's chat template refuses this conversation: {0}")]
    Refused(String),
    /// The tokenizer cannot express it.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Where a text is cut before it is encoded, so that no token lies across: a code point that is no character.
const CUT: char = '\u{fdd0}';

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// [`ChatError::Template`] if it is no Jinja.
    pub fn new(source: ChatSource) -> Result<Self, ChatError> {
        let Some(template) = &source.template else { return Ok(Self { source, environment: None }) };
        let mut environment = Environment::new();
        // As in transformers, for which templates are written.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(pycompat::unknown_method_callback);
        environment.set_formatter(|out: &mut Output<'_>, _: &State<'_, '_>, value: &Value| {
            let mut text = String::new();
            print(&mut text, value, false);
            out.write_str(&text).map_err(Error::from)
        });
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", |reason: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, reason))
        });
        environment.add_function("strftime_now", strftime_now);
        environment
            .add_template_owned("chat", without_generation(template))
            .map_err(|error| ChatError::Template(error.to_string()))?;
        Ok(Self { source, environment: Some(environment) })
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
    /// [`ChatError::Refused`] if the template refuses the conversation.
    pub fn render(&self, messages: &[Message], now: i64) -> Result<String, ChatError> {
        let Some(environment) = &self.environment else { return Ok(plain(messages)) };
        let ChatSource { bos_token, eos_token, .. } = &self.source;
        let none = Value::from(());
        let rendered = environment.get_template("chat").and_then(|template| {
            template.render(context! {
                messages, bos_token, eos_token, now,
                add_generation_prompt => true, tools => none, documents => none,
            })
        });
        // The reason that a template gives says more than where in it that stands.
        rendered
            .map_err(|error| ChatError::Refused(error.detail().map_or_else(|| error.to_string(), ToOwned::to_owned)))
    }

    /// The ids of the same, behind what begins a prompt of a model whose first token is `first`, unless the template
    /// writes that itself.
    ///
    /// # Errors
    /// [`ChatError`] if the template refuses the conversation, or the tokenizer the text.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        first: Option<u32>,
        messages: &[Message],
        now: i64,
    ) -> Result<Vec<u32>, ChatError> {
        let special = tokenizer.special_tokens();
        let apart = |message: &Message| Message { content: cut(&message.content, &special), ..message.clone() };
        let text = self.render(&messages.iter().map(apart).collect::<Vec<_>>(), now)?;
        let mut ids = Vec::new();
        for piece in text.split(CUT) {
            ids.extend(tokenizer.encode(piece)?);
        }
        let beginning = tokenizer.encode_prompt(first, "")?;
        Ok(if ids.starts_with(&beginning) { ids } else { [beginning, ids].concat() })
    }
}

/// With a cut in each special token, which then is none.
fn cut(text: &str, special: &[String]) -> String {
    let mut text = text.replace(CUT, "");
    for token in special {
        let mut rest = token.chars();
        if let Some(first) = rest.next().filter(|_| text.contains(token.as_str())) {
            text = text.replace(token.as_str(), &format!("{first}{CUT}{}", rest.as_str()));
        }
    }
    text
}

fn plain(messages: &[Message]) -> String {
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

/// As Python prints: at the top strings are as they are, within lists they are quoted.
fn print(out: &mut String, value: &Value, quoted: bool) {
    let mut list = |open: char, close: char, write: &dyn Fn(&mut String, Value)| {
        out.push(open);
        for (index, item) in value.try_iter().into_iter().flatten().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            write(out, item);
        }
        out.push(close);
    };
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String if quoted => quote(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq => list('[', ']', &|out, item| print(out, &item, true)),
        ValueKind::Map => list('{', '}', &|out, key| {
            print(out, &key, true);
            out.push_str(": ");
            print(out, &value.get_item(&key).unwrap_or_default(), true);
        }),
        _ => {
            let _ = write!(out, "{value}");
        }
    }
}

/// Python's `repr` of a string.
fn quote(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// Python's `json.dumps` with `ensure_ascii=False`, which is transformers' `tojson`: spaces behind commas and colons,
/// and nothing is escaped for HTML.
fn to_json(value: &Value, named: Kwargs) -> Result<String, Error> {
    struct Spaced;
    impl Formatter for Spaced {
        fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }
        fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }
        fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
            out.write_all(b": ")
        }
    }
    let indent: Option<usize> = named.get("indent")?;
    // It is never otherwise.
    let _: Option<bool> = named.get("ensure_ascii")?;
    named.assert_all_used()?;
    let mut json = Vec::new();
    let written = match indent.map(|indent| " ".repeat(indent)) {
        Some(spaces) => {
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut json, formatter))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut json, Spaced)),
    };
    written.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    Ok(String::from_utf8(json).unwrap_or_default())
}

/// The date and time that the conversation is said to be at.
fn strftime_now(state: &State<'_, '_>, format: String) -> Result<String, Error> {
    let now = state.lookup("now").and_then(|now| i64::try_from(now).ok()).unwrap_or_default();
    let wrong = || Error::new(ErrorKind::InvalidOperation, format!("{format:?} is no format of a date"));
    let date = DateTime::from_timestamp(now, 0).ok_or_else(wrong)?;
    let mut text = String::new();
    write!(text, "{}", date.format(&format)).map_err(|_| wrong())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn message(role: &str, content: &str) -> Message {
        Message { role: role.to_owned(), content: content.to_owned() }
    }

    fn conversation() -> Vec<Message> {
        vec![
            message("system", " Be brief. "),
            message("user", "Hello"),
            message("assistant", "Hi"),
            message("user", "Why?"),
        ]
    }

    fn compiled(source: &str) -> Result<ChatTemplate, ChatError> {
        let (bos_token, eos_token) = ("<s>".to_owned(), "</s>".to_owned());
        ChatTemplate::new(ChatSource { template: Some(source.to_owned()), bos_token, eos_token })
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
        let template = compiled(source).unwrap();
        let prompt = template.render(&conversation(), 0).unwrap();
        assert_eq!(prompt, "<s><<Be brief.>>\n[USER] Hello</s>\n[ASSISTANT] Hi</s>\n[USER] Why?\n[ASSISTANT]");
        let error = template.render(&conversation()[2..], 0).unwrap_err();
        assert!(matches!(&error, ChatError::Refused(why) if why == "roles must alternate"), "{error}");
        assert!(matches!(compiled("{% if %}"), Err(ChatError::Template(_))));
    }

    /// What CPython 3.12 and Jinja 3.1 print, `tojson` being transformers'.
    #[test]
    fn values_are_printed_as_python_prints_them() {
        for (source, expected) in [
            ("{{ ['a', \"it's\", 1, 2.5, true, none] }}", "['a', \"it's\", 1, 2.5, True, None]"),
            ("{{ {'k': ['v'], 'n': {}} }}", "{'k': ['v'], 'n': {}}"),
            ("{{ ['a\\nb', '\\\\'] }}{{ missing }}|{{ 'plain' }}", "['a\\nb', '\\\\']|plain"),
            ("{{ messages[1] | tojson }}", "{\"role\": \"user\", \"content\": \"Hello\"}"),
            ("{{ {'a': [1, '<é>']} | tojson }}", "{\"a\": [1, \"<é>\"]}"),
            ("{{ {'a': [1]} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ]\n}"),
            ("{{ strftime_now('%d %b %Y') }}", "23 Nov 2026"),
            ("{% if tools %}tools{% else %}none{% endif %}", "none"),
        ] {
            assert_eq!(compiled(source).unwrap().render(&conversation(), 1_795_392_000).unwrap(), expected, "{source}");
        }
        assert!(matches!(compiled("{{ strftime_now('%!') }}").unwrap().render(&[], 0), Err(ChatError::Refused(_))));
    }

    #[test]
    fn marks_for_training_say_nothing() {
        let source = "a\n{%- generation -%}\n  b\n{%- endgeneration %}\n{% generation %}c{% endgeneration %}";
        assert_eq!(compiled(source).unwrap().render(&[], 0).unwrap(), "abc");
    }

    /// Special tokens in a message stay text; the template's own do not, and its first token is not written twice.
    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn a_message_cannot_end_itself() {
        let tokenizer = Tokenizer::from_bytes(include_bytes!("../../pair/tokenizer.json")).unwrap();
        let special = tokenizer.special_tokens();
        let end = special.first().expect("the built-in tokenizer has special tokens");
        let id = tokenizer.token_id(end).unwrap();
        let source = format!("{{% for message in messages %}}{{{{ message.content }}}}{end}{{% endfor %}}");
        let chat = ChatTemplate::new(ChatSource { template: Some(source), ..ChatSource::default() }).unwrap();
        let ids = chat.encode(&tokenizer, None, &[message("user", &format!("a{end}b{CUT}"))], 0).unwrap();
        assert_eq!(ids.iter().filter(|&&other| other == id).count(), 1, "the template's own: {ids:?}");
        let text: String = ids.iter().filter(|&&other| other != id).map(|&id| tokenizer.decode(&[id])).collect();
        assert_eq!(text, format!("a{end}b"));
        let behind_itself =
            ChatTemplate::new(ChatSource { template: Some(end.clone()), ..ChatSource::default() }).unwrap();
        assert_eq!(behind_itself.encode(&tokenizer, Some(id), &[], 0).unwrap(), [id]);
    }
}
