//! Steps that a generation wants, and its reactions to what it is handed.

use core::time::Duration;

use outrider_codec::frame::Finish;

use super::event::Committed;
use crate::{Chosen, Forward, draft::DraftError};

/// The next step that a generation wants.
#[derive(Debug)]
pub(super) enum Step {
    Forward(Forward),
    Send(Outgoing),
    /// Send this frame of guesses, which need not arrive.
    Tell(Told),
}

/// A frame of guesses, encoded.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) bytes: Vec<u8>,
    /// Bits of the ids in it.
    pub(super) payload_bits: usize,
    /// Guesses that were looked up since the frame before.
    pub(super) found: usize,
}

/// A frame that the cloud answers.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The round that the answer is about.
    pub(super) round: u32,
    pub(super) bytes: Vec<u8>,
}

/// Reaction to a frame of the cloud's, or to logits.
#[derive(Debug)]
pub(super) enum Reaction {
    /// A frame is to be sent: something has to be asked first, or the target is to write.
    Send(Outgoing),
    /// Tokens are committed, and the generation may be over; `tell` the cloud if it cannot know that itself.
    Commit { committed: Committed, finish: Option<Finish>, tell: bool },
    /// There is nothing to do yet.
    Wait,
    /// The frame came before: nothing, and it answers nothing.
    Stale,
}

/// Time at which a frame of the cloud's came, and its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    pub(super) at: Duration,
    pub(super) bits: usize,
}

/// A row of the draft model's logits, with the hidden state that they were made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogitsRow<'a> {
    pub(super) logits: &'a [f32],
    pub(super) hidden: &'a [f32],
}

/// Fails unless there are guesses, and all of them tokens.
pub(super) fn check_chosen(chosen: &[Chosen], vocab_size: u32) -> Result<(), DraftError> {
    let is_token = |id: &u32| *id < vocab_size;
    let are_tokens = chosen.iter().all(|Chosen { first, second }| is_token(first) && second.iter().all(is_token));
    if are_tokens && !chosen.is_empty() { Ok(()) } else { Err(DraftError::Choice { vocab_size }) }
}

impl LogitsRow<'_> {
    /// Fails unless there are V logits.
    pub(super) fn check(&self, vocab_size: u32) -> Result<(), DraftError> {
        let found = self.logits.len();
        if found == vocab_size as usize { Ok(()) } else { Err(DraftError::Length { found, vocab_size }) }
    }
}
