//! What all sessions of a gateway share.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::client::Client;
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
    pub(super) slots: usize,
    pub(super) taken: AtomicUsize,
    pub(super) next_slot: AtomicU64,
    pub(super) metrics: Metrics,
}
