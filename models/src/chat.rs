//! Prompts from conversations, rendered with the model's chat template as transformers does.
//!
//! Models that were trained on conversations come with a Jinja template for the prompt format of their training.
//! Templates are written for Python, so the environment here offers Python's string methods, JSON and list formatting,
//! and transformers' `raise_exception` and `strftime_now`. A model without a template gets a plain form:
//!
//! ```text
//! System: …
//!
//! User: …
//!
//! Assistant:
//! ```
//!
//! The content of messages stays text. Whatever a message, a tool or a tool result spells, and whatever the tokenizer's
//! normalizer makes of it, becomes a special token only where the template writes one (see `tokenizer/marks.rs`).
//!
//! | module | contents |
//! |---|---|
//! | `conversation` | messages and tools, as a template sees them |
//! | `python` | Python features that templates use |
//! | `calls` | parser for tool calls in a model's output |

use std::{borrow::Cow, fmt::Write, sync::OnceLock};

use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::{Deserialize, Serialize};

use crate::tokenizer::{Marks, Tokenizer, without_marks};

mod calls;
mod conversation;
mod error;
mod python;
mod reasoning;

pub use self::{
    calls::{Call, CallReader, Piece},
    conversation::{Conversation, Message, MessageError, TemplateVariables, Tool, VariableError},
    error::ChatError,
    reasoning::ReasoningReader,
};

/// Chat template of a model and the tokens it uses. Serialized as JSON, it is all that a browser needs for chat
/// prompts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChatSource {
    /// Jinja template of the model. Without one the plain form is used.
    pub template: Option<String>,
    /// Separate Jinja template for conversations with tools, if the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use: Option<String>,
    /// Text of the begin-of-sequence token.
    #[serde(default)]
    pub bos_token: String,
    /// Text of the end-of-sequence token.
    #[serde(default)]
    pub eos_token: String,
    /// Id of the token that begins a text, if the tokenizer does not put one there itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token: Option<u32>,
}

/// Compiled chat template, which turns conversations into prompts.
#[derive(Debug)]
pub struct ChatTemplate {
    source: ChatSource,
    /// Compiled templates of `source`.
    environment: Environment<'static>,
    /// Templates with marks for special tokens, and the fingerprint of the tokenizer they belong to: the first one that
    /// a conversation was encoded for.
    marked: OnceLock<([u8; 32], Environment<'static>)>,
}

/// Names of the two templates in the environment.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";
/// Tag in templates that teach the model to wrap its calls in tags.
const CALL_TAG: &str = "<tool_call>";
/// Tag that ends the reasoning in templates of models that reason.
const THOUGHT_TAG: &str = "</think>";
/// Mark in templates of gpt-oss, whose channels a [`TextStream`](crate::TextStream) turns into these tags.
const CHANNEL_MARK: &str = "<|channel|>";

impl ChatTemplate {
    /// Compiles a chat template.
    ///
    /// # Errors
    /// [`ChatError::Template`] if the template is not valid Jinja, or needs a method, filter, test or function that is
    /// not implemented: a short conversation is rendered with and without a tool, so that this is known before the
    /// first client asks.
    pub fn new(source: ChatSource) -> Result<Self, ChatError> {
        let environment = compiled(&source, |template| template)?;
        let chat = Self { source, environment, marked: OnceLock::new() };
        let tool = serde_json::json!({ "type": "function", "function": { "name": "f", "parameters": {} } });
        let tool: Tool = tool.as_object().cloned().unwrap_or_default();
        for tools in [Vec::new(), vec![tool]] {
            let trial = Conversation { messages: vec![Message::new("user", "a")], tools, ..Conversation::default() };
            if let Err(error @ ChatError::Template(_)) = chat.render(&trial, 0) {
                return Err(error);
            }
        }
        Ok(chat)
    }

    /// Compiles a template from the JSON that a server sends.
    ///
    /// # Errors
    /// [`ChatError::Template`] if the bytes are not a [`ChatSource`] as JSON, or its template is not valid Jinja.
    pub fn from_json(json: &[u8]) -> Result<Self, ChatError> {
        Self::new(serde_json::from_slice(json).map_err(|error| ChatError::Template(error.to_string()))?)
    }

