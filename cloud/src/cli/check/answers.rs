//! Texts of a chat model's own: its answers to a few questions, over which a draft for it is judged.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use outrider_codec::frame::SamplingParameters;
use outrider_models::{Conversation, Message, Model, Tokenizer};
use outrider_speculation::sample::SharedNoise;

use super::{super::output::CommandError, reader::Reader};
use crate::chat;

/// Questions of a chat: facts, a story, instructions, code.
const QUESTIONS: [&str; 4] = [
    "Why is the sky blue?",
    "Write a short story about a lighthouse keeper.",
    "How do I keep a sourdough starter alive?",
    "What is a hash table? Show one in Python.",
];

/// A text, with the target's distributions after its last tokens.
pub(super) struct Text {
    pub(super) tokens: Vec<u32>,
    /// Number of first tokens after which no distribution is given.
    pub(super) skipped: usize,
    /// Distributions after the other tokens, each `[vocab_size]`.
    pub(super) p: Vec<Vec<f64>>,
}

/// Answers of the target, up to `tokens` tokens together; none of a model without a chat template.
///
/// # Errors
/// If the template cannot be used or the model cannot run.
pub(super) fn write(
    target: &Model,
    path: Option<&Path>,
    tokenizer: &Tokenizer,
    (tokens, sampling): (usize, &SamplingParameters),
) -> Result<Vec<Text>, CommandError> {
    let config = target.config();
    let template = chat::find(None, path, config, tokenizer)?;
    if template.source().template.is_none() {
        return Ok(Vec::new());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let noise = SharedNoise::new(1);
    let mut texts = Vec::new();
    for question in QUESTIONS {
        let conversation = Conversation { messages: vec![Message::new("user", question)], ..Conversation::default() };
        let mut ids = template.encode(tokenizer, config.first_token(), &conversation, now)?;
        let (asked, mut reader, mut p) = (ids.len(), Reader::new(target), Vec::new());
        let room = config.context_length.saturating_sub(asked);
        while p.len() < room.min(tokens.div_ceil(QUESTIONS.len())) {
            let Some(next) = reader.read(&ids[reader.cache.len()..], sampling)?.pop() else { break };
            let id = noise.choose(ids.len(), &next);
            p.push(next);
            if config.eos_token_ids.contains(&id) {
                break;
            }
            ids.push(id);
        }
        if !p.is_empty() {
            // No distribution is given after the last token.
            ids.truncate(asked + p.len() - 1);
            texts.push(Text { tokens: ids, skipped: asked - 1, p });
        }
    }
    Ok(texts)
}
