//! **Browser.** A thin wasm-bindgen surface over `outrider-speculation` and `outrider-models`, for a dedicated worker.
//!
//! | module | contents |
//! |---|---|
//! | `loader` | loading of the draft model from a download |
//! | `draft` | draft model on the CPU and on the GPU |
//! | `edge` | JavaScript interface: draft model, connection, generation |
//! | `platform` | browser services for the driver of a session |
//! | `heads` | trained heads, from their file to the session's decisions |
//! | `link` | socket with an emulated link that delays bytes by rate and latency |
//! | `options` | plain objects exchanged with JavaScript |
//! | `threads` | entry points of Web Workers that share the drafting |
//! | `writing` | text output: stop strings and tool calls |
//! | `turn` | yields to the event loop, so that it delivers messages |
//! | `error` | errors with a stable `code` |
//!
//! This crate makes no decisions about drafting. Builds for wasm32 only; on other targets it is empty.
#![cfg(target_arch = "wasm32")]

mod draft;
mod edge;
mod error;
mod heads;
mod link;
mod loader;
mod options;
mod platform;
mod threads;
mod turn;
mod writing;

pub use draft::GpuHandle;
pub use edge::Edge;
pub use loader::EdgeLoader;
