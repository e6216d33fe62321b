//! State that all answers of an engine share: its model, its behaviour, and counts of what it did.

use std::{
    sync::{Arc, Mutex, atomic::AtomicUsize},
    time::Duration,
};

use outrider_codec::frame::SamplingParameters;
use outrider_models::Tokenizer;
use outrider_speculation::sample::Randomness;
use serde_json::Value;

use super::proposer::Store;

/// The engine's model: a text's logits after each of its tokens.
pub type Weights = Box<dyn Fn(&[u32]) -> Vec<Vec<f32>> + Send + Sync>;

/// Behaviour of the engine when it is asked for a completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mood {
    /// Answers correctly and at once.
    Well,
    /// Answers with this status.
    Refuses(u16),
    /// Answers something else.
    Babbles,
    /// Answers after this delay.
    Dawdles(Duration),
    /// Dies in the middle of its answer.
    Dies,
    /// Leaves `prompt_logprobs` and a prompt's ids out.
    KeepsQuiet,
}

/// Behaviour of the engine when it streams.
#[derive(Clone, Default)]
pub struct Streaming {
    /// Duration of a step of a stream.
    pub step: Duration,
    /// Guesses that its proposer has received.
    pub guesses: Option<Arc<Store>>,
    /// Steps that a stream bears on average before it is cut; 0 for any number.
    pub cut_after: u32,
    /// Event by which it fails where it would be cut.
    pub fails_with: Option<String>,
    /// True if it accepts every guess, which is wrong.
    pub believes: bool,
    /// Text that it sends at each step in place of a text's tokens.
    pub raw: Option<String>,
}

/// Counts of what the streams of an engine did.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number of steps run.
    pub steps: AtomicUsize,
    /// Guesses that were accepted.
    pub accepted: AtomicUsize,
    /// Guesses that were judged.
    pub judged: AtomicUsize,
    /// Streams that were cut.
    pub cut: AtomicUsize,
    /// Streams that were closed by their reader before their end.
    pub aborted: AtomicUsize,
}

/// State that all answers of an engine share.
pub struct Served {
    pub weights: Weights,
    pub tokenizer: Tokenizer,
    pub context_length: u32,
    pub key: Option<&'static str>,
    /// Names of the models; that of an adapter begins with its parent's and a slash.
    pub models: Vec<&'static str>,
    pub mood: Mutex<Mood>,
    pub streaming: Mutex<Streaming>,
    pub counts: Counts,
    pub requests: AtomicUsize,
    pub randomness: Mutex<Randomness>,
}

impl Served {
    /// Sampling parameters of a request.
    pub fn sampling(body: &Value) -> SamplingParameters {
        SamplingParameters {
            temperature: body["temperature"].as_f64().unwrap() as f32,
            top_k: body["top_k"].as_i64().unwrap().max(0) as u32,
            top_p: body["top_p"].as_f64().unwrap() as f32,
        }
    }

    /// Token ids of the texts that are to be continued.
    pub fn prompts(&self, prompt: &Value) -> Vec<Vec<u32>> {
        let ids = |list: &Value| -> Vec<u32> {
            list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
        };
        match prompt {
            Value::String(text) => vec![self.tokenizer.encode(text).unwrap()],
            Value::Array(list) if list[0].is_array() => list.iter().map(ids).collect(),
            list => vec![ids(list)],
        }
    }
}
