//! The rounds in flight at the edge: those that await their verdict, and those discarded after a rejection.
//!
//! With several in flight the next round is drafted as if those before it were accepted whole. A verdict is the
//! oldest's. Where a [continued](SentRound::continued) round is not accepted whole, the rounds after it are discarded
//! and a new epoch begins.

use core::time::Duration;
use std::collections::VecDeque;

use outrider_codec::frame::Evidence;

use super::{drafter::Drafter, error::EdgeError, reaction::Received, text::Text, verdict::Settlement};
use crate::study::evidence::TokenEvidence;

/// A round that awaits its verdict.
#[derive(Debug)]
pub(super) struct SentRound {
    pub(super) number: u32,
    /// The drafter in its state when the frame was sent.
    pub(super) drafter: Drafter,
    /// True if others may follow it before its verdict.
    pub(super) continued: bool,
    /// Evidence of its drafts, as far as it has come.
    pub(super) evidence: Vec<Evidence>,
    /// Time at which the frame was sent, and the time that its drafts took.
    pub(super) at: Duration,
    pub(super) drafting: Duration,
    pub(super) frame_bits: usize,
    pub(super) payload_bits: usize,
    /// Tokens that passed before the round's drafts.
    pub(super) passed: usize,
}

impl SentRound {
    /// True if the rounds after it are drafted after the right text.
    pub(super) fn goes_on(&self, settlement: &Settlement) -> bool {
        self.continued && settlement.accepted == self.drafter.ids().len() && settlement.finish.is_none()
    }

    /// Evidence of the tokens that the round commits; empty where that is not asked for.
    pub(super) fn explained(&self, settlement: &Settlement) -> Vec<TokenEvidence> {
        let drawn = self.drafter.drawn();
        if drawn.is_empty() {
            return Vec::new();
        }
        let bits = self.payload_bits as f64 / drawn.len() as f64;
        let accepted = &self.drafter.ids()[..settlement.accepted];
        let committed = accepted.iter().copied().chain(settlement.token).enumerate();
        committed
            .map(|(index, id)| match drawn.get(index) {
                Some(drawn) => TokenEvidence::of_draft(id, drawn, self.evidence.get(index), bits),
                // Nothing was drafted where the bonus token stands.
                None => TokenEvidence::default(),
            })
            .collect()
    }
}

/// A verdict that the edge cannot take before it has the target's distribution (DSSD).
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowUp {
    pub(super) accepted: usize,
    /// The bits that the verdict cost.
    pub(super) bits: usize,
}

/// The rounds in flight.
#[derive(Debug)]
pub(super) struct Flight {
    /// The most rounds in flight, at least 1.
    window: usize,
    /// Number of continued rounds that were not accepted whole.
    epoch: u32,
    /// Rounds in flight, oldest first; all but the last are continued.
    rounds: VecDeque<SentRound>,
    /// The follow-up that the oldest round still waits for after its verdict.
    follow_up: Option<FollowUp>,
    /// Time at which the last verdict came.
    verdict_at: Duration,
}

impl Flight {
    /// The state before the first round.
    pub(super) fn new(window: u8) -> Self {
        let (rounds, verdict_at) = (VecDeque::new(), Duration::ZERO);
        Self { window: window.into(), epoch: 0, rounds, follow_up: None, verdict_at }
    }

    /// True if no round awaits its verdict.
    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// True if there is no slot for another round.
    pub(super) fn is_full(&self) -> bool {
        self.rounds.len() >= self.window
    }

    /// True if more than one round may be in flight.
    pub(super) fn is_pipelined(&self) -> bool {
        self.window > 1
    }

    /// The epoch of the next round.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The round whose verdict comes next.
    pub(super) fn oldest(&self) -> Option<&SentRound> {
        self.rounds.front()
    }

    /// The same, of a generation that is over.
    pub(super) fn into_oldest(mut self) -> Option<SentRound> {
        self.rounds.pop_front()
    }

    /// The same, to resample in it.
    pub(super) fn oldest_mut(&mut self) -> Option<&mut SentRound> {
        self.rounds.front_mut()
    }

    /// True if this is the round whose verdict comes next.
    pub(super) fn is_oldest(&self, number: u32) -> bool {
        self.rounds.front().is_some_and(|round| round.number == number)
    }

    /// True if this round awaits its verdict.
    pub(super) fn awaits(&self, number: u32) -> bool {
        self.rounds.iter().any(|round| round.number == number)
    }

    /// The drafted ids in flight.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.rounds.iter().flat_map(|round| round.drafter.ids()).copied()
    }

    /// The number of drafted ids in flight.
    pub(super) fn drafted(&self) -> usize {
        self.rounds.iter().map(|round| round.drafter.ids().len()).sum()
    }

    /// Adds a round that was sent.
    pub(super) fn push(&mut self, round: SentRound) {
        self.rounds.push_back(round);
    }

    /// Notes that everything was sent again: the time between was neither the link's nor the server's.
    pub(super) fn resent(&mut self, now: Duration) {
        for round in &mut self.rounds {
            round.at = now;
        }
    }

    /// Keeps what a draft of the oldest round was judged by. Gives `false` if it was known.
    pub(super) fn add_evidence(&mut self, evidence: Evidence, text: &Text) -> Result<bool, EdgeError> {
        let may_come = self.follow_up.is_none();
        let unexpected = Err(EdgeError::Unexpected { frame: "Evidence" });
        let Some(round) = self.rounds.front_mut() else { return unexpected };
        let (index, known) = (usize::from(evidence.index), round.evidence.len());
        if evidence.round == round.number && index < known {
            return Ok(false);
        }
        let is_due = may_come && known < round.drafter.drawn().len();
        if evidence.round != round.number || index != known || !is_due {
            return unexpected;
        }
        text.check_target(&evidence.target)?;
        round.evidence.push(evidence);
        Ok(true)
    }

    /// The oldest round waits for the target's distribution.
    pub(super) fn follow_up(&mut self, accepted: usize, received: Received) {
        self.follow_up = Some(FollowUp { accepted, bits: received.bits });
    }

    /// The follow-up that the oldest round waits for besides its verdict.
    pub(super) fn awaited(&self) -> Option<FollowUp> {
        self.follow_up
    }

    /// Takes the rounds after the oldest out: they go on from a text that is not the target's.
    pub(super) fn discard_later(&mut self) -> impl Iterator<Item = SentRound> {
        self.rounds.drain(1.min(self.rounds.len())..)
    }

    /// Takes the oldest round out, which is settled; with the time that it waited for its verdict alone. Where several
    /// rounds are in flight together each has its own part of the time.
    pub(super) fn settle(&mut self, settlement: &Settlement, now: Duration) -> Option<(SentRound, Duration)> {
        let round = self.rounds.pop_front()?;
        self.follow_up = None;
        self.epoch += u32::from(round.continued && !round.goes_on(settlement));
        let alone = now.saturating_sub(round.at.max(self.verdict_at));
        self.verdict_at = now;
        Some((round, alone))
    }
}
