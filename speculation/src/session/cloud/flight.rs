//! The rounds in flight at the cloud: which Draft may come, and which waits for its turn.
//!
//! A [continued](Draft::continued) round does not keep the edge from sending the next. Rounds that come while one is at
//! work wait undecoded: their codes depend on the state that the verdicts before them leave. Where a draft of a
//! continued round is rejected, the rounds that wait or are still under way are discarded; the epoch separates them
//! from later ones.

use std::collections::VecDeque;

use outrider_codec::frame::Draft;

use super::failure::Failure;

/// The rounds of a generation that have come and have no verdict yet.
#[derive(Debug)]
pub(super) struct Flight {
    /// The most rounds in flight, at least 1.
    window: usize,
    /// Number of continued rounds of which a draft was rejected.
    epoch: u32,
    /// The round at work; if there is none, the next.
    round: u32,
    /// True if the round at work is continued; `None` if no round is at work.
    at_work: Option<bool>,
    /// The rounds that follow, in order: with the one at work no more than the window. All but the last are continued.
    waiting: VecDeque<Draft>,
    /// The first round since the edge last had to wait for a verdict.
    unbroken_since: u32,
}

impl Flight {
    /// The state before the first round.
    pub(super) fn new(window: u8) -> Self {
        Self { window: window.into(), epoch: 0, round: 0, at_work: None, waiting: VecDeque::new(), unbroken_since: 0 }
    }

    /// The round at work; if there is none, the next.
    pub(super) fn round(&self) -> u32 {
        self.round
    }

    /// True while a round is at work.
    pub(super) fn is_busy(&self) -> bool {
        self.at_work.is_some()
    }

    /// A Draft of this generation has come. Gives the first round of which the edge may not have all frames yet, or
    /// `None` if the Draft comes again or too late: that changes nothing.
    pub(super) fn admit(&mut self, draft: Draft) -> Result<Option<u32>, Failure> {
        let in_flight = self.waiting.len() + usize::from(self.is_busy());
        let Draft { generation, round, epoch, .. } = draft;
        if epoch < self.epoch || epoch == self.epoch && u64::from(round) < u64::from(self.round) + in_flight as u64 {
            return Ok(None);
        }
        let refuse = |why: String| Err(Failure::out_of_order(&format!("Draft {generation}/{round} {why}")));
        if epoch > self.epoch {
            return refuse(format!("is of epoch {epoch} while {} is under way", self.epoch));
        }
        let expected = u64::from(self.round) + in_flight as u64;
        if u64::from(round) != expected {
            return refuse(format!("came while {generation}/{expected} was expected"));
        }
        let last = self.waiting.back().map(|draft| draft.continued).or(self.at_work);
        if last == Some(false) {
            return refuse("came before the verdict of a round that is not continued".to_owned());
        }
        if draft.continued && self.window == 1 {
            return refuse("is continued, where one round may be in flight".to_owned());
        }
        if in_flight >= self.window {
            return refuse(format!("is more than the {} rounds that may be in flight", self.window));
        }
        self.waiting.push_back(draft);
        let beyond_window = (u64::from(round) + 1).saturating_sub(self.window as u64) as u32;
        Ok(Some(beyond_window.max(self.unbroken_since)))
    }

    /// The next round, if none is at work: it is from now on.
    pub(super) fn begin(&mut self) -> Option<Draft> {
        if self.is_busy() {
            return None;
        }
        let draft = self.waiting.pop_front()?;
        self.at_work = Some(draft.continued);
        Some(draft)
    }

    /// Ends the round at work, of which all drafts are accepted or not.
    pub(super) fn end(&mut self, accepted: bool) {
        let was_continued = self.at_work.take() == Some(true);
        self.round += 1;
        if was_continued && accepted {
            return;
        }
        if was_continued {
            self.epoch += 1;
            self.waiting.clear();
        }
        self.unbroken_since = self.round;
    }
}
