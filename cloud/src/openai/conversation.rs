//! Reading of conversations: messages, and the tools that the model may call.

use std::collections::BTreeSet;

use outrider_models::{Conversation, Message, TemplateVariables, Tool};
use serde_json::{Map, Value, json};

use super::fields::{Fields, wrong};
use crate::http::{ApiError, sentence};

/// Longest name of a tool, in characters; OpenAI's limit.
const LONGEST_NAME: usize = 64;

/// Reads the messages and tools of a request, and the tools of which the answer has to call one; none if it need not.
pub(super) fn read(fields: &mut Fields) -> Result<(Conversation, Vec<Tool>), ApiError> {
    let messages = messages(fields.take("messages"))?;
    let (tools, forced) = tools_and_forced(fields)?;
    // A forced call is one; without a grammar there may be several.
    let one_or_more = [json!(true), json!(false)];
    let may_be_one = tools.is_empty() || !forced.is_empty();
    fields.neutral("parallel_tool_calls", if may_be_one { &one_or_more } else { &one_or_more[..1] })?;
    // Names of vLLM's.
    let continues = fields.truth("continue_final_message")?;
    fields.neutral("add_generation_prompt", &[json!(!continues)])?;
    Ok((Conversation { messages, tools, variables: variables(fields)?, continues }, forced))
}

/// Reads the tools of which an answer has to call one.
pub(super) fn forced(fields: &mut Fields) -> Result<Vec<Tool>, ApiError> {
    tools_and_forced(fields).map(|(_, forced)| forced)
}

/// Reads the tools, and those of which the answer has to call one.
fn tools_and_forced(fields: &mut Fields) -> Result<(Vec<Tool>, Vec<Tool>), ApiError> {
    let (tools, is_strict) = tools(fields.take("tools"))?;
    let choice = fields.take("tool_choice").unwrap_or_else(|| json!("auto"));
    let forced = match choice.as_str() {
        Some("auto") => Vec::new(),
        Some("none") => return Ok(Default::default()),
        Some("required") => tools.clone(),
        _ => {
            let name = choice.get("function").and_then(|function| function.get("name"));
            let is_named = |tool: &&Tool| name.is_some() && tool.get("function").and_then(|f| f.get("name")) == name;
            tools.iter().find(is_named).cloned().into_iter().collect()
        }
    };
    if forced.is_empty() && choice != "auto" {
        return Err(wrong("tool_choice", "auto, none, required, or a function of tools by its name"));
    }
    if is_strict && forced.is_empty() {
        let text = "tools: strict must be false or absent: only calls that tool_choice forces follow their schema.";
        return Err(ApiError::invalid(text).param("tools").code("unsupported_parameter"));
    }
    Ok((tools, forced))
}

/// Reads `chat_template_kwargs`, and `enable_thinking`, which other servers take beside it.
fn variables(fields: &mut Fields) -> Result<TemplateVariables, ApiError> {
    const NAME: &str = "chat_template_kwargs";
    const THINKING: &str = "enable_thinking";
    let mut variables = match fields.take(NAME) {
        None => Map::new(),
        Some(Value::Object(variables)) => variables,
        Some(_) => return Err(wrong(NAME, "an object")),
    };
    if let Some(thinking) = fields.take(THINKING) {
        if !thinking.is_boolean() {
            return Err(wrong(THINKING, "true or false"));
        }
        if variables.get(THINKING).is_some_and(|other| *other != thinking) {
            return Err(wrong(THINKING, "the same as in chat_template_kwargs"));
        }
        variables.insert(THINKING.to_owned(), thinking);
    }
    variables.try_into().map_err(|error| ApiError::invalid(format!("{NAME}: {error}.")).param(NAME))
}

fn messages(value: Option<Value>) -> Result<Vec<Message>, ApiError> {
    let Some(Value::Array(list)) = value else { return Err(wrong("messages", "a list of messages")) };
    if list.is_empty() {
        return Err(wrong("messages", "a list of at least one message"));
    }
    list.into_iter().map(message).collect()
}

fn refuse(what: impl Into<String>) -> ApiError {
    ApiError::invalid(what).param("messages")
}

