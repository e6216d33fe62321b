//! The guesses that lie ahead of a text which the target writes.
//!
//! What is written never depends on them: under the shared noise the target's choice at a position is the same whoever
//! guessed what (DESIGN of coupled drafting: Daliri, Musco, Suresh). A guess at hand lets a pass judge it, and go on
//! behind it if it was right.
//!
//! Guesses come in chains. One that is compared with what was written, in a pass or because it came late, and differs
//! breaks its chain: what follows in it was guessed behind a wrong token, and is dropped until another chain begins.

use core::time::Duration;
use std::collections::VecDeque;

use outrider_codec::{
    error::ParameterError,
    frame::Guesses,
    scheme::{Drafts, Scheme, SchemeParameters},
};

use super::{events::CloudEvent, failure::Failure};
use crate::policy::goodput::{AcceptanceRate, Prices};

/// The longest that a pass is held, whatever patience an edge asks for.
pub const MAX_PATIENCE: Duration = Duration::from_secs(2);

/// Passes without a guess after which the server drafts one whatever it costs: else what drafts cost and how often they
/// are right would never be measured again.
const UNMEASURED: usize = 64;

/// The guesses of one generation that await their place in the text.
#[derive(Debug)]
pub(super) struct GuessQueue {
    /// How ids are coded.
    scheme: Scheme,
    /// Number of the last chain; 0 before the first.
    chain: u32,
    /// Position behind the last guess of the chain.
    end: usize,
    /// Whether a guess of the chain was wrong.
    broken: bool,
    /// Guesses at the tokens behind the end of the text.
    ahead: VecDeque<u32>,
    /// What the server guessed itself for the next pass, if it was asked to.
    own: Option<Vec<u32>>,
    /// Whether the pass under way judges that.
    judges_own: bool,
    acceptance: AcceptanceRate,
    /// Passes since anything was compared with what was written.
    unmeasured: usize,
    /// Frames that came, modulo 256.
    heard: u8,
    /// How many had when the pass under way began: what comes later waits for its end, which is not the link's doing.
    taken: u8,
    patience: Duration,
    hold: Hold,
}

/// Whether the next pass is held for a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// It has not been yet.
    Due,
    /// It is being held.
    On,
    /// It was, for as long as the edge wants.
    Over,
}

impl GuessQueue {
    /// None yet, over a vocabulary of V. So many guesses were right lately.
    pub(super) fn new(vocab_size: u32, acceptance: AcceptanceRate) -> Result<Self, ParameterError> {
        Ok(Self {
            scheme: Scheme::new(SchemeParameters::Coupled, vocab_size)?,
            chain: 0,
            end: 0,
            broken: false,
            ahead: VecDeque::new(),
            own: None,
            judges_own: false,
            acceptance,
            unmeasured: 0,
            heard: 0,
            taken: 0,
            patience: Duration::ZERO,
            hold: Hold::Due,
        })
    }

    /// Takes a frame of guesses at a text of which `written` is known, prompt included; at most `most` may lie ahead of
    /// it. What comes again, or of a chain before the last, changes nothing.
    pub(super) fn admit(
        &mut self,
        guesses: &Guesses,
        written: &[u32],
        most: usize,
    ) -> Result<Option<CloudEvent>, Failure> {
        let position = guesses.position as usize;
        if guesses.chain < self.chain || guesses.chain == self.chain && position < self.end {
            return Ok(None);
        }
        let is_new = guesses.chain > self.chain;
        // Behind what the edge has from us, or behind its own last guess: there is no gap.
        if position > if is_new { written.len() } else { self.end } {
            return Err(Failure::out_of_order("there is a guess missing before these"));
        }
        let Drafts::Ids(ids) = self.scheme.decode_round(&guesses.payload, guesses.count)? else {
            return Err(Failure::invalid_draft("guesses are ids"));
        };
        if is_new {
            (self.chain, self.broken) = (guesses.chain, false);
            self.ahead.clear();
        }
        self.end = position + ids.len();
        self.heard = self.heard.wrapping_add(1);
        self.patience = Duration::from_micros(100).saturating_mul(guesses.patience).min(MAX_PATIENCE);
        if self.patience.is_zero() {
            self.hold = Hold::Over;
        }
        let (came, mut late) = (ids.len(), 0);
        for (id, position) in ids.into_iter().zip(position..) {
            match written.get(position) {
                Some(&token) => {
                    late += 1;
                    self.broken |= token != id;
                }
                None if !self.broken => self.ahead.push_back(id),
                None => {}
            }
        }
        if self.ahead.len() > most {
            let ahead = self.ahead.len();
            return Err(Failure::invalid_draft(&format!("{ahead} guesses ahead of the text are more than {most}")));
        }
        Ok(Some(CloudEvent::Guessed { came, late }))
    }

