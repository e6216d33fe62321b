//! Speculative cascades (Narasimhan et al., "Faster Cascades via Speculative Decoding"): what deferring to the large
//! model costs.

/// How often a draft from q is rejected when the target is π = (1 − r)·q + r·p: r·TV(p, q) (Lemma 3).
///
/// `deferral` is r, 0 or 1 for most rules, or any number between. 0 where the rule keeps q, TV(p, q) where it defers to
/// p. Rules whose r depends on the token (token-v1 to v3) and the lossy ones have no such form.
pub fn rejection_rate(deferral: f64, total_variation: f64) -> f64 {
    deferral * total_variation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::{tests::distribution, total_variation};
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    proptest! {
        /// Lemma 3 against the acceptance rule: x is accepted with probability min(1, π(x)/q(x)).
        #[test]
        fn it_is_what_the_acceptance_rule_rejects(
            p in distribution(), q in distribution(), deferral in prop_oneof![Just(0.0), Just(1.0), 0.0f64..1.0],
        ) {
            let rejected: f64 = (p.iter().zip(&q))
                .filter(|&(_, &q)| q > 0.0)
                .map(|(p, q)| q * (1.0 - (((1.0 - deferral) * q + deferral * p) / q).min(1.0)))
                .sum();
            prop_assert!((rejection_rate(deferral, total_variation(&p, &q)) - rejected).abs() < 1e-12);
        }
    }
}
