//! Parameters of requests, read by name. A parameter that remains unread is refused.

use outrider_codec::frame::SamplingParameters;
use outrider_models::{Conversation, Tool};
use serde_json::{Value, json};

use super::{
    conversation,
    fields::{Fields, number_of, read_integer, wrong},
    shaping_fields::ShapingFields,
};
use crate::{
    api_drafting::ApiMode,
    http::ApiError,
    sampling::SamplingDefaults,
    shaping::{Penalties, grammar::Form},
};

/// Limit on the number of stop sequences; OpenAI's limit.
const MOST_STOPS: usize = 4;
/// Longest stop sequence, in bytes. Up to this much text is held back until it is known not to be one.
const LONGEST_STOP: usize = 256;
/// Limit on the number of choices of a request.
const MOST_CHOICES: u64 = 16;
/// Limit on the number of prompts of a request.
const MOST_PROMPTS: usize = 128;
/// Limit on the most likely tokens that are listed at each position; OpenAI's limit.
const MOST_LIKELIEST: u64 = 5;
const MOST_LIKELIEST_OF_CHATS: u64 = 20;
/// Parameters that do not affect the text.
const WITHOUT_EFFECT: [&str; 7] =
    ["user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"];

/// Parameters of a request for `/v1/completions`.
#[derive(Debug, PartialEq)]
pub(super) struct Completion {
    pub(super) prompts: Vec<PromptInput>,
    pub(super) common: Common,
}

/// Parameters of a request for `/v1/chat/completions`.
#[derive(Debug, PartialEq)]
pub(super) struct Chat {
    pub(super) conversation: Conversation,
    /// Tools of which the answer has to call one; none if it need not.
    pub(super) forced: Vec<Tool>,
    /// True to separate the reasoning from the answer, false to leave it in the content with its tags.
    pub(super) separates_reasoning: bool,
    pub(super) common: Common,
}

/// Prompt of a completion, as it is sent.
#[derive(Debug, PartialEq)]
pub(super) enum PromptInput {
    Text(String),
    /// Token ids, used without encoding.
    Tokens(Vec<u32>),
}

/// Parameters that both endpoints have.
#[derive(Debug, PartialEq)]
pub(super) struct Common {
    pub(super) sampling: SamplingParameters,
    /// Seed of the random draws; `None` for a random one.
    pub(super) seed: Option<u64>,
    pub(super) max_tokens: Option<u32>,
    /// Number of most likely tokens listed at each position, in addition to the chosen one; `None` without
    /// log-probabilities.
    pub(super) log_probabilities: Option<usize>,
    /// Number of choices to generate.
    pub(super) choices: u32,
    pub(super) stop: Vec<String>,
    /// Tokens that end the text like the target's own, a parameter of vLLM's.
    pub(super) stop_ids: Vec<u32>,
    pub(super) penalties: Penalties,
    /// Form of the text; `None` for any.
    pub(super) form: Option<Form>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// True if the response has the ids of its tokens, a field of vLLM's.
    pub(super) return_token_ids: bool,
    /// True if the text begins with the prompt.
    pub(super) echo: bool,
    /// Drafting of the text; `None` for the server's default.
    pub(super) drafting: Option<ApiMode>,
}

impl Completion {
    /// Reads the fields that are left when the model is known; `defaults` are its own.
    pub(super) fn read(mut fields: Fields, defaults: &SamplingDefaults) -> Result<Self, ApiError> {
        let prompts = prompts(fields.take("prompt"))?;
        for (name, neutral) in [("best_of", json!(1)), ("suffix", json!(""))] {
            fields.neutral(name, &[neutral])?;
        }
        let echo = fields.truth("echo")?;
        // Without a text of its own, an echo has the prompt's log-probabilities alone.
        let max_tokens = fields.integer("max_tokens", u64::from(!echo)..=u32::MAX.into())?;
        let likeliest = match fields.take("logprobs") {
            // The boolean form belongs to chat requests; some clients send it here, too.
            None | Some(Value::Bool(false)) => None,
            Some(count) => Some(read_integer("logprobs", &count, 0..=MOST_LIKELIEST)?),
        };
        Ok(Self { prompts, common: Common { echo, ..Common::read(fields, defaults, max_tokens, likeliest)? } })
    }
}

