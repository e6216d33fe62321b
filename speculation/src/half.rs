//! Probabilities in half precision (dense, TK-SLT, DSSD): rounded to f16, and from there on integers.
//!
//! What was rounded does not add up to 1. The [counts](outrider_codec::half) are divided by what they do add up to,
//! at both ends, so nothing is ever drawn from one distribution and judged by another.

use outrider_codec::{
    distribution::{DistError, DraftDist},
    half,
};

use crate::sparsify::Support;

/// Rounds a support's probabilities, renormalised, to f16. Tokens rounded to zero lose their place.
///
/// # Errors
/// [`DistError::Empty`] for a support without mass.
pub fn quantize(support: &Support) -> Result<DraftDist, DistError> {
    let mass: f64 = support.probabilities.iter().sum();
    let count = |p: f64| half::to_count(::half::f16::from_f64(p / mass).to_bits()).unwrap_or(0);
    let rounded = support.ids.iter().zip(support.probabilities.iter().map(|&p| count(p)));
    let (ids, counts) = rounded.filter(|&(_, count)| count > 0).map(|(&id, count)| (id, count)).unzip();
    DraftDist::new(ids, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_most_likely_are_renormalised_and_rounded() {
        let support = Support { ids: vec![2, 5, 9], probabilities: vec![0.3, 0.1, 1e-9] };
        let dist = quantize(&support).unwrap();
        assert_eq!((dist.ids(), dist.counts()), (&[2, 5][..], &[3 << 22, 1 << 22][..]));
        let thirds = quantize(&Support { ids: vec![0, 1, 2], probabilities: vec![0.1; 3] }).unwrap();
        // 1/3 in eleven bits is 1365/4096; three of them are not 1.
        assert_eq!((thirds.counts(), thirds.total()), (&[1365 << 12; 3][..], 3 * (1365 << 12)));
        assert!(quantize(&Support { ids: vec![], probabilities: vec![] }).is_err());
    }

    #[test]
    fn a_uniform_distribution_over_a_large_vocabulary_keeps_every_token() {
        let n = 151_936;
        let dist = quantize(&Support { ids: (0..n).collect(), probabilities: vec![1.0 / f64::from(n); n as usize] });
        assert_eq!(dist.unwrap().ids().len(), n as usize);
    }
}
