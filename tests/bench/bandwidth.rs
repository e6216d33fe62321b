//! How fast this machine reads memory: the floor under every pass, as each reads all weights once.

use std::{hint::black_box, thread, time::Instant};

/// Numbers that are read: 512 MiB, many times any cache.
const LEN: usize = 512 << 17;
/// Sums that grow side by side, so that none waits for the one before: four vectors of 512 bits.
const LANES: usize = 32;

/// Memory to read.
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

fn sum(numbers: &[u64]) -> u64 {
    let mut sums = [0u64; LANES];
    let (groups, _) = numbers.as_chunks::<LANES>();
    for group in groups {
        for (sum, number) in sums.iter_mut().zip(group) {
            *sum = sum.wrapping_add(*number);
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}