impl Chat {
    /// Reads the fields that are left when the model is known; `defaults` are its own.
    pub(super) fn read(mut fields: Fields, defaults: &SamplingDefaults) -> Result<Self, ApiError> {
        let (conversation, forced) = conversation::read(&mut fields)?;
        for (name, neutral) in [("functions", json!([])), ("modalities", json!(["text"]))] {
            fields.neutral(name, &[neutral])?;
        }
        let separates_reasoning = match fields.text("reasoning_format")?.as_deref() {
            None | Some("auto" | "deepseek") => true,
            Some("none") => false,
            Some(_) => return Err(wrong("reasoning_format", "auto, deepseek or none")),
        };
        let older = fields.integer("max_tokens", 1..=u32::MAX.into())?;
        let max_tokens = fields.integer("max_completion_tokens", 1..=u32::MAX.into())?.or(older);
        let wants = fields.truth("logprobs")?;
        let likeliest = fields.integer("top_logprobs", 0..=MOST_LIKELIEST_OF_CHATS)?;
        if likeliest.is_some_and(|count| count > 0) && !wants {
            return Err(ApiError::invalid("top_logprobs needs logprobs.").param("top_logprobs"));
        }
        let likeliest = wants.then(|| likeliest.unwrap_or(0));
        Ok(Self {
            conversation,
            forced,
            separates_reasoning,
            common: Common::read(fields, defaults, max_tokens, likeliest)?,
        })
    }
}

impl Common {
    /// Reads the parameters that both endpoints have, and refuses any that remain.
    fn read(
        mut fields: Fields,
        defaults: &SamplingDefaults,
        max_tokens: Option<u64>,
        likeliest: Option<u64>,
    ) -> Result<Self, ApiError> {
        let number = |given: Option<f64>, default: Option<f32>| given.map(|x| x as f32).or(default).unwrap_or(1.0);
        let sampling = SamplingParameters {
            temperature: number(fields.number("temperature", 0.0..=2.0)?, defaults.temperature),
            top_k: top_k(&mut fields)?.or(defaults.top_k).unwrap_or(0),
            // 0 keeps the most likely token, as any small enough share does.
            top_p: number(fields.number("top_p", 0.0..=1.0)?, defaults.top_p).max(f32::MIN_POSITIVE),
        };
        let seed = match fields.take("seed") {
            None => None,
            Some(seed) => {
                let whole = number_of(&seed).or(seed.as_i64().map(i64::cast_unsigned));
                Some(whole.ok_or_else(|| wrong("seed", "a whole number"))?)
            }
        };
        let choices = fields.integer("n", 1..=MOST_CHOICES)?.unwrap_or(1) as u32;
        let stop = stops(fields.take("stop"))?;
        let stream = fields.truth("stream")?;
        let include_usage = match fields.take("stream_options") {
            None => false,
            Some(Value::Object(options)) => {
                let mut options = Fields { map: options, within: "stream_options." };
                let include = options.truth("include_usage")?;
                // Padding of chunks, which hides their lengths; the text is the same.
                options.truth("include_obfuscation")?;
                options.finish()?;
                include
            }
            Some(_) => return Err(wrong("stream_options", "an object")),
        };
        let return_token_ids = fields.truth("return_token_ids")?;
        let drafting = fields.map.remove("outrider").map(|options| match options {
            Value::Bool(false) => Ok(ApiMode(None)),
            options => ApiMode::try_from(options),
        });
        let drafting =
            drafting.transpose().map_err(|error| ApiError::invalid(format!("outrider: {error}.")).param("outrider"))?;
        let ShapingFields { penalties, form } = ShapingFields::read(&mut fields)?;
        let stop_ids = match fields.take("stop_token_ids") {
            None => Vec::new(),
            Some(Value::Array(ids)) => {
                list_of_ids(&ids).ok_or_else(|| wrong("stop_token_ids", "a list of token ids"))?
            }
            Some(_) => return Err(wrong("stop_token_ids", "a list of token ids")),
        };
        for (name, neutral) in [
            // Parameters of other servers that clients send along.
            ("ignore_eos", json!(false)),
            ("skip_special_tokens", json!(true)),
        ] {
            fields.neutral(name, &[neutral])?;
        }
        for name in WITHOUT_EFFECT {
            fields.take(name);
        }
        fields.finish()?;
        let max_tokens = max_tokens.map(|tokens| tokens as u32);
        let log_probabilities = likeliest.map(|count| count as usize);
        Ok(Self {
            sampling,
            seed,
            max_tokens,
            log_probabilities,
            choices,
            stop,
            stop_ids,
            penalties,
            form,
            stream,
            include_usage,
            return_token_ids,
            echo: false,
            drafting,
        })
    }
}

