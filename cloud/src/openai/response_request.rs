//! Requests of the Responses API, for text and calls of functions, read as those of a chat. Nothing is stored: a
//! conversation is sent whole.

use serde_json::{Map, Value, json};

use super::fields::{Fields, wrong};
use crate::http::ApiError;

/// Fields of a request that its response repeats, or their defaults.
pub(super) fn repeated(fields: &Fields) -> Value {
    let defaults = [("tools", json!([])), ("tool_choice", json!("auto")), ("parallel_tool_calls", json!(true))];
    let given = |name| fields.map.get(name).filter(|value| !value.is_null()).cloned();
    defaults.into_iter().map(|(name, default)| (name.to_owned(), given(name).unwrap_or(default))).collect()
}

/// Converts a request to that of a chat.
pub(super) fn as_chat(mut fields: Fields) -> Result<Fields, ApiError> {
    // Names that a chat has in place of others here.
    const OF_CHATS: [&str; 6] = ["messages", "n", "response_format", "max_tokens", "max_completion_tokens", "logprobs"];
    if let Some(name) = OF_CHATS.into_iter().find(|name| fields.take(name).is_some()) {
        let text = format!("{name} is not supported here.");
        return Err(ApiError::invalid(text).param(name).code("unsupported_parameter"));
    }
    let mut messages = Vec::new();
    if let Some(instructions) = fields.text("instructions")? {
        messages.push(json!({ "role": "system", "content": instructions }));
    }
    match fields.take("input") {
        Some(Value::String(text)) => messages.push(json!({ "role": "user", "content": text })),
        Some(Value::Array(items)) if !items.is_empty() => {
            items.into_iter().try_for_each(|item| add_item(item, &mut messages))?;
        }
        _ => return Err(wrong("input", "a text, or a list of messages and calls")),
    }
    // Values that keep nothing and cut nothing.
    for (name, neutral) in [
        ("background", json!(false)),
        ("truncation", json!("disabled")),
        ("include", json!([])),
        ("top_logprobs", json!(0)),
    ] {
        fields.neutral(name, &[neutral])?;
    }
    if let Some(reasoning) = fields.take("reasoning") {
        let Value::Object(map) = reasoning else { return Err(wrong("reasoning", "an object")) };
        Fields { map, within: "reasoning." }.finish()?;
    }
    let mut chat = Map::from_iter([("messages".to_owned(), Value::Array(messages))]);
    let mut put = |name: &str, value: Value| chat.insert(name.to_owned(), value);
    if let Some(most) = fields.integer("max_output_tokens", 1..=u32::MAX.into())? {
        put("max_completion_tokens", json!(most));
    }
    if let Some(text) = fields.take("text") {
        let Value::Object(text) = text else { return Err(wrong("text", "an object with a format")) };
        let mut text = Fields { map: text, within: "text." };
        if let Some(format) = text.take("format") {
            let Value::Object(mut format) = format else { return Err(wrong("text.format", "an object with a type")) };
            let kind = format.remove("type").unwrap_or_default();
            let is_schema = kind == "json_schema";
            let has_schema = format.get("schema").is_some_and(|schema| schema.is_object() || schema.is_boolean());
            if !(kind == "text" || kind == "json_object" || is_schema && has_schema) {
                let forms =
                    r#"{"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "name": …, "schema": …}"#;
                return Err(wrong("text.format", forms));
            }
            let mut form = Map::from_iter([("type".to_owned(), kind)]);
            if is_schema {
                form.insert("json_schema".to_owned(), Value::Object(format));
            }
            put("response_format", Value::Object(form));
        }
        text.finish()?;
    }
    if let Some(tools) = fields.take("tools") {
        let Value::Array(tools) = tools else { return Err(wrong("tools", "a list of functions")) };
        if !tools.iter().all(|tool| tool["type"] == "function" && tool["name"].is_string()) {
            return Err(ApiError::invalid(r#"Each of tools must be {"type": "function", "name", …}."#).param("tools"));
        }
        put("tools", tools.into_iter().map(nested).collect());
    }
    if let Some(choice) = fields.take("tool_choice") {
        put("tool_choice", if choice.is_object() { nested(choice) } else { choice });
    }
    chat.extend(fields.map);
    Ok(Fields { map: chat, within: "" })
}

/// Moves the fields of a function, which stand beside its type here, into an object of their own.
fn nested(value: Value) -> Value {
    let Value::Object(mut function) = value else { return value };
    let kind = function.remove("type").unwrap_or_default();
    json!({ "type": kind, "function": function })
}

/// Adds an item of the input to the messages.
fn add_item(item: Value, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    let refused = || wrong("input", "a text, or a list of messages, function_call and function_call_output items");
    let Value::Object(mut item) = item else { return Err(refused()) };
    match item.get("type").and_then(Value::as_str).unwrap_or("message") {
        "message" => {
            let mut message = Map::new();
            message.insert("role".to_owned(), item.remove("role").unwrap_or_default());
            message.insert("content".to_owned(), texts(item.remove("content")).ok_or_else(refused)?);
            messages.push(Value::Object(message));
        }
        "function_call" => {
            let id = item.remove("call_id").unwrap_or_default();
            let function = json!({ "name": item.remove("name"), "arguments": item.remove("arguments") });
            let call = json!({ "id": id, "type": "function", "function": function });
            // Calls of one answer are of one message.
            let before = messages.last_mut().filter(|last| last["role"] == "assistant");
            match before.and_then(Value::as_object_mut) {
                Some(last) => match last.entry("tool_calls").or_insert_with(|| json!([])) {
                    Value::Array(calls) => calls.push(call),
                    _ => return Err(refused()),
                },
                None => messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] })),
            }
        }
        "function_call_output" => messages.push(json!({
            "role": "tool", "tool_call_id": item.remove("call_id"),
            "content": texts(item.remove("output")).ok_or_else(refused)?,
        })),
        // Templates leave the reasoning of earlier answers out.
        "reasoning" => {}
        _ => return Err(refused()),
    }
    Ok(())
}

/// The content of a message as a chat has it; `None` if a part of it is no text.
fn texts(content: Option<Value>) -> Option<Value> {
    match content {
        Some(Value::Array(parts)) => parts.into_iter().map(part).collect(),
        content => Some(content.unwrap_or_default()),
    }
}

/// A part of a message's content as a chat has it; `None` if it is no text.
fn part(part: Value) -> Option<Value> {
    match part.get("type").and_then(Value::as_str)? {
        "input_text" | "output_text" | "text" => Some(json!({ "type": "text", "text": part["text"] })),
        "refusal" => Some(part),
        _ => None,
    }
}
