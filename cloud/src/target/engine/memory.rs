//! Whose cache may stay: the bytes of all caches together stay within a budget.
//!
//! A pass begins when there is room for all that its session will hold after it, so that a pass that has begun always
//! ends. Room is made by *parking*: the caches of idle sessions are dropped, least recently used first, then those of
//! sessions whose pass has not begun, last come first. A parked session's tokens are kept, and read again on its
//! return. For sessions without a cache, a cache is dropped only when it has had its *turn*, some time since it was
//! begun: were it dropped for each newcomer, everybody would read again and nobody would write.
//!
//! This is the accounting; the caches themselves are the engine's.

use std::{
    cmp::Reverse,
    collections::HashMap,
    time::{Duration, Instant},
};

/// Bytes by slot.
#[derive(Debug)]
pub(super) struct Memory {
    budget: usize,
    turn: Duration,
    used: usize,
    /// Counts what happens: the order of time.
    now: u64,
    holders: HashMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    /// What its cache has, or may grow to in the pass under way.
    bytes: usize,
    state: State,
    /// When it was begun.
    since: Instant,
}

/// What a slot with a cache does, and since when. In the order in which caches are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Idle(u64),
    Waiting(Reverse<u64>),
    Running,
}

impl Memory {
    pub(super) fn new(budget: usize, turn: Duration) -> Self {
        Self { budget, turn, used: 0, now: 0, holders: HashMap::new() }
    }

