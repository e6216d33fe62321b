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

use outrider_codec::frame::{PASS_ROWS, SamplingParameters};
use outrider_control::engine_rates::EngineRates;
use outrider_models::PageSource;
use outrider_speculation::{
    Forward,
    judge::{Judgement, NextToken, Round, judge},
    session::cloud::Pass,
};
use tokio::sync::oneshot;

use super::{
    backend::{Answer, Backend},
    error::EngineError,
    logprobs::{LogprobSink, TokenProbability, log_probabilities},
    settings::{EngineSettings, GuessPolicy, LEAST_BATCH_ROWS, OwnDraftPolicy},
    thread::{Job, Thread},
};
use crate::{address_limits::subnet, blocking, metrics::Metrics};

/// Number of logits from which on judging is long work: one and a half rows of the largest vocabularies.
const LONG_JUDGEMENT: usize = 1 << 18;

/// Client of sessions whose address is unknown.
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
    gives_rows: bool,
}

/// Source of a target's own drafts, which its sessions share.
#[derive(Debug, Clone)]
pub(crate) struct OwnDraft {
    /// The draft model; without one, drafts are looked up in the text.
    pub(super) engine: Option<Box<Engine>>,
    pub(super) policy: OwnDraftPolicy,
}

/// A session's slot in the engine, with a KV cache of its own when it needs one. Dropping it frees the slot.
#[derive(Debug)]
pub struct ModelSlot {
    id: u64,
    client: IpAddr,
    engine: Engine,
    sibling: Option<u64>,
    logprobs: Option<LogprobSink>,
    has_connection: AtomicBool,
}

#[derive(Debug, Default)]
struct Slots {
    taken: AtomicUsize,
    next: AtomicU64,
}

/// Load of a target, and its work so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Number of slots in use.
    pub sessions: usize,
    /// Number of slots in total.
    pub session_limit: usize,
    /// Number of sessions whose cache was dropped.
    pub parked: usize,
    /// Size of the KV caches, in bytes.
    pub kv_bytes: u64,
    /// Memory for KV caches, in bytes.
    pub kv_limit_bytes: u64,
    /// Number of forward passes answered.
    pub passes: u64,
    /// Number of runs of the model: fewer than `passes` if passes shared a run, more if prompts were read in chunks.
    pub runs: u64,
}

impl Load {
    /// Adds the work of another model on the same slots.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            sessions: self.sessions,
            session_limit: self.session_limit,
            parked: self.parked + other.parked,
            kv_bytes: self.kv_bytes + other.kv_bytes,
            kv_limit_bytes: self.kv_limit_bytes + other.kv_limit_bytes,
            passes: self.passes + other.passes,
            runs: self.runs + other.runs,
        }
    }
}

