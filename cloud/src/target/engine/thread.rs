//! Engine thread, which owns the model and the caches.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    net::IpAddr,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError},
    },
    time::{Duration, Instant},
};

use bytesize::ByteSize;
use outrider_control::{engine_rates::EngineRates, gathering::Gathering};
use outrider_models::{Chunk, KvCache, PageSource};
use outrider_speculation::{Forward, judge::Branch, session::cloud::Pass};
use tokio::sync::oneshot;

use super::{
    backend::{Answer, Backend},
    error::EngineError,
    memory::Memory,
    schedule::{Piece, Schedule, most_rows},
    settings::EngineSettings,
};
use crate::metrics::Metrics;

mod admission;
mod warm_up;

/// Interval between checks for memory when nothing runs and all caches are in their turn.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

type Result<T> = std::result::Result<T, EngineError>;

/// Message to the engine's thread.
#[derive(Debug)]
pub(super) enum Job {
    Pass {
        slot: u64,
        client: IpAddr,
        /// Another slot that may have read the beginning of the text.
        sibling: Option<u64>,
        pass: Pass,
        asked: Instant,
        answer: oneshot::Sender<Result<Answer>>,
    },
    /// The session has lost its connection, or has one again.
    Attend {
        slot: u64,
        has_connection: bool,
    },
    /// The session's passes are cancelled.
    Withdraw {
        slot: u64,
    },
    GiveUp {
        slot: u64,
    },
    /// Passes are timed, if the backend allows it.
    WarmUp {
        done: Sender<()>,
    },
}

/// State of the engine's thread: the model, the caches, and the waiting passes.
pub(super) struct Thread<B: Backend> {
    backend: B,
    /// An empty cache, to compute sizes of caches.
    empty: KvCache<B::Pages>,
    most_rows: usize,
    budget: usize,
    memory: Memory,
    schedule: Schedule,
    /// Slots whose next pass has not begun, in order of arrival.
    line: VecDeque<u64>,
    sequences: HashMap<u64, Sequence<B::Pages>>,
    gathering: Gathering,
    /// Origin of the gathering's times.
    started: Instant,
    metrics: Arc<Metrics>,
    rates: Arc<EngineRates>,
}

/// State of a slot in the engine.
struct Sequence<P: PageSource> {
    /// Tokens of the cache, or of the cache before it was dropped, followed by those that the pass under way has still
    /// to feed.
    tokens: Vec<u32>,
    cache: Option<KvCache<P>>,
    /// Branches that the last pass read in addition; each begins after the number of tokens in its `from`.
    branches: Vec<Branch>,
    /// Passes in order of arrival. The first is under way or the slot is in line; neither if the session has no
    /// connection.
    passes: VecDeque<Waiting>,
    /// Address of the client; `None` before the first pass.
    client: Option<IpAddr>,
    /// True while the session has no connection: none of its passes is begun then.
    is_away: bool,
    /// Number of later passes that were begun before the session's own.
    overtaken: u32,
}

/// A pass that has been requested.
struct Waiting {
    pass: Pass,
    client: IpAddr,
    sibling: Option<u64>,
    asked: Instant,
    /// True once a run has fed some of its tokens.
    ran: bool,
    /// True if its branches are read.
    has_branches: bool,
    answer: oneshot::Sender<Result<Answer>>,
}

impl<P: PageSource> Default for Sequence<P> {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            cache: None,
            branches: Vec::new(),
            passes: VecDeque::new(),
            client: None,
            is_away: false,
            overtaken: 0,
        }
    }
}

impl<P: PageSource> Sequence<P> {
    /// Returns true if the slot has read tokens but has no cache.
    fn is_parked(&self) -> bool {
        self.cache.is_none() && !self.tokens.is_empty()
    }

    /// Adopts the branch that the tokens of the next pass continue, if they continue one: it was accepted.
    fn follow(&mut self, forward: &Forward) {
        let Forward { keep, tokens, rows, .. } = forward;
        let branches = mem::take(&mut self.branches);
        if branches.is_empty() {
            return;
        }
        // Tokens of each line after the kept ones; `None` if the line leaves the text before that.
        let mut lines: Vec<Option<Vec<u32>>> = vec![Some(self.tokens[*keep..].to_vec())];
        for Branch { parent, from, ids } in branches {
            let before = from.checked_sub(*keep).and_then(|shared| lines[parent].as_ref()?.get(..shared));
            lines.push(before.map(|before| [before, &ids].concat()));
        }
        let usable = tokens.len().saturating_sub((*rows).max(1));
        let same = |line: &Option<Vec<u32>>| {
            let line = line.iter().flatten();
            line.zip(&tokens[..usable]).take_while(|(held, token)| held == token).count()
        };
        let longest = lines.iter().map(same).max().unwrap_or(0);
        let Some(line) = lines.iter().position(|line| same(line) == longest).filter(|line| *line > 0) else { return };
        if let Some(cache) = &mut self.cache {
            cache.adopt(line);
        }
        self.tokens.truncate(*keep);
        self.tokens.extend(lines.swap_remove(line).into_iter().flatten());
    }
}

