//! Closed forms of the papers that a session chooses by or reports. The others are in `outrider-papers`.
//!
//! | module | paper | result |
//! |---|---|---|
//! | [`tk_slt`] | Zheng & Yang | tokens per round, speed-up, best draft length (ODLD), whether to draft at all (AS²) |
//! | `sqs` | Bhattacharjee et al. | bounds on resampled tokens and on dropped mass |
//!
//! Probabilities and rates lie in [0, 1], costs and times are at least 0 and finite, and distributions over one
//! vocabulary have one length. Within these domains no function panics or returns NaN; each says what it gives at the
//! edge. The functions do not look for arguments outside of them.

mod sqs;

pub use sqs::RejectionBound;
pub(crate) use sqs::{distortion, dropped_mass_bound};

pub use outrider_control::round_length::{self as tk_slt, geometric_sum};

/// TV(p, q) = Σ max(0, p − q), the total variation distance of two distributions; from 0 (equal) to 1 (disjoint).
///
/// One minus it is the acceptance rate of a draft from q under the exact rule for p (Leviathan et al. 2023), so the
/// papers' α is one minus its mean over the visited positions.
pub fn total_variation(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    /// Distributions over six tokens, of any peakedness; some tokens have no mass.
    pub(crate) fn distribution() -> impl Strategy<Value = Vec<f64>> {
        let weights = prop::collection::vec(prop_oneof![1 => Just(0.0), 4 => 1e-3f64..1.0], 6);
        (weights, 0.2f64..20.0).prop_filter_map("no mass", |(weights, power)| {
            let weights: Vec<f64> = weights.iter().map(|weight| weight.powf(power)).collect();
            let sum: f64 = weights.iter().sum();
            (sum > 0.0).then(|| weights.iter().map(|weight| weight / sum).collect())
        })
    }

    #[test]
    fn distances_reach_from_equal_to_disjoint() {
        assert_eq!(total_variation(&[0.25, 0.75], &[0.25, 0.75]), 0.0);
        assert_eq!(total_variation(&[0.25, 0.75], &[0.5, 0.5]), 0.25);
        assert_eq!(total_variation(&[1.0, 0.0], &[0.0, 1.0]), 1.0);
    }

    proptest! {
        #[test]
        fn the_distance_is_symmetric_and_bounded(p in distribution(), q in distribution()) {
            let distance = total_variation(&p, &q);
            prop_assert!((distance - total_variation(&q, &p)).abs() < 1e-12);
            prop_assert!((0.0..=1.0 + 1e-12).contains(&distance));
        }
    }
}