impl Engine {
    /// Starts the engine's thread.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start_with<B: Backend>(backend: B, settings: EngineSettings) -> std::io::Result<Self> {
        let settings = EngineSettings { batch_rows: settings.batch_rows.max(LEAST_BATCH_ROWS), ..settings };
        let metrics = Arc::new(Metrics::new(settings.limits(), backend.name(), backend.batching()));
        let (jobs, queue) = mpsc::channel();
        let context = backend.config().context_length;
        let rates = Arc::new(EngineRates::default());
        let gives_rows = backend.gives_rows();
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
            gives_rows,
        })
    }

    /// Times passes, for about two seconds at most, so that rows have a price before the first session. Other engines
    /// should be idle meanwhile.
    pub fn warm_up(&self) {
        let (done, timed) = mpsc::channel();
        if self.jobs.send(Job::WarmUp { done }).is_ok() {
            // A thread that has ended says so to the first session.
            let _ = timed.recv();
        }
    }

    /// Shares the slots of another engine from now on: as many sessions at a time as that one has slots, together.
    pub(crate) fn share_slots_of(&mut self, other: &Engine) {
        self.settings.sessions = other.settings.sessions;
        self.slots = Arc::clone(&other.slots);
    }

    /// Longest text of a session in tokens: the model's context, or what fits the memory for KV caches.
    pub fn longest_text(&self) -> usize {
        self.longest_text
    }

    /// Returns true if a pass may judge guesses that form a tree.
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
            sibling: None,
            logprobs: None,
            has_connection: AtomicBool::new(true),
        })
    }

    /// Metrics of the engine and its sessions.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Microseconds of a session's passes of [`PASS_ROWS`] rows; all 0 before any was timed.
    pub(crate) fn pass_micros(&self) -> [u32; PASS_ROWS.len()] {
        let seconds = self.rates.run();
        PASS_ROWS.map(|rows| (seconds(rows.into()) * 1e6) as u32)
    }

    /// Load of the engine, and its work so far.
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
    /// Assigns the slot to a client, whose work takes turns with that of other clients.
    #[must_use]
    pub(crate) fn of(mut self, client: IpAddr) -> Self {
        self.client = subnet(client);
        self
    }

    /// Address of the slot's client.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }

    /// Lets the slot copy tokens from another slot's cache, as far as both texts agree.
    #[must_use]
    pub(crate) fn copying(mut self, sibling: u64) -> Self {
        self.sibling = Some(sibling);
        self
    }

    /// Number of the session in the log, from 1.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Engine to which the slot belongs.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Metrics in which the session is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.engine.metrics
    }

    /// Returns true if logits can be changed before they are judged.
    pub(crate) fn gives_rows(&self) -> bool {
        self.engine.gives_rows
    }

    /// Sends the log-probability of each token before the judgement that commits it is returned. Sends nothing if the
    /// backend gives no rows of logits.
    pub(crate) fn send_logprobs(&mut self, logprobs: LogprobSink) {
        self.logprobs = Some(logprobs);
    }

    /// Runs a pass on this slot's cache, after those requested before, and judges its round.
    ///
    /// # Errors
    /// [`EngineError`] if there is no judgement. The slot is as it was before the pass, or has read a part of it.
    pub async fn judge(&self, pass: Pass) -> Result<Judgement, EngineError> {
        let (round, shaping) = (Arc::clone(&pass.round), pass.shaping.clone());
        let judgement = match self.run(pass).await? {
            Answer::Judged(judgement) => judgement,
            Answer::Rows(rows) if rows.is_empty() => return Ok(Judgement::default()),
            Answer::Rows(mut rows) => {
                let is_long = rows.iter().map(Vec::len).sum::<usize>() > LONG_JUDGEMENT || shaping.is_some();
                let judge = || -> Result<Judgement, EngineError> {
                    // Log-probabilities are the model's own.
                    let own = self.logprobs.as_ref().filter(|_| shaping.is_some()).map(|_| rows.clone());
                    if let Some(shaping) = shaping {
                        shaping.shape(&round, &mut rows).map_err(EngineError::Shaping)?;
                    }
                    let judgement = judge(&round, &slices(&rows))?;
                    if let Some(logprobs) = &self.logprobs {
                        logprobs.send(&round, &judgement, &slices(own.as_ref().unwrap_or(&rows)));
                    }
                    Ok(judgement)
                };
                if is_long { blocking::in_place(judge) } else { judge() }?
            }
        };
        self.engine.rates.wrote(judgement.accepted + usize::from(judgement.next != NextToken::Nothing));
        Ok(judgement)
    }

    /// Log-probabilities of the tokens of a text from the second on, each with the `count` most likely ones. The slot
    /// then holds all but the last token.
    ///
    /// # Errors
    /// If the engine has no answer.
    pub(crate) async fn prompt_logprobs(
        &self,
        text: &[u32],
        count: usize,
    ) -> Result<Vec<TokenProbability>, EngineError> {
        /// Rows of a pass: many enough for one read of the weights, and few enough for their memory.
        const ROWS: usize = 64;
        let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
        let most = ROWS.min(self.engine.settings.batch_rows);
        let round = Arc::new(Round::alone(sampling, 0, 0));
        let mut probabilities = Vec::with_capacity(text.len());
        for start in (0..text.len() - 1).step_by(most) {
            let tokens = text[start..text.len() - 1].iter().copied().take(most).collect::<Vec<_>>();
            let rows = tokens.len();
            let forward = Forward::new(start, tokens, rows);
            let pass = Pass { forward, round: Arc::clone(&round), left: 1, shaping: None };
            let Answer::Rows(rows) = self.run(pass).await? else { return Err(EngineError::Gone) };
            let of = |(row, position): (&Vec<f32>, usize)| {
                let id = text[position];
                let (log_probability, likeliest) = log_probabilities(row, id, count);
                TokenProbability { position, id, log_probability, likeliest }
            };
            blocking::in_place(|| probabilities.extend(rows.iter().zip(start + 1..).map(of)));
        }
        Ok(probabilities)
    }

    /// Runs a pass and returns the backend's answer.
    pub(crate) async fn run(&self, pass: Pass) -> Result<Answer, EngineError> {
        self.begin(pass).await.map_err(|_| EngineError::Gone)?
    }

    /// Reports whether the session has a connection. Without one its prompts wait; a short pass under way is finished.
    pub(crate) fn attend(&self, has_connection: bool) {
        if self.has_connection.swap(has_connection, Ordering::Relaxed) != has_connection {
            let _ = self.engine.jobs.send(Job::Attend { slot: self.id, has_connection });
        }
    }

    /// Cancels the passes that were requested.
    pub(crate) fn withdraw(&self) {
        let _ = self.engine.jobs.send(Job::Withdraw { slot: self.id });
    }

    /// Requests a pass; the answer may be ignored.
    pub(super) fn begin(&self, pass: Pass) -> oneshot::Receiver<Result<Answer, EngineError>> {
        let (answer, result) = oneshot::channel();
        // If the thread has ended, so has the other end of the answer.
        let _ = self.engine.jobs.send(Job::Pass {
            slot: self.id,
            client: self.client,
            sibling: self.sibling,
            pass,
            asked: Instant::now(),
            answer,
        });
        result
    }
}

fn slices(rows: &[Vec<f32>]) -> Vec<&[f32]> {
    rows.iter().map(Vec::as_slice).collect()
}

impl Drop for ModelSlot {
    fn drop(&mut self) {
        // If the thread has ended, the cache is gone, too.
        let _ = self.engine.jobs.send(Job::GiveUp { slot: self.id });
        self.engine.slots.taken.fetch_sub(1, Ordering::AcqRel);
        self.engine.metrics.sessions.connected.dec();
    }
}
