//! Web Workers that share this module's memory and draft along; for the builds with threads.

use outrider_models::threads;
use wasm_bindgen::prelude::*;

/// Gives the calling worker, which has an instance of its own over the shared memory, to the draft model. Never
/// returns.
#[wasm_bindgen]
pub fn work() {
    threads::work()
}

/// To be called when `work` has thrown: the draft model, which may be waiting for that worker, fails then.
#[wasm_bindgen]
pub fn give_up() {
    threads::give_up();
}
