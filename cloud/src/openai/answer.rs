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
            Shape::Completion => choice("text", &json!(text), Some(finish)),
            Shape::Chat => {
                let message = json!({ "role": "assistant", "content": text, "refusal": null });
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

    /// A piece of the text, or its end.
    pub(super) fn chunk(&self, text: &str, finish: Option<&str>, with_usage: bool) -> Value {
        let choice = match self.shape {
            Shape::Completion => choice("text", &json!(text), finish),
            Shape::Chat if finish.is_some() => choice("delta", &json!({}), finish),
            Shape::Chat => choice("delta", &json!({ "content": text }), finish),
        };
        self.part(choice, with_usage)
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
