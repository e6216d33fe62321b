//! The target model for many sessions: one thread that owns the model and all caches.
//!
//! Sessions submit passes. The thread feeds waiting passes, up to a budget of rows, in one packed run of the model, and
//! answers those that are complete; passes that arrive during a run share the next one. On the CPU, sharing a run never
//! changes logits: the kernels give a row the same bits in every batch. A device does not promise that.
//!
//! | part | responsibility |
//! |---|---|
//! | `schedule` | tokens of the next run |
//! | `memory` | caches to keep, within a budget of bytes |
//! | `backend` | interface of a model, wherever it runs |
//! | `thread` | the thread, which owns the model and acts on these decisions |
//! | `own_draft` | the server's own draft model, an engine of its own |
//! | `logprobs` | log-probabilities of the committed tokens under the target |
//! | `handle` | handles on the thread; judgement of rows of logits |
//!
//! Prices of rows, and the wait for sessions that are about to ask again, are in `outrider-control`.
//!
//! A session holds a [`ModelSlot`]. While it is idle it costs a few hundred bytes and its tokens, once its cache is
//! parked.

mod backend;
mod error;
mod handle;
mod logprobs;
mod memory;
mod own_draft;
mod schedule;
mod settings;
mod thread;

pub use backend::{Answer, Backend};
pub use error::EngineError;
pub use handle::{Engine, Load, ModelSlot};
pub(crate) use logprobs::LogprobSink;
pub use logprobs::TokenProbability;
pub use own_draft::Drafter;
pub use settings::{EngineSettings, GuessPolicy, LEAST_BATCH_ROWS, OwnDraftPolicy};

#[cfg(test)]
mod tests;
