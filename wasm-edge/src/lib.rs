//! **Browser.** A thin wasm-bindgen surface over `outrider-speculation` and `outrider-models`, for a dedicated worker.
//!
//! | module | what it does |
//! |---|---|
//! | `edge` | owns the draft model and the connection; what JavaScript sees |
//! | `connection` | drives one session: polls the state machine, runs the draft model, tells events |
//! | `link` | the socket behind a link of given rate and delay that really holds bytes back |
//! | `options` | the plain objects that cross to JavaScript |
//! | `error` | errors with a stable `code` |
//!
//! No decision is made here. Builds for wasm32 only; on other targets the crate is empty.
#![cfg(target_arch = "wasm32")]

mod connection;
mod edge;
mod error;
mod link;
mod options;

pub use edge::Edge;
