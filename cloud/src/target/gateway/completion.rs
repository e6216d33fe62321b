//! Requests and responses of `/v1/completions` in vLLM's dialect.
//!
//! Prompts are token ids, and only ids are read of the response: tokens come as `"token_id:17"`
//! (`return_tokens_as_token_ids`), or as `"17"` where tokens of the prompt are listed.

use std::collections::BTreeMap;

use outrider_codec::frame::SamplingParameters;
use serde::{Deserialize, Serialize};

use super::error::GatewayError;

/// Sampling parameters with S(p) = p.
pub(super) const NEUTRAL: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
/// Rounding error by which log-probabilities may exceed 0.
const ROUNDING: f64 = 1e-3;

/// Tokens with their probabilities.
pub(super) type Probabilities = Vec<(u32, f64)>;

/// A request for completions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    /// One text, or several.
    pub prompt: Prompt<'a>,
    /// Number of tokens to write after each prompt.
    pub max_tokens: usize,
    /// Number of samples of each prompt.
    pub samples: usize,
    /// Sampling parameters of the tokens.
    pub sampling: SamplingParameters,
    /// Number of most likely tokens to list at each written token.
    pub listed: u32,
    /// Number of most likely tokens to list at each token of the prompt; `None` for no list.
    pub prompt_listed: Option<u32>,
    /// True to get the ids that the engine encodes the prompt into.
    pub returns_ids: bool,
}

/// A request for a text that the engine streams to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Continuation<'a> {
    /// Text that is continued.
    pub prompt: Prompt<'a>,
    /// Limit on the tokens to write.
    pub max_tokens: usize,
    /// Sampling parameters of the tokens.
    pub sampling: SamplingParameters,
    /// Tokens that end the text, and no others: the engine's own list may have more.
    pub eos_ids: &'a [u32],
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(super) enum Prompt<'a> {
    Text(&'a str),
    Tokens(&'a [u32]),
    Several(&'a [&'a [u32]]),
}

impl<'a> Question<'a> {
    /// A request for one sample of p after a text.
    pub(super) fn after(tokens: &'a [u32]) -> Self {
        Self {
            prompt: Prompt::Tokens(tokens),
            max_tokens: 1,
            samples: 1,
            sampling: NEUTRAL,
            listed: 0,
            prompt_listed: None,
            returns_ids: false,
        }
    }

    /// JSON body of the request.
    pub(super) fn body(&self, model: &'a str) -> Body<'a> {
        Body {
            text: Text::new(model, self.prompt, self.max_tokens, self.sampling),
            n: self.samples,
            logprobs: self.listed,
            prompt_logprobs: self.prompt_listed,
            return_tokens_as_token_ids: true,
            return_token_ids: self.returns_ids.then_some(true),
        }
    }
}

impl<'a> Continuation<'a> {
    /// JSON body of the request.
    pub(super) fn body(&self, model: &'a str) -> StreamedBody<'a> {
        StreamedBody {
            text: Text::new(model, self.prompt, self.max_tokens, self.sampling),
            stream: true,
            return_token_ids: true,
            ignore_eos: true,
            stop_token_ids: self.eos_ids,
        }
    }
}

/// JSON body of a request for completions.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    #[serde(flatten)]
    text: Text<'a>,
    n: usize,
    logprobs: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_logprobs: Option<u32>,
    return_tokens_as_token_ids: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_token_ids: Option<bool>,
}

/// JSON body of a request for a streamed text.
#[derive(Debug, Serialize)]
pub(super) struct StreamedBody<'a> {
    #[serde(flatten)]
    text: Text<'a>,
    stream: bool,
    return_token_ids: bool,
    ignore_eos: bool,
    stop_token_ids: &'a [u32],
}

/// Fields that both bodies share. Every parameter that changes sampling is sent, since models come with defaults of
/// their own (generation_config.json).
#[derive(Debug, Serialize)]
struct Text<'a> {
    model: &'a str,
    prompt: Prompt<'a>,
    max_tokens: usize,
    temperature: f32,
    top_p: f32,
    top_k: i64,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    add_special_tokens: bool,
}

impl<'a> Text<'a> {
    fn new(model: &'a str, prompt: Prompt<'a>, max_tokens: usize, sampling: SamplingParameters) -> Self {
        let SamplingParameters { temperature, top_k, top_p } = sampling;
        Self {
            model,
            prompt,
            max_tokens,
            temperature,
            top_p,
            top_k: if top_k == 0 { -1 } else { top_k.into() },
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            add_special_tokens: false,
        }
    }
}

