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
    /// Whether a stream ends with the tokens that were counted; then all of its chunks say something of them.
    pub(super) include_usage: bool,
}

impl Answer {
    /// The answer in one piece: each text, and why it ended.
    pub(super) fn whole(&self, choices: Vec<(Vec<Piece>, &str)>, tokens: u32) -> Value {
        let choices: Vec<Value> =
            (0..).zip(choices).map(|(index, (pieces, finish))| self.choice(index, pieces, finish)).collect();
        let mut whole = self.object("chat.completion", &choices);
        whole["usage"] = self.usage(tokens);
        whole
    }

    fn choice(&self, index: u32, pieces: Vec<Piece>, finish: &str) -> Value {
        let (mut text, mut calls) = (String::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Text(more) => text.push_str(&more),
                Piece::Call(call) => calls.push(self.call(index, calls.len(), &call)),
            }
        }
        match self.shape {
            Shape::Completion => choice(index, "text", &json!(text), Some(finish)),
            Shape::Chat => {
                let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { json!(text) };
                let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
                if !calls.is_empty() {
                    message["tool_calls"] = Value::Array(calls);
                }
                choice(index, "message", &message, Some(finish))
            }
        }
    }

    /// The chunks before so many texts: whose they are.
    pub(super) fn opening(&self, choices: u32) -> Vec<Value> {
        match self.shape {
            Shape::Completion => Vec::new(),
            Shape::Chat => {
                let delta = json!({ "role": "assistant", "content": "" });
                (0..choices).map(|index| self.part(choice(index, "delta", &delta, None))).collect()
            }
        }
    }

    /// A piece of a text.
    pub(super) fn text_chunk(&self, index: u32, text: &str) -> Value {
        self.part(match self.shape {
            Shape::Completion => choice(index, "text", &json!(text), None),
            Shape::Chat => choice(index, "delta", &json!({ "content": text }), None),
        })
    }

    /// A call, the `number`-th of its text.
    pub(super) fn call_chunk(&self, index: u32, number: usize, call: &Call) -> Value {
        let mut call = self.call(index, number, call);
        call["index"] = json!(number);
        self.part(choice(index, "delta", &json!({ "tool_calls": [call] }), None))
    }

    /// The end of a text.
    pub(super) fn last_chunk(&self, index: u32, finish: &str) -> Value {
        self.part(match self.shape {
            Shape::Completion => choice(index, "text", &json!(""), Some(finish)),
            Shape::Chat => choice(index, "delta", &json!({}), Some(finish)),
        })
    }

    /// Its id has nine letters and digits, as Mistral's templates want it. Those of an answer differ.
    fn call(&self, index: u32, number: usize, call: &Call) -> Value {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut rest = self.id.wrapping_add((u64::from(index) << 16) + number as u64);
        let mut digit = || {
            let digit = DIGITS[(rest % 36) as usize];
            rest /= 36;
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

    fn part(&self, choice: Value) -> Value {
        let mut chunk = self.object("chat.completion.chunk", &[choice]);
        if self.include_usage {
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

fn choice(index: u32, what: &str, content: &Value, finish: Option<&str>) -> Value {
    json!({ "index": index, what: content, "logprobs": null, "finish_reason": finish })
}
