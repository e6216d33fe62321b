//! How many threads a forward pass may use.
//!
//! Natively that is as many as the machine has processors for us, unless `OUTRIDER_THREADS` or [`set`] says otherwise.
//! In a browser it is the page's worker and those that it lets `work`. Logits have the same bits for every number.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::kernels::pool;

/// Not asked for yet.
const UNKNOWN: usize = 0;

static LIMIT: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// How many threads a forward pass that is worth splitting runs on, the caller's own included.
pub fn count() -> usize {
    pool::threads(limit())
}

/// Lets forward passes that begin from now on use `count` threads, the caller's own included; 0 counts as 1.
///
/// In a browser there are never more than the workers that have been given to `work`, and the caller.
pub fn set(count: usize) {
    LIMIT.store(count.max(1), Relaxed);
}

/// Gives the calling Web Worker to the forward passes of this module's memory; it never returns.
///
/// For builds with shared memory: each worker is its own instance of the module.
#[cfg(target_arch = "wasm32")]
pub fn work() -> ! {
    pool::work()
}

/// Tells the forward passes of this module's memory that a Web Worker has trapped inside of `work`: whoever waits for
/// what it has begun panics, rather than wait for ever.
#[cfg(target_arch = "wasm32")]
pub fn give_up() {
    pool::give_up();
}

/// What was set, or what is there: the number is the same for whoever asks first.
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