/// Reads top-k, which OpenAI's API does not have. Other servers use this name, with −1 or 0 for all tokens.
fn top_k(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    if fields.map.get("top_k").and_then(Value::as_i64) == Some(-1) {
        fields.map.remove("top_k");
        return Ok(Some(0));
    }
    Ok(fields.integer("top_k", 0..=u32::MAX.into())?.map(|k| k as u32))
}

/// Reads a prompt or a list of them, each a text or a list of token ids.
fn prompts(value: Option<Value>) -> Result<Vec<PromptInput>, ApiError> {
    let expected = || {
        let expected = format!("a text, a list of token ids, or a list of up to {MOST_PROMPTS} of either");
        wrong("prompt", &expected)
    };
    let read = |value: Value| match value {
        Value::String(text) => Some(PromptInput::Text(text)),
        Value::Array(ids) => list_of_ids(&ids).filter(|ids| !ids.is_empty()).map(PromptInput::Tokens),
        _ => None,
    };
    let list = match value.ok_or_else(expected)? {
        Value::Array(list) if !list.iter().all(Value::is_number) => list,
        one => vec![one],
    };
    let is_uniform = list.iter().all(Value::is_string) || list.iter().all(Value::is_array);
    let prompts: Option<Vec<PromptInput>> = list.into_iter().map(read).collect();
    prompts.filter(|prompts| is_uniform && (1..=MOST_PROMPTS).contains(&prompts.len())).ok_or_else(expected)
}

