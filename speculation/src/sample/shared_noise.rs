//! The noise that both ends of coupled drafting choose with, and the choice: argmin E_x/p(x).
//!
//! With independent E_x ~ Exp(1) the token argmin E_x/p(x) is distributed as p (the Gumbel trick, in exponentials). E
//! depends on seed, position and token alone, and positions never share noise. [`crate::judge::coupled`] says what
//! follows from it.
//!
//! # The noise
//!
//! E_x = −log2(u_x) in fixed point with 40 fraction bits, computed from 64 bits of ChaCha8 in integers: equal on all
//! machines. (In units of ln 2, which cancel.) The division by the probability, and the comparison, are each end's own
//! and in floats; where the ends round differently a draft may be rejected that need not be.

mod words;

use crate::control::calibration::Clarity;

use super::{
    distribution::{Distribution, Weighed},
    scan::PIECE,
};

/// Fraction bits of −log2.
const FRACTION: u32 = 40;
/// Streams from here on are the noise of positions; those below are the ends' own.
const FIRST_STREAM: u64 = 1 << 32;

/// The noise of one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedNoise {
    seed: u64,
}

impl SharedNoise {
    /// The noise of a generation, whose seed both ends have.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The generation's seed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// argmin E_x/p(x) at a position of the text: a token with distribution `probabilities` (V of them, at least one
    /// above zero, and not necessarily normalised).
    pub fn choose(&self, position: usize, probabilities: &[f64]) -> u32 {
        let mut race = Race::new(self.seed, position);
        for (piece, first) in probabilities.chunks(PIECE).zip((0..).step_by(PIECE)) {
            let largest = piece.iter().copied().fold(0.0, f64::max);
            race.run_piece(first, largest, || {
                let mut padded = [0.0; PIECE];
                padded[..piece.len()].copy_from_slice(piece);
                padded
            });
        }
        race.best
    }

    /// The same with the distribution `distribution`.
    pub fn choose_from(&self, position: usize, distribution: &Distribution<'_>) -> u32 {
        let mut race = Race::new(self.seed, position);
        race.run_all(distribution);
        race.best
    }

    /// The choice, the next best token, and how narrow it was. At temperature 0 these are the likeliest tokens.
    pub fn choose_two(&self, position: usize, distribution: &Distribution<'_>) -> TopTwo {
        if distribution.is_greedy() {
            return TopTwo::likeliest(distribution);
        }
        let mut race = Race { keeps_next: true, ..Race::new(self.seed, position) };
        race.run_all(distribution);
        let (next, quotient) = race.next;
        TopTwo { first: race.best, second: quotient.is_finite().then_some(next), margin: (quotient / race.least).ln() }
    }
}

/// The best two tokens at a position, and how clearly the first is the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopTwo {
    /// Id of the choice, the best token.
    pub first: u32,
    /// Id of the next best; `None` if no other token can be chosen.
    pub second: Option<u32>,
    /// Logarithm of the quotient of the second by that of the first, at least 0; infinite without a second.
    pub margin: f64,
}

impl TopTwo {
    /// The clarity of the choice after a token that was not guessed.
    pub(crate) fn clarity(&self, distribution: &Distribution<'_>) -> Clarity {
        let logit = distribution.logits()[self.first as usize];
        let probability = distribution.unscaled().log_probability(logit).exp();
        Clarity { margin: self.margin, probability, run: 0 }
    }

    /// The two likeliest tokens, with the logarithm of the quotient of their probabilities before S(·).
    pub(crate) fn likeliest(distribution: &Distribution<'_>) -> Self {
        let first = distribution.likeliest();
        let second = distribution.second_likeliest(first);
        let logit = |id: u32| f64::from(distribution.logits()[id as usize]);
        Self { first, second, margin: second.map_or(f64::INFINITY, |second| logit(first) - logit(second)) }
    }
}

/// The search for argmin E_x/p(x), in ascending order of ids.
struct Race {
    seed: u64,
    stream: u64,
    best: u32,
    /// The least E_x/p(x) so far.
    least: f64,
    /// The next best token so far and its E_x/p(x), if that is wanted.
    next: (u32, f64),
    keeps_next: bool,
}

impl Race {
    fn new(seed: u64, position: usize) -> Self {
        Self {
            seed,
            stream: FIRST_STREAM + position as u64,
            best: 0,
            least: f64::INFINITY,
            next: (0, f64::INFINITY),
            keeps_next: false,
        }
    }

