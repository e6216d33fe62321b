//! Probabilities in half precision (dense, TK-SLT, DSSD): rounded to f16, and from there on integers.
//!
//! What was rounded does not add up to 1. The [counts](outrider_codec::half) are divided by what they do add up to,
//! at both ends, so nothing is ever drawn from one distribution and judged by another.

use outrider_codec::{
    distribution::{DistError, DraftDist},
    half,
};

use crate::{
    draft::sparsify::Support,
    sample::{Distribution, Weighed},
};

/// No probability below it has a count: half of the unit 2⁻²⁴.
const LEAST: f64 = 0.5 / half::ONE as f64;
/// The smallest normal number of f16.
const NORMAL: f64 = 1024.0 / half::ONE as f64;
/// Bits of an f64's fraction that f16 has no room for.
const DROPPED: u32 = 42;

/// Rounds a support's probabilities, renormalised, to f16. Tokens rounded to zero lose their place.
///
/// # Errors
/// [`DistError::Empty`] for a support without mass.
pub(crate) fn quantize(support: &Support) -> Result<DraftDist, DistError> {
    let count = |p: f64| count(p / support.mass);
    let rounded = support.ids.iter().zip(support.probabilities.iter().map(|&p| count(p)));
    let (ids, counts) = rounded.filter(|&(_, count)| count > 0).map(|(&id, count)| (id, count)).unzip();
    DraftDist::new(ids, counts)
}

/// Rounds every probability of a distribution to f16 (dense, DSSD). Tokens rounded to zero have no place.
///
/// # Errors
/// [`DistError::Empty`] if all tokens are rounded to zero.
pub(crate) fn quantize_all(q: &Distribution<'_>) -> Result<DraftDist, DistError> {
    // Room that is not written to costs nothing, and growing over all of a vocabulary does.
    let room = || Vec::with_capacity(q.vocab_size() as usize);
    let (mut ids, mut counts) = (room(), room());
    let mut put = |id: u32, count: u32| {
        if count > 0 {
            ids.push(id);
            counts.push(count);
        }
    };
    let partition = q.partition();
    q.weigh(|weighed| match weighed {
        Weighed::Piece { first, largest, weights } => {
            if largest / partition >= LEAST {
                let rounded = weights().map(|weight| count(weight / partition));
                rounded.into_iter().zip(first..).for_each(|(count, id)| put(id, count));
            }
        }
        Weighed::Few(tokens) => tokens.iter().for_each(|&(id, weight)| put(id, count(weight / partition))),
    });
    DraftDist::new(ids, counts)
}

/// The count of a probability in f16, rounded to nearest, ties to even. A rounded sum below 1 may leave it a little
/// above 1, which is 1 in f16 as well.
///
/// Normal numbers keep ten bits of the fraction, those below [`NORMAL`] are multiples of the unit. No branches and no
/// calls, so that loops over it vectorise.
#[inline(always)]
fn count(probability: f64) -> u32 {
    // Adding 1.5·2⁵²·2⁻²⁴ leaves no room for what is below the unit.
    const UNITS: f64 = 1.5 * (1u64 << 28) as f64;
    let subnormal = (probability + UNITS) - UNITS;
    let bits = probability.to_bits();
    let even = bits >> DROPPED & 1;
    let normal = f64::from_bits((bits.wrapping_add((1 << (DROPPED - 1)) - 1 + even)) >> DROPPED << DROPPED);
    let rounded = if probability < NORMAL { subnormal } else { normal };
    // An integer of 24 bits, in the low bits of the sum.
    (rounded * f64::from(half::ONE) + (1u64 << 52) as f64).to_bits() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{draft::sparsify, sample::tests::PLAIN};
    use outrider_codec::frame::SamplingParameters;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_most_likely_are_renormalised_and_rounded() {
        let support = Support::new(vec![2, 5, 9], vec![0.3, 0.1, 1e-9]);
        let dist = quantize(&support).unwrap();
        assert_eq!((dist.ids(), dist.counts()), (&[2, 5][..], &[3 << 22, 1 << 22][..]));
        let thirds = quantize(&Support::new(vec![0, 1, 2], vec![0.1; 3])).unwrap();
        // 1/3 in eleven bits is 1365/4096; three of them are not 1.
        assert_eq!((thirds.counts(), thirds.total()), (&[1365 << 12; 3][..], 3 * (1365 << 12)));
        assert!(quantize(&Support::new(vec![], vec![])).is_err());
    }

    #[test]
    fn counts_are_those_of_the_nearest_half() {
        // Every f16 in [0, 1], and what lies about the middles between neighbours.
        for bits in 0..0x3c00u16 {
            let [low, high] = [bits, bits + 1].map(|bits| half::to_count(bits).unwrap());
            let middle = (f64::from(low) + f64::from(high)) / 2.0 / f64::from(half::ONE);
            let even = if bits % 2 == 0 { low } else { high };
            assert_eq!([middle.next_down(), middle, middle.next_up()].map(count), [low, even, high], "{bits:#06x}");
            let exactly = f64::from(low) / f64::from(half::ONE);
            assert_eq!([exactly, exactly.next_up()].map(count), [low; 2]);
        }
        assert_eq!([1.0f64.next_down(), 1.0, 1.0f64.next_up()].map(count), [half::ONE; 3]);
        assert_eq!((count(LEAST), count(LEAST.next_up())), (0, 1));
    }

    #[test]
    fn a_whole_distribution_has_the_counts_of_its_tokens() {
        for spread in [0.0, 0.01, 1.0] {
            let row: Vec<f32> = (0..1000).map(|i| -spread * ((i * 37 % 1000) as f32)).collect();
            for sampling in [PLAIN, SamplingParameters { temperature: 2.0, top_k: 300, ..PLAIN }] {
                let q = Distribution::new(&row, &sampling).unwrap();
                assert_eq!(quantize_all(&q), quantize(&sparsify::all_listing(&q, u32::MAX)), "{spread}");
            }
        }
    }

    #[test]
    fn a_uniform_distribution_over_a_large_vocabulary_keeps_every_token() {
        let n = 151_936;
        let dist = quantize(&Support::new((0..n).collect(), vec![1.0 / f64::from(n); n as usize]));
        assert_eq!(dist.unwrap().ids().len(), n as usize);
    }
}
