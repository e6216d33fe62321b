//! The one thread that owns the target model.
//!
//! Sessions hand in passes; the thread takes all that wait, feeds a piece of each in one packed run of the model, and
//! answers those that are complete. A long prompt is read in pieces, so that it delays others by a piece, not by its
//! whole length.
//!
//! The thread owns the caches as well. A session holds a [`Seat`]; there are only so many, and giving one up frees its
//! cache.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use outrider_models::{Chunk, KvCache, Logits, Model, Scratch};
use outrider_speculation::Forward;
use tokio::sync::oneshot;

/// The most tokens of one session in one run of the model. Bounds how long one prompt holds up the others, and what
/// a run needs in memory besides the caches.
pub const PIECE_TOKENS: usize = 128;

/// Why a pass gave no logits.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The model refused or failed.
    #[error("the target model failed: {0}")]
    Model(String),
    /// The engine's thread is gone.
    #[error("the target model is gone")]
    Gone,
}

/// A handle on the engine; clones share it. The thread ends with the last handle and seat.
#[derive(Debug, Clone)]
pub struct Engine {
    jobs: Sender<Job>,
    seats: usize,
    counters: Arc<Counters>,
}

/// A place in the engine, with a cache of its own. Given up when dropped.
#[derive(Debug)]
pub struct Seat {
    id: u64,
    engine: Engine,
}

/// What the engine did so far.
#[derive(Debug, Default)]
struct Counters {
    seated: AtomicUsize,
    next_seat: AtomicU64,
    runs: AtomicU64,
    passes: AtomicU64,
    busy_us: AtomicU64,
}

/// What the engine did so far, and how full it is.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Seats taken.
    pub sessions: usize,
    /// Seats there are.
    pub session_limit: usize,
    /// Passes answered.
    pub passes: u64,
    /// Runs of the model; less than `passes` where passes shared a run, more where prompts were read in pieces.
    pub runs: u64,
    /// Milliseconds that the runs took.
    pub busy_ms: f64,
}

#[derive(Debug)]
enum Job {
    Pass { seat: u64, forward: Forward, answer: oneshot::Sender<Result<Logits, EngineError>> },
    GiveUp { seat: u64 },
}

impl Engine {
    /// Starts the thread; at most `seats` sessions at a time.
    pub fn start(model: Model, seats: usize) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let counters = Arc::new(Counters::default());
        let thread = Thread {
            model,
            scratch: Scratch::default(),
            caches: HashMap::new(),
            open: Vec::new(),
            counters: Arc::clone(&counters),
        };
        thread::Builder::new().name("engine".to_owned()).spawn(move || thread.run(&queue))?;
        Ok(Self { jobs, seats, counters })
    }

    /// Takes a seat, if one is free.
    pub fn seat(&self) -> Option<Seat> {
        let taken = self
            .counters
            .seated
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |seated| (seated < self.seats).then_some(seated + 1));
        taken.ok()?;
        Some(Seat { id: self.counters.next_seat.fetch_add(1, Ordering::Relaxed), engine: self.clone() })
    }

    /// How full the engine is and what it did.
    pub fn load(&self) -> Load {
        Load {
            sessions: self.counters.seated.load(Ordering::Acquire),
            session_limit: self.seats,
            passes: self.counters.passes.load(Ordering::Relaxed),
            runs: self.counters.runs.load(Ordering::Relaxed),
            busy_ms: Duration::from_micros(self.counters.busy_us.load(Ordering::Relaxed)).as_secs_f64() * 1e3,
        }
    }
}

