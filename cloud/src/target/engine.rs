//! The target model for many sessions: one thread that owns the model and all caches.
//!
//! Sessions hand in passes. The thread takes what waits, feeds up to a budget of rows in one packed run of the model, and
//! answers the passes that are complete; what arrives during a run shares the next one. Who shares a run never changes
//! anybody's logits on the CPU: the kernels give a row the same bits in every batch. A device does not promise it.
//!
//! | part | what it decides |
//! |---|---|
//! | `schedule` | which tokens go into the next run |
//! | `memory` | whose cache may stay, within a budget of bytes |
//! | `backend` | the CPU's kernels, or a device; what a pass gives is rows of logits, or what a device has decided of them |
//! | `thread` | owns the model, does what the others say |
//!
//! A session holds a [`Seat`]. It costs a few hundred bytes and its tokens while it is idle: caches are parked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    time::Instant,
};

use bytesize::ByteSize;
use outrider_speculation::{Forward, session::cloud::Round};
use tokio::sync::oneshot;

use crate::{metrics::Metrics, target::rows::Rows};

mod backend;
mod memory;
mod schedule;
mod thread;

pub use backend::Backend;
pub(crate) use backend::{Cache, Part};
use thread::{Job, Thread};

/// The fewest rows of a run that leave room for the longest round beside a chunk of a prompt.
pub const LEAST_BATCH_ROWS: usize = 128;

/// What an engine may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSettings {
    /// Sessions at a time.
    pub sessions: usize,
    /// The most tokens, of all sessions, in one run of the model; at least [`LEAST_BATCH_ROWS`]. A verdict waits for the
    /// run under way, so that is what this bounds; and what a run needs in memory, about as much per row as a row of
    /// logits.
    pub batch_rows: usize,
    /// Bytes of keys and values of all sessions.
    pub kv_memory: ByteSize,
}

impl Default for EngineSettings {
    /// 256 rows: on the CPU a row costs the same in runs of 40 to 500 (`cargo xtask bench serve`), so more rows would only
    /// make everybody wait longer for the run under way. The rounds of fifty sessions fit one run.
    fn default() -> Self {
        Self { sessions: 1024, batch_rows: 256, kv_memory: ByteSize::gib(1) }
    }
}

/// Why a pass gave no logits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model refused or failed.
    #[error("the target model failed: {0}")]
    Model(String),
    /// The pass goes on from tokens that the session never had read.
    #[error("a pass goes on from {keep} tokens, of which {read} were read")]
    NotRead {
        /// Tokens it goes on from.
        keep: usize,
        /// Tokens there are.
        read: usize,
    },
    /// More rows than a run may have.
    #[error("a pass wants {rows} rows of logits, at most {most} are given at a time")]
    TooManyRows {
        /// Rows that are wanted.
        rows: usize,
        /// Rows that there may be.
        most: usize,
    },
    /// The session alone needs more than the budget.
    #[error(
        "{tokens} tokens need {needed} for keys and values, the server gives {budget}: shorten the text, or raise --kv-memory"
    )]
    TooLong {
        /// Tokens of the session.
        tokens: usize,
        /// Bytes they need.
        needed: ByteSize,
        /// Bytes there are for all sessions.
        budget: ByteSize,
    },
    /// The engine's thread is gone.
    #[error("the target model is gone")]
    Gone,
}

/// A handle on the engine; clones share it. The thread ends with the last handle and seat.
#[derive(Debug, Clone)]
pub struct Engine {
    jobs: Sender<Job>,
    settings: EngineSettings,
    longest_text: usize,
    decides: bool,
    seats: Arc<Seats>,
    metrics: Arc<Metrics>,
}

/// A place in the engine, with a cache of its own when it needs one. Given up when dropped.
#[derive(Debug)]
pub struct Seat {
    id: u64,
    engine: Engine,
}

#[derive(Debug, Default)]
struct Seats {
    taken: AtomicUsize,
    next: AtomicU64,
}

