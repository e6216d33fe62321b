//! Seeded randomness. The two ends may be given the same seed; their draws must still be independent, or a
//! draft and the coin that judges it would conspire. So each end has its own ChaCha stream.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Which end draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum End {
    /// Draws drafts.
    Edge = 1,
    /// Judges them.
    Cloud = 2,
}

/// The generator of one end for one generation.
#[derive(Debug, Clone)]
pub struct Randomness(ChaCha8Rng);

impl Randomness {
    /// Equal seeds and ends give equal draws.
    pub fn new(seed: u64, end: End) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(end as u64);
        Self(rng)
    }

    /// A uniform integer below `bound` ≥ 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0.random_range(0..bound)
    }

    /// A uniform multiple of 2⁻⁵³ in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_draw_differently_from_one_seed() {
        let draws = |end| {
            let mut r = Randomness::new(7, end);
            (0..8).map(|_| r.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(End::Edge), draws(End::Edge));
        assert_ne!(draws(End::Edge), draws(End::Cloud));
    }
}
