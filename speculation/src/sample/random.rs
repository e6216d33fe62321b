//! Seeded random draws of both ends. The two ends may be given the same seed; their draws must still be independent, or
//! a draft and the draw that judges it would conspire. So each end has its own ChaCha streams.
//!
//! A generation has one stream for each position of the text at which a round can begin. Rounds begin at different
//! positions, so no draw is used twice. A round that has to be drafted and judged again, because the verdict was lost
//! with the server, finds the draws that it had: a verdict that is drawn again with new ones would depend on whether
//! the first arrived, and so on what it said.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The end of a session that draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum End {
    /// The edge, which draws drafts.
    Edge = 1,
    /// The cloud, which judges drafts.
    Cloud = 2,
}

/// The generator of one end for one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Randomness {
    stream: ChaCha8Rng,
    end: End,
}

impl Randomness {
    /// The generator of an end. Equal seeds and ends give equal draws.
    pub fn new(seed: u64, end: End) -> Self {
        let mut stream = ChaCha8Rng::seed_from_u64(seed);
        stream.set_stream(end as u64);
        Self { stream, end }
    }

    /// Turns to the draws of the round that begins when the text has `length` tokens, from the first.
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

    /// A token with probability proportional to its weight; at least one weight is above zero.
    pub fn draw(&mut self, weights: &[f64]) -> u32 {
        at(weights, self.unit())
    }
}

/// The token that such a share of the weights' sum falls to, in [0, 1).
pub(crate) fn at(weights: &[f64], share: f64) -> u32 {
    let sum: f64 = weights.iter().sum();
    let mut ticket = share * sum;
    let mut chosen = 0;
    for (id, &weight) in weights.iter().enumerate() {
        if weight > 0.0 {
            // Rounding may leave a ticket beyond the last weight: it then goes to the last token with any.
            chosen = id;
            if ticket < weight {
                break;
            }
            ticket -= weight;
        }
    }
    chosen as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_finds_its_draws_again_and_no_other_rounds() {
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
    fn draws_never_have_zero_weight() {
        let mut randomness = Randomness::new(3, End::Cloud);
        for _ in 0..1000 {
            assert!([1, 3].contains(&randomness.draw(&[0.0, 0.3, 0.0, 0.7, 0.0])));
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
