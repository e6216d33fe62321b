//! Entry points of Web Workers that share this module's memory and the drafting, for builds with threads.

use outrider_models::threads;
use wasm_bindgen::prelude::*;

/// Lends the calling worker to the draft model. The worker has its own instance of the module over the shared memory.
/// Never returns.
#[wasm_bindgen]
pub fn work() {
    threads::work()
}

/// Reports that `work` has thrown. The draft model, which may be waiting for that worker, then fails.
#[wasm_bindgen]
pub fn give_up() {
    threads::give_up();
}