    /// The quotient that a token has to undercut to be of interest.
    fn bound(&self) -> f64 {
        if self.keeps_next { self.next.1 } else { self.least }
    }

    fn run_all(&mut self, distribution: &Distribution<'_>) {
        distribution.weigh(|weighed| match weighed {
            Weighed::Piece { first, largest, weights } => self.run_piece(first, largest, weights),
            Weighed::Few(tokens) => self.run_few(tokens),
        });
    }

    /// The tokens from `first` on, which is a multiple of their number, and the `largest` of their weights.
    fn run_piece(&mut self, first: u32, largest: f64, weights: impl FnOnce() -> [f64; PIECE]) {
        // E is at least one unit: maybe no token of the piece can come in before the best so far.
        if largest == 0.0 || self.bound() * largest < 0.5 {
            return;
        }
        let block = u64::from(first) / words::TOKENS as u64;
        let words = words::words(self.seed, self.stream, core::array::from_fn(|i| block + i as u64));
        // Nor if the noise of all is large; as in `run`, for the first 32 bits, with room for rounding.
        let at_least = u64::from(!words.highest()) << 8;
        if at_least as f64 > 1.001 * self.bound() * largest {
            return;
        }
        let (bits, weights) = (words.bits(), weights());
        for ((&u, &weight), id) in bits.as_flattened().iter().zip(&weights).zip(first..) {
            self.run(id, weight, u);
        }
    }

    /// Tokens with their weights, by ascending id.
    fn run_few(&mut self, tokens: &[(u32, f64)]) {
        let block = |&(id, _): &(u32, f64)| u64::from(id) / words::TOKENS as u64;
        let groups: Vec<_> = tokens.chunk_by(|a, b| block(a) == block(b)).collect();
        for groups in groups.chunks(words::BLOCKS) {
            let blocks = core::array::from_fn(|i| groups.get(i).map_or(0, |group| block(&group[0])));
            for (group, bits) in groups.iter().zip(words::words(self.seed, self.stream, blocks).bits()) {
                for &(id, weight) in *group {
                    self.run(id, weight, bits[id as usize % words::TOKENS]);
                }
            }
        }
    }

    fn run(&mut self, id: u32, weight: f64, u: u64) {
        // −ln u ≥ 1 − u: most tokens lose before their logarithm is taken.
        let at_least = (!u >> 24) as i64 as f64;
        if at_least <= self.bound() * weight && weight > 0.0 {
            let quotient = minus_log2(u) as f64 / weight;
            if quotient < self.least {
                self.next = (self.best, self.least);
                (self.best, self.least) = (id, quotient);
            } else if quotient < self.next.1 {
                self.next = (id, quotient);
            }
        }
    }
}

/// −log2((u | 1)/2⁶⁴) in fixed point with [`FRACTION`] fraction bits, rounded up; at least 1.
fn minus_log2(u: u64) -> u64 {
    let u = u | 1;
    let zeros = u.leading_zeros();
    // u = m·2^(−zeros) with m in [2⁶³, 2⁶⁴); −log2(u/2⁶⁴) = zeros + 1 − log2(m/2⁶³).
    let mut m = u << zeros;
    let mut log2 = 0;
    for _ in 0..FRACTION {
        // Squaring doubles the logarithm: its next bit is whether it reached 1.
        let square = u128::from(m) * u128::from(m);
        let carry = (square >> 127) as u64;
        m = (square >> (63 + carry)) as u64;
        log2 = log2 << 1 | carry;
    }
    (u64::from(zeros + 1) << FRACTION) - log2
}

#[cfg(test)]
mod tests {
    use outrider_codec::frame::SamplingParameters;

    use super::*;
    use crate::sample::tests::PLAIN;
    use proptest::prelude::*;
    use rand::{RngCore, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_logarithm_is_right_to_its_last_bits() {
        let one = (1u64 << FRACTION) as f64;
        for (u, expected) in [(1 << 63, 1.0), (1 << 62, 2.0), (3 << 62, 2.0 - 3f64.log2()), (0, 64.0), (u64::MAX, 0.0)]
        {
            let found = minus_log2(u) as f64 / one;
            assert!((found - expected).abs() < 1e-11, "{u}: {found} and {expected}");
        }
        for i in 1..2000u64 {
            let u = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 40);
            let expected = 64.0 - ((u | 1) as f64).log2();
            assert!((minus_log2(u) as f64 / one - expected).abs() < 1e-11);
        }
        assert!(minus_log2(u64::MAX) >= 1);
    }

