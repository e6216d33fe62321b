//! SQS (Bhattacharjee et al., "Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding"):
//! bounds on how many tokens are resampled, and on how much mass C-SQS drops.

use crate::draft::conformal::ThresholdParameters;

/// Theorem 1's bound on the expected number of resampled tokens, the right-hand side of eq. 3, in its two terms; each
/// a sum over committed tokens.
///
/// A draft from q̂ is rejected with probability TV(q̂, p) ≤ TV(q, p) + TV(q, q̂), and the second is at most the
/// `distortion`. A bonus token is never rejected, so the bound is far from tight where most rounds end in one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RejectionBound {
    /// Σ TV(q, p): the small model is not the large one.
    pub discrepancy: f64,
    /// Σ (α_n + K_n/4ℓ): what is sent is not the small model's distribution.
    pub distortion: f64,
}

impl RejectionBound {
    /// Counts a committed token whose distributions were `total_variation` = TV(q, p) apart, and whose q was distorted
    /// by at most `distortion`.
    pub(crate) fn add(&mut self, total_variation: f64, distortion: f64) {
        self.discrepancy += total_variation;
        self.distortion += distortion;
    }
}

/// A token's part of Theorem 1's second term, α_n + K_n/4ℓ (eqs 19, 20): at least TV(q, q̂), where `dropped_mass` of q
/// lies outside the support of K tokens and the rest is quantized to ℓ ≥ 1 units.
///
/// 0 where nothing is dropped and ℓ → ∞. May exceed 1, where it says nothing.
pub(crate) fn distortion(dropped_mass: f64, support_size: u32, lattice_resolution: u32) -> f64 {
    dropped_mass + f64::from(support_size) / (4.0 * f64::from(lattice_resolution.max(1)))
}

/// Upper bound of the mean mass that C-SQS drops, after T = `tokens` committed tokens: α + (|β₁| + 1 + ηα)/(ηT)
/// (Theorem 2, eq. 9). Falls to α as T grows; infinite at T = 0, and at η = 0, where the threshold does not move.
///
/// Erratum. Only the threshold's lower bound −η(1 − α) counts. Where that is below −(1 + ηα), for steps η > 1/(1 − 2α),
/// the theorem as printed does not hold; η(1 − α) then stands in place of 1 + ηα.
pub(crate) fn dropped_mass_bound(parameters: &ThresholdParameters, tokens: usize) -> f64 {
    let ThresholdParameters { target, step, initial } = *parameters;
    let lowest = (1.0 + step * target).max(step * (1.0 - target));
    target + (initial.abs() + lowest) / (step * tokens as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        draft::{lattice, sparsify},
        sample::{
            Distribution,
            tests::{PLAIN, logits},
        },
        theory::{tests::distribution, total_variation},
    };
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn both_terms_are_sums_over_tokens() {
        let mut bound = RejectionBound::default();
        bound.add(0.25, distortion(0.125, 32, 64));
        bound.add(0.5, distortion(0.0, 8, 64));
        assert_eq!((bound.discrepancy, bound.distortion), (0.75, 0.28125));
    }

    #[test]
    fn theorem_2_falls_to_the_target() {
        let paper = ThresholdParameters { target: 0.0005, step: 0.001, initial: 0.01 };
        assert_eq!(dropped_mass_bound(&paper, 0), f64::INFINITY);
        // 0.0005 + 1.0100005/0.001 = 1010.001.
        assert!((dropped_mass_bound(&paper, 1) - 1010.001).abs() < 1e-9);
        // About 2.4e-7 above it where usize has 32 bits.
        assert!((dropped_mass_bound(&paper, usize::MAX) - 0.0005).abs() < 1e-6);
        assert_eq!(dropped_mass_bound(&ThresholdParameters { step: 0.0, ..paper }, 9), f64::INFINITY);
        // From β₁ just above 0 one token may drop nearly all; as printed, the bound would be 0.1 + 1.4/4 = 0.45.
        let leap = ThresholdParameters { target: 0.1, step: 4.0, initial: 0.0 };
        assert!((dropped_mass_bound(&leap, 1) - 1.0).abs() < 1e-12);
    }

    proptest! {
        /// Theorem 1's bound for one token, for the lattice and the supports that are sent.
        #[test]
        fn the_rejection_rate_of_a_quantized_draft_is_within_the_bound(
            q in distribution(), p in distribution(), support_size in 1u32..=6, resolution in 1u32..200,
        ) {
            let row = logits(&q);
            let support = sparsify::top_k(&Distribution::new(&row, &PLAIN).unwrap(), support_size);
            let sent = lattice::quantize(&support, resolution).unwrap();
            let mut quantized = vec![0.0; q.len()];
            for (&id, &count) in sent.ids().iter().zip(sent.counts()) {
                quantized[id as usize] = f64::from(count) / f64::from(sent.total());
            }
            let distortion = distortion(support.dropped_mass(), support.ids.len() as u32, resolution);
            prop_assert!(total_variation(&q, &quantized) <= distortion + 1e-9);
            let mut bound = RejectionBound::default();
            bound.add(total_variation(&q, &p), distortion);
            prop_assert!(total_variation(&quantized, &p) <= bound.discrepancy + bound.distortion + 1e-9);
        }
    }
}
