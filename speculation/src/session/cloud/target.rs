//! The target, as a session needs to know it, and what it is asked for.

use std::sync::Arc;

use outrider_codec::frame::{Limits, SamplingParameters};

use crate::{
    Forward,
    judge::{Judgement, Round, judge},
    sample::LogitsError,
};

/// The target model, as a session needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetInfo {
    /// V.
    pub vocab_size: u32,
    /// SHA-256 of the vocabulary; FORMAT.md says of what exactly.
    pub tokenizer_hash: [u8; 32],
    /// Limits of its sessions, for the Welcome.
    pub limits: Limits,
    /// Tokens that end a text.
    pub eos_ids: Vec<u32>,
}

impl TargetInfo {
    /// Whether no token can follow this one: it ends texts, or is none.
    pub(super) fn is_last(&self, id: u32) -> bool {
        id >= self.vocab_size || self.eos_ids.contains(&id)
    }
}

/// A forward pass of the target, and the round that it judges.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// What is fed, and how many rows of logits are wanted. No row is wanted of a pass that only reads the prompt.
    pub forward: Forward,
    /// What the rows judge; of a pass that only reads the prompt, how the drafts that follow are to be judged.
    pub round: Arc<Round>,
    /// The most tokens that the text may still grow by, at least one: where it is cut, whatever is judged.
    pub left: usize,
}

/// The pass under way, as its judgement will be read.
#[derive(Debug)]
pub(super) struct InFlight {
    /// The generation that it belongs to.
    pub(super) generation: u32,
    /// Tokens of the text that the cache holds after a pass that only reads; `None` if the pass judges.
    pub(super) reads: Option<usize>,
    pub(super) round: Arc<Round>,
}

/// The most tokens of the text before guesses that an [`Offer`] tells.
pub const OFFER_TAIL: usize = 16;

/// Guesses that have come, for a target with draws of its own. It writes on by itself, and may use them at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Length of the text behind which they are guessed, earlier guesses included.
    pub position: usize,
    /// The last tokens of that text, at most [`OFFER_TAIL`].
    pub tail: Vec<u32>,
    /// The guesses, one behind the other.
    pub ids: Vec<u32>,
}

/// What the server's own draft model is to guess: the tokens that the shared noise makes of its distributions.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnDrafts {
    /// The text so far.
    pub text: Vec<u32>,
    /// How many tokens behind it.
    pub count: usize,
    /// S(·).
    pub sampling: SamplingParameters,
    /// The text's seed.
    pub seed: u64,
}

impl Pass {
    /// Judges the round by the rows of the pass.
    ///
    /// # Errors
    /// If logits cannot be sampled from.
    pub fn judge(&self, rows: &[&[f32]]) -> Result<Judgement, LogitsError> {
        if self.forward.rows == 0 { Ok(Judgement::default()) } else { judge(&self.round, rows) }
    }
}
