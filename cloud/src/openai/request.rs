//! Reads requests. Every parameter is read by its name; one that nobody has read is refused.

use std::ops::RangeInclusive;

use outrider_codec::frame::SamplingParameters;
use outrider_models::Message;
use serde_json::{Map, Value, json};

use super::ApiError;

/// The most stop sequences, as with OpenAI.
const MOST_STOPS: usize = 4;
/// The longest stop sequence, in bytes: so much text may wait until it is known to be none.
const LONGEST_STOP: usize = 256;
/// Parameters that say nothing about the text.
const WITHOUT_EFFECT: [&str; 7] =
    ["user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"];

/// A request for `/v1/completions`.
#[derive(Debug, PartialEq)]
pub(super) struct Completion {
    pub(super) prompt: Prompt,
    pub(super) common: Common,
}

/// A request for `/v1/chat/completions`.
#[derive(Debug, PartialEq)]
pub(super) struct Chat {
    pub(super) messages: Vec<Message>,
    pub(super) common: Common,
}

/// What the text begins with.
#[derive(Debug, PartialEq)]
pub(super) enum Prompt {
    Text(String),
    /// Ids, taken as they are.
    Tokens(Vec<u32>),
}

/// What both have.
#[derive(Debug, PartialEq)]
pub(super) struct Common {
    pub(super) model: Option<String>,
    pub(super) sampling: SamplingParameters,
    /// None: any.
    pub(super) seed: Option<u64>,
    pub(super) max_tokens: Option<u32>,
    pub(super) stop: Vec<String>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
}

impl Completion {
    pub(super) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::parse(body)?;
        let prompt = prompt(fields.take("prompt"))?;
        for (name, neutral) in [("best_of", json!(1)), ("echo", json!(false)), ("suffix", json!(""))] {
            fields.neutral(name, &[neutral])?;
        }
        let max_tokens = fields.integer("max_tokens", 1..=u32::MAX.into())?;
        Ok(Self { prompt, common: Common::read(fields, max_tokens)? })
    }
}

impl Chat {
    pub(super) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::parse(body)?;
        let messages = messages(fields.take("messages"))?;
        for (name, neutral) in [
            ("top_logprobs", json!(0)),
            ("tools", json!([])),
            ("tool_choice", json!("none")),
            ("functions", json!([])),
            ("parallel_tool_calls", json!(false)),
            ("modalities", json!(["text"])),
            ("response_format", json!({ "type": "text" })),
        ] {
            fields.neutral(name, &[neutral])?;
        }
        let older = fields.integer("max_tokens", 1..=u32::MAX.into())?;
        let max_tokens = fields.integer("max_completion_tokens", 1..=u32::MAX.into())?.or(older);
        Ok(Self { messages, common: Common::read(fields, max_tokens)? })
    }
}

impl Common {
    /// Reads what is left, and refuses what is left then.
    fn read(mut fields: Fields, max_tokens: Option<u64>) -> Result<Self, ApiError> {
        let model = fields.text("model")?;
        let sampling = SamplingParameters {
            temperature: fields.number("temperature", 0.0..=2.0)?.unwrap_or(1.0) as f32,
            // Not OpenAI's, but other servers have it by this name.
            top_k: fields.integer("top_k", 0..=u32::MAX.into())?.unwrap_or(0) as u32,
            top_p: fields.number("top_p", f64::from(f32::MIN_POSITIVE)..=1.0)?.unwrap_or(1.0) as f32,
        };
        let seed = match fields.take("seed") {
            None => None,
            Some(seed) => {
                let whole = seed.as_u64().or(seed.as_i64().map(i64::cast_unsigned));
                Some(whole.ok_or_else(|| wrong("seed", "a whole number"))?)
            }
        };
        let stop = stops(fields.take("stop"))?;
        let stream = fields.truth("stream")?;
        let include_usage = match fields.take("stream_options") {
            None => false,
            Some(Value::Object(options)) => {
                let mut options = Fields { map: options, within: "stream_options." };
                let include = options.truth("include_usage")?;
                options.neutral("include_obfuscation", &[json!(false)])?;
                options.finish()?;
                include
            }
            Some(_) => return Err(wrong("stream_options", "an object")),
        };
        for (name, neutral) in [
            ("n", json!(1)),
            ("presence_penalty", json!(0.0)),
            ("frequency_penalty", json!(0.0)),
            ("logit_bias", json!({})),
        ] {
            fields.neutral(name, &[neutral])?;
        }
        fields.neutral("logprobs", &[json!(false)])?;
        for name in WITHOUT_EFFECT {
            fields.take(name);
        }
        fields.finish()?;
        let max_tokens = max_tokens.map(|tokens| tokens as u32);
        Ok(Self { model, sampling, seed, max_tokens, stop, stream, include_usage })
    }
}

