//! Settings of an engine.

use std::time::Duration;

use bytesize::ByteSize;

use crate::metrics::EngineLimits;

/// Smallest budget of rows that leaves room for the longest round beside a chunk of a prompt.
pub const LEAST_BATCH_ROWS: usize = 128;

/// Limits of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSettings {
    /// Number of sessions at a time.
    pub sessions: usize,
    /// Limit on the tokens in one run of the model, over all sessions; at least [`LEAST_BATCH_ROWS`]. It bounds the
    /// wait for the run under way. It also bounds the memory of a run, which is about one row of logits for each row.
    pub batch_rows: usize,
    /// Memory for the KV caches of all sessions.
    pub kv_memory: ByteSize,
    /// Least time for which a session keeps its cache, counted from its begin, before a session without one may take
    /// its memory.
    pub turn: Duration,
}

impl EngineSettings {
    /// Limits that `/metrics` exports.
    pub(crate) fn limits(&self) -> EngineLimits {
        EngineLimits { sessions: self.sessions, run_rows: self.batch_rows, kv_bytes: self.kv_memory.as_u64() }
    }
}

impl Default for EngineSettings {
    /// 256 rows: on the CPU a row costs the same in runs of 40 to 500 (`cargo xtask bench serve`), so more rows would
    /// only lengthen the wait for the run under way. The rounds of fifty sessions fit one run. A turn is a second: a
    /// few rounds over a slow link, so that a session that has read a prompt writes before another one takes its
    /// memory.
    fn default() -> Self {
        Self { sessions: 1024, batch_rows: 256, kv_memory: ByteSize::gib(1), turn: Duration::from_secs(1) }
    }
}

/// Guesses at a text that a pass judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GuessPolicy {
    /// Guesses that raise the tokens per second of all sessions together.
    Paid,
    /// All guesses, as if a row cost nothing.
    All,
}

/// Policy for drafts of the server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OwnDraftPolicy {
    /// The server never drafts.
    Off,
    /// Drafts as if drafting cost nothing, unless the target would wait for it.
    On,
    /// Drafts where measured times promise more tokens per second.
    Auto,
    /// Drafts without a model: what followed the same tokens earlier in the text. For work that copies.
    Lookup,
}

impl OwnDraftPolicy {
    /// Name of the policy on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Auto => "auto",
            Self::Lookup => "lookup",
        }
    }
}