    /// Bytes of all caches, at most the budget.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Slots with a cache, and its bytes.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.holders.iter().map(|(slot, holder)| (*slot, holder.bytes))
    }

    /// Slots whose pass is under way, and the bytes that they may have in it.
    pub(super) fn running(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let running = self.holders.iter().filter(|(_, holder)| holder.state == State::Running);
        running.map(|(slot, holder)| (*slot, holder.bytes))
    }

    /// The slot has a pass in line.
    pub(super) fn wait(&mut self, slot: u64) {
        self.now += 1;
        if let Some(holder) = self.holders.get_mut(&slot) {
            holder.state = State::Waiting(Reverse(self.now));
        }
    }

    /// Begins a pass after which the slot's cache has `bytes`, or what it has now if that is more. Gives the slots
    /// whose caches are to be dropped for it; `None` if there would be no room then either: ask again when a pass has
    /// ended, or later.
    pub(super) fn begin(&mut self, slot: u64, bytes: usize, now: Instant) -> Option<Vec<u64>> {
        let (present, since) = self.holders.get(&slot).map_or((None, now), |holder| (Some(holder.bytes), holder.since));
        let has_turn = |holder: &Holder| present.is_none() && now.saturating_duration_since(holder.since) < self.turn;
        let present = present.unwrap_or(0);
        let bytes = present.max(bytes);
        let others = self.holders.iter().filter(|(other, _)| **other != slot);
        let (stay, mut may_go): (Vec<_>, Vec<_>) =
            others.partition(|(_, holder)| holder.state == State::Running || has_turn(holder));
        if stay.iter().map(|(_, holder)| holder.bytes).sum::<usize>() + bytes > self.budget {
            return None;
        }
        may_go.sort_unstable_by_key(|(_, holder)| Reverse(holder.state));
        let mut may_go: Vec<u64> = may_go.into_iter().map(|(&other, _)| other).collect();
        let mut parked = Vec::new();
        while self.used - present + bytes > self.budget {
            let next = may_go.pop()?;
            self.release(next);
            parked.push(next);
        }
        self.used += bytes - present;
        self.holders.insert(slot, Holder { bytes, state: State::Running, since });
        Some(parked)
    }

    /// Whether the slot's cache may have `bytes` in the pass under way without anybody else losing theirs; from now on
    /// it does.
    pub(super) fn extend(&mut self, slot: u64, bytes: usize) -> bool {
        let Some(holder) = self.holders.get_mut(&slot) else { return false };
        let more = bytes.saturating_sub(holder.bytes);
        let has_room = self.used + more <= self.budget;
        if has_room {
            self.used += more;
            holder.bytes += more;
        }
        has_room
    }

    /// The slot's pass has ended; its cache has `bytes` now.
    pub(super) fn end(&mut self, slot: u64, bytes: usize) {
        self.now += 1;
        if let Some(holder) = self.holders.get_mut(&slot) {
            self.used = self.used - holder.bytes + bytes;
            (holder.bytes, holder.state) = (bytes, State::Idle(self.now));
        }
    }

    /// The slot's cache is dropped.
    pub(super) fn release(&mut self, slot: u64) {
        if let Some(holder) = self.holders.remove(&slot) {
            self.used -= holder.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A pass of the slot, from beginning to end.
    fn pass(memory: &mut Memory, slot: u64, bytes: usize) -> Vec<u64> {
        memory.wait(slot);
        let parked = memory.begin(slot, bytes, Instant::now()).unwrap();
        memory.end(slot, bytes);
        parked
    }

    #[test]
    fn the_least_recently_used_goes_first_and_no_more_than_needed() {
        let mut memory = Memory::new(100, Duration::ZERO);
        for slot in 0..4 {
            assert_eq!(pass(&mut memory, slot, 25), [0; 0]);
        }
        assert_eq!(pass(&mut memory, 0, 25), [0; 0]);
        assert_eq!(pass(&mut memory, 4, 30), [1, 2]);
        assert_eq!(memory.used(), 80);
    }

    #[test]
    fn idle_ones_go_before_those_in_line_and_the_last_in_line_first() {
        let mut memory = Memory::new(100, Duration::ZERO);
        for slot in 0..4 {
            pass(&mut memory, slot, 25);
        }
        [2, 0, 3].into_iter().for_each(|slot| memory.wait(slot));
        assert_eq!(memory.begin(2, 100, Instant::now()).unwrap(), [1, 3, 0]);
    }

    #[test]
    fn what_runs_is_never_dropped() {
        let mut memory = Memory::new(100, Duration::ZERO);
        memory.begin(0, 60, Instant::now()).unwrap();
        pass(&mut memory, 1, 40);
        assert_eq!(memory.begin(2, 41, Instant::now()), None);
        assert_eq!(memory.used(), 100, "nothing is dropped for nothing");
        memory.end(0, 60);
        assert_eq!(memory.begin(2, 41, Instant::now()).unwrap(), [1, 0]);
    }

    #[test]
    fn each_has_its_turn() {
        let (turn, start) = (Duration::from_secs(1), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let mut memory = Memory::new(100, turn);
        for (slot, millis) in [(0, 0), (1, 600), (2, 0)] {
            memory.begin(slot, 30, at(millis)).unwrap();
            memory.end(slot, 30);
        }
        assert_eq!(memory.begin(3, 30, at(900)), None, "nobody's turn is over");
        assert_eq!(memory.begin(3, 60, at(1100)).unwrap(), [0, 2], "not 1, which was begun later");
        memory.end(3, 60);
        assert_eq!(memory.begin(1, 50, at(1100)).unwrap(), [3], "who is here need not wait for anybody's turn");
    }

    proptest! {
        /// Of any sequence of passes: the budget is kept, what runs stays, and when nothing runs any pass can begin.
        #[test]
        fn the_budget_is_kept(acts in vec((0..9u64, 1..=100usize, any::<bool>()), 1..200)) {
            let mut memory = Memory::new(100, Duration::ZERO);
            let mut running = BTreeMap::new();
            for (slot, bytes, end) in acts {
                if running.contains_key(&slot) || end {
                    if let Some((slot, bytes)) = running.pop_first() {
                        memory.end(slot, bytes);
                    }
                    continue;
                }
                memory.wait(slot);
                let held: usize = running.values().sum();
                match memory.begin(slot, bytes, Instant::now()) {
                    Some(parked) => {
                        prop_assert!(parked.iter().all(|slot| !running.contains_key(slot)));
                        running.insert(slot, memory.holders[&slot].bytes);
                    }
                    None => prop_assert!(held > 0),
                }
                prop_assert!(memory.used() <= 100);
                prop_assert_eq!(memory.used(), memory.holders.values().map(|holder| holder.bytes).sum::<usize>());
                prop_assert!(running.keys().all(|slot| memory.holders.contains_key(slot)));
            }
        }
    }
}
