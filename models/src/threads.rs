//! Number of threads in a forward pass.
//!
//! Natively the default is the number of available processors; `OUTRIDER_THREADS` or [`set`] override it. In a browser
//! it is the page's worker plus the workers that call `work`. Logits have the same bits for every number.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::kernels::pool;

/// Value of `LIMIT` before the first read.
const UNKNOWN: usize = 0;

static LIMIT: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// Number of threads that a large forward pass uses, including the calling thread.
pub fn count() -> usize {
    pool::threads(limit())
}

/// Sets the number of threads for forward passes that begin later, including the calling thread; 0 counts as 1.
///
/// In a browser the number is capped by the calling worker plus the workers that call `work`.
pub fn set(count: usize) {
    LIMIT.store(count.max(1), Relaxed);
}

/// Lends the calling Web Worker to the forward passes of this module's memory; never returns.
///
/// Requires a build with shared memory, in which each worker has its own instance of the module.
#[cfg(target_arch = "wasm32")]
pub fn work() -> ! {
    pool::work()
}

/// Reports that a Web Worker has trapped inside `work`. Threads waiting for its results panic instead of waiting
/// forever.
#[cfg(target_arch = "wasm32")]
pub fn give_up() {
    pool::give_up();
}

/// Configured or default number of threads. The first caller determines the default for all.
pub(crate) fn limit() -> usize {
    match LIMIT.load(Relaxed) {
        UNKNOWN => {
            let limit = default_limit();
            LIMIT.store(limit, Relaxed);
            limit
        }
        limit => limit,
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn default_limit() -> usize {
    let asked = std::env::var("OUTRIDER_THREADS").ok().and_then(|text| text.parse().ok()).filter(|&count| count > 0);
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(target_arch = "wasm32")]
fn default_limit() -> usize {
    usize::MAX
}
