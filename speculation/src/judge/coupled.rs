//! Coupled drafting: both ends choose with the same noise, so nothing but ids has to travel (Daliri, Musco, Suresh,
//! "Coupling without communication and drafter-invariant speculative decoding", 2024).
//!
//! The edge drafts argmin E_x/q(x), the cloud's choice is argmin E_x/p(x) with the same
//! [noise](crate::sample::SharedNoise) E; a draft is accepted where they agree. What is committed is the cloud's choice
//! always, so the text is distributed as the target's whatever the edge drafts, and they agree with probability at
//! least (1 − TV)/(1 + TV).

/// The probability that both ends choose the same token from `q` and `p`, V probabilities each:
///
/// ```text
/// Σ_x 1 / Σ_y max(q(y)/q(x), p(y)/p(x))
/// ```
///
/// At least (1 − TV)/(1 + TV). (Both choose x if E_x is below E_y·max(q(x)/q(y), p(x)/p(y)) for every other y, and the
/// least of exponentials is each with probability in proportion to its rate.)
pub fn agreement(q: &[f64], p: &[f64]) -> f64 {
    // By descending q/p the maximum is q(y)/q(x) for every y up to x, and p(y)/p(x) for every y after it.
    let mut pairs: Vec<(f64, f64)> =
        q.iter().copied().zip(p.iter().copied()).filter(|&(q, p)| q > 0.0 || p > 0.0).collect();
    pairs.sort_unstable_by(|a, b| (b.0 * a.1).total_cmp(&(a.0 * b.1)));
    let mut behind: f64 = pairs.iter().map(|pair| pair.1).sum();
    let mut before = 0.0;
    let mut agreement = 0.0;
    for (q, p) in pairs {
        before += q;
        behind = (behind - p).max(0.0);
        if q > 0.0 && p > 0.0 {
            agreement += 1.0 / (before / q + behind / p);
        }
    }
    agreement
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;
    use crate::{
        sample::SharedNoise,
        theory::{tests::distribution, total_variation},
    };

    proptest! {
        #[test]
        fn agreement_is_its_sum_and_within_its_bounds(q in distribution(), p in distribution()) {
            let both = |x: usize| q[x] > 0.0 && p[x] > 0.0;
            let least = |x: usize| (0..q.len()).map(|y| (q[y] / q[x]).max(p[y] / p[x])).sum::<f64>();
            let expected: f64 = (0..q.len()).filter(|&x| both(x)).map(|x| 1.0 / least(x)).sum();
            let found = agreement(&q, &p);
            prop_assert!((found - expected).abs() < 1e-9, "{} and {}", found, expected);
            let distance = total_variation(&q, &p);
            prop_assert!(found >= (1.0 - distance) / (1.0 + distance) - 1e-9 && found <= 1.0 - distance + 1e-9);
        }
    }

    #[test]
    fn agreement_is_how_often_both_choose_the_same() {
        let (q, p) = ([0.5, 0.3, 0.2, 0.0], [0.2, 0.3, 0.1, 0.4]);
        let noise = SharedNoise::new(11);
        let same = (0..40_000).filter(|&position| noise.choose(position, &q) == noise.choose(position, &p)).count();
        assert!((same as f64 / 40_000.0 - agreement(&q, &p)).abs() < 0.01);
    }
}
