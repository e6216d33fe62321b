//! Splitting a pass over threads.

/// Runs `body`, a pass whose steps may be split over threads if that is worth it.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn pass<T: Send>(worth: bool, body: impl FnOnce() -> T + Send) -> T {
    match worth {
        false => body(),
        true => rayon::scope(|_| body()),
    }
}

#[cfg(target_arch = "wasm32")]
pub(crate) fn pass<T>(_worth: bool, body: impl FnOnce() -> T) -> T {
    body()
}

/// Runs `work(0)` to `work(units - 1)`, each once, on several threads if this is part of a pass that is split.
pub(crate) fn parallel(units: usize, work: impl Fn(usize) + Sync) {
    #[cfg(not(target_arch = "wasm32"))]
    if units > 1 && rayon::current_thread_index().is_some() {
        use rayon::prelude::*;
        (0..units).into_par_iter().for_each(|unit| work(unit));
        return;
    }
    (0..units).for_each(work);
}
