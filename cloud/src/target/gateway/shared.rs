//! State shared by all sessions of a gateway.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::{client::Client, guesses::Workers};
use crate::metrics::Metrics;

/// State shared by all sessions of a gateway: the client, facts about the engine, and metrics.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Client,
    /// Vocabulary size V of the engine's model.
    pub(super) vocab_size: u32,
    /// Longest text, in tokens.
    pub(super) context_length: usize,
    /// Number of tokens K that the engine lists at a position; 0 if it is not asked for any.
    pub(super) listed: u32,
    /// State for streamed texts, if the engine streams.
    pub(super) streaming: Option<Streaming>,
    pub(super) slots: usize,
    pub(super) taken: AtomicUsize,
    pub(super) next_slot: AtomicU64,
    pub(super) metrics: Metrics,
}

/// State of an engine that streams texts and receives guesses at them.
#[derive(Debug)]
pub(super) struct Streaming {
    /// Tokens that end a text.
    pub(super) eos_ids: Vec<u32>,
    pub(super) workers: Workers,
}