impl Waiting {
    /// Number of rows for branches that the pass reads.
    fn branch_rows(&self) -> usize {
        if self.has_branches { self.pass.round.branch_rows() } else { 0 }
    }
}

/// A sequence's part in a run, with its cache moved out.
struct Taken<P: PageSource> {
    piece: Piece,
    cache: KvCache<P>,
    /// Indices into the piece after which logits are wanted.
    positions: Vec<usize>,
}

impl<B: Backend> Thread<B> {
    pub(super) fn new(backend: B, settings: &EngineSettings, metrics: Arc<Metrics>, rates: Arc<EngineRates>) -> Self {
        let budget = usize::try_from(settings.kv_memory.as_u64()).unwrap_or(usize::MAX);
        let schedule = Schedule::new(settings.batch_rows, backend.are_rows_cheap());
        Self {
            empty: backend.new_cache(),
            backend,
            most_rows: most_rows(settings.batch_rows),
            budget,
            memory: Memory::new(budget, settings.turn),
            schedule,
            line: VecDeque::new(),
            sequences: HashMap::new(),
            gathering: Gathering::default(),
            started: Instant::now(),
            metrics,
            rates,
        }
    }

    /// Largest number of tokens, at most `context`, whose KV cache fits the budget.
    pub(super) fn longest_text(&self, context: usize) -> usize {
        (0..=context).rev().find(|&tokens| self.empty.bytes_for(tokens) <= self.budget).unwrap_or(0)
    }

