//! The objects and chunks that are answered.

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
    pub(super) fn whole(&self, text: &str, finish: &str, tokens: u32) -> Value {
        let choice = match self.shape {
            Shape::Completion => json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": finish }),
            Shape::Chat => json!({
                "index": 0,
                "message": { "role": "assistant", "content": text, "refusal": null },
                "logprobs": null,
                "finish_reason": finish,
            }),
        };
        let object = match self.shape {
            Shape::Completion => "text_completion",
            Shape::Chat => "chat.completion",
        };
        let mut whole = self.object(object, &json!([choice]));
        whole["usage"] = self.usage(tokens);
        whole
    }

    /// The chunks before the text: whose it is.
    pub(super) fn opening(&self, with_usage: bool) -> Vec<Value> {
        match self.shape {
            Shape::Completion => Vec::new(),
            Shape::Chat => vec![self.delta(&json!({ "role": "assistant", "content": "" }), None, with_usage)],
        }
    }

    /// A piece of the text, or its end.
    pub(super) fn chunk(&self, text: &str, finish: Option<&str>, with_usage: bool) -> Value {
        match self.shape {
            Shape::Completion => {
                let choice = json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": finish });
                let mut chunk = self.object("text_completion", &json!([choice]));
                if with_usage {
                    chunk["usage"] = Value::Null;
                }
                chunk
            }
            Shape::Chat if finish.is_some() => self.delta(&json!({}), finish, with_usage),
            Shape::Chat => self.delta(&json!({ "content": text }), finish, with_usage),
        }
    }

    /// The last chunk where usage is asked for.
    pub(super) fn usage_chunk(&self, tokens: u32) -> Value {
        let object = match self.shape {
            Shape::Completion => "text_completion",
            Shape::Chat => "chat.completion.chunk",
        };
        let mut chunk = self.object(object, &json!([]));
        chunk["usage"] = self.usage(tokens);
        chunk
    }

    fn delta(&self, delta: &Value, finish: Option<&str>, with_usage: bool) -> Value {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        let mut chunk = self.object("chat.completion.chunk", &json!([choice]));
        if with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn object(&self, object: &str, choices: &Value) -> Value {
        let prefix = match self.shape {
            Shape::Completion => "cmpl",
            Shape::Chat => "chatcmpl",
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
