//! The objects and chunks that are answered.

use outrider_models::{Call, Piece};
use serde_json::{Value, json};

/// Which of the two is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Completion,
    Chat,
}

impl Shape {
    /// The parameter that the prompt comes in.
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Self::Completion => "prompt",
            Self::Chat => "messages",
        }
    }
}

/// What all parts of an answer have in common.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) shape: Shape,
    pub(super) id: u64,
    /// Seconds since 1970.
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) prompt_tokens: usize,
}

impl Answer {
    /// The answer in one piece.
    pub(super) fn whole(&self, pieces: Vec<Piece>, finish: &str, tokens: u32) -> Value {
        let (mut text, mut calls) = (String::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Text(more) => text.push_str(&more),
                Piece::Call(call) => calls.push(self.call(calls.len(), &call)),
            }
        }
        let choice = match self.shape {
            Shape::Completion => choice("text", &json!(text), Some(finish)),
            Shape::Chat => {
                let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { json!(text) };
                let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
                if !calls.is_empty() {
                    message["tool_calls"] = Value::Array(calls);
                }
                choice("message", &message, Some(finish))
            }
        };
        let mut whole = self.object("chat.completion", &[choice]);
        whole["usage"] = self.usage(tokens);
        whole
    }

    /// The chunks before the text: whose it is.
    pub(super) fn opening(&self, with_usage: bool) -> Vec<Value> {
        match self.shape {
            Shape::Completion => Vec::new(),
            Shape::Chat => {
                let delta = json!({ "role": "assistant", "content": "" });
                vec![self.part(choice("delta", &delta, None), with_usage)]
            }
        }
    }

    /// A piece of the text.
    pub(super) fn text_chunk(&self, text: &str, with_usage: bool) -> Value {
        let choice = match self.shape {
            Shape::Completion => choice("text", &json!(text), None),
            Shape::Chat => choice("delta", &json!({ "content": text }), None),
        };
        self.part(choice, with_usage)
    }

    /// A call, the `index`-th of the answer.
    pub(super) fn call_chunk(&self, index: usize, call: &Call, with_usage: bool) -> Value {
        let mut call = self.call(index, call);
        call["index"] = json!(index);
        self.part(choice("delta", &json!({ "tool_calls": [call] }), None), with_usage)
    }

    /// The end.
    pub(super) fn last_chunk(&self, finish: &str, with_usage: bool) -> Value {
        let choice = match self.shape {
            Shape::Completion => choice("text", &json!(""), Some(finish)),
            Shape::Chat => choice("delta", &json!({}), Some(finish)),
        };
        self.part(choice, with_usage)
    }

    /// Its id has nine letters and digits, as Mistral's templates want it. Those of an answer differ.
    fn call(&self, index: usize, call: &Call) -> Value {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut number = self.id.wrapping_add(index as u64);
        let mut digit = || {
            let digit = DIGITS[(number % 36) as usize];
            number /= 36;
            char::from(digit)
        };
        let id: String = (0..9).map(|_| digit()).collect();
        let arguments = Value::Object(call.arguments.clone()).to_string();
        json!({ "id": id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
    }

    /// The last chunk where usage is asked for.
    pub(super) fn usage_chunk(&self, tokens: u32) -> Value {
        let mut chunk = self.object("chat.completion.chunk", &[]);
        chunk["usage"] = self.usage(tokens);
        chunk
    }

    fn part(&self, choice: Value, with_usage: bool) -> Value {
        let mut chunk = self.object("chat.completion.chunk", &[choice]);
        if with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// `chat` is what a conversation's is called.
    fn object(&self, chat: &str, choices: &[Value]) -> Value {
        let (prefix, object) = match self.shape {
            Shape::Completion => ("cmpl", "text_completion"),
            Shape::Chat => ("chatcmpl", chat),
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

fn choice(what: &str, content: &Value, finish: Option<&str>) -> Value {
    json!({ "index": 0, what: content, "logprobs": null, "finish_reason": finish })
}
