//! Speed at which this machine reads memory: the floor under every pass, as each reads all weights once.

use std::{hint::black_box, thread, time::Instant};

use crate::sweep_memory::sum;

/// Numbers that are read: 512 MiB, many times any cache.
const LEN: usize = 512 << 17;

/// Memory that is read to measure its speed.
pub struct Bandwidth(Vec<u64>);

impl Bandwidth {
    /// Writes the memory once, so that it is there.
    pub fn new() -> Self {
        Self((0..LEN as u64).collect())
    }

    /// Bytes per second of one sweep by `threads`, each over its share.
    pub fn measure(&self, threads: usize) -> f64 {
        let start = Instant::now();
        thread::scope(|scope| {
            for share in self.0.chunks(LEN.div_ceil(threads)) {
                scope.spawn(move || black_box(sum(share)));
            }
        });
        size_of_val(&self.0[..]) as f64 / start.elapsed().as_secs_f64()
    }
}
