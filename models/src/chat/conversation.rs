//! Conversations: messages, and the tools that the model may call.
//!
//! A message is a JSON object that the template sees unchanged: absent keys are undefined, and keys keep their order.
//! Two forms that clients of OpenAI's API send are normalized, as other servers do: a content of text parts becomes one
//! string, and call arguments that are the text of a JSON object become that object.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Tool that a model may call, as JSON: `{"type": "function", "function": {"name", "description", "parameters"}}`,
/// where `parameters` is a JSON schema. Templates see it unchanged.
pub type Tool = Map<String, Value>;

/// Conversation whose next message is the assistant's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conversation {
    /// Messages so far, oldest first.
    pub messages: Vec<Message>,
    /// Tools that the assistant may call. If empty, the template's `tools` is none.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// Further variables of the template, such as `enable_thinking`.
    #[serde(default, rename = "chat_template_kwargs", skip_serializing_if = "TemplateVariables::is_empty")]
    pub variables: TemplateVariables,
    /// True if the answer goes on from the last message, which is the assistant's, instead of beginning another.
    #[serde(default, rename = "continue_final_message", skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
}

/// Further variables of a chat template, by name. transformers calls them `chat_template_kwargs`. A template that does
/// not read a variable ignores it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct TemplateVariables(Map<String, Value>);

/// Names of variables that the rest of a request determines.
const RESERVED: [&str; 6] = ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "now"];

/// Reasons to reject an object as [`TemplateVariables`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// A name that the rest of the request determines.
    #[error("the template variable {name} cannot be set: it follows from the rest of the request; leave it out")]
    Reserved {
        /// Name of the variable.
        name: String,
    },
}

impl TemplateVariables {
    /// Returns whether there are no variables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Value of a variable, if it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl TryFrom<Map<String, Value>> for TemplateVariables {
    type Error = VariableError;

    fn try_from(variables: Map<String, Value>) -> Result<Self, VariableError> {
        match RESERVED.iter().find(|&&name| variables.contains_key(name)) {
            Some(&name) => Err(VariableError::Reserved { name: name.to_owned() }),
            None => Ok(Self(variables)),
        }
    }
}

impl From<TemplateVariables> for Map<String, Value> {
    fn from(variables: TemplateVariables) -> Self {
        variables.0
    }
}

/// One message of a conversation: its `role`, usually a `content`, and other keys that templates read, such as the
/// assistant's `tool_calls`, or `tool_call_id` and `name` of a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct Message {
    /// Keys of the message. `role` is a string. `content` is a string, null or absent. Each entry of `tool_calls` is an
    /// object.
    fields: Map<String, Value>,
}

/// Reasons to reject an object as a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The `role` is missing or not a string.
    #[error("a message must have a role")]
    Role,
    /// The `content` is neither a string, null nor a list.
    #[error("the content of a message must be text")]
    Content,
    /// A part of the content is not text. Holds the part's type.
    #[error("a message can hold text only, not {0}")]
    Part(String),
    /// The text of a part is missing or not a string. Holds the part's type.
    #[error("a part of the type {0:?} must have its text in {0:?}")]
    PartText(String),
    /// The `tool_calls` are not a list of objects.
    #[error("tool_calls must be a list of objects")]
    Calls,
}

impl Message {
    /// Creates a message with a role and a text.
    #[must_use]
    pub fn new(role: &str, content: &str) -> Self {
        let fields = [("role", role), ("content", content)];
        Self { fields: fields.into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect() }
    }

    /// Role of the author: usually `system`, `user`, `assistant` or `tool`.
    #[must_use]
    pub fn role(&self) -> &str {
        self.fields.get("role").and_then(Value::as_str).unwrap_or_default()
    }

    /// Content of the message, if it is a string.
    #[must_use]
    pub fn content(&self) -> Option<&str> {
        self.fields.get("content").and_then(Value::as_str)
    }

    /// Returns the message with reasoning between tags at its beginning in `thinking` instead, as gpt-oss's template
    /// reads it.
    fn with_thinking_apart(&self) -> Self {
        let mut message = self.clone();
        let tagged = self.content().and_then(|content| content.trim_start().strip_prefix("<think>"));
        if self.role() == "assistant"
            && !self.fields.contains_key("thinking")
            && let Some((thinking, rest)) = tagged.and_then(|text| text.split_once("</think>"))
        {
            message.fields.insert("content".to_owned(), json!(rest.trim_start()));
            message.fields.insert("thinking".to_owned(), json!(thinking.trim()));
        }
        message
    }