fn list_of_ids(list: &[Value]) -> Option<Vec<u32>> {
    list.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
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
        completion_with(&SamplingDefaults::default(), extra)
    }

    fn completion_with(defaults: &SamplingDefaults, extra: Value) -> Result<Completion, Value> {
        let mut body = json!({ "prompt": "Once" });
        for (name, value) in extra.as_object().unwrap() {
            body[name] = value.clone();
        }
        let read = Fields::parse(body.to_string().as_bytes()).and_then(|fields| Completion::read(fields, defaults));
        read.map_err(|error| error.body()["error"].clone())
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
        let Common { sampling, seed, max_tokens, stop, stream, include_usage, choices, .. } = all.unwrap().common;
        assert_eq!((choices, completion(json!({ "n": 3 })).unwrap().common.choices), (1, 3));
        assert_eq!((sampling.temperature, sampling.top_p, seed, max_tokens), (0.0, 0.5, Some(u64::MAX), Some(7)));
        assert!(stop == ["a", "b"] && stream && include_usage);
        let text = |text: &str| PromptInput::Text(text.to_owned());
        let tokens = || PromptInput::Tokens(vec![1, 2]);
        for (prompt, read) in [
            (json!(["Once"]), vec![text("Once")]),
            (json!(["a", "b"]), vec![text("a"), text("b")]),
            (json!([1, 2]), vec![tokens()]),
            (json!([[1, 2], [1, 2]]), vec![tokens(), tokens()]),
        ] {
            assert_eq!(completion(json!({ "prompt": prompt })).unwrap().prompts, read);
        }
    }

    #[test]
    fn the_models_sampling_applies_where_a_request_gives_none() {
        let defaults = SamplingDefaults { temperature: Some(0.6), top_k: Some(20), top_p: Some(0.95) };
        let sampling = |extra: Value| {
            let SamplingParameters { temperature, top_k, top_p } =
                completion_with(&defaults, extra).unwrap().common.sampling;
            (temperature, top_k, top_p)
        };
        assert_eq!(sampling(json!({})), (0.6, 20, 0.95));
        assert_eq!(sampling(json!({ "temperature": null, "top_k": 3 })), (0.6, 3, 0.95));
        assert_eq!(sampling(json!({ "temperature": 1, "top_k": -1, "top_p": 1 })), (1.0, 0, 1.0));
        assert_eq!(sampling(json!({ "temperature": 0, "top_k": 0 })), (0.0, 0, 0.95));
    }

    #[test]
    fn values_that_change_nothing_are_accepted() {
        let Common { sampling, seed, max_tokens, choices, .. } = completion(json!({
            "min_p": 0, "repetition_penalty": 1, "top_k": -1, "ignore_eos": false, "skip_special_tokens": true,
            "max_tokens": 2.0, "seed": 1.0, "n": 1.0, "top_p": 0, "stream_options": { "include_obfuscation": true },
        }))
        .unwrap()
        .common;
        assert_eq!((seed, max_tokens, choices, sampling.top_k), (Some(1), Some(2), 1, 0));
        assert!(sampling.top_p > 0.0 && sampling.top_p < 1e-30);
    }

    #[test]
    fn what_would_change_the_text_is_refused_by_name() {
        for (name, value) in [
            ("n", json!(0)),
            ("n", json!(17)),
            ("n", json!("two")),
            ("best_of", json!(3)),
            ("logprobs", json!(6)),
            ("logprobs", json!(true)),
            ("echo", json!("yes")),
            ("suffix", json!("end")),
            ("presence_penalty", json!(2.5)),
            ("frequency_penalty", json!("high")),
            ("logit_bias", json!({ "5": 101 })),
            ("logit_bias", json!({ "a": 1 })),
            ("min_p", json!(1.1)),
            ("stop_token_ids", json!([-1])),
            ("response_format", json!({ "type": "json_schema" })),
            ("temperature", json!(2.5)),
            ("temperature", json!("hot")),
            ("top_p", json!(-0.1)),
            ("top_k", json!(-2)),
            ("repetition_penalty", json!(0)),
            ("max_tokens", json!(0)),
            ("max_tokens", json!(2.5)),
            ("seed", json!(1.5)),
            ("stop", json!(["a", "b", "c", "d", "e"])),
            ("stop", json!("")),
            ("stream", json!("yes")),
            ("prompt", json!(["a", 5])),
            ("prompt", json!(["a", [5]])),
            ("prompt", json!([[]])),
            ("prompt", json!(vec!["a"; 129])),
            ("prompt", json!([])),
            ("prompt", json!([-1])),
            ("prompt", Value::Null),
        ] {
            let error = completion(json!({ name: value })).unwrap_err();
            assert_eq!((&error["param"], &error["type"]), (&json!(name), &json!("invalid_request_error")), "{error}");
            assert!(error["message"].as_str().unwrap().contains(name), "{error}");
        }
        for body in ["", "[]", "{\"prompt\": \"a\"", "{\"prompt\": \"\u{1}\"}"] {
            assert!(Fields::parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