/// One sample after one prompt.
#[derive(Debug, PartialEq)]
pub(super) struct Choice {
    /// Tokens, each with its probability under p; at least one.
    pub tokens: Probabilities,
    /// Most likely tokens at the position of the first token.
    pub likely: Probabilities,
    /// For each token of the prompt, the most likely tokens there and the token itself. Empty for the first token, or
    /// if no list was requested.
    pub prompt: Vec<Probabilities>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    choices: Vec<RawChoice>,
}

#[derive(Debug, Deserialize)]
struct RawChoice {
    index: usize,
    logprobs: Option<RawTokens>,
    prompt_logprobs: Option<Vec<Option<BTreeMap<String, Listed>>>>,
}

#[derive(Debug, Deserialize)]
struct RawTokens {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Option<Vec<Option<BTreeMap<String, f64>>>>,
}

#[derive(Debug, Deserialize)]
struct Listed {
    logprob: f64,
}

/// Reads a response with `count` choices: for each prompt in turn, its samples.
pub(super) fn read(bytes: &[u8], count: usize) -> Result<Vec<Choice>, GatewayError> {
    let answer: Answer = serde_json::from_slice(bytes).map_err(|error| lacks(format!("{error}")))?;
    let mut choices = answer.choices;
    choices.sort_by_key(|choice| choice.index);
    if choices.len() != count {
        return Err(lacks(format!("{} choices in place of {count}", choices.len())));
    }
    choices.into_iter().map(RawChoice::check).collect()
}

/// An engine's report about its encoding of a prompt; engines differ in what they report.
#[derive(Debug, PartialEq)]
pub(super) enum Encoding {
    Ids(Vec<u32>),
    /// Number of the tokens alone.
    Count(usize),
    Unknown,
}

#[derive(Debug, Deserialize)]
struct EncodedAnswer {
    choices: [EncodedChoice; 1],
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct EncodedChoice {
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Debug, Deserialize)]
struct Usage {
    prompt_tokens: Option<usize>,
}

/// Reads how the engine has encoded the prompt of a response with one choice.
pub(super) fn encoding(bytes: &[u8]) -> Result<Encoding, GatewayError> {
    // The rest of the response has to be usable, too.
    read(bytes, 1)?;
    let answer: EncodedAnswer = serde_json::from_slice(bytes).map_err(|error| lacks(format!("{error}")))?;
    let EncodedAnswer { choices: [EncodedChoice { prompt_token_ids }], usage } = answer;
    Ok(match (prompt_token_ids, usage.and_then(|usage| usage.prompt_tokens)) {
        (Some(ids), _) => Encoding::Ids(ids),
        (None, Some(count)) => Encoding::Count(count),
        (None, None) => Encoding::Unknown,
    })
}

impl RawChoice {
    fn check(self) -> Result<Choice, GatewayError> {
        let logprobs = self.logprobs.ok_or_else(|| lacks("no logprobs".to_owned()))?;
        let tokens = logprobs.tokens.iter().zip(&logprobs.token_logprobs);
        let tokens = tokens
            .map(|(token, logprob)| match logprob {
                Some(logprob) => entry(token, *logprob),
                None => Err(lacks("a token without a log-probability".to_owned())),
            })
            .collect::<Result<Probabilities, _>>()?;
        if tokens.is_empty() {
            return Err(lacks("no token was written".to_owned()));
        }
        let likely = logprobs.top_logprobs.into_iter().flatten().next().flatten().unwrap_or_default();
        let likely = likely.iter().map(|(token, &logprob)| entry(token, logprob)).collect::<Result<_, _>>()?;
        let prompt = self.prompt_logprobs.unwrap_or_default().into_iter().map(|position| {
            position.unwrap_or_default().iter().map(|(token, listed)| entry(token, listed.logprob)).collect()
        });
        Ok(Choice { tokens, likely, prompt: prompt.collect::<Result<_, _>>()? })
    }
}

fn entry(token: &str, logprob: f64) -> Result<(u32, f64), GatewayError> {
    let id = token.strip_prefix("token_id:").unwrap_or(token).parse();
    let id = id.map_err(|_| lacks(format!("token {token:?} is not an id (return_tokens_as_token_ids)")))?;
    if logprob.is_nan() || logprob > ROUNDING {
        return Err(lacks(format!("{logprob} is no log-probability")));
    }
    Ok((id, logprob.exp().min(1.0)))
}

