//! Why there are no heads.

use outrider_models::{EncodeError, ModelError};
use outrider_speculation::sample::LogitsError;

/// Reason why no heads were trained.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// A forward pass of a model failed.
    #[error("a model failed: {0}")]
    Model(#[from] ModelError),
    /// A model gave logits that cannot be sampled from.
    #[error("a model failed: {0}")]
    Logits(#[from] LogitsError),
    /// A prompt cannot be encoded.
    #[error("a prompt cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
    /// Texts cannot be longer than both models' context.
    #[error("texts of {length} tokens: between {least} and {most} are possible")]
    Length {
        /// Requested length of a text.
        length: usize,
        /// Beginning and a token.
        least: usize,
        /// The shorter context.
        most: usize,
    },
    /// Models of different vocabularies have no ratio.
    #[error("the draft has {draft} tokens, the target {target}: they do not belong together")]
    Vocabulary {
        /// Vocabulary size of the draft.
        draft: usize,
        /// Vocabulary size of the target.
        target: usize,
    },
    /// The target does not say how texts begin, and prompts are to be generated.
    #[error("the target names no token that begins a text: give prompts")]
    NoBeginning,
    /// Too few prompts to divide into three.
    #[error("{found} prompts of two tokens or more: training needs {needed} at least")]
    TooFew {
        /// Prompts that can be used.
        found: usize,
        /// Smallest number of prompts.
        needed: usize,
    },
    /// All labels are the same, so there is nothing to tell apart.
    #[error("at lambda {lambda} {what} tokens are acceptable: there is nothing to learn")]
    OneClass {
        /// Ratio λ of acceptable tokens.
        lambda: f64,
        /// Acceptable tokens: "all" or "no".
        what: &'static str,
    },
}
