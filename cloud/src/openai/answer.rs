//! Objects and chunks of responses.

use std::{iter, time::Duration};

use axum::response::sse::KeepAlive;
use outrider_models::{Call, Piece};
use serde_json::{Map, Value, json};

use super::delta::{Delta, TokenLogprob, TokenText};

/// Longest silence of a stream: the package takes two and a half times as long for a lost connection.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Comments in a stream that has nothing to say.
pub(super) fn heartbeat() -> KeepAlive {
    KeepAlive::new().interval(HEARTBEAT)
}

/// Endpoint of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Completion,
    Chat,
}

impl Endpoint {
    /// Name of the parameter that has the prompt.
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Self::Completion => "prompt",
            Self::Chat => "messages",
        }
    }
}

/// Fields that all parts of a response share.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) endpoint: Endpoint,
    pub(super) id: u64,
    /// Time of the request, in seconds since 1970.
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) prompt_tokens: usize,
    /// True if a stream ends with a chunk of token counts; all other chunks then have a null `usage`.
    pub(super) include_usage: bool,
    /// True if the response has log-probabilities of its tokens.
    pub(super) has_log_probabilities: bool,
    /// True if each choice has the ids of its tokens.
    pub(super) has_token_ids: bool,
}

impl Answer {
    /// Builds the whole response from complete choices.
    pub(super) fn whole(&self, texts: Vec<Delta>, tokens: u32) -> Value {
        let choices: Vec<Value> = texts.into_iter().map(|text| self.choice(text)).collect();
        let mut whole = self.object("chat.completion", &choices);
        whole["usage"] = self.usage(tokens);
        whole
    }

    fn choice(&self, Delta { choice: index, pieces, reasoning, logprobs, ids, finish, .. }: Delta) -> Value {
        let (mut text, mut calls) = (String::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Text(more) => text.push_str(&more),
                Piece::Call(call) => calls.push(self.call(index, calls.len(), &call)),
            }
        }
        let logprobs = self.logprobs(&logprobs);
        let mut choice = match self.endpoint {
            Endpoint::Completion => choice(index, "text", &json!(text), &logprobs, finish),
            Endpoint::Chat => {
                let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { json!(text) };
                let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
                if !reasoning.is_empty() {
                    message["reasoning_content"] = json!(reasoning);
                }
                if !calls.is_empty() {
                    message["tool_calls"] = Value::Array(calls);
                }
                choice(index, "message", &message, &logprobs, finish)
            }
        };
        if self.has_token_ids {
            choice["token_ids"] = json!(ids);
        }
        choice
    }

    /// Builds the chunks before the text of this number of choices, which give the role.
    pub(super) fn opening(&self, choices: u32) -> Vec<Value> {
        match self.endpoint {
            Endpoint::Completion => Vec::new(),
            Endpoint::Chat => {
                let delta = json!({ "role": "assistant", "content": "" });
                (0..choices).map(|index| self.part(choice(index, "delta", &delta, &Value::Null, None))).collect()
            }
        }
    }

    /// Builds the chunks of a delta. `calls` counts the calls of its choice.
    pub(super) fn chunks(&self, delta: Delta, calls: &mut usize) -> Vec<Value> {
        let Delta { choice: index, pieces, reasoning, logprobs, ids, finish, .. } = delta;
        let what = if self.endpoint == Endpoint::Completion { "text" } else { "delta" };
        // The first chunk has the log-probabilities and ids of the whole delta.
        let mut logprobs = if logprobs.is_empty() { Value::Null } else { self.logprobs(&logprobs) };
        let mut ids = self.has_token_ids.then_some(ids);
        let mut part = |content: &Value, finish| {
            let mut choice = choice(index, what, content, &std::mem::take(&mut logprobs), finish);
            if let Some(ids) = ids.as_mut().map(std::mem::take) {
                choice["token_ids"] = json!(ids);
            }
            self.part(choice)
        };
        let mut chunks = Vec::new();
        if !reasoning.is_empty() {
            chunks.push(part(&json!({ "reasoning_content": reasoning }), None));
        }
        for piece in pieces {
            let content = match piece {
                Piece::Text(text) if self.endpoint == Endpoint::Completion => json!(text),
                Piece::Text(text) => json!({ "content": text }),
                Piece::Call(call) => {
                    let mut call = self.call(index, *calls, &call);
                    call["index"] = json!(*calls);
                    *calls += 1;
                    json!({ "tool_calls": [call] })
                }
            };
            chunks.push(part(&content, None));
        }
        if finish.is_some() {
            let nothing = if self.endpoint == Endpoint::Completion { json!("") } else { json!({}) };
            chunks.push(part(&nothing, finish));
        }
        chunks
    }

    /// Formats log-probabilities of tokens as the endpoint does.
    fn logprobs(&self, tokens: &[TokenLogprob]) -> Value {
        match self.endpoint {
            _ if !self.has_log_probabilities => Value::Null,
            Endpoint::Chat => {
                let content = tokens.iter().map(|own| {
                    let mut of = token(&own.token, own.log_probability);
                    of["top_logprobs"] = own.likeliest.iter().map(|(of, p)| token(of, Some(*p))).collect();
                    of
                });
                json!({ "content": content.collect::<Vec<_>>(), "refusal": null })
            }
            Endpoint::Completion => {
                let likeliest = |own: &TokenLogprob| {
                    let Some(log_probability) = own.log_probability else { return Value::Null };
                    let mut top = Map::new();
                    // The chosen token has an entry in any case. Tokens of the same text share one, and the most likely
                    // of them comes first.
                    for (token, p) in own.likeliest.iter().chain([&(own.token.clone(), log_probability)]) {
                        top.entry(name(token)).or_insert_with(|| json!(p));
                    }
                    Value::Object(top)
                };
                json!({
                    "tokens": tokens.iter().map(|own| name(&own.token)).collect::<Vec<_>>(),
                    "token_logprobs": tokens.iter().map(|own| own.log_probability).collect::<Vec<_>>(),
                    "top_logprobs": tokens.iter().map(likeliest).collect::<Vec<_>>(),
                    "text_offset": tokens.iter().map(|own| own.offset).collect::<Vec<_>>(),
                })
            }
        }
    }

    /// Builds a tool call of a message. Its id has nine letters and digits, as Mistral's templates require; ids in a
    /// response differ.
    pub(super) fn call(&self, index: u32, number: usize, call: &Call) -> Value {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut rest = self.id.wrapping_add((u64::from(index) << 16) + number as u64);
        let mut digit = || {
            let digit = DIGITS[(rest % 36) as usize];
            rest /= 36;
            char::from(digit)
        };
        let id: String = (0..9).map(|_| digit()).collect();
        json!({ "id": id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } })
    }

    /// Builds the last chunk, which has the token counts.
    pub(super) fn usage_chunk(&self, tokens: u32) -> Value {
        let mut chunk = self.object("chat.completion.chunk", &[]);
        chunk["usage"] = self.usage(tokens);
        chunk
    }

    fn part(&self, choice: Value) -> Value {
        let mut chunk = self.object("chat.completion.chunk", &[choice]);
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// Builds the response object; `chat` is its type for conversations.
    fn object(&self, chat: &str, choices: &[Value]) -> Value {
        let (prefix, object) = match self.endpoint {
            Endpoint::Completion => ("cmpl", "text_completion"),
            Endpoint::Chat => ("chatcmpl", chat),
        };
        json!({
            "id": format!("{prefix}-{:016x}", self.id),
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    fn usage(&self, tokens: u32) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens as usize,
        })
    }
}