/// The parameters that have not been read yet. `null` is as good as nothing.
struct Fields {
    map: Map<String, Value>,
    /// What their names are within.
    within: &'static str,
}

impl Fields {
    fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Ok(Self { map, within: "" }),
            Ok(_) => Err(ApiError::invalid("The body is no JSON object.")),
            Err(error) => Err(ApiError::invalid(format!("The body is no JSON: {error}."))),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a text")),
        }
    }

    fn truth(&mut self, name: &str) -> Result<bool, ApiError> {
        self.take(name).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(name, "true or false")))
    }

    fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_f64().filter(|number| range.contains(number));
        // All of them begin at zero, some without it.
        let start = if *range.start() > 0.0 { "above 0" } else { "from 0" };
        number.map(Some).ok_or_else(|| wrong(name, &format!("a number {start} up to {}", range.end())))
    }

    fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_u64().filter(|number| range.contains(number));
        number
            .map(Some)
            .ok_or_else(|| wrong(name, &format!("a whole number from {} to {}", range.start(), range.end())))
    }

    /// Refuses a parameter that is not implemented, unless it has a value that changes nothing.
    fn neutral(&mut self, name: &str, neutral: &[Value]) -> Result<(), ApiError> {
        let equals = |value: &Value, other: &Value| match (value.as_f64(), other.as_f64()) {
            (Some(value), Some(other)) => value == other,
            _ => value == other,
        };
        match self.take(name) {
            Some(value) if !neutral.iter().any(|other| equals(&value, other)) => {
                let only: Vec<String> = neutral.iter().map(ToString::to_string).collect();
                let text = format!("{}{name} is not supported here other than as {}.", self.within, only.join(" or "));
                Err(ApiError::invalid(text).param(name).code("unsupported_parameter"))
            }
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<(), ApiError> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => {
                let text = format!("{}{name} is not supported here.", self.within);
                Err(ApiError::invalid(text).param(name).code("unsupported_parameter"))
            }
            None => Ok(()),
        }
    }
}

fn wrong(name: &str, expected: &str) -> ApiError {
    ApiError::invalid(format!("{name} must be {expected}.")).param(name)
}

fn prompt(value: Option<Value>) -> Result<Prompt, ApiError> {
    let expected = "a text, or a list of token ids; one prompt a request";
    match value {
        Some(Value::String(text)) => Ok(Prompt::Text(text)),
        Some(Value::Array(mut list)) => match &mut list[..] {
            [Value::String(text)] => Ok(Prompt::Text(std::mem::take(text))),
            [Value::Array(ids)] => ids_of(ids),
            [] => Err(wrong("prompt", expected)),
            ids => ids_of(ids),
        },
        _ => Err(wrong("prompt", expected)),
    }
}

fn ids_of(list: &[Value]) -> Result<Prompt, ApiError> {
    let ids = list.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
    let ids: Option<Vec<u32>> = ids.collect();
    let ids = ids.filter(|ids| !ids.is_empty());
    ids.map(Prompt::Tokens).ok_or_else(|| wrong("prompt", "a text, or a list of token ids; one prompt a request"))
}

fn messages(value: Option<Value>) -> Result<Vec<Message>, ApiError> {
    let Some(Value::Array(list)) = value else { return Err(wrong("messages", "a list of messages")) };
    if list.is_empty() {
        return Err(wrong("messages", "a list of at least one message"));
    }
    list.into_iter().map(message).collect()
}

fn message(value: Value) -> Result<Message, ApiError> {
    let refuse = |what: String| ApiError::invalid(what).param("messages");
    let Value::Object(map) = value else { return Err(wrong("messages", "a list of objects")) };
    let mut fields = Fields { map, within: "messages: " };
    let role = match fields.text("role")?.as_deref() {
        // The newer name of the same.
        Some("system" | "developer") => "system",
        Some("user") => "user",
        Some("assistant") => "assistant",
        role => return Err(refuse(format!("The role of a message is system, user or assistant, not {role:?}."))),
    };
    let content = match fields.take("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => {
            let texts = parts.iter().map(|part| match (part["type"].as_str(), part["text"].as_str()) {
                (Some("text"), Some(text)) => Ok(text),
                (kind, _) => Err(refuse(format!("A message can hold text only, not {}.", kind.unwrap_or("that")))),
            });
            texts.collect::<Result<String, _>>()?
        }
        _ => return Err(refuse("The content of a message must be text.".to_owned())),
    };
    fields.neutral("tool_calls", &[json!([])])?;
    // Of an answer that is sent back: what it was refused or said with.
    for name in ["refusal", "annotations", "audio"] {
        fields.take(name);
    }
    fields.finish()?;
    Ok(Message { role: role.to_owned(), content })
}

