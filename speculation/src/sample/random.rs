//! Seeded randomness. The two ends may be given the same seed; their draws must still be independent, or a
//! draft and the coin that judges it would conspire. So each end has its own ChaCha streams.
//!
//! A generation has one stream for each place in the text at which a round can begin. Rounds begin at different places, so no coin is
//! used twice. A round that has to be drafted and judged again, because the verdict was lost with the server, finds the coins that it
//! had: a verdict that is drawn again with new ones would depend on whether the first arrived, and so on what it said.

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
pub struct Randomness {
    stream: ChaCha8Rng,
    end: End,
}

impl Randomness {
    /// Equal seeds and ends give equal draws.
    pub fn new(seed: u64, end: End) -> Self {
        let mut stream = ChaCha8Rng::seed_from_u64(seed);
        stream.set_stream(end as u64);
        Self { stream, end }
    }

    /// Turns to the coins of the round that begins when the text has `length` tokens, from the first.
    pub fn begin_round(&mut self, length: usize) {
        self.stream.set_stream((self.end as u64) << 32 | length as u64);
        self.stream.set_word_pos(0);
    }

    /// A uniform integer below `bound` ≥ 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.stream.random_range(0..bound)
    }

    /// A uniform multiple of 2⁻⁵³ in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.stream.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_finds_its_coins_again_and_no_other_rounds() {
        let mut first = Randomness::new(7, End::Cloud);
        let mut draws = |length| {
            first.begin_round(length);
            [first.unit(), first.unit()]
        };
        let rounds = [0, 1, 2, 1 << 20].map(&mut draws);
        assert_eq!([0, 1, 2, 1 << 20].map(&mut draws), rounds);
        for (place, round) in rounds.iter().enumerate() {
            assert!(rounds[..place].iter().all(|other| other[0] != round[0] && other[1] != round[0]));
            let mut edge = Randomness::new(7, End::Edge);
            edge.begin_round(place);
            assert_ne!(edge.unit(), round[0]);
        }
    }

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