    /// Fixed numbers: both ends, on any machine, of any version of the libraries, must have them.
    #[test]
    fn the_noise_is_the_same_everywhere() {
        let noise = SharedNoise::new(7);
        let uniform = [1.0 / 4096.0; 4096];
        let chosen: Vec<u32> = (0..6).map(|position| noise.choose(position, &uniform)).collect();
        assert_eq!(chosen, CHOSEN);
        assert_ne!(SharedNoise::new(8).choose(0, &uniform), chosen[0]);
    }

    const CHOSEN: [u32; 6] = [710, 4056, 1851, 2419, 1068, 2166];

    #[test]
    fn skipped_tokens_do_not_move_the_noise_of_others() {
        let noise = SharedNoise::new(3);
        for position in 0..200 {
            let all = noise.choose(position, &[0.25; 4]);
            let mut some = [0.25; 4];
            some[(all as usize + 1) % 4] = 0.0;
            assert_eq!(noise.choose(position, &some), all);
        }
    }

    proptest! {
        /// Token by token as the module says it, with the generator of a library.
        #[test]
        fn the_choice_is_its_definition(
            row in prop::collection::vec(prop_oneof![1 => Just(f32::NEG_INFINITY), 9 => -9f32..9.0], 1..300),
            temperature in prop_oneof![Just(0.0f32), Just(1.0), 0.05f32..2.0],
            top_k in prop_oneof![Just(0u32), 1u32..200],
            top_p in prop_oneof![Just(1.0f32), 0.1f32..1.0],
            seed in any::<u64>(), position in 0usize..1000,
        ) {
            prop_assume!(row.iter().any(|logit| logit.is_finite()));
            let q = Distribution::new(&row, &SamplingParameters { temperature, top_k, top_p }).unwrap();
            let mut key = [0; 32];
            key[..8].copy_from_slice(&seed.to_le_bytes());
            let mut rng = ChaCha8Rng::from_seed(key);
            rng.set_stream(FIRST_STREAM + position as u64);
            let noise = (0..row.len()).map(|_| minus_log2(rng.next_u64()) as f64);
            let dense = q.dense();
            let quotient = |(e, &p): (f64, &f64)| if p > 0.0 { e / p } else { f64::INFINITY };
            let quotients: Vec<f64> = noise.zip(&dense).map(quotient).collect();
            let expected = (0..row.len()).min_by(|&a, &b| quotients[a].total_cmp(&quotients[b])).unwrap() as u32;
            prop_assert_eq!(SharedNoise::new(seed).choose_from(position, &q), expected);
            prop_assert_eq!(SharedNoise::new(seed).choose(position, &dense), expected);
            let two = SharedNoise::new(seed).choose_two(position, &q);
            prop_assert_eq!(two.first, expected);
            if q.is_greedy() {
                prop_assert_eq!(two.second, q.next_likeliest(expected));
            } else {
                let others = || (0..row.len()).filter(|&id| id != expected as usize && quotients[id].is_finite());
                let next = others().min_by(|&a, &b| quotients[a].total_cmp(&quotients[b]));
                prop_assert_eq!(two.second, next.map(|id| id as u32));
                let margin = next.map_or(f64::INFINITY, |id| (quotients[id] / quotients[expected as usize]).ln());
                prop_assert!(two.margin == margin || (two.margin - margin).abs() < 1e-9, "{} and {margin}", two.margin);
            }
        }
    }

    /// A piece may be skipped only if it cannot win: here unlikely tokens, one of which sometimes does.
    #[test]
    fn tokens_far_behind_are_chosen_as_often_as_they_should() {
        let mut row = vec![-9.0f32; 4096];
        row[0] = 0.0;
        let q = Distribution::new(&row, &PLAIN).unwrap();
        let noise = SharedNoise::new(5);
        let behind = (0..20_000).filter(|&position| noise.choose_from(position, &q) != 0).count() as f64 / 20_000.0;
        assert!((behind - (1.0 - q.probability(0))).abs() < 0.01, "{behind}");
        assert!((0..200).all(|position| noise.choose_from(position, &q) == noise.choose(position, &q.dense())));
    }

    #[test]
    fn certainty_is_chosen() {
        let noise = SharedNoise::new(1);
        assert!((0..100).all(|position| noise.choose(position, &[0.0, 0.0, 1.0, 0.0]) == 2));
    }
}