fn stops(value: Option<Value>) -> Result<Vec<String>, ApiError> {
    let expected = format!("a text, or a list of up to {MOST_STOPS}, each of 1 to {LONGEST_STOP} bytes");
    let list = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(text) => vec![text],
    };
    let texts: Option<Vec<String>> = list.into_iter().map(|text| text.as_str().map(ToOwned::to_owned)).collect();
    let is_allowed = |text: &String| (1..=LONGEST_STOP).contains(&text.len());
    let texts = texts.filter(|texts| texts.len() <= MOST_STOPS && texts.iter().all(is_allowed));
    texts.ok_or_else(|| wrong("stop", &expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(extra: Value) -> Result<Completion, Value> {
        let mut body = json!({ "model": "m", "prompt": "Once" });
        for (name, value) in extra.as_object().unwrap() {
            body[name] = value.clone();
        }
        Completion::parse(body.to_string().as_bytes()).map_err(|error| error.body()["error"].clone())
    }

    #[test]
    fn parameters_are_read_and_have_openais_defaults() {
        let Common { sampling, seed, max_tokens, stop, stream, include_usage, .. } =
            completion(json!({})).unwrap().common;
        assert_eq!((sampling.temperature, sampling.top_k, sampling.top_p), (1.0, 0, 1.0));
        assert_eq!((seed, max_tokens, stop.len(), stream, include_usage), (None, None, 0, false, false));
        let all = completion(json!({
            "temperature": 0, "top_p": 0.5, "seed": -1, "max_tokens": 7, "stop": ["a", "b"], "stream": true,
            "stream_options": { "include_usage": true }, "n": 1, "user": "u", "logit_bias": null, "presence_penalty": 0,
            "echo": false, "best_of": 1,
        }));
        let Common { sampling, seed, max_tokens, stop, stream, include_usage, .. } = all.unwrap().common;
        assert_eq!((sampling.temperature, sampling.top_p, seed, max_tokens), (0.0, 0.5, Some(u64::MAX), Some(7)));
        assert!(stop == ["a", "b"] && stream && include_usage);
        for (prompt, read) in [
            (json!(["Once"]), Prompt::Text("Once".to_owned())),
            (json!([1, 2]), Prompt::Tokens(vec![1, 2])),
            (json!([[1, 2]]), Prompt::Tokens(vec![1, 2])),
        ] {
            assert_eq!(completion(json!({ "prompt": prompt })).unwrap().prompt, read);
        }
    }

    #[test]
    fn what_would_change_the_text_is_refused_by_name() {
        for (name, value) in [
            ("n", json!(2)),
            ("best_of", json!(3)),
            ("logprobs", json!(1)),
            ("logprobs", json!(true)),
            ("echo", json!(true)),
            ("suffix", json!("end")),
            ("presence_penalty", json!(0.5)),
            ("frequency_penalty", json!(-1)),
            ("logit_bias", json!({ "5": 1 })),
            ("min_p", json!(0.1)),
            ("temperature", json!(2.5)),
            ("temperature", json!("hot")),
            ("top_p", json!(0)),
            ("max_tokens", json!(0)),
            ("seed", json!(1.5)),
            ("stop", json!(["a", "b", "c", "d", "e"])),
            ("stop", json!("")),
            ("stream", json!("yes")),
            ("prompt", json!(["a", "b"])),
            ("prompt", json!([])),
            ("prompt", json!([-1])),
            ("prompt", Value::Null),
        ] {
            let error = completion(json!({ name: value })).unwrap_err();
            assert_eq!((&error["param"], &error["type"]), (&json!(name), &json!("invalid_request_error")), "{error}");
            assert!(error["message"].as_str().unwrap().contains(name), "{error}");
        }
        for body in ["", "[]", "{\"prompt\": \"a\"", "{\"prompt\": \"\u{1}\"}"] {
            assert!(Completion::parse(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn conversations_are_text_by_role() {
        let chat = |messages: Value| {
            Chat::parse(json!({ "messages": messages, "max_completion_tokens": 3 }).to_string().as_bytes())
        };
        let read = chat(json!([
            { "role": "developer", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
            { "role": "assistant", "content": "c", "refusal": null },
        ]))
        .unwrap();
        let seen: Vec<(&str, &str)> = read.messages.iter().map(|m| (&*m.role, &*m.content)).collect();
        assert_eq!(seen, [("system", "Be brief."), ("user", "ab"), ("assistant", "c")]);
        assert_eq!(read.common.max_tokens, Some(3));
        for messages in [
            json!([]),
            json!("hello"),
            json!([{ "role": "tool", "content": "a" }]),
            json!([{ "role": "user" }]),
            json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] }]),
            json!([{ "role": "assistant", "content": "", "tool_calls": [{}] }]),
            json!([{ "role": "user", "content": "a", "weight": 1 }]),
        ] {
            assert!(chat(messages.clone()).is_err(), "{messages}");
        }
    }
}
