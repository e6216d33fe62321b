//! Schedule of tokens in runs of the model. It has no thread, no model and no clock.
//!
//! The tokens of all sessions in a run are the rows of one matrix; a run has a budget of B rows. Two kinds of work
//! share them:
//!
//! - A **step** has few tokens besides those whose logits are wanted: a round of drafts, a token that the target writes
//!   alone. Steps are fed whole. Clients take turns, and each session is served once before any other of its client is
//!   served again.
//! - A **prompt** has many tokens without logits, including those that a parked session reads again. Prompts are fed in
//!   chunks: clients take turns, and so do the sessions of each client.
//!
//! | work | rows of a run |
//! |---|---|
//! | steps | up to B; up to 3B/4 while a prompt waits, so that prompts always progress |
//! | steps of one client | the same; up to B/4, or one step, while there are other clients and rows cost time |
//! | tokens of prompts, together | rows that steps leave, up to a chunk of B/4 |
//!
//! The first step of each client is served in turn; its further steps wait for room in the client's part. A run before
//! has a chunk of prompts at most, however many and long they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::rotation::Rotation;

/// Tokens without logits that a step may have, such as drafts that a gate let pass or the end of a short prompt.
const STEP_SILENT_TOKENS: usize = 16;

/// Divisor of the budget: the part that is kept for prompts.
const PROMPT_SHARE: usize = 4;

/// Divisor of the budget: the part that steps of one client may have beside other clients.
const CLIENT_SHARE: usize = 4;

/// Number of runs for which a client counts as one of several after a run with its work.
const RECENT_RUNS: u64 = 16;

/// Remaining work of a session's pass: `tokens` to feed, of which the last `rows` need logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) tokens: usize,
    pub(super) rows: usize,
}

impl Work {
    fn silent(self) -> usize {
        self.tokens - self.rows
    }
}

/// A session's part in a run: the next `tokens` of its pass, which end the pass if it `completes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) slot: u64,
    pub(super) tokens: usize,
    pub(super) completes: bool,
}

/// The passes under way, at most one for each slot.
#[derive(Debug)]
pub(super) struct Schedule {
    budget: usize,
    /// Rows that steps of one client may have beside other clients.
    most_of_client: usize,
    steps: Rotation<IpAddr, (u64, Work)>,
    prompts: Rotation<IpAddr, (u64, Work)>,
    /// Number of planned runs, and for each recent client the last one that had its work.
    runs: u64,
    recent: BTreeMap<IpAddr, u64>,
}

impl Schedule {
    /// A schedule for runs of at most `budget` rows; see [`most_rows`] for the largest pass. Clients have a share of a
    /// run unless rows are cheap.
    pub(super) fn new(budget: usize, are_rows_cheap: bool) -> Self {
        let (steps, prompts) = (Rotation::default(), Rotation::default());
        let most_of_client = if are_rows_cheap { budget } else { budget / CLIENT_SHARE };
        Self { budget, most_of_client, steps, prompts, runs: 0, recent: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.prompts.is_empty()
    }

    /// Returns true if steps wait that the last run had no room for, or that came after it.
    pub(super) fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Adds a pass of a client's session. `rows` are at most [`most_rows`] of the budget and at most the tokens.
    pub(super) fn push(&mut self, client: IpAddr, slot: u64, work: Work) {
        if work.silent() > STEP_SILENT_TOKENS {
            self.prompts.push(client, (slot, work));
        } else {
            self.steps.push(client, (slot, work));
        }
    }

    /// Removes a slot's pass.
    pub(super) fn remove(&mut self, slot: u64) {
        self.steps.retain(|(other, _)| *other != slot);
        self.prompts.retain(|(other, _)| *other != slot);
    }

    /// Returns true if a slot's pass is under way.
    pub(super) fn has(&self, slot: u64) -> bool {
        self.steps.iter().any(|(other, _)| *other == slot) || self.prompts.iter().any(|(other, _)| *other == slot)
    }

    /// Removes a slot's pass if it is a prompt; returns whether it was one.
    pub(super) fn remove_prompt(&mut self, slot: u64) -> bool {
        let before = self.prompts.len();
        self.prompts.retain(|(other, _)| *other != slot);
        self.prompts.len() < before
    }

    /// Plans the next run, empty if there is no work. Its tokens count as fed.
    pub(super) fn next_run(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut left = self.budget;
        let kept = if self.prompts.is_empty() { 0 } else { self.budget / PROMPT_SHARE };
        let most = if self.has_several_clients() { self.most_of_client } else { self.budget };
        // Rows of each client's steps.
        let mut taken = BTreeMap::<IpAddr, usize>::new();
        while let Some((client, (slot, work))) = self.steps.pop_if(|client, (_, work)| {
            work.tokens + kept <= left && taken.get(client).is_none_or(|before| before + work.tokens <= most)
        }) {
            left -= work.tokens;
            *taken.entry(client).or_default() += work.tokens;
            self.recent.insert(client, self.runs);
            pieces.push(Piece { slot, tokens: work.tokens, completes: true });
        }
        let mut share = left.min(self.budget / PROMPT_SHARE);
        for _ in 0..self.prompts.len() {
            if share == 0 {
                break;
            }
            let Some((client, (slot, mut work))) = self.prompts.pop() else { break };
            self.recent.insert(client, self.runs);
            // All rows come from one run, together with the last silent tokens if there is room.
            let completes = work.silent() <= share && work.tokens <= left;
            let tokens = if completes { work.tokens } else { work.silent().min(share) };
            left -= tokens;
            share = (share - work.silent().min(share)).min(left);
            work.tokens -= tokens;
            pieces.push(Piece { slot, tokens, completes });
            if completes {
                continue;
            }
            if work.silent() == 0 {
                self.steps.push(client, (slot, work));
            } else {
                self.prompts.push(client, (slot, work));
            }
        }
        pieces
    }

    /// Begins the next run. Returns true if more than one client has work, or had some lately.
    fn has_several_clients(&mut self) -> bool {
        self.runs += 1;
        self.recent.retain(|_, last| *last + RECENT_RUNS >= self.runs);
        let clients = self.recent.keys().chain(self.steps.owners()).chain(self.prompts.owners());
        // The server's own passes, such as those of /readyz, have no address.
        clients.filter(|client| !client.is_unspecified()).collect::<BTreeSet<_>>().len() > 1
    }
}

/// Largest number of rows of a pass if runs have `budget` rows: such a step fits beside a chunk.
pub(super) const fn most_rows(budget: usize) -> usize {
    (budget - budget / PROMPT_SHARE).saturating_sub(STEP_SILENT_TOKENS)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{HashSet, VecDeque},
        net::Ipv4Addr,
    };