/// Entry of a token in a chat.
fn token(TokenText { text, bytes }: &TokenText, log_probability: Option<f64>) -> Value {
    json!({ "token": text, "logprob": log_probability, "bytes": bytes })
}

/// Name of a token in a completion: its text, or its bytes as OpenAI writes those of an incomplete character.
fn name(TokenText { text, bytes }: &TokenText) -> String {
    if text.as_bytes() == bytes {
        return text.clone();
    }
    iter::once("bytes:".to_owned()).chain(bytes.iter().map(|byte| format!("\\x{byte:02x}"))).collect()
}

fn choice(index: u32, what: &str, content: &Value, logprobs: &Value, finish: Option<&str>) -> Value {
    json!({ "index": index, what: content, "logprobs": logprobs, "finish_reason": finish })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Special tokens have the same text, none; an entry of OpenAI's map is that of the likeliest. Bytes of incomplete
    /// characters have names of their own, and so has the chosen token, however unlikely.
    #[test]
    fn tokens_of_one_text_share_the_entry_of_the_likeliest() {
        let of = |bytes: &[u8]| TokenText { text: String::from_utf8_lossy(bytes).into_owned(), bytes: bytes.to_vec() };
        let likeliest = [(&b""[..], -0.5), (b"a", -1.5), (b"", -2.5), (b"\xe2\x80", -3.5), (b"\xe2", -4.5)];
        let token = TokenLogprob {
            token: of(b"b"),
            log_probability: Some(-9.5),
            likeliest: likeliest.map(|(bytes, p)| (of(bytes), p)).to_vec(),
            offset: 0,
        };
        let answer = Answer {
            endpoint: Endpoint::Completion,
            id: 0,
            created: 0,
            model: String::new(),
            prompt_tokens: 0,
            include_usage: false,
            has_log_probabilities: true,
            has_token_ids: false,
        };
        assert_eq!(
            answer.logprobs(&[token])["top_logprobs"],
            json!([{ "": -0.5, "a": -1.5, "bytes:\\xe2\\x80": -3.5, "bytes:\\xe2": -4.5, "b": -9.5 }])
        );
    }
}