fn message(value: Value) -> Result<Message, ApiError> {
    let Value::Object(map) = value else { return Err(wrong("messages", "a list of objects")) };
    let mut fields = Fields { map, within: "messages: " };
    let role = match fields.text("role")?.as_deref() {
        // OpenAI's newer name of the system role.
        Some("system" | "developer") => "system",
        Some("user") => "user",
        Some("assistant") => "assistant",
        Some("tool") => "tool",
        role => {
            let role = role.unwrap_or("missing");
            return Err(refuse(format!("The role of a message is system, user, assistant or tool, not {role:?}.")));
        }
    };
    let mut message = Map::from_iter([("role".to_owned(), json!(role))]);
    let mut put = |name: &str, value: Value| message.insert(name.to_owned(), value);
    // An assistant message with tool calls only may have null as its content.
    let refusal = fields.take("refusal").filter(|refusal| role == "assistant" && refusal.is_string());
    // A model that refused has said so in place of the content.
    let content = match (fields.map.shift_remove("content"), refusal) {
        (None | Some(Value::Null), Some(refusal)) => Some(refusal),
        (content, _) => content,
    };
    let says_nothing = content.as_ref().is_none_or(Value::is_null);
    if let Some(content) = content {
        put("content", content);
    }
    let mut calls = Vec::new();
    if role == "assistant" {
        calls = match fields.take("tool_calls") {
            None => Vec::new(),
            Some(Value::Array(calls)) => calls.into_iter().map(call).collect::<Result<_, _>>()?,
            Some(_) => return Err(refuse("tool_calls must be a list of calls.")),
        };
    }
    if role == "assistant" {
        // Templates of models that reason may show it.
        fields.text("reasoning_content")?.map(|reasoning| put("reasoning_content", json!(reasoning)));
    }
    // Name of the speaker, which templates may show.
    fields.text("name")?.map(|name| put("name", json!(name)));
    if role == "tool" {
        let id = fields.text("tool_call_id")?;
        put("tool_call_id", json!(id.ok_or_else(|| refuse("A message of a tool has the tool_call_id of its call."))?));
    }
    if says_nothing && calls.is_empty() {
        return Err(refuse("The content of a message must be text."));
    }
    if !calls.is_empty() {
        put("tool_calls", Value::Array(calls));
    }
    // Fields of an assistant message that clients send back; the model does not see them.
    for name in ["annotations", "audio"] {
        fields.take(name);
    }
    fields.finish()?;
    Message::try_from(message).map_err(|error| refuse(sentence(&error) + "."))
}

/// Converts a tool call of an earlier answer, with its keys in the order in which models see them.
fn call(value: Value) -> Result<Value, ApiError> {
    let wrong = || {
        let form = r#"{"id", "type": "function", "function": {"name", "arguments"}}"#;
        refuse(format!("Each of tool_calls must be {form}, all of them strings."))
    };
    let (Some(id), Some(function)) = (value["id"].as_str(), value["function"].as_object()) else { return Err(wrong()) };
    let text = |name: &str| function.get(name).and_then(Value::as_str);
    match (value["type"].as_str().unwrap_or("function"), text("name"), text("arguments")) {
        ("function", Some(name), Some(arguments)) => {
            // An empty text means no arguments, as other servers read it.
            let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
            Ok(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }))
        }
        _ => Err(wrong()),
    }
}

