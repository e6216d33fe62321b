//! Splitting a pass over threads.
//!
//! candle's own pool waits for its workers by spinning; when the machine has more to do than processors
//! (a server beside a browser, tests in parallel), each of the hundred products of a pass can then cost
//! a time slice of the scheduler. rayon's workers take what has not been started yet, and whoever is
//! ahead does the work of those who are late.

/// Products of a pass below which threads cost more than they give.
#[cfg(not(target_arch = "wasm32"))]
const PASS_WORTH_SPLITTING: usize = 8 << 20;
/// The same for one step of a pass.
#[cfg(not(target_arch = "wasm32"))]
const STEP_WORTH_SPLITTING: usize = 1 << 18;

/// Runs `pass`, whose steps may be split over threads if it takes enough `multiplications`.
///
/// On wasm32 there are no threads in this build.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn in_pool<T: Send>(multiplications: usize, pass: impl FnOnce() -> T + Send) -> T {
    match multiplications < PASS_WORTH_SPLITTING {
        true => pass(),
        // Inside a scope this is a worker, which takes part in its own steps.
        false => rayon::scope(|_| pass()),
    }
}

#[cfg(target_arch = "wasm32")]
pub(crate) fn in_pool<T>(_multiplications: usize, pass: impl FnOnce() -> T) -> T {
    pass()
}

/// Calls `work(index, chunk)` for every chunk of `chunk_len` elements of `out`: on several threads if this
/// is part of a pass that is split and `multiplications`, an estimate of the step, is large enough.
pub(crate) fn for_each_chunk(
    out: &mut [f32],
    chunk_len: usize,
    multiplications: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    #[cfg(not(target_arch = "wasm32"))]
    if multiplications >= STEP_WORTH_SPLITTING && rayon::current_thread_index().is_some() {
        use rayon::prelude::*;
        out.par_chunks_mut(chunk_len).enumerate().for_each(|(index, chunk)| work(index, chunk));
        return;
    }
    let _ = multiplications;
    for (index, chunk) in out.chunks_mut(chunk_len).enumerate() {
        work(index, chunk);
    }
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