impl Seat {
    /// Runs a pass on this seat's cache. One at a time.
    pub async fn forward(&self, forward: Forward) -> Result<Logits, EngineError> {
        let (answer, result) = oneshot::channel();
        let job = Job::Pass { seat: self.id, forward, answer };
        self.engine.jobs.send(job).map_err(|_| EngineError::Gone)?;
        result.await.map_err(|_| EngineError::Gone)?
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // If the thread is gone, so is the cache.
        let _ = self.engine.jobs.send(Job::GiveUp { seat: self.id });
        self.engine.counters.seated.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the thread owns.
struct Thread {
    model: Model,
    scratch: Scratch,
    caches: HashMap<u64, KvCache>,
    open: Vec<Pass>,
    counters: Arc<Counters>,
}

/// A pass that is being run, perhaps in pieces.
struct Pass {
    seat: u64,
    forward: Forward,
    /// Tokens already fed.
    fed: usize,
    answer: oneshot::Sender<Result<Logits, EngineError>>,
}

impl Thread {
    fn run(mut self, queue: &Receiver<Job>) {
        loop {
            if self.open.is_empty() {
                match queue.recv() {
                    Ok(job) => self.take(job),
                    Err(_) => return,
                }
            }
            while let Ok(job) = queue.try_recv() {
                self.take(job);
            }
            self.step();
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::GiveUp { seat } => {
                self.caches.remove(&seat);
                self.open.retain(|pass| pass.seat != seat);
            }
            Job::Pass { seat, forward, answer } => {
                let cache = self.caches.entry(seat).or_insert_with(|| self.model.new_cache());
                cache.truncate(forward.keep);
                self.open.push(Pass { seat, forward, fed: 0, answer });
            }
        }
    }

    /// One run of the model over the next piece of every open pass.
    fn step(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let pieces: Vec<Piece> = self.open.iter().map(Pass::next_piece).collect();
        // Each open pass has its own seat, so each cache is borrowed once.
        let mut caches: HashMap<u64, &mut KvCache> =
            self.caches.iter_mut().map(|(&seat, cache)| (seat, cache)).collect();
        let mut chunks: Vec<Chunk<'_>> = Vec::with_capacity(pieces.len());
        for (pass, piece) in self.open.iter().zip(&pieces) {
            if let Some(cache) = caches.remove(&pass.seat) {
                let tokens = &pass.forward.tokens[piece.start..piece.end];
                chunks.push(Chunk { cache, tokens, positions: &piece.positions });
            }
        }
        self.counters.runs.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let result = self.model.forward_with(&mut chunks, &mut self.scratch);
        self.counters.busy_us.fetch_add(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        drop(chunks);
        match result {
            Ok(logits) => {
                let mut logits = logits.iter();
                let mut still_open = Vec::new();
                for (mut pass, piece) in std::mem::take(&mut self.open).into_iter().zip(pieces) {
                    let rows = logits.next();
                    pass.fed = piece.end;
                    if pass.fed < pass.forward.tokens.len() {
                        still_open.push(pass);
                    } else if let Some(rows) = rows {
                        self.counters.passes.fetch_add(1, Ordering::Relaxed);
                        // The session may have gone meanwhile.
                        let _ = pass.answer.send(Ok(rows.to_logits()));
                    }
                }
                self.open = still_open;
            }
            Err(error) if self.open.len() == 1 => self.fail(&error.to_string()),
            // Someone's pass is bad: run them one by one, so that only that one fails.
            Err(_) => {
                for pass in std::mem::take(&mut self.open) {
                    self.open.push(pass);
                    while !self.open.is_empty() {
                        self.step();
                    }
                }
            }
        }
    }

    fn fail(&mut self, text: &str) {
        tracing::error!(error = text, "a pass of the target failed");
        for pass in self.open.drain(..) {
            let _ = pass.answer.send(Err(EngineError::Model(text.to_owned())));
        }
    }
}

/// What a pass contributes to one run.
struct Piece {
    start: usize,
    end: usize,
    /// Indices into the piece after which logits are wanted.
    positions: Vec<usize>,
}

impl Pass {
    fn next_piece(&self) -> Piece {
        let length = self.forward.tokens.len();
        let silent = length - self.forward.rows.min(length);
        let start = self.fed;
        // Rows are wanted at the end only and come from one run: the silent tokens are fed in pieces, then the
        // rest together. A round has at most a few dozen rows.
        let end = if silent.saturating_sub(start) > PIECE_TOKENS { start + PIECE_TOKENS } else { length };
        let positions = (silent.max(start)..end).map(|position| position - start).collect();
        Piece { start, end, positions: if end == length { positions } else { Vec::new() } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::PairPaths;

    fn engine(seats: usize) -> Engine {
        Engine::start(PairPaths::default().target().unwrap(), seats).unwrap()
    }

    fn pass(keep: usize, tokens: Vec<u32>, rows: usize) -> Forward {
        Forward { keep, tokens, rows }
    }

    #[tokio::test]
    async fn seats_are_counted_and_given_up() {
        let engine = engine(2);
        let (first, second) = (engine.seat().unwrap(), engine.seat().unwrap());
        assert!(engine.seat().is_none());
        drop(first);
        assert_eq!(engine.load().sessions, 1);
        assert!(engine.seat().is_some());
        drop(second);
        assert_eq!(engine.load().sessions, 0);
    }

    /// A long prompt in pieces beside a short one gives the same logits as alone and whole.
    #[tokio::test]
    async fn passes_share_runs_without_changing_their_logits() {
        let model = PairPaths::default().target().unwrap();
        let prompt: Vec<u32> = (0..400).map(|i| (i * 37) % 4000).collect();
        let rows = |tokens: &[u32]| {
            let mut cache = model.new_cache();
            let positions = [tokens.len() - 2, tokens.len() - 1];
            let chunk = Chunk { cache: &mut cache, tokens, positions: &positions };
            model.forward(&mut [chunk]).unwrap().remove(0)
        };
        let engine = engine(2);
        let (long, short) = (engine.seat().unwrap(), engine.seat().unwrap());
        let (a, b) = tokio::join!(long.forward(pass(0, prompt.clone(), 2)), async {
            short.forward(pass(0, prompt[..9].to_vec(), 0)).await.unwrap();
            short.forward(pass(9, prompt[9..20].to_vec(), 2)).await
        },);
        for (got, expected) in [(a.unwrap(), rows(&prompt)), (b.unwrap(), rows(&prompt[..20]))] {
            assert_eq!(got.len(), 2);
            assert!(got.iter().eq(expected.iter()));
        }
        assert_eq!(engine.load().passes, 3);
    }

    #[tokio::test]
    async fn a_bad_pass_fails_alone() {
        let engine = engine(2);
        let (good, bad) = (engine.seat().unwrap(), engine.seat().unwrap());
        let (ok, error) = tokio::join!(good.forward(pass(0, vec![0, 1], 1)), bad.forward(pass(0, vec![9999], 1)));
        assert_eq!(ok.unwrap().len(), 1);
        assert!(matches!(error, Err(EngineError::Model(_))));
        assert!(bad.forward(pass(0, vec![0], 1)).await.is_ok());
    }
}
