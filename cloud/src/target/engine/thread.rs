//! The thread that owns the model and the caches.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError},
    },
    time::Instant,
};

use bytesize::ByteSize;
use outrider_speculation::{Forward, session::cloud::Round};
use tokio::sync::oneshot;

use super::{
    Backend, EngineError, EngineSettings,
    backend::{Cache, Part},
    memory::Memory,
    schedule::{Piece, Schedule, Work, most_rows},
};
use crate::{metrics::Metrics, target::rows::Rows};

type Answer = oneshot::Sender<Result<Rows, EngineError>>;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Job {
    Pass { seat: u64, forward: Forward, round: Option<Box<Round>>, asked: Instant, answer: Answer },
    GiveUp { seat: u64 },
}

pub(super) struct Thread {
    backend: Backend,
    /// Says what caches of the model need.
    empty: Cache,
    most_rows: usize,
    budget: usize,
    memory: Memory,
    schedule: Schedule,
    /// Seats whose next pass has not begun, in order of arrival.
    line: VecDeque<u64>,
    sequences: HashMap<u64, Sequence>,
    metrics: Arc<Metrics>,
}

/// What the engine knows of a seat.
#[derive(Default)]
struct Sequence {
    /// What the cache holds, or held before it was dropped, and behind it what the pass under way has still to feed.
    tokens: Vec<u32>,
    cache: Option<Cache>,
    /// The first is under way, or the seat is in line.
    passes: VecDeque<Pass>,
}

struct Pass {
    forward: Forward,
    /// What the rows are for, if the backend decides it.
    round: Option<Box<Round>>,
    asked: Instant,
    /// Whether a run has taken something of it.
    ran: bool,
    answer: Answer,
}

impl Sequence {
    /// Whether it has read something, but has no cache.
    fn is_parked(&self) -> bool {
        self.cache.is_none() && !self.tokens.is_empty()
    }
}

/// A sequence's part in a run, its cache taken out.
struct Taken {
    piece: Piece,
    cache: Cache,
    /// Indices into the piece after which logits are wanted.
    positions: Vec<usize>,
}

impl Thread {
    pub(super) fn new(backend: Backend, settings: &EngineSettings, metrics: Arc<Metrics>) -> Self {
        let budget = usize::try_from(settings.kv_memory.as_u64()).unwrap_or(usize::MAX);
        Self {
            empty: backend.new_cache(),
            backend,
            most_rows: most_rows(settings.batch_rows),
            budget,
            memory: Memory::new(budget),
            schedule: Schedule::new(settings.batch_rows),
            line: VecDeque::new(),
            sequences: HashMap::new(),
            metrics,
        }
    }

    /// The most tokens, at most `context`, whose keys and values fit the budget.
    pub(super) fn longest_text(&self, context: usize) -> usize {
        (0..=context).rev().find(|&tokens| self.empty.bytes_for(tokens) <= self.budget).unwrap_or(0)
    }

