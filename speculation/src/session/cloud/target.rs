//! The target, as a session needs to know it, and what it is asked for.

use std::sync::Arc;

use outrider_codec::frame::{Limits, SamplingParameters};

use super::shaping::PassShaping;
use crate::{
    Forward,
    control::{calibration::Clarity, depth::Depth},
    judge::{Judgement, Round, judge},
    sample::LogitsError,
};

/// The target model, as a session needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetInfo {
    /// V, the size of the vocabulary.
    pub vocab_size: u32,
    /// SHA-256 of the vocabulary; FORMAT.md says of what exactly.
    pub tokenizer_hash: [u8; 32],
    /// Limits of its sessions, for the Welcome.
    pub limits: Limits,
    /// Tokens that end a text.
    pub eos_ids: Vec<u32>,
}

impl TargetInfo {
    /// True if no token can follow this one: it ends texts, or is outside of the vocabulary.
    pub(super) fn is_last(&self, id: u32) -> bool {
        id >= self.vocab_size || self.eos_ids.contains(&id)
    }
}

/// A forward pass of the target, and the round that it judges.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// The tokens to feed, and the number of rows of logits that are wanted. No row is wanted of a pass that only reads
    /// the prompt.
    pub forward: Forward,
    /// The round that the rows judge; in a pass that only reads the prompt, the settings by which later drafts are
    /// judged.
    pub round: Arc<Round>,
    /// The most tokens that the text may still grow by, at least one: where it is cut, whatever is judged.
    pub left: usize,
    /// The change of the rows before they are judged.
    pub shaping: Option<Box<PassShaping>>,
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

/// The most tokens of the text before guesses that an [`Offer`] contains.
pub const OFFER_TAIL: usize = 16;

/// Guesses that have come, for a target with draws of its own. It writes without pause, and may use them at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Length of the text after which they are guessed, earlier guesses included.
    pub position: usize,
    /// The last tokens of that text, at most [`OFFER_TAIL`].
    pub tail: Vec<u32>,
    /// The guesses, each after the one before.
    pub ids: Vec<u32>,
}

/// Guesses asked of the server's own draft model: the tokens that the shared noise makes of its distributions.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnDrafts {
    /// Token ids of the text so far.
    pub text: Vec<u32>,
    /// Number of tokens to look up after it; those of a model end by their [depth](Self::depth).
    pub count: usize,
    /// Decision where a model's guesses end.
    pub depth: Box<Depth>,
    /// Parameters of the sampling transform S(·).
    pub sampling: SamplingParameters,
    /// The seed of the shared noise.
    pub seed: u64,
}

/// A guess of the server's own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnDraft {
    /// Id of the guessed token.
    pub id: u32,
    /// The clarity of its choice, if that is known.
    pub clarity: Option<Clarity>,
    /// Number of tokens before it that the text repeats, if it was looked up; else 0.
    pub matched: usize,
}

impl From<u32> for OwnDraft {
    fn from(id: u32) -> Self {
        Self { id, clarity: None, matched: 0 }
    }
}

impl Pass {
    /// Judges the round by the rows of the pass, which its [shaping](Self::shaping) has changed.
    ///
    /// # Errors
    /// If logits cannot be sampled from.
    pub fn judge(&self, rows: &[&[f32]]) -> Result<Judgement, LogitsError> {
        if self.forward.rows == 0 { Ok(Judgement::default()) } else { judge(&self.round, rows) }
    }
}