/// Reads tools, and whether one of them is strict.
fn tools(value: Option<Value>) -> Result<(Vec<Tool>, bool), ApiError> {
    let list = match value {
        None => return Ok(Default::default()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(wrong("tools", "a list of functions")),
    };
    let mut names = BTreeSet::new();
    let tools: Vec<(Tool, bool)> = list.into_iter().map(|value| tool(value, &mut names)).collect::<Result<_, _>>()?;
    let is_strict = tools.iter().any(|(_, strict)| *strict);
    Ok((tools.into_iter().map(|(tool, _)| tool).collect(), is_strict))
}

/// Validates a tool and returns it without the field `strict`, whose value comes second.
fn tool(value: Value, names: &mut BTreeSet<String>) -> Result<(Tool, bool), ApiError> {
    let refuse = |what: &str| ApiError::invalid(what).param("tools");
    let Value::Object(mut tool) = value else { return Err(wrong("tools", "a list of objects")) };
    let is_function = tool.get("type").and_then(Value::as_str) == Some("function");
    let function = tool.get_mut("function").and_then(Value::as_object_mut).filter(|_| is_function);
    let Some(function) = function else {
        return Err(refuse(r#"Each of tools must be {"type": "function", "function": {"name", …}}."#));
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(is_letter) {
        return Err(refuse("The name of a tool has 1 to 64 letters, digits, dots, - and _."));
    }
    if !names.insert(name.to_owned()) {
        return Err(refuse("Two tools have the same name."));
    }
    if !matches!(function.get("description"), None | Some(Value::Null | Value::String(_))) {
        return Err(refuse("The description of a tool must be a string."));
    }
    if !matches!(function.get("parameters"), None | Some(Value::Null | Value::Object(_))) {
        return Err(refuse("The parameters of a tool must be a JSON schema."));
    }
    let strict = match function.shift_remove("strict") {
        None | Some(Value::Null) => false,
        Some(strict) => strict.as_bool().ok_or_else(|| refuse("strict of a tool must be true or false."))?,
    };
    Ok((tool, strict))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(request: Value) -> Result<Conversation, Value> {
        parse_forced(request).map(|(conversation, _)| conversation)
    }

    fn parse_forced(request: Value) -> Result<(Conversation, Vec<Tool>), Value> {
        let mut fields = Fields::parse(request.to_string().as_bytes()).unwrap();
        let read = read(&mut fields).and_then(|read| fields.finish().map(|()| read));
        read.map_err(|error| error.body()["error"].clone())
    }

    fn weather() -> Value {
        json!({ "type": "function", "function": { "parameters": { "type": "object" }, "name": "weather" } })
    }

    fn call(arguments: &str) -> Value {
        json!({ "function": { "arguments": arguments, "name": "weather" }, "id": "1", "type": "function", "index": 0 })
    }

    #[test]
    fn a_call_can_be_forced() {
        let other = json!({ "type": "function", "function": { "name": "other" } });
        let forced = |choice: Value| {
            let tools = [weather(), other.clone()];
            let messages = json!([{ "role": "user", "content": "a" }]);
            let (conversation, forced) = parse_forced(
                json!({ "messages": messages, "tools": tools, "tool_choice": choice, "parallel_tool_calls": false }),
            )
            .unwrap();
            assert_eq!(conversation.tools.len(), 2, "the template shows all");
            forced.iter().map(|tool| tool.get("function").unwrap()["name"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(forced(json!("required")), ["weather", "other"]);
        let mut strict = weather();
        strict["function"]["strict"] = json!(true);
        let request = |choice: &str| {
            let messages = [json!({ "role": "user", "content": "a" })];
            parse_forced(json!({ "messages": messages, "tools": [strict], "tool_choice": choice }))
        };
        assert!(request("required").is_ok() && request("none").is_ok());
        assert_eq!(request("auto").unwrap_err()["param"], "tools");
        assert_eq!(forced(json!({ "type": "function", "function": { "name": "other" } })), ["other"]);
    }

    #[test]
    fn conversations_are_text_by_role() {
        let read = parse(json!({ "messages": [
            { "content": "Be brief.", "role": "developer" },
            { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
            { "role": "user", "name": "Ada", "content": "c" },
            { "role": "assistant", "content": "c", "refusal": null, "tool_calls": [], "function_call": null },
            { "role": "assistant", "content": [{ "type": "text", "text": "a" },
                { "type": "refusal", "refusal": "b" }] },
            { "role": "assistant", "content": null, "refusal": "No." },
            { "role": "assistant", "content": null, "tool_calls": [call("{\"b\": 1, \"a\": 2}"), call("")] },
            { "role": "tool", "tool_call_id": "1", "name": "weather", "content": [{ "type": "text", "text": "d" }] },
        ] }));
        let call = |arguments| {
            format!(r#"{{"id":"1","type":"function","function":{{"name":"weather","arguments":{arguments}}}}}"#)
        };
        let seen = [
            r#"{"role":"system","content":"Be brief."}"#,
            r#"{"role":"user","content":"ab"}"#,
            r#"{"role":"user","content":"c","name":"Ada"}"#,
            r#"{"role":"assistant","content":"c"}"#,
            r#"{"role":"assistant","content":"ab"}"#,
            r#"{"role":"assistant","content":"No."}"#,
            &format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{},{}]}}"#,
                call(r#"{"b":1,"a":2}"#),
                call("{}")
            ),
            r#"{"role":"tool","content":"d","name":"weather","tool_call_id":"1"}"#,
        ];
        let messages: Vec<String> =
            read.unwrap().messages.iter().map(|message| serde_json::to_string(message).unwrap()).collect();
        assert_eq!(messages, seen);
        let with_calls = |calls: Value| json!([{ "role": "assistant", "content": "", "tool_calls": calls }]);
        for messages in [
            json!([]),
            json!("hello"),
            json!(["hello"]),
            json!([{ "role": "critic", "content": "a" }]),
            json!([{ "role": "user" }]),
            json!([{ "role": "user", "content": 1 }]),
            json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] }]),
            json!([{ "role": "user", "content": [{ "type": "refusal", "refusal": "a" }] }]),
            json!([{ "role": "user", "content": [{ "type": "text", "text": 5 }] }]),
            json!([{ "role": "user", "content": "a", "weight": 1 }]),
            json!([{ "role": "user", "content": "a", "tool_call_id": "1" }]),
            json!([{ "role": "user", "content": "a", "tool_calls": [self::call("{}")] }]),
            json!([{ "role": "assistant", "content": null, "tool_calls": [] }]),
            json!([{ "role": "tool", "content": "a" }]),
            json!([{ "role": "tool", "tool_call_id": "1" }]),
            json!([{ "role": "tool", "tool_call_id": 1, "content": "a" }]),
            with_calls(json!({})),
            with_calls(json!([{}])),
            with_calls(json!(["weather"])),
            with_calls(json!([{ "id": "1", "type": "custom", "function": { "name": "f", "arguments": "" } }])),
            with_calls(json!([{ "id": "1", "type": "function", "function": { "name": "f", "arguments": {} } }])),
            with_calls(json!([{ "id": 1, "type": "function", "function": { "name": "f", "arguments": "" } }])),
        ] {
            let error = parse(json!({ "messages": messages })).unwrap_err();
            let message = error["message"].as_str().unwrap();
            assert!(message.ends_with('.') && error["param"].is_string(), "{error}");
            assert!(!message.contains("not text"), "{error}");
        }
    }

    #[test]
    fn variables_of_the_template_are_an_object_without_reserved_names() {
        let with = |extra: Value| {
            let mut request = json!({ "messages": [{ "role": "user", "content": "a" }] });
            request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            parse(request).map(|read| serde_json::to_value(&read.variables).unwrap())
        };
        for (extra, seen) in [
            (json!({}), json!({})),
            (json!({ "chat_template_kwargs": null, "enable_thinking": null }), json!({})),
            (json!({ "chat_template_kwargs": { "a": [1], "b": "x" } }), json!({ "a": [1], "b": "x" })),
            (json!({ "enable_thinking": false }), json!({ "enable_thinking": false })),
            (
                json!({ "chat_template_kwargs": { "enable_thinking": true }, "enable_thinking": true }),
                json!({ "enable_thinking": true }),
            ),
        ] {
            assert_eq!(with(extra).unwrap(), seen);
        }
        for (extra, param) in [
            (json!({ "chat_template_kwargs": "a" }), "chat_template_kwargs"),
            (json!({ "chat_template_kwargs": [] }), "chat_template_kwargs"),
            (json!({ "chat_template_kwargs": { "messages": [] } }), "chat_template_kwargs"),
            (json!({ "chat_template_kwargs": { "bos_token": "<s>" } }), "chat_template_kwargs"),
            (json!({ "enable_thinking": "no" }), "enable_thinking"),
            (
                json!({ "chat_template_kwargs": { "enable_thinking": true }, "enable_thinking": false }),
                "enable_thinking",
            ),
        ] {
            let error = with(extra).unwrap_err();
            assert_eq!(error["param"], json!(param), "{error}");
            assert!(error["message"].as_str().unwrap().contains(param.split('_').next().unwrap()), "{error}");
        }
    }

    #[test]
    fn tools_are_shown_as_they_were_given_unless_none_may_be_called() {
        let with = |extra: Value| {
            let mut request = json!({ "messages": [{ "role": "user", "content": "a" }] });
            request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            parse(request).map(|read| serde_json::to_string(&read.tools).unwrap())
        };
        let strict = |strict: Value| {
            let mut tool = weather();
            tool["function"]["strict"] = strict;
            tool
        };
        let shown = json!([weather()]).to_string();
        for extra in [
            json!({ "tools": [weather()] }),
            json!({ "tools": [strict(json!(false))], "tool_choice": "auto", "parallel_tool_calls": true }),
        ] {
            assert_eq!(with(extra).unwrap(), shown);
        }
        for extra in [
            json!({ "tools": [] }),
            json!({ "tools": null, "tool_choice": "auto", "parallel_tool_calls": false }),
            json!({ "tools": [weather()], "tool_choice": "none", "parallel_tool_calls": false }),
        ] {
            assert_eq!(with(extra).unwrap(), "[]");
        }
        let tool = |function: Value| json!({ "tools": [{ "type": "function", "function": function }] });
        for (extra, param) in [
            (json!({ "tools": {} }), "tools"),
            (json!({ "tools": ["weather"] }), "tools"),
            (json!({ "tools": [{ "function": { "name": "f" } }] }), "tools"),
            (json!({ "tools": [{ "type": "web_search" }] }), "tools"),
            (json!({ "tools": [{ "type": "function", "function": "f" }] }), "tools"),
            (json!({ "tools": [weather(), weather()] }), "tools"),
            (json!({ "tools": [strict(json!(true))] }), "tools"),
            (tool(json!({})), "tools"),
            (tool(json!({ "name": "what is it" })), "tools"),
            (tool(json!({ "name": "f".repeat(65) })), "tools"),
            (tool(json!({ "name": "f", "description": 1 })), "tools"),
            (tool(json!({ "name": "f", "parameters": [] })), "tools"),
            (json!({ "tools": [], "tool_choice": "required" }), "tool_choice"),
            (json!({ "tools": [weather()], "tool_choice": "sometimes" }), "tool_choice"),
            (json!({ "tool_choice": { "type": "function", "function": { "name": "weather" } } }), "tool_choice"),
            (json!({ "tools": [weather()], "parallel_tool_calls": false }), "parallel_tool_calls"),
        ] {
            let error = with(extra.clone()).unwrap_err();
            assert_eq!(error["param"], param, "{extra} {error}");
        }
    }
}