    /// Returns whether the message calls tools or is the result of a tool.
    #[must_use]
    pub fn is_about_tools(&self) -> bool {
        let calls = self.fields.get("tool_calls").and_then(Value::as_array);
        self.role() == "tool" || calls.is_some_and(|calls| !calls.is_empty())
    }
}

impl TryFrom<Map<String, Value>> for Message {
    type Error = MessageError;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self, MessageError> {
        let role = fields.get("role").and_then(Value::as_str).ok_or(MessageError::Role)?;
        let may_refuse = role == "assistant";
        match fields.get_mut("content") {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(content) => *content = Value::String(joined(content, may_refuse)?),
        }
        match fields.get_mut("tool_calls") {
            None | Some(Value::Null) => {}
            Some(Value::Array(calls)) => {
                for call in calls {
                    let Value::Object(call) = call else { return Err(MessageError::Calls) };
                    read_arguments(call);
                }
            }
            Some(_) => return Err(MessageError::Calls),
        }
        Ok(Self { fields })
    }
}

impl From<Message> for Map<String, Value> {
    fn from(message: Message) -> Self {
        message.fields
    }
}

/// Concatenated text of parts `{"type": "text", "text"}`, and of refusals, which an assistant may give.
fn joined(content: &Value, may_refuse: bool) -> Result<String, MessageError> {
    let Value::Array(parts) = content else { return Err(MessageError::Content) };
    let text = |part: &Value| match part["type"].as_str().unwrap_or("that") {
        kind if kind == "text" || kind == "refusal" && may_refuse => {
            part[kind].as_str().map(ToOwned::to_owned).ok_or_else(|| MessageError::PartText(kind.to_owned()))
        }
        kind => Err(MessageError::Part(kind.to_owned())),
    };
    parts.iter().map(text).collect()
}

/// Parses arguments that are given as JSON text. Older conversations have the name and arguments in the call itself,
/// not in its `function`.
fn read_arguments(call: &mut Map<String, Value>) {
    let called = match call.get_mut("function") {
        Some(Value::Object(function)) => function,
        _ => call,
    };
    if let Some(arguments) = called.get_mut("arguments")
        && let Value::String(text) = arguments
        && let Ok(object @ Value::Object(_)) = serde_json::from_str(text)
    {
        *arguments = object;
    }
}

impl Conversation {
    /// Returns the conversation with `change` applied to every string, keys included; names of variables stay.
    pub(super) fn map(&self, change: &impl Fn(&str) -> String) -> Self {
        let messages = self.messages.iter().map(|message| Message { fields: map_object(&message.fields, change) });
        let tools = self.tools.iter().map(|tool| map_object(tool, change));
        let variables = self.variables.0.iter().map(|(name, value)| (name.clone(), map_value(value, change)));
        let variables = TemplateVariables(variables.collect());
        Self { messages: messages.collect(), tools: tools.collect(), variables, continues: self.continues }
    }

    /// Returns the conversation with reasoning in messages' `thinking`.
    pub(super) fn with_thinking_apart(&self) -> Self {
        Self { messages: self.messages.iter().map(Message::with_thinking_apart).collect(), ..self.clone() }
    }

    /// Cuts a prompt after the text of the last message, if the answer is to go on from there. Spaces around the text
    /// are kept as far as the template has them, as transformers does with `continue_final_message`. `None` if that
    /// text is not the assistant's, is empty, or is not in the prompt.
    pub(super) fn cut(&self, mut prompt: String) -> Option<String> {
        if !self.continues {
            return Some(prompt);
        }
        let last = self.messages.last().filter(|message| message.role() == "assistant");
        let text = last.and_then(Message::content).unwrap_or_default().trim_start();
        let place = prompt.rfind(text.trim_end()).filter(|_| !text.is_empty())?;
        let length = if prompt[place..].starts_with(text) { text.len() } else { text.trim_end().len() };
        prompt.truncate(place + length);
        Some(prompt)
    }
}

fn map_object(map: &Map<String, Value>, change: &impl Fn(&str) -> String) -> Map<String, Value> {
    map.iter().map(|(key, value)| (change(key), map_value(value, change))).collect()
}

