//! Handles on the engine: its own, and a slot for each session.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    time::Instant,
};

use outrider_control::engine_rates::EngineRates;
use outrider_models::PageSource;
use outrider_speculation::{
    judge::{Judgement, NextToken, judge},
    session::cloud::Pass,
};
use tokio::sync::oneshot;

use super::{
    backend::{Answer, Backend},
    error::EngineError,
    settings::{EngineSettings, GuessPolicy, LEAST_BATCH_ROWS, OwnDraftPolicy},
    thread::{Job, Thread},
    told::Teller,
};
use crate::{heavy, metrics::Metrics, places::household};

/// Logits from which on judging them takes long: a row of the largest vocabularies and a half.
const LONG_JUDGEMENT: usize = 1 << 18;

/// Whose sessions are that nobody's address is known of.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A handle on the engine; clones share it. The thread ends with the last handle and slot.
#[derive(Debug, Clone)]
pub struct Engine {
    jobs: Sender<Job>,
    settings: EngineSettings,
    longest_text: usize,
    slots: Arc<Slots>,
    metrics: Arc<Metrics>,
    pub(super) rates: Arc<EngineRates>,
    pub(super) own_draft: Option<OwnDraft>,
    pub(super) guesses: GuessPolicy,
    reads_branches: bool,
}

/// A draft model that the sessions of a target share.
#[derive(Debug, Clone)]
pub(crate) struct OwnDraft {
    pub(super) engine: Box<Engine>,
    pub(super) policy: OwnDraftPolicy,
}

/// A session's slot in the engine, with a KV cache of its own when it needs one. Given up when dropped.
#[derive(Debug)]
pub struct ModelSlot {
    id: u64,
    client: IpAddr,
    engine: Engine,
    teller: Option<Teller>,
    has_connection: AtomicBool,
}

#[derive(Debug, Default)]
struct Slots {
    taken: AtomicUsize,
    next: AtomicU64,
}

/// How full a target is, and what it did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Slots taken.
    pub sessions: usize,
    /// Slots there are.
    pub session_limit: usize,
    /// Of the sessions, those whose cache was dropped.
    pub parked: usize,
    /// Bytes of KV caches.
    pub kv_bytes: u64,
    /// Bytes of KV caches there may be.
    pub kv_limit_bytes: u64,
    /// Forward passes answered.
    pub passes: u64,
    /// Runs of the model; less than `passes` where passes shared a run, more where prompts were read in chunks.
    pub runs: u64,
}

impl Engine {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start_with<B: Backend>(backend: B, settings: EngineSettings) -> std::io::Result<Self> {
        let settings = EngineSettings { batch_rows: settings.batch_rows.max(LEAST_BATCH_ROWS), ..settings };
        let metrics = Arc::new(Metrics::new(&settings, backend.name(), backend.batching()));
        let (jobs, queue) = mpsc::channel();
        let context = backend.config().context_length;
        let rates = Arc::new(EngineRates::default());
        let thread = Thread::new(backend, &settings, Arc::clone(&metrics), Arc::clone(&rates));
        let longest_text = thread.longest_text(context);
        std::thread::Builder::new().name("engine".to_owned()).spawn(move || thread.run(&queue))?;
        Ok(Self {
            jobs,
            settings,
            longest_text,
            slots: Arc::default(),
            metrics,
            rates,
            own_draft: None,
            guesses: GuessPolicy::Paid,
            reads_branches: B::Pages::BRANCHES,
        })
    }

    /// The most tokens a session can have: the model's context, or what fits the memory for KV caches.
    pub fn longest_text(&self) -> usize {
        self.longest_text
    }

    /// Whether a pass may judge guesses that form a tree.
    pub fn reads_branches(&self) -> bool {
        self.reads_branches
    }

    /// Takes a slot, if one is free.
    pub fn slot(&self) -> Option<ModelSlot> {
        let limit = self.settings.sessions;
        let more = |taken: usize| (taken < limit).then_some(taken + 1);
        self.slots.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        self.metrics.sessions.connected.inc();
        self.metrics.sessions.opened.inc();
        let id = self.slots.next.fetch_add(1, Ordering::Relaxed) + 1;
        Some(ModelSlot {
            id,
            client: NOBODY,
            engine: self.clone(),
            teller: None,
            has_connection: AtomicBool::new(true),
        })
    }

