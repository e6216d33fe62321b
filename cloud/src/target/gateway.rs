//! Any engine as the target: sessions are verified by somebody else's server.
//!
//! The engine holds the large model and speaks vLLM's dialect of OpenAI's `/v1/completions`: prompts as token ids, the
//! log-probabilities of a prompt's tokens (`prompt_logprobs`) and of those it writes (`logprobs`), several samples (`n`). It is asked
//! for a few numbers a round; it batches, caches prefixes and spans machines as it always does. The gateway holds the sessions'
//! tokens and nothing else, so there may be many.
//!
//! The state machine of a session wants rows of logits. The gateway decides what becomes of a round by itself, and then gives
//! [rows](crate::target::rows) that leave no other outcome. So frames, schemes and edges are as with a model of one's own.
//!
//! | module | what it does |
//! |---|---|
//! | [`options`] | which engine, as an operator says it, and the first questions to it |
//! | `plan` | how a round can be decided exactly, or why it cannot |
//! | `seat` | decides it |
//! | `client`, `completion` | questions and answers over HTTP |
//! | `error` | what can be wrong |
//!
//! # What is exact
//!
//! The engine tells p at temperature 1 before top-k and top-p, of the tokens of a prompt and of the K most likely at each place
//! (K: vLLM's `--max-logprobs`, 20 if not given). With S(·) the session's sampling and S(p) what drafts are verified against:
//!
//! | sampling | way | requests a round | a draft stands with |
//! |---|---|--:|---|
//! | T = 0, or top-k from 1 to K | *listed*: all that S keeps is among the K, so the rows are S(p) itself | 1 | Σ min(q̂, S(p)) |
//! | T = 1, no top-k, top-p 1 | *thinned*: S(p) = p, see [`outrider_speculation::judge::thinning`] | 1, and after a rejection 1 on average | Σ min(q̂, p) |
//! | all else | *matched*: the engine samples S(p) at each place, and a draft stands if it is that sample | 1 | Σ q̂·S(p) |
//!
//! All three commit samples of S(p); matching only accepts less. Why the last is no better: S(p)(x) at another temperature, or under
//! top-p, is p(x)^(1/T) over the sum of all that S keeps, and that sum runs over tokens which the engine does not list. DSSD and
//! coupled drafting send no q̂, which thinning needs, so at T = 1 without top-k they are matched.
//!
//! # What is refused
//!
//! - **Lossy rules.** They promise a π that is made of p and q̂; what takes a rejected draft's place is drawn from
//!   norm(max(0, π − q̂)), whose normaliser takes all of p. Matching would give p, which is not what was asked for.
//! - **Evidence** (`--explain`): it is all of S(p), which only the first way has.
//!
//! Seeds do not fix the text, except at temperature 0: the engine's samples are its own. Its probabilities are as good as its
//! arithmetic: in bf16 p(x) of a prompt and p of the same place when writing may differ in the third digit, and at temperature 0
//! near-ties may fall either way.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::{metrics::Metrics, target::engine::Load};

mod client;
mod completion;
mod error;
pub mod options;
mod plan;
mod seat;

pub use self::{error::GatewayError, options::EngineArgs, seat::Seat};
use client::Client;

/// A handle on an engine elsewhere; clones share it.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: Client,
    /// V.
    vocab_size: u32,
    /// The most tokens of a text.
    context_length: usize,
    /// K.
    listed: u32,
    seats: usize,
    seated: AtomicUsize,
    next_seat: AtomicU64,
    metrics: Metrics,
}

impl Gateway {
    /// Takes a seat, if one is free.
    pub fn seat(&self) -> Option<Seat> {
        let taken = self
            .0
            .seated
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |seated| (seated < self.0.seats).then_some(seated + 1));
        taken.ok()?;
        self.0.metrics.sessions.connected.inc();
        self.0.metrics.sessions.opened.inc();
        Some(Seat::new(self.clone(), self.0.next_seat.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// What is counted of its sessions; of the engine's passes, how many there were.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// How full the gateway is and what it did; its runs are the requests that the engine answered.
    pub fn load(&self) -> Load {
        Load {
            sessions: self.0.seated.load(Ordering::Acquire),
            session_limit: self.0.seats,
            parked: 0,
            kv_bytes: 0,
            kv_limit_bytes: 0,
            passes: self.0.metrics.engine.passes.get(),
            runs: self.0.client.answered(),
        }
    }
}