fn map_value(value: &Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(list) => list.iter().map(|value| map_value(value, change)).collect(),
        Value::Object(map) => Value::Object(map_object(map, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn read(json: Value) -> Result<Message, MessageError> {
        Message::try_from(json.as_object().unwrap().clone())
    }

    #[test]
    fn a_message_stays_as_it_was_given() {
        let json = json!({ "name": "n", "role": "tool", "content": null, "tool_call_id": "1", "tool_calls": null });
        let message = read(json.clone()).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), json.to_string(), "in its order, too");
        assert_eq!((message.role(), message.content(), message.is_about_tools()), ("tool", None, true));
        assert!(!Message::new("assistant", "a").is_about_tools());
    }

    #[test]
    fn what_clients_send_otherwise_is_put_as_templates_expect_it() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        assert_eq!(read(json!({ "role": "user", "content": [text("a"), text("b")] })).unwrap().content(), Some("ab"));
        for (given, seen) in [
            (json!("{\"b\": 1, \"a\": 2}"), "{\"b\":1,\"a\":2}"),
            (json!({ "b": 1, "a": 2 }), "{\"b\":1,\"a\":2}"),
            (json!("not JSON"), "\"not JSON\""),
            (json!("[1]"), "\"[1]\""),
        ] {
            let function = json!({ "name": "f", "arguments": given });
            for call in [function.clone(), json!({ "id": "1", "function": function })] {
                let read = read(json!({ "role": "assistant", "tool_calls": [call] })).unwrap();
                let calls = serde_json::to_string(&read.fields["tool_calls"]).unwrap();
                assert!(read.is_about_tools() && calls.contains(&format!("\"arguments\":{seen}")), "{calls}");
            }
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (json, error) in [
            (json!({ "content": "a" }), MessageError::Role),
            (json!({ "role": 1, "content": "a" }), MessageError::Role),
            (json!({ "role": "user", "content": 1 }), MessageError::Content),
            (json!({ "role": "user", "content": ["a"] }), MessageError::Part("that".to_owned())),
            (
                json!({ "role": "user", "content": [{ "type": "image_url" }] }),
                MessageError::Part("image_url".to_owned()),
            ),
            (
                json!({ "role": "user", "content": [{ "type": "refusal", "refusal": "a" }] }),
                MessageError::Part("refusal".to_owned()),
            ),
            (
                json!({ "role": "user", "content": [{ "type": "text", "text": 5 }] }),
                MessageError::PartText("text".to_owned()),
            ),
            (
                json!({ "role": "assistant", "content": [{ "type": "refusal" }] }),
                MessageError::PartText("refusal".to_owned()),
            ),
            (json!({ "role": "assistant", "tool_calls": {} }), MessageError::Calls),
            (json!({ "role": "assistant", "tool_calls": ["f"] }), MessageError::Calls),
        ] {
            assert_eq!(read(json).unwrap_err(), error);
        }
    }

    #[test]
    fn every_text_is_changed() {
        let message = read(json!({
            "role": "assistant", "content": "a", "a": [{ "a": "a" }],
            "tool_calls": [{ "function": { "name": "a", "arguments": "{\"\\u0061\": \"a\"}" } }],
        }));
        let tools = vec![json!({ "description": "a" }).as_object().unwrap().clone()];
        let variables = json!({ "x": ["a"] }).as_object().unwrap().clone().try_into().unwrap();
        let conversation = Conversation { messages: vec![message.unwrap()], tools, variables, continues: false };
        let changed = conversation.map(&|text| text.replace('a', "-"));
        let text = serde_json::to_string(&changed).unwrap();
        assert!(!text.replace("messages", "").replace("chat_template_kwargs", "").contains('a'), "{text}");
        assert_eq!(text.matches("\"-\"").count(), 9, "{text}");
    }

    #[test]
    fn variables_leave_the_requests_own_names_alone() {
        let read = |json: Value| TemplateVariables::try_from(json.as_object().unwrap().clone());
        let variables = read(json!({ "enable_thinking": false, "b": null, "a": [1] })).unwrap();
        assert_eq!(serde_json::to_string(&variables).unwrap(), r#"{"enable_thinking":false,"b":null,"a":[1]}"#);
        for name in ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token"] {
            let error = read(json!({ "a": 1, name: null })).unwrap_err();
            assert_eq!(error, VariableError::Reserved { name: name.to_owned() });
            assert!(error.to_string().contains(name) && error.to_string().ends_with("leave it out"), "{error}");
        }
    }
}