pub(super) fn lacks(what: String) -> GatewayError {
    GatewayError::Answer { what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_all_that_changes_what_is_sampled() {
        let question = Question { prompt_listed: Some(1), ..Question::after(&[3, 4]) };
        let said = serde_json::to_value(question.body("m")).unwrap();
        let expected = serde_json::json!({
            "model": "m", "prompt": [3, 4], "max_tokens": 1, "n": 1, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0,
            "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logprobs": 0, "prompt_logprobs": 1,
            "return_tokens_as_token_ids": true, "add_special_tokens": false
        });
        assert_eq!(said, expected);
        let sampling = SamplingParameters { temperature: 0.5, top_k: 40, top_p: 0.75 };
        let said = serde_json::to_value(Question { sampling, ..question }.body("m")).unwrap();
        assert_eq!((&said["temperature"], &said["top_k"], &said["top_p"]), (&0.5.into(), &40.into(), &0.75.into()));
    }

    #[test]
    fn an_encoding_is_read_as_far_as_it_is_reported() {
        let answer = |choice: &str, usage: &str| {
            let logprobs = r#"{"tokens": ["token_id:9"], "token_logprobs": [0.0]}"#;
            let text = format!(r#"{{"choices": [{{"index": 0, "logprobs": {logprobs}{choice}}}]{usage}}}"#);
            encoding(text.as_bytes())
        };
        let usage = r#", "usage": {"prompt_tokens": 3, "total_tokens": 4}"#;
        assert_eq!(answer(r#", "prompt_token_ids": [5, 6]"#, usage).unwrap(), Encoding::Ids(vec![5, 6]));
        assert_eq!(answer(r#", "prompt_token_ids": null"#, usage).unwrap(), Encoding::Count(3));
        for usage in ["", r#", "usage": null"#, r#", "usage": {}"#] {
            assert_eq!(answer("", usage).unwrap(), Encoding::Unknown);
        }
        assert!(encoding(br#"{"choices": [{"index": 0, "prompt_token_ids": [5]}]}"#).is_err(), "no logprobs");
    }

    #[test]
    fn a_text_ends_where_ours_do() {
        let sampling = SamplingParameters { temperature: 0.5, top_k: 0, top_p: 0.75 };
        let asked = Continuation { prompt: Prompt::Tokens(&[3, 4]), max_tokens: 9, sampling, eos_ids: &[2] };
        let expected = serde_json::json!({
            "model": "m", "prompt": [3, 4], "max_tokens": 9, "temperature": 0.5, "top_p": 0.75, "top_k": -1,
            "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
            "add_special_tokens": false, "stream": true, "return_token_ids": true, "ignore_eos": true, "stop_token_ids": [2]
        });
        assert_eq!(serde_json::to_value(asked.body("m")).unwrap(), expected);
    }

    #[test]
    fn an_answer_is_read_as_ids_and_probabilities() {
        let answer = br#"{"id": "x", "choices": [
            {"index": 1, "text": "", "logprobs": {"tokens": ["token_id:9"], "token_logprobs": [0.0], "top_logprobs": [null]}},
            {"index": 0, "text": " a", "logprobs": {"tokens": ["token_id:5"], "token_logprobs": [-0.6931471805599453],
                "top_logprobs": [{"token_id:5": -0.6931471805599453, "token_id:6": -9999.0}]},
             "prompt_logprobs": [null, {"17": {"logprob": -1.3862943611198906, "rank": 2, "decoded_token": "b"}}]}]}"#;
        let choices = read(answer, 2).unwrap();
        assert_eq!(choices[0].tokens, [(5, 0.5)]);
        assert_eq!(choices[0].likely, [(5, 0.5), (6, 0.0)]);
        assert_eq!(choices[0].prompt, [vec![], vec![(17, 0.25)]]);
        assert_eq!(choices[1], Choice { tokens: vec![(9, 1.0)], likely: vec![], prompt: vec![] });
        assert!(read(answer, 1).is_err());
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let logprobs = |logprobs: &str| format!(r#"{{"choices": [{{"index": 0, "logprobs": {logprobs}}}]}}"#);
        for bad in [
            "<html>".to_owned(),
            r#"{"choices": []}"#.to_owned(),
            logprobs("null"),
            logprobs(r#"{"tokens": [], "token_logprobs": []}"#),
            logprobs(r#"{"tokens": [" a"], "token_logprobs": [-1.0]}"#),
            logprobs(r#"{"tokens": ["token_id:1"], "token_logprobs": [null]}"#),
            logprobs(r#"{"tokens": ["token_id:1"], "token_logprobs": [0.7]}"#),
            logprobs(r#"{"tokens": ["token_id:-1"], "token_logprobs": [-1.0]}"#),
        ] {
            assert!(matches!(read(bad.as_bytes(), 1), Err(GatewayError::Answer { .. })), "{bad}");
        }
    }
}
