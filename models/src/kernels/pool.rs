//! Splitting work over candle's threads without sharing mutable memory.

use std::sync::{Mutex, PoisonError};

/// Below this many multiplications a piece of work is not worth waking threads for.
const WORTH_SPLITTING: usize = 1 << 16;

/// Calls `work(index, chunk)` for every chunk of `chunk_len` elements of `out`, on several threads if
/// `multiplications`, an estimate of the whole, is large enough. One after another on wasm32, which has
/// no threads in this build.
///
/// `work` must not call back into the matrix backend.
pub(crate) fn for_each_chunk(
    out: &mut [f32],
    chunk_len: usize,
    multiplications: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    if multiplications < WORTH_SPLITTING || cfg!(target_arch = "wasm32") {
        for (index, chunk) in out.chunks_mut(chunk_len).enumerate() {
            work(index, chunk);
        }
        return;
    }
    // Each chunk is taken by exactly one thread; the locks are never waited for.
    let chunks: Vec<Mutex<&mut [f32]>> = out.chunks_mut(chunk_len).map(Mutex::new).collect();
    candle_core::utils::barrier_pool().execute_chunked(chunks.len(), |range| {
        for index in range {
            let mut chunk = chunks[index].lock().unwrap_or_else(PoisonError::into_inner);
            work(index, &mut chunk);
        }
    });
}
