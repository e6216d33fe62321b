//! Errors of passes through the engine.

use bytesize::ByteSize;
use outrider_speculation::sample::LogitsError;

/// Reason why a pass gave no judgement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model refused or failed.
    #[error("the target model failed: {0}")]
    Model(String),
    /// The pass continues from tokens that the session has not read.
    #[error("a pass continues after {keep} tokens, of which only {read} were read")]
    NotRead {
        /// Tokens from which the pass continues.
        keep: usize,
        /// Tokens that were read.
        read: usize,
    },
    /// The pass wants more rows than a run may have.
    #[error("a pass requests {rows} rows of logits; at most {most} are allowed")]
    TooManyRows {
        /// Rows that the pass wants.
        rows: usize,
        /// Largest number of rows.
        most: usize,
    },
    /// The session alone needs more than the memory for KV caches.
    #[error(
        "{tokens} tokens need {needed} of KV cache, but the server allows {budget}: shorten the text, or raise --kv-memory"
    )]
    TooLong {
        /// Tokens of the session.
        tokens: usize,
        /// Size of their KV cache.
        needed: ByteSize,
        /// Memory for the KV caches of all sessions.
        budget: ByteSize,
    },
    /// The model's logits cannot be sampled from.
    #[error("the target model failed: {0}")]
    Logits(#[from] LogitsError),
    /// The grammar of the text gave up.
    #[error("the text cannot go on: {0}")]
    Shaping(String),
    /// The engine's thread has ended.
    #[error("the target model is gone")]
    Gone,
}