    /// The guesses at the next tokens that are worth their rows, at most `most`: the edge's, or the server's own if
    /// those are more.
    pub(super) fn choose(&mut self, prices: Prices, most: usize) -> Vec<u32> {
        self.taken = self.heard;
        let own = self.own.take().unwrap_or_default();
        let worth = self.worth(prices.row, most);
        self.judges_own = own.len() > self.ahead.len();
        if self.judges_own {
            own.into_iter().take(worth).collect()
        } else {
            self.ahead.iter().copied().take(worth).collect()
        }
    }

    /// Whether what the pass judged was the server's own.
    pub(super) fn judged_own(&self) -> bool {
        self.judges_own
    }

    /// The share of guesses that was right lately.
    pub(super) fn acceptance(&self) -> AcceptanceRate {
        self.acceptance
    }

    /// How many tokens the server is to guess itself for the next pass, which are worth their drafting and their rows:
    /// none where the edge's are at hand; asked once a pass.
    pub(super) fn begin_drafting(&self, prices: Prices, most: usize) -> usize {
        let Some(price) = prices.own_draft.filter(|_| self.own.is_none() && self.ahead.is_empty()) else { return 0 };
        self.worth(price + prices.row, most)
    }

    /// How many guesses are worth their price, or one now and then that is not.
    fn worth(&self, price: f64, most: usize) -> usize {
        let probe = usize::from(self.unmeasured >= UNMEASURED).min(most);
        self.acceptance.drafts_paid(price, most).max(probe)
    }

    /// The server has guessed these.
    pub(super) fn drafted(&mut self, ids: Vec<u32>) {
        self.own = Some(ids);
    }

    /// Tokens were written behind the end of the text, by a pass that accepted so many of the guesses that it judged.
    pub(super) fn written(&mut self, tokens: &[u32], accepted: usize, judged: usize) {
        (self.hold, self.own) = (Hold::Due, None);
        let compares = judged > 0 || !self.ahead.is_empty();
        self.unmeasured = if compares { 0 } else { self.unmeasured + 1 };
        if self.judges_own {
            self.acceptance.observe(accepted, accepted < judged);
        }
        for &token in tokens {
            let Some(guess) = self.ahead.pop_front() else { return };
            let is_right = guess == token;
            if !self.judges_own {
                self.acceptance.observe(usize::from(is_right), !is_right);
            }
            if !is_right {
                self.broken = true;
                return self.ahead.clear();
            }
        }
    }

    /// Frames that had come when the pass under way began, modulo 256.
    pub(super) fn taken(&self) -> u8 {
        self.taken
    }

    /// How long the next pass is to be held; asked once a pass.
    pub(super) fn begin_hold(&mut self) -> Option<Duration> {
        if self.hold != Hold::Due || self.patience.is_zero() || self.has_guess() {
            return None;
        }
        self.hold = Hold::On;
        Some(self.patience)
    }

    /// Whether the next pass waits.
    pub(super) fn is_held(&self) -> bool {
        self.hold == Hold::On && !self.has_guess()
    }

    /// Whether there is a guess at the next token, anybody's.
    fn has_guess(&self) -> bool {
        !self.ahead.is_empty() || self.own.as_ref().is_some_and(|own| !own.is_empty())
    }

    /// It has waited long enough.
    pub(super) fn end_hold(&mut self) {
        self.hold = Hold::Over;
    }
}