/// What the engine did so far, and how full it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Seats taken.
    pub sessions: usize,
    /// Seats there are.
    pub session_limit: usize,
    /// Of the sessions, those whose cache was dropped.
    pub parked: usize,
    /// Bytes of keys and values.
    pub kv_bytes: u64,
    /// Bytes of keys and values there may be.
    pub kv_limit_bytes: u64,
    /// Passes answered.
    pub passes: u64,
    /// Runs of the model; less than `passes` where passes shared a run, more where prompts were read in chunks.
    pub runs: u64,
}

impl Engine {
    /// Starts the thread, with the default budgets; at most `sessions` at a time.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(model: impl Into<Backend>, sessions: usize) -> std::io::Result<Self> {
        Self::start_with(model, EngineSettings { sessions, ..EngineSettings::default() })
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start_with(model: impl Into<Backend>, settings: EngineSettings) -> std::io::Result<Self> {
        let backend = model.into();
        let settings = EngineSettings { batch_rows: settings.batch_rows.max(LEAST_BATCH_ROWS), ..settings };
        let metrics = Arc::new(Metrics::new(&settings, backend.name(), backend.batching()));
        let (jobs, queue) = mpsc::channel();
        let (context, decides) = (backend.config().context_length, backend.decides());
        let thread = Thread::new(backend, &settings, Arc::clone(&metrics));
        let longest_text = thread.longest_text(context);
        std::thread::Builder::new().name("engine".to_owned()).spawn(move || thread.run(&queue))?;
        Ok(Self { jobs, settings, longest_text, decides, seats: Arc::default(), metrics })
    }

    /// The most tokens a session can have: the model's context, or what fits the memory for keys and values.
    pub fn longest_text(&self) -> usize {
        self.longest_text
    }

    /// Takes a seat, if one is free.
    pub fn seat(&self) -> Option<Seat> {
        let limit = self.settings.sessions;
        let more = |taken: usize| (taken < limit).then_some(taken + 1);
        self.seats.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        self.metrics.sessions.connected.inc();
        self.metrics.sessions.opened.inc();
        Some(Seat { id: self.seats.next.fetch_add(1, Ordering::Relaxed) + 1, engine: self.clone() })
    }

    /// What is counted of it and its sessions.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How full the engine is and what it did.
    pub fn load(&self) -> Load {
        let engine = &self.metrics.engine;
        Load {
            sessions: self.seats.taken.load(Ordering::Acquire),
            session_limit: self.settings.sessions,
            parked: usize::try_from(engine.parked.get()).unwrap_or(0),
            kv_bytes: u64::try_from(engine.kv.get()).unwrap_or(0),
            kv_limit_bytes: self.settings.kv_memory.as_u64(),
            passes: engine.passes.get(),
            runs: engine.runs.get(),
        }
    }
}

impl Seat {
    /// Tells sessions apart in the log: counts from 1.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where the session is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.engine.metrics
    }

    /// Whether a pass may be told its round, and decides it.
    pub fn decides(&self) -> bool {
        self.engine.decides
    }

    /// Runs a pass on this seat's cache, after those that were asked for before. `round`: what the rows are for.
    ///
    /// # Errors
    /// [`EngineError`] says why there are no logits. The seat is as it was before the pass, or has read a part of it.
    pub async fn forward(&self, forward: Forward, round: Option<Round>) -> Result<Rows, EngineError> {
        let (answer, result) = oneshot::channel();
        let round = round.map(Box::new);
        let job = Job::Pass { seat: self.id, forward, round, asked: Instant::now(), answer };
        self.engine.jobs.send(job).map_err(|_| EngineError::Gone)?;
        result.await.map_err(|_| EngineError::Gone)?
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // If the thread is gone, so is the cache.
        let _ = self.engine.jobs.send(Job::GiveUp { seat: self.id });
        self.engine.seats.taken.fetch_sub(1, Ordering::AcqRel);
        self.engine.metrics.sessions.connected.dec();
    }
}

#[cfg(test)]
mod tests;
