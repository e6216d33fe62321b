//! Time that an engine's thread waits for sessions that are about to come back, so that they share a run.
//!
//! A session that is answered asks for its next pass a moment later, once its token is chosen and sent. If the first
//! session to come back were served at once, it would run alone and all others in the run after it. Every run would
//! leave out a part of the sessions, though one run of all costs little more. Therefore the thread waits a little, but
//! only for sessions that came back at once the last time.

use core::time::Duration;
use std::collections::{HashMap, HashSet};

/// Longest wait: this part of the last run, as a divisor, and at most [`LONGEST`].
const SHARE: u32 = 4;
const LONGEST: Duration = Duration::from_millis(20);
/// Multiple of the wait within which a session still counts as coming back at once, so that a session that misses the
/// wait by a little is waited for the next time.
const LATE: u32 = 2;

/// Slots that were answered and have not come back. Times count from any fixed moment.
#[derive(Debug, Default)]
pub struct Gathering {
    answered: HashMap<u64, Duration>,
    /// Slots of the last run: of a thousand idle sessions none is looked at.
    last: Vec<u64>,
    /// Slots that came back at once the last time.
    prompt: HashSet<u64>,
    wait: Duration,
}

impl Gathering {
    /// Counts a run that is over.
    pub fn ran(&mut self, took: Duration) {
        self.wait = (took / SHARE).min(LONGEST);
        self.last.clear();
    }

    /// A slot was answered and asks for nothing at the moment.
    pub fn answered(&mut self, slot: u64, now: Duration) {
        self.answered.insert(slot, now);
        self.last.push(slot);
    }

    /// A slot has asked for a pass at this time.
    pub fn came(&mut self, slot: u64, asked: Duration) {
        let Some(answered) = self.answered.remove(&slot) else { return };
        if asked.saturating_sub(answered) <= LATE * self.wait {
            self.prompt.insert(slot);
        } else {
            self.prompt.remove(&slot);
        }
    }

    /// Forgets a slot that is given up.
    pub fn left(&mut self, slot: u64) {
        self.answered.remove(&slot);
        self.prompt.remove(&slot);
    }

    /// Time until the last expected slot should have come; `None` if no slot is expected.
    pub fn expected(&self, now: Duration) -> Option<Duration> {
        let prompt = self.last.iter().filter(|slot| self.prompt.contains(slot));
        let until = prompt.filter_map(|slot| self.answered.get(slot)).max().map(|&answered| answered + self.wait)?;
        Some(until.saturating_sub(now)).filter(|wait| !wait.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_came_back_at_once_is_waited_for_and_nobody_else() {
        let (mut gathering, start) = (Gathering::default(), Duration::ZERO);
        assert_eq!(gathering.expected(start), None);
        gathering.ran(16 * MS);
        for slot in [1, 2, 3] {
            gathering.came(slot, start);
            gathering.answered(slot, start);
        }
        assert_eq!(gathering.expected(start), None, "nothing is known of them");
        gathering.came(1, start + MS);
        gathering.came(2, start + 30 * MS);
        gathering.came(3, start + 3 * MS);
        let next = start + 50 * MS;
        for slot in [1, 2, 3] {
            gathering.answered(slot, next);
        }
        assert_eq!(gathering.expected(next), Some(4 * MS), "a quarter of the run");
        gathering.came(1, next + MS);
        assert_eq!(gathering.expected(next + MS), Some(3 * MS), "the third is still out");
        assert_eq!(gathering.expected(next + 4 * MS), None, "it was waited for long enough");
        gathering.came(3, next + 9 * MS);
        gathering.answered(3, next + 20 * MS);
        assert_eq!(gathering.expected(next + 20 * MS), None, "it was late once");
    }

    #[test]
    fn who_left_is_not_waited_for_and_a_long_run_not_for_long() {
        let (mut gathering, start) = (Gathering::default(), Duration::ZERO);
        gathering.ran(1000 * MS);
        for _ in 0..2 {
            gathering.answered(7, start);
            gathering.came(7, start);
        }
        gathering.answered(7, start);
        assert_eq!(gathering.expected(start), Some(LONGEST));
        gathering.left(7);
        assert_eq!(gathering.expected(start), None);
    }
}