    use proptest::{collection::vec, prelude::*};

    use super::*;

    const BUDGET: usize = 128;
    const CHUNK: usize = BUDGET / PROMPT_SHARE;
    const CLIENTS: u32 = 3;

    /// Address of a client by its number.
    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0001 + number).into()
    }

    fn step(rows: usize) -> Work {
        Work { tokens: rows, rows }
    }

    fn schedule(works: impl IntoIterator<Item = Work>) -> Schedule {
        let mut schedule = Schedule::new(BUDGET, false);
        (0..).zip(works).for_each(|(slot, work)| schedule.push(client(0), slot, work));
        schedule
    }

    #[test]
    fn a_steps_run_holds_one_chunk_of_a_long_prompt() {
        let mut schedule = schedule([Work { tokens: 1000, rows: 1 }, step(5)]);
        let run = schedule.next_run();
        assert_eq!(run[0], Piece { slot: 1, tokens: 5, completes: true });
        assert_eq!(run[1], Piece { slot: 0, tokens: CHUNK, completes: false });
        assert_eq!(run.len(), 2);
    }

    #[test]
    fn prompts_take_turns_and_share_a_chunk() {
        let mut schedule = schedule([50, 20, 1000].map(|tokens| Work { tokens, rows: 0 }));
        let runs: Vec<Vec<(u64, usize)>> =
            (0..4).map(|_| schedule.next_run().iter().map(|piece| (piece.slot, piece.tokens)).collect()).collect();
        assert_eq!(runs, [vec![(0, 32)], vec![(1, 20), (2, 12)], vec![(0, 18), (2, 14)], vec![(2, 32)]]);
    }

    #[test]
    fn a_client_with_many_prompts_keeps_no_other_waiting() {
        let mut schedule = schedule([Work { tokens: 1000, rows: 1 }; 16]);
        schedule.push(client(1), 16, Work { tokens: CHUNK + 1, rows: 1 });
        assert_eq!(schedule.next_run()[0].slot, 0);
        assert_eq!(schedule.next_run()[0], Piece { slot: 16, tokens: CHUNK + 1, completes: true });
        assert_eq!(schedule.next_run()[0].slot, 1);
    }

    /// The witness of `bench hostile` waited for all rounds of sixteen sessions of another address.
    #[test]
    fn steps_of_one_client_leave_room_for_another_that_comes_now_and_then() {
        let mut schedule = schedule([step(17); 16]);
        // The only client: its run is full.
        assert_eq!(schedule.next_run().len(), BUDGET / 17);
        schedule.push(client(1), 16, step(5));
        let run = schedule.next_run();
        assert_eq!(run.iter().map(|piece| piece.slot).collect::<Vec<_>>(), [7, 16]);
        // It is gone, but may come back during the next runs: these are short.
        (0..7).for_each(|slot| schedule.push(client(0), slot, step(17)));
        assert_eq!(schedule.next_run().len(), 1);
        for _ in 0..RECENT_RUNS {
            schedule.push(Ipv4Addr::UNSPECIFIED.into(), 50, step(1));
            schedule.next_run();
            (20..36).for_each(|slot| schedule.push(client(0), slot, step(1)));
        }
        assert!(schedule.next_run().len() > 32);
    }

    #[test]
    fn rows_that_do_not_fit_behind_a_prompt_come_next() {
        let rows = most_rows(BUDGET);
        let mut schedule = schedule([Work { tokens: 30 + rows, rows }, step(60)]);
        assert_eq!(schedule.next_run()[1], Piece { slot: 0, tokens: 30, completes: false });
        assert_eq!(schedule.next_run(), [Piece { slot: 0, tokens: rows, completes: true }]);
        assert!(schedule.is_empty());
    }

    #[test]
    fn a_slot_that_leaves_is_forgotten() {
        let mut schedule = schedule([step(3), Work { tokens: 500, rows: 1 }]);
        schedule.remove(0);
        schedule.remove(1);
        assert!(schedule.is_empty() && schedule.next_run().is_empty());
    }

    fn work() -> impl Strategy<Value = Work> {
        prop_oneof![
            4 => (1..=most_rows(BUDGET), 0..=STEP_SILENT_TOKENS)
                .prop_map(|(rows, silent)| Work { tokens: rows + silent, rows }),
            1 => (0..=most_rows(BUDGET), 0..400usize).prop_map(|(rows, silent)| Work { tokens: rows + silent, rows }),
        ]
    }

    proptest! {
        /// Passes arrive between runs, at most one of a slot; every run keeps the rules.
        #[test]
        fn runs_are_fair_and_keep_the_budget(arrivals in vec((0..12u64, work()), 1..80), pace in 1..6usize) {
            let mut schedule = Schedule::new(BUDGET, false);
            let mut arrivals = VecDeque::from(arrivals);
            // By slot: remaining work, and number of runs since it was last served.
            let mut open: BTreeMap<u64, (Work, usize)> = BTreeMap::new();
            let mut steps: Vec<u64> = Vec::new();
            while !arrivals.is_empty() || !open.is_empty() {
                for _ in 0..pace {
                    if let Some((slot, work)) = arrivals.pop_front_if(|(slot, _)| !open.contains_key(slot)) {
                        schedule.push(client(slot as u32 % CLIENTS), slot, work);
                        open.insert(slot, (work, 0));
                        if work.silent() <= STEP_SILENT_TOKENS {
                            steps.push(slot);
                        }
                    }
                }
                let prompts: Vec<u64> = open.keys().copied().filter(|slot| !steps.contains(slot)).collect();
                let run = schedule.next_run();
                prop_assert!(!run.is_empty() || open.is_empty());
                prop_assert!(run.iter().map(|piece| piece.tokens).sum::<usize>() <= BUDGET);
                let slots: HashSet<u64> = run.iter().map(|piece| piece.slot).collect();
                prop_assert_eq!(slots.len(), run.len());
                // Steps: the oldest ones of each client are served whole.
                let served: Vec<u64> = steps.iter().copied().filter(|slot| slots.contains(slot)).collect();
                for number in 0..CLIENTS {
                    let of = |slots: &[u64]| -> Vec<u64> {
                        slots.iter().copied().filter(|slot| *slot as u32 % CLIENTS == number).collect()
                    };
                    let (served, waiting) = (of(&served), of(&steps));
                    prop_assert_eq!(&served[..], &waiting[..served.len()]);
                    let rows: usize = served.iter().map(|slot| open[slot].0.tokens).sum();
                    let is_alone = open.keys().all(|slot| *slot as u32 % CLIENTS == number);
                    prop_assert!(is_alone || served.len() < 2 || rows <= BUDGET / CLIENT_SHARE, "{} rows", rows);
                }
                prop_assert!(steps.is_empty() || !served.is_empty());
                steps.retain(|slot| !served.contains(slot));
                // Prompts: at most one chunk of them together, whatever the steps are.
                let silent = |piece: &&Piece| prompts.contains(&piece.slot);
                let fed: usize =
                    run.iter().filter(silent).map(|piece| piece.tokens.min(open[&piece.slot].0.silent())).sum();
                let rows: usize = run.iter().filter(silent).map(|piece| piece.tokens).sum::<usize>() - fed;
                let waiting: usize = prompts.iter().map(|slot| open[slot].0.silent()).sum();
                prop_assert!(fed <= CHUNK && fed + rows >= CHUNK.min(waiting));
                for piece in &run {
                    let (work, waited) = open.get_mut(&piece.slot).unwrap();
                    prop_assert!(piece.tokens <= work.tokens);
                    work.tokens -= piece.tokens;
                    *waited = 0;
                    // Rows are never split over two runs.
                    prop_assert!(work.tokens == 0 || work.tokens >= work.rows);
                    prop_assert_eq!(piece.completes, work.tokens == 0);
                    if piece.completes {
                        open.remove(&piece.slot);
                    } else if open[&piece.slot].0.silent() == 0 {
                        steps.push(piece.slot);
                    }
                }
                for (slot, (_, waited)) in &mut open {
                    if !slots.contains(slot) {
                        *waited += 1;
                        // Each of the other slots is served once before.
                        prop_assert!(*waited <= 12, "slot {} waits", slot);
                    }
                }
            }
        }
    }
}
