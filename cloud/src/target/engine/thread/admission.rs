//! Admission of passes, and their order while memory for caches is short.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    net::IpAddr,
    time::Instant,
};

use outrider_models::{KvCache, PageSource};
use outrider_speculation::{Forward, judge::Branch, session::cloud::Pass};

use super::{Sequence, Thread, Waiting};
use crate::target::engine::{backend::Backend, error::EngineError, schedule::Work};

/// Divisor of the budget: a pass that needs at most this part may begin before one that waits for memory.
const SMALL: usize = 16;

/// Limit on the passes that may overtake one that waits for memory.
const MOST_OVERTAKERS: u32 = 64;

/// Part of the budget, in fourths, for the caches of one client's prompts under way, unless a single one needs more.
/// Prompts share a chunk of each run, so one alone is read as fast as several.
const CLIENT_FOURTHS: usize = 3;

impl<B: Backend> Thread<B> {
    /// Begins passes in line while there is memory for them. Sessions without a cache come first: they get memory of
    /// sessions whose turn is over, and do not keep sessions with a cache from continuing. Within each group the client
    /// with the smallest caches comes first, then the order of arrival counts.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.line.is_empty() {
            return;
        }
        let has_cache = |slot: &u64| self.sequences.get(slot).is_some_and(|sequence| sequence.cache.is_some());
        let (held, others): (Vec<u64>, Vec<u64>) = mem::take(&mut self.line).into_iter().partition(has_cache);
        let mut left = VecDeque::new();
        for line in [others, held] {
            left.extend(self.begin_in_turn(line, now));
        }
        // Sessions that were answered just now and have another pass go to the end.
        left.append(&mut self.line);
        self.line = left;
    }

    /// Begins the passes for which there is memory and returns the slots that still wait. A small pass may overtake one
    /// that waits, up to [`MOST_OVERTAKERS`] times.
    fn begin_in_turn(&mut self, mut line: Vec<u64>, now: Instant) -> Vec<u64> {
        let mut bytes: HashMap<IpAddr, usize> = HashMap::new();
        for (slot, held) in self.memory.held() {
            let client = self.sequences.get(&slot).and_then(|sequence| sequence.client);
            *client.map_or(&mut 0, |client| bytes.entry(client).or_default()) += held;
        }
        line.sort_by_key(|slot| {
            let Some(Sequence { client: Some(client), overtaken, .. }) = self.sequences.get(slot) else { return None };
            Some((*overtaken < MOST_OVERTAKERS, bytes.get(client).copied().unwrap_or(0)))
        });
        let mut waiting: Vec<u64> = Vec::new();
        let mut line = line.into_iter();
        for slot in line.by_ref() {
            if (waiting.is_empty() || self.needed(slot) <= self.budget / SMALL) && self.begin_pass(slot, now) {
                for other in &waiting {
                    if let Some(sequence) = self.sequences.get_mut(other) {
                        sequence.overtaken += 1;
                    }
                }
                continue;
            }
            waiting.push(slot);
            let first = waiting.first().and_then(|slot| self.sequences.get(slot));
            if first.is_some_and(|first| first.overtaken >= MOST_OVERTAKERS) {
                break;
            }
        }
        waiting.extend(line);
        waiting
    }

    /// Size of the cache after a slot's next pass, in bytes.
    fn needed(&self, slot: u64) -> usize {
        let pass = self.sequences.get(&slot).and_then(|sequence| sequence.passes.front());
        pass.map_or(0, |Waiting { pass, .. }| self.empty.bytes_for(pass.forward.keep + pass.forward.tokens.len()))
    }

    /// Checks if a further prompt would give a client more than its part of the memory.
    fn has_its_part(&self, client: IpAddr, bytes: usize) -> bool {
        let running = self
            .memory
            .running()
            .filter(|(slot, _)| self.sequences.get(slot).is_some_and(|sequence| sequence.client == Some(client)));
        let running: usize = running.map(|(_, bytes)| bytes).sum();
        running > 0 && running + bytes > self.budget / 4 * CLIENT_FOURTHS
    }

    /// Returns a pass that was begun to the queue. The cache keeps the tokens read so far until another session needs
    /// the memory.
    pub(super) fn put_back(&mut self, slot: u64) {
        let Some(sequence) = self.sequences.get_mut(&slot) else { return };
        sequence.branches.clear();
        if let Some(cache) = &sequence.cache {
            sequence.tokens.truncate(cache.len());
            self.memory.end(slot, cache.bytes());
        }
    }

    /// A cache for a slot that has none, with as much of its text as its sibling has read.
    fn copy_of_sibling(&self, slot: u64, forward: &Forward) -> Option<KvCache<B::Pages>> {
        let sequence = self.sequences.get(&slot).filter(|sequence| sequence.cache.is_none())?;
        let sibling = self.sequences.get(&sequence.passes.front()?.sibling?)?;
        let cache = sibling.cache.as_ref()?;
        let text = sequence.tokens[..forward.keep].iter().chain(&forward.tokens);
        let same = sibling.tokens[..cache.len()].iter().zip(text).take_while(|(read, token)| read == token).count();
        let most = forward.keep + forward.tokens.len().saturating_sub(forward.rows.max(1));
        self.backend.copy(cache, same.min(most))
    }

    /// Begins a slot's pass, or fails it if it is invalid. Returns false if there is no memory for it yet.
    fn begin_pass(&mut self, slot: u64, now: Instant) -> bool {
        let Some(sequence) = self.sequences.get_mut(&slot) else { return true };
        let Some(Waiting { pass, client, .. }) = sequence.passes.front() else { return true };
        let Forward { keep, tokens, .. } = &pass.forward;
        let read = sequence.tokens.len();
        if *keep > read {
            let keep = *keep;
            self.finish(slot, Err(EngineError::NotRead { keep, read }));
            return true;
        }
        let bytes = self.empty.bytes_for(keep + tokens.len());
        let (is_prompt, client) = (sequence.cache.is_none(), *client);
        if is_prompt && self.has_its_part(client, bytes) {
            return false;
        }
        let Some(sequence) = self.sequences.get_mut(&slot) else { return true };
        let Some(Waiting { pass, .. }) = sequence.passes.front() else { return true };
        let Some(parked) = self.memory.begin(slot, bytes, now) else { return false };
        sequence.overtaken = 0;
        if sequence.is_parked() {
            self.metrics.engine.parked.dec();
        }
        let Pass { forward, round, .. } = pass.clone();
        sequence.follow(&forward);
        let copied = self.copy_of_sibling(slot, &forward);
        let Some(sequence) = self.sequences.get_mut(&slot) else { return true };
        if let Some(cache) = copied {
            let read = sequence.tokens.len().min(forward.keep);
            sequence.tokens.truncate(read);
            sequence.tokens.extend(&forward.tokens[..cache.len().saturating_sub(read)]);
            sequence.cache = Some(cache);
        }
        let Forward { keep, tokens, rows, .. } = &forward;
        let reused = forward.reusable(&sequence.tokens);
        let (keep, tokens) = (keep + reused, &tokens[reused..]);
        let cache = sequence.cache.get_or_insert_with(|| self.backend.new_cache());
        cache.truncate(keep);
        sequence.tokens.truncate(keep);
        sequence.tokens.extend(tokens);
        // Branches are read only if unused memory holds them.
        let pages = cache.pages().len() * self.empty.bytes_for(1);
        let room: usize = round
            .branches
            .iter()
            .map(|Branch { from, ids, .. }| cache.bytes_for_branch(round.position + from, ids.len()))
            .sum();
        let has_branches = B::Pages::BRANCHES
            && !round.branches.is_empty()
            && rows + round.branch_rows() <= self.most_rows
            && self.memory.extend(slot, pages.max(bytes) + room);
        let branch_rows = if has_branches { round.branch_rows() } else { 0 };
        if let Some(waiting) = sequence.passes.front_mut() {
            waiting.has_branches = has_branches;
        }
        self.metrics.engine.tokens.inc_by((tokens.len() + branch_rows) as u64);
        self.metrics.engine.tokens_again.inc_by((keep - cache.len()) as u64);
        let (left, rows) = (sequence.tokens.len() - cache.len(), (*rows).min(tokens.len()));
        self.schedule.push(client, slot, Work { tokens: left + branch_rows, rows: rows + branch_rows });
        self.park(&parked);
        true
    }
}