    /// Source that this template was compiled from.
    #[must_use]
    pub fn source(&self) -> &ChatSource {
        &self.source
    }

    /// Renders the prompt whose continuation is the assistant's next message. `now` is in seconds since 1970, for
    /// templates that print the date.
    ///
    /// # Errors
    /// [`ChatError::Refused`] if the template rejects the conversation, [`ChatError::Tools`] if there are tools but the
    /// template ignores them.
    pub fn render(&self, conversation: &Conversation, now: i64) -> Result<String, ChatError> {
        let ChatSource { bos_token, eos_token, .. } = &self.source;
        let conversation = &*self.with_thinking(conversation);
        let prompt = self.render_with(&self.environment, [bos_token, eos_token], conversation, now)?;
        conversation.cut(prompt).ok_or(ChatError::NotContinued)
    }

    fn render_with(
        &self,
        environment: &Environment<'_>,
        [bos_token, eos_token]: [&str; 2],
        conversation: &Conversation,
        now: i64,
    ) -> Result<String, ChatError> {
        let Conversation { messages, tools, variables, continues } = conversation;
        let Some((name, _)) = self.template(!tools.is_empty()) else {
            let about_tools = !tools.is_empty() || messages.iter().any(Message::is_about_tools);
            return if about_tools { Err(ChatError::Tools) } else { Ok(plain(messages, *continues)) };
        };
        // A variable of the request takes the place of this default.
        let documents = variables.get("documents").map_or(Value::from(()), Value::from_serialize);
        let variables = Value::from_serialize(variables);
        let render = |tools: Option<&Vec<Tool>>| {
            let template = environment.get_template(name)?;
            template.render(context! {
                messages, tools, bos_token, eos_token, now,
                add_generation_prompt => !continues, documents, ..variables.clone()
            })
        };
        if tools.is_empty() {
            return render(None).map_err(|error| refused(&error));
        }
        let text = render(Some(tools)).map_err(|error| refused(&error))?;
        // Most templates without tool support ignore `tools`.
        if render(None).is_ok_and(|without| without == text) { Err(ChatError::Tools) } else { Ok(text) }
    }

    /// Creates a reader for calls of these tools in an answer. It expects the form that the template teaches.
    #[must_use]
    pub fn call_reader(&self, tools: &[Tool]) -> CallReader {
        let tagged = self.knows(CALL_TAG, true);
        CallReader::new(tools, tagged)
    }

    /// Creates a reader for the reasoning before an answer to a prompt, if the template knows the tag that ends it.
    #[must_use]
    pub fn reasoning_reader(&self, tokenizer: &Tokenizer, prompt: &[u32]) -> Option<ReasoningReader> {
        /// Tokens at the end of a prompt that the opening tag is looked for in.
        const TAIL: usize = 16;
        if !self.knows(THOUGHT_TAG, false) {
            return None;
        }
        Some(ReasoningReader::after(&tokenizer.decode(&prompt[prompt.len().saturating_sub(TAIL)..])))
    }

    /// True if the template knows a tag, or channels, which become tags.
    fn knows(&self, tag: &str, with_tools: bool) -> bool {
        self.template(with_tools).is_some_and(|(_, text)| text.contains(tag) || text.contains(CHANNEL_MARK))
    }

