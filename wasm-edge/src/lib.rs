//! **Browser.** A thin wasm-bindgen surface over `outrider-speculation` and `outrider-models`, for a dedicated worker.
//!
//! | module | what it does |
//! |---|---|
//! | `loader` | a draft model from the chunks of its download |
//! | `draft` | the draft model, on the processor and on the GPU |
//! | `edge` | owns the draft model and the connection; what JavaScript sees |
//! | `platform` | what the driver of a session needs of the browser |
//! | `heads` | trained heads, from their file to what the session decides by |
//! | `link` | the socket behind a link of given rate and delay that really holds bytes back |
//! | `options` | the plain objects that cross to JavaScript |
//! | `threads` | what Web Workers call that draft along |
//! | `writing` | a text as it is written: stop strings, and calls of tools |
//! | `turn` | lets the event loop deliver what has arrived |
//! | `error` | errors with a stable `code` |
//!
//! No decision is made here. Builds for wasm32 only; on other targets the crate is empty.
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
