//! What all sessions of a gateway share.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::{client::Client, guesses::Workers};
use crate::metrics::Metrics;

/// The way to the engine, and what is known and counted of it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Client,
    /// V.
    pub(super) vocab_size: u32,
    /// The most tokens of a text.
    pub(super) context_length: usize,
    /// K.
    pub(super) listed: u32,
    /// How it writes texts by itself, if it is asked for that.
    pub(super) streaming: Option<Streaming>,
    pub(super) slots: usize,
    pub(super) taken: AtomicUsize,
    pub(super) next_slot: AtomicU64,
    pub(super) metrics: Metrics,
}

/// An engine that streams texts, and is told guesses at them.
#[derive(Debug)]
pub(super) struct Streaming {
    /// Tokens that end a text.
    pub(super) eos_ids: Vec<u32>,
    pub(super) workers: Workers,
}