    /// What is counted of it and its sessions.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How full the engine is and what it did.
    pub fn load(&self) -> Load {
        let engine = &self.metrics.engine;
        Load {
            sessions: self.slots.taken.load(Ordering::Acquire),
            session_limit: self.settings.sessions,
            parked: usize::try_from(engine.parked.get()).unwrap_or(0),
            kv_bytes: u64::try_from(engine.kv.get()).unwrap_or(0),
            kv_limit_bytes: self.settings.kv_memory.as_u64(),
            passes: engine.passes.get(),
            runs: engine.runs.get(),
        }
    }
}

impl ModelSlot {
    /// This slot, whose prompts take turns with those of other clients as one of this client's.
    #[must_use]
    pub(crate) fn of(mut self, client: IpAddr) -> Self {
        self.client = household(client);
        self
    }

    /// Whose it is.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }

    /// Tells sessions apart in the log: counts from 1.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The engine that it is of.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Where the session is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.engine.metrics
    }

    /// Has somebody told what the target says of each token, before the token itself is heard of; nothing, where the
    /// backend gives no rows of logits.
    pub(crate) fn tell(&mut self, teller: Teller) {
        self.teller = Some(teller);
    }

    /// Runs a pass on this slot's cache, after those that were asked for before, and judges its round.
    ///
    /// # Errors
    /// [`EngineError`] says why there is no judgement. The slot is as it was before the pass, or has read a part of it.
    pub async fn judge(&self, pass: Pass) -> Result<Judgement, EngineError> {
        let round = Arc::clone(&pass.round);
        let judgement = match self.run(pass).await? {
            Answer::Judged(judgement) => judgement,
            Answer::Rows(rows) if rows.is_empty() => return Ok(Judgement::default()),
            Answer::Rows(rows) => {
                let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
                let is_long = rows.iter().map(|row| row.len()).sum::<usize>() > LONG_JUDGEMENT;
                let judge = || -> Result<Judgement, EngineError> {
                    let judgement = judge(&round, &rows)?;
                    if let Some(teller) = &self.teller {
                        teller.tell(&round, &judgement, &rows);
                    }
                    Ok(judgement)
                };
                if is_long { heavy::in_place(judge) } else { judge() }?
            }
        };
        self.engine.rates.wrote(judgement.accepted + usize::from(judgement.next != NextToken::Nothing));
        Ok(judgement)
    }

    /// Runs a pass; what the backend answers.
    pub(crate) async fn run(&self, pass: Pass) -> Result<Answer, EngineError> {
        self.begin(pass).await.map_err(|_| EngineError::Gone)?
    }

    /// Says whether the session has a connection. Without one its prompts wait; a short pass under way is ended.
    pub(crate) fn attend(&self, has_connection: bool) {
        if self.has_connection.swap(has_connection, Ordering::Relaxed) != has_connection {
            let _ = self.engine.jobs.send(Job::Attend { slot: self.id, has_connection });
        }
    }

    /// Withdraws the passes that were asked for.
    pub(crate) fn withdraw(&self) {
        let _ = self.engine.jobs.send(Job::Withdraw { slot: self.id });
    }

    /// Asks for a pass, whose answer need not be waited for.
    pub(super) fn begin(&self, pass: Pass) -> oneshot::Receiver<Result<Answer, EngineError>> {
        let (answer, result) = oneshot::channel();
        // If the thread is gone, so is the other end of the answer.
        let _ = self.engine.jobs.send(Job::Pass {
            slot: self.id,
            client: self.client,
            pass,
            asked: Instant::now(),
            answer,
        });
        result
    }
}

impl Drop for ModelSlot {
    fn drop(&mut self) {
        // If the thread is gone, so is the cache.
        let _ = self.engine.jobs.send(Job::GiveUp { slot: self.id });
        self.engine.slots.taken.fetch_sub(1, Ordering::AcqRel);
        self.engine.metrics.sessions.connected.dec();
    }
}
