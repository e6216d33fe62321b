//! The target model for many sessions: one thread that owns the model and all caches.
//!
//! Sessions hand in passes. The thread takes what waits, feeds up to a budget of rows in one packed run of the model,
//! and answers the passes that are complete; what arrives during a run shares the next one. Who shares a run never
//! changes anybody's logits on the CPU: the kernels give a row the same bits in every batch. A device does not promise
//! it.
//!
//! | part | what it decides |
//! |---|---|
//! | `schedule` | which tokens go into the next run |
//! | `memory` | whose cache may stay, within a budget of bytes |
//! | `backend` | what a model has to do, wherever it runs |
//! | `thread` | owns the model, does what the others say |
//! | `own_draft` | the server's own draft model, an engine of its own |
//! | `told` | the target's log-probabilities of tokens, for who asks |
//! | `handle` | the way to the thread; judges where the backend gives rows |
//!
//! Prices of rows and the wait for sessions that are about to ask again are `outrider-control`'s.
//!
//! A session holds a [`ModelSlot`]. It costs a few hundred bytes and its tokens while it is idle: caches are parked.

mod backend;
mod error;
mod handle;
mod memory;
mod own_draft;
mod schedule;
mod settings;
mod thread;
mod told;

pub use backend::{Answer, Backend};
pub use error::EngineError;
pub use handle::{Engine, Load, ModelSlot};
pub use own_draft::Drafter;
pub use settings::{EngineSettings, GuessPolicy, LEAST_BATCH_ROWS, OwnDraftPolicy};
pub(crate) use told::Teller;
pub use told::TokenProbability;

#[cfg(test)]
mod tests;