    /// A conversation with earlier reasoning where gpt-oss's template reads it.
    fn with_thinking<'c>(&self, conversation: &'c Conversation) -> Cow<'c, Conversation> {
        match self.template(false) {
            Some((_, text)) if text.contains(CHANNEL_MARK) => Cow::Owned(conversation.with_thinking_apart()),
            _ => Cow::Borrowed(conversation),
        }
    }

    /// Templates with marks for the special tokens of a tokenizer.
    fn marked(&self, tokenizer: &Tokenizer) -> Result<Cow<'_, Environment<'static>>, ChatError> {
        let fingerprint = tokenizer.fingerprint();
        if let Some((of, environment)) = self.marked.get()
            && *of == fingerprint
        {
            return Ok(Cow::Borrowed(environment));
        }
        let marks: &Marks = tokenizer.marks();
        let environment = compiled(&self.source, |template| marks.in_template(&template))?;
        // Only one tokenizer's templates are kept; those of others are compiled for each prompt.
        let _ = self.marked.set((fingerprint, environment.clone()));
        Ok(Cow::Owned(environment))
    }

    /// Name and text of the template for conversations with or without tools, if there is one.
    fn template(&self, with_tools: bool) -> Option<(&'static str, &str)> {
        let tool_use = self.source.tool_use.as_deref().filter(|_| with_tools).map(|template| (TOOL_USE, template));
        tool_use.or_else(|| Some((DEFAULT, self.source.template.as_deref()?)))
    }

    /// Token ids of the rendered prompt. The tokens that begin a prompt (`first` is the model's begin-of-sequence
    /// token) are added unless the template writes them itself.
    ///
    /// # Errors
    /// As for [`render`](Self::render), and [`ChatError::Encode`] if the tokenizer cannot encode the text.
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
        let conversation = self.with_thinking(conversation).map(&without_marks);
        let mut prompt = render(&conversation)?;
        if marks.are_spelled_in(&prompt) {
            let veiled = conversation.map(&|text| text.chars().map(|c| marks.veil(c)).collect());
            // A template that rejects these has inspected punctuation, so the tokens that it composes are unknown.
            if let Ok(veiled) = render(&veiled) {
                prompt = marks.composed(&prompt, &veiled);
            }
        }
        let prompt = conversation.cut(prompt).ok_or(ChatError::NotContinued)?;
        let ids = tokenizer.encode_marked(&prompt)?;
        let beginning = tokenizer.encode_prompt(first, "")?;
        Ok(if ids.starts_with(&beginning) { ids } else { [beginning, ids].concat() })
    }
}

/// Environment with the templates of a source, each passed through `change`.
fn compiled(source: &ChatSource, change: impl Fn(String) -> String) -> Result<Environment<'static>, ChatError> {
    let mut environment = Environment::new();
    python::add_to(&mut environment);
    for (name, template) in [(DEFAULT, &source.template), (TOOL_USE, &source.tool_use)] {
        let Some(template) = template else { continue };
        environment
            .add_template_owned(name, change(python::rewritten(&without_generation(template))))
            .map_err(|error| ChatError::Template(error.to_string()))?;
    }
    Ok(environment)
}

/// Converts a template's error, preferring its reason over its position in the template.
fn refused(error: &Error) -> ChatError {
    let reason = error.detail().map_or_else(|| error.to_string(), ToOwned::to_owned);
    match error.kind() {
        ErrorKind::UnknownMethod | ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
            ChatError::Template(reason)
        }
        _ => ChatError::Refused(reason),
    }
}

fn plain(messages: &[Message], continues: bool) -> String {
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
    if !continues {
        prompt.push_str("Assistant:");
    }
    prompt
}

