//! What an engine may take.

use std::time::Duration;

use bytesize::ByteSize;

use crate::metrics::EngineLimits;

/// The fewest rows of a run that leave room for the longest round beside a chunk of a prompt.
pub const LEAST_BATCH_ROWS: usize = 128;

/// Bounds of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSettings {
    /// Sessions at a time.
    pub sessions: usize,
    /// The most tokens, of all sessions, in one run of the model; at least [`LEAST_BATCH_ROWS`]. A verdict waits for
    /// the run under way, so that is what this bounds; and what a run needs in memory, about as much per row as a row
    /// of logits.
    pub batch_rows: usize,
    /// Bytes of the KV caches of all sessions.
    pub kv_memory: ByteSize,
    /// Where these bytes are short, how long a session that has begun keeps its cache before one without gets its
    /// memory.
    pub turn: Duration,
}

impl EngineSettings {
    /// The limits that `/metrics` exports.
    pub(crate) fn limits(&self) -> EngineLimits {
        EngineLimits { sessions: self.sessions, run_rows: self.batch_rows, kv_bytes: self.kv_memory.as_u64() }
    }
}

impl Default for EngineSettings {
    /// 256 rows: on the CPU a row costs the same in runs of 40 to 500 (`cargo xtask bench serve`), so more rows would
    /// only make everybody wait longer for the run under way. The rounds of fifty sessions fit one run. A second: a few
    /// rounds over a slow link, so that who has read a prompt writes before another reads in its place.
    fn default() -> Self {
        Self { sessions: 1024, batch_rows: 256, kv_memory: ByteSize::gib(1), turn: Duration::from_secs(1) }
    }
}

/// Which guesses at a text a pass judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GuessPolicy {
    /// Those that raise the tokens per second of all sessions together.
    Paid,
    /// All that come, as if a row cost nothing.
    All,
}

/// When the server drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OwnDraftPolicy {
    /// Never.
    Off,
    /// As if drafting cost nothing: where it is not the target that waits for it.
    On,
    /// Where by measured times that promises more tokens per second.
    Auto,
}

impl OwnDraftPolicy {
    /// As operators say it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Auto => "auto",
        }
    }
}
