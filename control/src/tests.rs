//! Random draws for simulations.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A seeded stream of draws, one of two.
#[derive(Debug)]
pub(crate) struct Randomness(ChaCha8Rng);

impl Randomness {
    pub(crate) fn edge(seed: u64) -> Self {
        Self::of_stream(seed, 1)
    }

    pub(crate) fn cloud(seed: u64) -> Self {
        Self::of_stream(seed, 2)
    }

    fn of_stream(seed: u64, stream: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Self(random)
    }

    /// A uniform number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.random()
    }
}