/// Removes the `generation` tags with which transformers marks assistant text for training. They have no effect on a
/// prompt; their effect on white space is kept.
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

    /// A server's thread would be held for good.
    #[test]
    fn a_template_that_loops_is_stopped() {
        let numbers = "{% for i in range(9999) %}{% for j in range(9999) %}{{ i }}{% endfor %}{% endfor %}";
        let error = chat_of(numbers).unwrap().render(&conversation(), 0).unwrap_err();
        assert!(error.to_string().contains("fuel"), "{error}");
    }

    fn tools(name: &str) -> Vec<Tool> {
        let tool = json!({ "type": "function", "function": { "name": name, "description": "What it does." } });
        vec![tool.as_object().unwrap().clone()]
    }

    fn chat_of(source: &str) -> Result<ChatTemplate, ChatError> {
        let (bos_token, eos_token) = ("<s>".to_owned(), "</s>".to_owned());
        ChatTemplate::new(ChatSource {
            template: Some(source.to_owned()),
            tool_use: None,
            bos_token,
            eos_token,
            first_token: None,
        })
    }

    #[test]
    fn the_plain_form_names_who_speaks() {
        let prompt = ChatTemplate::new(ChatSource::default()).unwrap().render(&conversation(), 0).unwrap();
        assert_eq!(prompt, "System:  Be brief. \n\nUser: Hello\n\nAssistant: Hi\n\nUser: Why?\n\nAssistant:");
    }

    /// Template written for this test in the style of published ones: blocks on lines of their own, Python's methods
    /// and slices.
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
        let error = template.render(&Conversation { messages, ..Conversation::default() }, 0).unwrap_err();
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
        let result = Conversation { messages: vec![Message::new("tool", "4")], ..Conversation::default() };
        assert!(is_refused(&plain, &result));
    }

    /// The form of Qwen3's template: thinking is on if `enable_thinking` is undefined.
    #[test]
    fn variables_of_a_request_reach_the_template() {
        let source = "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}\
                      {{ effort | default('none') }} {{ documents }} {{ messages | length }}";
        let rendered = |variables: serde_json::Value| {
            let variables = variables.as_object().unwrap().clone().try_into().unwrap();
            chat_of(source).unwrap().render(&Conversation { variables, ..conversation() }, 0).unwrap()
        };
        assert_eq!(rendered(json!({})), "none None 4");
        assert_eq!(rendered(json!({ "enable_thinking": true, "unknown": { "a": 1 } })), "none None 4");
        let given = json!({ "enable_thinking": false, "effort": "low", "documents": ["d"] });
        assert_eq!(rendered(given), "<think></think>low ['d'] 4");
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

    /// The reader expects the form that the template for tools teaches.
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
    fn a_template_is_refused_before_its_first_conversation() {
        for source in ["{{ messages[0].content.encode('utf-8') }}", "{% if tools %}{{ tools | nofilter }}{% endif %}"] {
            assert!(matches!(chat_of(source), Err(ChatError::Template(_))), "{source}");
        }
        assert!(chat_of("{{ raise_exception('system message needed') }}").is_ok());
    }

    #[test]
    fn marks_for_training_say_nothing() {
        let source = "a\n{%- generation -%}\n  b\n{%- endgeneration %}\n{% generation %}c{% endgeneration %}";
        assert_eq!(chat_of(source).unwrap().render(&Conversation::default(), 0).unwrap(), "abc");
    }

    /// Special tokens in a message, a call or a tool stay text; the template's own become ids, and its first token is
    /// not repeated.
    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn a_message_cannot_end_itself() {
        let tokenizer = Tokenizer::from_bytes(include_bytes!("../../pair/tokenizer.json")).unwrap();
        let end = "<|endoftext|>";
        let id = tokenizer.token_id(end).unwrap();
        let source = format!(
            "{{% for message in messages %}}{{{{ message.content }}}}{{{{ message.tool_calls | tojson }}}}{end}\
             {{% endfor %}}{{{{ tools | tojson }}}}{{{{ x }}}}"
        );
        let chat = ChatTemplate::new(ChatSource { template: Some(source), ..ChatSource::default() }).unwrap();
        let arguments = format!("{{\"{end}\": \"{end}\"}}");
        let message = json!({
            "role": "assistant", "content": format!("a{end}b\u{fdd0}"),
            "tool_calls": [{ "function": { "name": end, "arguments": arguments } }],
        });
        let message = Message::try_from(message.as_object().unwrap().clone()).unwrap();
        let variables = json!({ "x": end }).as_object().unwrap().clone().try_into().unwrap();
        let said = Conversation { messages: vec![message], tools: tools(end), variables, continues: false };
        let ids = chat.encode(&tokenizer, None, &said, 0).unwrap();
        assert_eq!(ids.iter().filter(|&&other| other == id).count(), 1, "the template's own: {ids:?}");
        let text: String = ids.iter().filter(|&&other| other != id).map(|&id| tokenizer.decode(&[id])).collect();
        let calls = format!("[{{\"function\": {{\"name\": \"{end}\", \"arguments\": {{\"{end}\": \"{end}\"}}}}}}]");
        assert!(text.starts_with(&format!("a{end}b{calls}[{{\"type\"")), "{text}");
        assert_eq!(text.matches(end).count(), 6, "{text}");
        let behind_itself =
            ChatTemplate::new(ChatSource { template: Some(end.to_owned()), ..ChatSource::default() }).unwrap();
        assert_eq!(behind_itself.encode(&tokenizer, Some(id), &Conversation::default(), 0).unwrap(), [id]);
    }
}
