//! Accounting of the KV caches, whose total size stays within a budget of bytes.
//!
//! A pass begins when there is room for all that its session will hold after it, so that a pass that has begun always
//! ends. Room is made by *parking*: the caches of idle sessions are dropped, least recently used first, then those of
//! sessions whose pass has not begun, latest first. A parked session's tokens are kept, and read again on its return.
//! For sessions without a cache, another one is dropped only after its *turn*, a minimum time since it was begun.
//! Without turns, newcomers would evict each other's caches, and all sessions would read again instead of writing.
//!
//! The caches themselves belong to the engine.

use std::{
    cmp::Reverse,
    collections::HashMap,
    time::{Duration, Instant},
};

/// Sizes of caches in bytes, by slot.
#[derive(Debug)]
pub(super) struct Memory {
    budget: usize,
    turn: Duration,
    used: usize,
    /// Logical clock, which counts events.
    now: u64,
    holders: HashMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    /// Size of the cache, or the size to which it may grow in the pass under way, in bytes.
    bytes: usize,
    state: State,
    /// Time at which the cache was begun.
    since: Instant,
}

/// State of a slot with a cache, with its logical time. Ordered as caches are dropped.
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

    /// Slots with a cache, and the size of each in bytes.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.holders.iter().map(|(slot, holder)| (*slot, holder.bytes))
    }

    /// Slots whose pass is under way, and the bytes that they may use in it.
    pub(super) fn running(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let running = self.holders.iter().filter(|(_, holder)| holder.state == State::Running);
        running.map(|(slot, holder)| (*slot, holder.bytes))
    }

    /// Marks the slot as having a pass in line.
    pub(super) fn wait(&mut self, slot: u64) {
        self.now += 1;
        if let Some(holder) = self.holders.get_mut(&slot) {
            holder.state = State::Waiting(Reverse(self.now));
        }
    }

    /// Begins a pass after which the slot's cache has `bytes`, or its present size if that is more. Returns the slots
    /// whose caches are to be dropped for it; `None` if there is not enough room even then. Ask again when a pass has
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

    /// Grows the slot's cache to `bytes` in the pass under way, if no other cache has to be dropped for that. Returns
    /// true if it grew.
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

    /// Ends the slot's pass; its cache now has `bytes`.
    pub(super) fn end(&mut self, slot: u64, bytes: usize) {
        self.now += 1;
        if let Some(holder) = self.holders.get_mut(&slot) {
            self.used = self.used - holder.bytes + bytes;
            (holder.bytes, holder.state) = (bytes, State::Idle(self.now));
        }
    }

    /// Removes the slot's cache from the accounts.
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

    /// Performs a pass of the slot, from beginning to end.
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
        /// Holds for any sequence of passes: the budget is kept, running passes keep their caches, and any pass can
        /// begin when nothing runs.
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