    pub(super) fn run(mut self, queue: &Receiver<Job>) {
        loop {
            if self.schedule.is_empty() {
                let job = if self.line.is_empty() {
                    queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
                } else {
                    queue.recv_timeout(LOOK_AGAIN)
                };
                match job {
                    Ok(job) => self.take(job),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            loop {
                match queue.try_recv() {
                    Ok(job) => self.take(job),
                    // Sessions that come back now would queue after what the last run has left.
                    Err(TryRecvError::Empty) if self.schedule.has_steps() => break,
                    Err(TryRecvError::Empty) => match self.gathering.expected(self.started.elapsed()) {
                        None => break,
                        Some(wait) => match queue.recv_timeout(wait) {
                            Ok(job) => self.take(job),
                            Err(RecvTimeoutError::Timeout) => break,
                            Err(RecvTimeoutError::Disconnected) => return,
                        },
                    },
                    // All handles are gone, so no caller waits for an answer.
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.begin(Instant::now());
            let pieces = self.schedule.next_run();
            if !pieces.is_empty() {
                self.feed(&pieces);
            }
            self.metrics.engine.kv.set(i64::try_from(self.memory.used()).unwrap_or(i64::MAX));
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::GiveUp { slot } => {
                if self.sequences.remove(&slot).is_some_and(|sequence| sequence.is_parked()) {
                    self.metrics.engine.parked.dec();
                }
                self.line.retain(|other| *other != slot);
                self.schedule.remove(slot);
                self.memory.release(slot);
                self.gathering.left(slot);
            }
            Job::WarmUp { done } => {
                self.warm_up();
                // Nothing depends on the answer.
                let _ = done.send(());
            }
            Job::Withdraw { slot } => {
                self.line.retain(|other| *other != slot);
                self.schedule.remove(slot);
                while self.sequences.get(&slot).is_some_and(|sequence| !sequence.passes.is_empty()) {
                    self.finish(slot, Err(EngineError::Gone));
                }
                self.line.retain(|other| *other != slot);
            }
            Job::Attend { slot, has_connection: false } => {
                self.sequences.entry(slot).or_default().is_away = true;
                self.line.retain(|other| *other != slot);
                // A short pass ends soon, and the session will be resumed with its judgement.
                if self.schedule.remove_prompt(slot) {
                    self.put_back(slot);
                }
            }
            Job::Attend { slot, has_connection: true } => {
                let Some(sequence) = self.sequences.get_mut(&slot) else { return };
                let was_away = mem::take(&mut sequence.is_away);
                if was_away && !sequence.passes.is_empty() && !self.schedule.has(slot) {
                    self.line.push_back(slot);
                    self.memory.wait(slot);
                }
            }
            Job::Pass { slot, client, sibling, pass, asked, answer } => {
                if let Err(error) = self.check(&pass.forward) {
                    // The session may have ended meanwhile.
                    let _ = answer.send(Err(error));
                    return;
                }
                // The time of the request counts, not that of its receipt: a run may lie in between.
                self.gathering.came(slot, asked.saturating_duration_since(self.started));
                let sequence = self.sequences.entry(slot).or_default();
                sequence.client = Some(client);
                let (ran, has_branches) = (false, false);
                sequence.passes.push_back(Waiting { pass, client, sibling, asked, ran, has_branches, answer });
                if sequence.passes.len() == 1 && !sequence.is_away {
                    self.line.push_back(slot);
                    self.memory.wait(slot);
                }
            }
        }
    }

    /// Rejects passes that can never be scheduled.
    fn check(&self, forward: &Forward) -> Result<()> {
        if forward.rows > self.most_rows {
            return Err(EngineError::TooManyRows { rows: forward.rows, most: self.most_rows });
        }
        let tokens = forward.keep + forward.tokens.len();
        let needed = self.empty.bytes_for(tokens);
        if needed > self.budget {
            let [needed, budget] = [needed, self.budget].map(|bytes| ByteSize(bytes as u64));
            return Err(EngineError::TooLong { tokens, needed, budget });
        }
        Ok(())
    }

    fn park(&mut self, slots: &[u64]) {
        for slot in slots {
            if let Some(sequence) = self.sequences.get_mut(slot) {
                sequence.cache = None;
                self.metrics.engine.parkings.inc();
                if sequence.is_parked() {
                    self.metrics.engine.parked.inc();
                }
            }
        }
    }

    /// Performs one run of the model.
    fn feed(&mut self, pieces: &[Piece]) {
        let began = Instant::now();
        let mut taken: Vec<Taken<B::Pages>> = pieces.iter().filter_map(|piece| self.part(*piece, began)).collect();
        let (sequences, mut rows, mut silent) = (&self.sequences, 0, 0);
        let (mut chunks, mut rounds) = (Vec::with_capacity(taken.len()), Vec::with_capacity(taken.len()));
        for Taken { piece, cache, positions } in &mut taken {
            let (fed, sequence) = (cache.len(), &sequences[&piece.slot]);
            let completed = sequence.passes.front().filter(|_| piece.completes);
            let branch_rows = completed.map_or(0, Waiting::branch_rows);
            let tokens = &sequence.tokens[fed..fed + piece.tokens - branch_rows];
            rows += piece.tokens;
            silent += tokens.len() - positions.len();
            chunks.push(Chunk { cache, tokens, positions });
            rounds.push(completed.map(|waiting| &*waiting.pass.round));
        }
        let result = self.backend.run(&mut chunks, &rounds);
        for Taken { piece, cache, .. } in taken {
            if let Some(sequence) = self.sequences.get_mut(&piece.slot) {
                sequence.cache = Some(cache);
            }
        }
        match result {
            Ok(results) => {
                let took = began.elapsed();
                self.metrics.engine.run(rows, took);
                self.rates.ran(pieces.len(), rows, silent, took);
                self.gathering.ran(took);
                for (piece, answer) in pieces.iter().zip(results).filter(|(piece, _)| piece.completes) {
                    self.finish(piece.slot, Ok(answer));
                }
            }
            Err(text) => match pieces {
                [piece] => {
                    tracing::error!(error = text, "a pass of the target failed");
                    self.schedule.remove(piece.slot);
                    self.finish(piece.slot, Err(EngineError::Model(text)));
                }
                // One of the passes is bad: run them one by one, so that only that one fails.
                _ => pieces.iter().for_each(|piece| self.feed(&[*piece])),
            },
        }
    }

    fn part(&mut self, piece: Piece, now: Instant) -> Option<Taken<B::Pages>> {
        let sequence = self.sequences.get_mut(&piece.slot)?;
        let waiting = sequence.passes.front_mut()?;
        if !waiting.ran {
            waiting.ran = true;
            self.metrics.engine.queue.observe((now - waiting.asked).as_secs_f64());
        }
        let Pass { forward: Forward { tokens, rows, .. }, round, .. } = &waiting.pass;
        let rows = if piece.completes { (*rows).min(tokens.len()) } else { 0 };
        let mut cache = sequence.cache.take()?;
        let mut own = piece.tokens;
        if piece.completes && waiting.has_branches {
            own -= waiting.branch_rows();
            let behind = |branch: &Branch| Branch { from: round.position + branch.from, ..branch.clone() };
            sequence.branches = round.branches.iter().map(behind).collect();
            for Branch { parent, from, ids } in &sequence.branches {
                cache.branch(*parent, *from, ids.clone());
            }
        }
        Some(Taken { piece, cache, positions: (own - rows..own).collect() })
    }

    /// Answers a slot's pass and puts its next one in line.
    fn finish(&mut self, slot: u64, result: Result<Answer>) {
        let Some(sequence) = self.sequences.get_mut(&slot) else { return };
        if let Some(cache) = &sequence.cache {
            // If the pass failed, not all of its tokens were fed.
            if result.is_err() {
                sequence.branches.clear();
            }
            sequence.tokens.truncate(cache.len());
            self.memory.end(slot, cache.bytes());
        }
        if let Some(waiting) = sequence.passes.pop_front() {
            let metrics = &self.metrics.engine;
            metrics.passes.inc();
            metrics.pass.observe(waiting.asked.elapsed().as_secs_f64());
            // The session may have ended meanwhile.
            let _ = waiting.answer.send(result);
        }
        if sequence.passes.is_empty() {
            self.gathering.answered(slot, self.started.elapsed());
        } else if !sequence.is_away {
            self.line.push_back(slot);
            self.memory.wait(slot);
        }
    }
}
