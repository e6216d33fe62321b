//! What can go wrong with a pass.

use bytesize::ByteSize;
use outrider_speculation::sample::LogitsError;

/// Why a pass gave no judgement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model refused or failed.
    #[error("the target model failed: {0}")]
    Model(String),
    /// The pass goes on from tokens that the session never had read.
    #[error("a pass goes on from {keep} tokens, of which {read} were read")]
    NotRead {
        /// Tokens it goes on from.
        keep: usize,
        /// Tokens there are.
        read: usize,
    },
    /// More rows than a run may have.
    #[error("a pass wants {rows} rows of logits, at most {most} are given at a time")]
    TooManyRows {
        /// Rows that are wanted.
        rows: usize,
        /// Rows that there may be.
        most: usize,
    },
    /// The session alone needs more than the budget.
    #[error(
        "{tokens} tokens need {needed} of KV cache, the server gives {budget}: shorten the text, or raise --kv-memory"
    )]
    TooLong {
        /// Tokens of the session.
        tokens: usize,
        /// Bytes they need.
        needed: ByteSize,
        /// Bytes there are for all sessions.
        budget: ByteSize,
    },
    /// Its logits cannot be sampled from.
    #[error("the target model failed: {0}")]
    Logits(#[from] LogitsError),
    /// The engine's thread is gone.
    #[error("the target model is gone")]
    Gone,
}