    pub(super) fn run(mut self, queue: &Receiver<Job>) {
        loop {
            if self.line.is_empty() && self.schedule.is_empty() {
                match queue.recv() {
                    Ok(job) => self.take(job),
                    Err(_) => return,
                }
            }
            loop {
                match queue.try_recv() {
                    Ok(job) => self.take(job),
                    Err(TryRecvError::Empty) => break,
                    // Nobody is left to wait for an answer.
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.begin();
            let pieces = self.schedule.next_run();
            if !pieces.is_empty() {
                self.feed(&pieces);
            }
            self.metrics.engine.kv.set(i64::try_from(self.memory.used()).unwrap_or(i64::MAX));
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::GiveUp { seat } => {
                if self.sequences.remove(&seat).is_some_and(|sequence| sequence.is_parked()) {
                    self.metrics.engine.parked.dec();
                }
                self.line.retain(|other| *other != seat);
                self.schedule.remove(seat);
                self.memory.release(seat);
            }
            Job::Pass { seat, forward, round, asked, answer } => {
                if let Err(error) = self.check(&forward) {
                    // The session may have gone meanwhile.
                    let _ = answer.send(Err(error));
                    return;
                }
                let sequence = self.sequences.entry(seat).or_default();
                sequence.passes.push_back(Pass { forward, round, asked, ran: false, answer });
                if sequence.passes.len() == 1 {
                    self.line.push_back(seat);
                    self.memory.wait(seat);
                }
            }
        }
    }

    /// What can never be done is refused at once.
    fn check(&self, forward: &Forward) -> Result<(), EngineError> {
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

    /// Begins the passes in line, in order of arrival, as long as there is memory for what they will hold.
    fn begin(&mut self) {
        while let Some(&seat) = self.line.front() {
            let Some(sequence) = self.sequences.get_mut(&seat) else { break };
            let Some(pass) = sequence.passes.front() else { break };
            let Forward { keep, tokens, rows } = &pass.forward;
            let read = sequence.tokens.len();
            if *keep > read {
                let keep = *keep;
                self.line.pop_front();
                self.finish(seat, Err(EngineError::NotRead { keep, read }));
                continue;
            }
            let Some(parked) = self.memory.begin(seat, self.empty.bytes_for(keep + tokens.len())) else { break };
            if sequence.is_parked() {
                self.metrics.engine.parked.dec();
            }
            let cache = sequence.cache.get_or_insert_with(|| self.backend.new_cache());
            cache.truncate(*keep);
            sequence.tokens.truncate(*keep);
            sequence.tokens.extend(tokens);
            self.metrics.engine.tokens.inc_by(tokens.len() as u64);
            self.metrics.engine.tokens_again.inc_by((keep - cache.len()) as u64);
            let work = Work { tokens: sequence.tokens.len() - cache.len(), rows: (*rows).min(tokens.len()) };
            self.schedule.push(seat, work);
            self.line.pop_front();
            self.park(&parked);
        }
    }

    fn park(&mut self, seats: &[u64]) {
        for seat in seats {
            if let Some(sequence) = self.sequences.get_mut(seat) {
                sequence.cache = None;
                self.metrics.engine.parkings.inc();
                if sequence.is_parked() {
                    self.metrics.engine.parked.inc();
                }
            }
        }
    }

    /// One run of the model.
    fn feed(&mut self, pieces: &[Piece]) {
        let began = Instant::now();
        let mut taken: Vec<Taken> = pieces.iter().filter_map(|piece| self.part(*piece, began)).collect();
        let (sequences, mut rows) = (&self.sequences, 0);
        let mut parts = Vec::with_capacity(taken.len());
        for Taken { piece, cache, positions } in &mut taken {
            let (fed, sequence) = (cache.len(), &sequences[&piece.seat]);
            let tokens = &sequence.tokens[fed..fed + piece.tokens];
            rows += tokens.len();
            let pass = sequence.passes.front().filter(|_| piece.completes);
            parts.push(Part { cache, tokens, positions, round: pass.and_then(|pass| pass.round.as_deref()) });
        }
        let result = self.backend.run(&mut parts);
        drop(parts);
        for Taken { piece, cache, .. } in taken {
            if let Some(sequence) = self.sequences.get_mut(&piece.seat) {
                sequence.cache = Some(cache);
            }
        }
        match result {
            Ok(results) => {
                self.metrics.engine.run(rows, began.elapsed());
                for (piece, rows) in pieces.iter().zip(results).filter(|(piece, _)| piece.completes) {
                    self.finish(piece.seat, Ok(rows));
                }
            }
            Err(text) => match pieces {
                [piece] => {
                    tracing::error!(error = text, "a pass of the target failed");
                    self.schedule.remove(piece.seat);
                    self.finish(piece.seat, Err(EngineError::Model(text)));
                }
                // Someone's pass is bad: run them one by one, so that only that one fails.
                _ => pieces.iter().for_each(|piece| self.feed(&[*piece])),
            },
        }
    }

    fn part(&mut self, piece: Piece, now: Instant) -> Option<Taken> {
        let sequence = self.sequences.get_mut(&piece.seat)?;
        let pass = sequence.passes.front_mut()?;
        if !pass.ran {
            pass.ran = true;
            self.metrics.engine.queue.observe((now - pass.asked).as_secs_f64());
        }
        let rows = if piece.completes { pass.forward.rows.min(pass.forward.tokens.len()) } else { 0 };
        let positions = (piece.tokens - rows..piece.tokens).collect();
        Some(Taken { piece, cache: sequence.cache.take()?, positions })
    }

    /// Answers a seat's pass; its next one goes in line.
    fn finish(&mut self, seat: u64, result: Result<Rows, EngineError>) {
        let Some(sequence) = self.sequences.get_mut(&seat) else { return };
        if let Some(cache) = &sequence.cache {
            // If the pass failed, not everything was fed.
            sequence.tokens.truncate(cache.len());
            self.memory.end(seat, cache.bytes());
        }
        if let Some(pass) = sequence.passes.pop_front() {
            let metrics = &self.metrics.engine;
            metrics.passes.inc();
            metrics.pass.observe(pass.asked.elapsed().as_secs_f64());
            // The session may have gone meanwhile.
            let _ = pass.answer.send(result);
        }
        if !sequence.passes.is_empty() {
            self.line.push_back(seat);
            self.memory.wait(seat);
        }
    }
}
