//! Sparse lattice quantization (Bhattacharjee et al., Algorithm 2): probabilities to counts that add up to ℓ.
//!
//! With q̃ the support's probabilities renormalised (eq. 17; the algorithm as printed omits it):
//! b′ᵢ = ⌊ℓ·q̃ᵢ + ½⌋, ζᵢ = b′ᵢ − ℓ·q̃ᵢ, and the |Σb′ − ℓ| units too many (too few) are taken from (given to) the
//! tokens with the largest (smallest) ζ. Ties go to the smaller id.
//!
//! q̃ = (0.45, 0.35, 0.2), ℓ = 10: b′ = (5, 4, 2), one too many; ζ = (½, ½, 0); counts (4, 4, 2).
//!
//! The largest error of a count is below 1, that of all of them together at most K/2, so q̂ differs from q̃ by at
//! most K/4ℓ in total variation: the second term of Theorem 1.

use outrider_codec::distribution::{DistError, DraftDist};

use crate::draft::sparsify::Support;

/// Quantizes a support to the lattice of resolution ℓ ≥ 1. Tokens rounded to zero lose their place.
///
/// # Errors
/// [`DistError::Empty`] for an empty support.
pub(crate) fn quantize(support: &Support, resolution: u32) -> Result<DraftDist, DistError> {
    let counts = counts(&support.probabilities, support.mass, resolution);
    let (ids, counts) = support.ids.iter().zip(counts).filter(|&(_, count)| count > 0).unzip();
    DraftDist::new(ids, counts)
}

/// Largest number of tokens of a support that may have a count at a resolution of ℓ: 2ℓ, the most likely ones.
///
/// At most 2ℓ have ℓ·q̃ ≥ ½, hence b′ ≥ 1. Where their b′ are too few, by d, they are at most ℓ − d; of the others,
/// whose ζ is −ℓ·q̃, the d most likely get a unit.
pub(crate) fn most_listed(resolution: u32) -> u32 {
    resolution.saturating_mul(2)
}

/// Counts of a support that add up to the resolution; `mass` is that of the whole support.
fn counts(probabilities: &[f64], mass: f64, resolution: u32) -> Vec<u32> {
    let scaled = |i: usize| f64::from(resolution) * probabilities[i] / mass;
    let mut counts: Vec<u32> = (0..probabilities.len()).map(|i| (scaled(i) + 0.5).floor() as u32).collect();
    let sum: u32 = counts.iter().sum();
    if sum != resolution && !counts.is_empty() {
        let excess: Vec<f64> = counts.iter().enumerate().map(|(i, &count)| f64::from(count) - scaled(i)).collect();
        let mut order: Vec<usize> = (0..counts.len()).collect();
        if sum > resolution {
            order.sort_by(|&a, &b| excess[b].total_cmp(&excess[a]));
            // Σζ = Σb′ − ℓ and each ζ ≤ ½, so at least that many tokens have ζ > 0, hence a count to take from.
            for &i in order.iter().filter(|&&i| probabilities[i] > 0.0).take((sum - resolution) as usize) {
                counts[i] -= 1;
            }
        } else {
            order.sort_by(|&a, &b| excess[a].total_cmp(&excess[b]));
            for &i in order.iter().take((resolution - sum) as usize) {
                counts[i] += 1;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::sparsify;
    use crate::sample::{
        Distribution,
        tests::{PLAIN, logits},
    };
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn whole(probabilities: &[f64], resolution: u32) -> Vec<u32> {
        counts(probabilities, probabilities.iter().sum(), resolution)
    }

    #[test]
    fn worked_examples() {
        assert_eq!(whole(&[0.45, 0.35, 0.2], 10), [4, 4, 2]);
        assert_eq!(whole(&[0.45, 0.35, 0.2].map(|x| x / 8.0), 10), [4, 4, 2], "the support is renormalised");
        assert_eq!(whole(&[1.0, 1.0, 1.0], 10), [4, 3, 3], "one too few: the smaller id gains");
        assert_eq!(whole(&[1.0, 1.0, 1.0, 1.0], 2), [0, 0, 1, 1], "two too many: the smaller ids lose");
        assert_eq!(whole(&[1.0], 65536), [65536]);
        assert_eq!(quantize(&Support::new(vec![], vec![]), 5), Err(DistError::Empty));
        let q = quantize(&Support::new(vec![3, 9], vec![0.001, 0.9]), 10).unwrap();
        assert_eq!((q.ids(), q.counts()), (&[9][..], &[10][..]));
    }

    #[test]
    fn twice_the_resolution_may_be_rounded_up() {
        // ℓ·q̃ = ½ for eight tokens: all are rounded up, and the smaller ids lose.
        let q = Distribution::new(&[0.0; 8], &PLAIN).unwrap();
        let all = quantize(&sparsify::all_listing(&q, most_listed(4)), 4).unwrap();
        assert_eq!(all.ids(), [4, 5, 6, 7]);
        assert_ne!(quantize(&sparsify::all_listing(&q, most_listed(4) - 1), 4).unwrap(), all);
    }

    proptest! {
        #[test]
        fn counts_add_up_and_stay_close(
            weights in prop::collection::vec(1e-9f64..1.0, 1..80), resolution in 1u32..2000,
        ) {
            let counts = whole(&weights, resolution);
            prop_assert_eq!(counts.iter().sum::<u32>(), resolution);
            let mass: f64 = weights.iter().sum();
            let exact = weights.iter().map(|w| f64::from(resolution) * w / mass);
            let errors = exact.zip(&counts).map(|(exact, &b)| (f64::from(b) - exact).abs());
            let (mut worst, mut total) = (0f64, 0f64);
            for e in errors { worst = worst.max(e); total += e; }
            prop_assert!(worst <= 1.0 + 1e-9, "worst {}", worst);
            prop_assert!(total <= weights.len() as f64 / 2.0 + 1e-6, "total {}", total);
        }

        /// Tokens that are not listed would have no count.
        #[test]
        fn the_most_likely_are_enough(
            weights in prop::collection::vec(1e-6f64..1.0, 1..80), flat in any::<bool>(), resolution in 1u32..12,
        ) {
            // Ties, or not.
            let weight = |weight: f64| if flat { 1.0 + (2.0 * weight).floor() } else { weight.powi(4) };
            let weights: Vec<f64> = weights.into_iter().map(weight).collect();
            let row = logits(&weights);
            let q = Distribution::new(&row, &PLAIN).unwrap();
            let few = quantize(&sparsify::all_listing(&q, most_listed(resolution)), resolution).unwrap();
            let all = quantize(&sparsify::all_listing(&q, u32::MAX), resolution).unwrap();
            prop_assert_eq!(&few, &all);
            let above = sparsify::above(&q, 1e-4);
            let few = quantize(&above.clone().listing(most_listed(resolution)), resolution).unwrap();
            prop_assert_eq!(&few, &quantize(&above, resolution).unwrap());
        }
    }
}
