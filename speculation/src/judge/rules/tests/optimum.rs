//! Mentored decoding solves its problem: no distribution that is as near to p accepts more.

use super::*;
use crate::sample::{End, Randomness};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// KL(p‖π) in nats, of the tokens that are not lost in rounding beside the others: where p is less, π may be 0, and the
/// divergence would be infinite for a token that is never drawn.
fn divergence(p: &[f64], pi: &[f64]) -> f64 {
    p.iter().zip(pi).filter(|&(&p, _)| p > f64::EPSILON).map(|(p, pi)| p * (p / pi).ln()).sum()
}

/// Σ min(q, π), the probability of acceptance.
fn acceptance(q: &[f64], pi: &[f64]) -> f64 {
    q.iter().zip(pi).map(|(q, pi)| q.min(*pi)).sum()
}

/// π of the rule `mentored`, as V weights.
fn solution(case: &Case, allowed: f64) -> Vec<f64> {
    match case.judge(&Rule::new("mentored", allowed).unwrap()) {
        Decision::Keep => case.dense_q(),
        Decision::Speculate(pi) => pi.dense(&case.q, &case.p),
        Decision::Replace => panic!("mentored draws"),
    }
}

/// Moves mass between pairs of tokens, by steps that shrink, wherever that accepts more and stays within the
/// divergence. Starts at p. Knows nothing of the solution's form.
fn climb(q: &[f64], p: &[f64], allowed: f64, randomness: &mut Randomness) -> Vec<f64> {
    let mut pi = p.to_vec();
    let v = p.len() as u32;
    let mut step = 0.25;
    while step > 1e-6 {
        for _ in 0..60 {
            let (from, to) = (randomness.below(v) as usize, randomness.below(v) as usize);
            let mut next = pi.clone();
            let mass = f64::min(step, next[from]);
            next[from] -= mass;
            next[to] += mass;
            if divergence(p, &next) <= allowed && acceptance(q, &next) >= acceptance(q, &pi) {
                pi = next;
            }
        }
        step *= 0.8;
    }
    pi
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// π is a distribution, as near to p as was asked, and uses what it may.
    #[test]
    fn the_divergence_is_kept(case in cases(), allowed in prop_oneof![Just(1e-9f64), 1e-6f64..0.01, 0.01f64..3.0]) {
        let (q, pi) = (case.dense_q(), solution(&case, allowed));
        let allowed = Rule::new("mentored", allowed).unwrap().parameter();
        prop_assert!((pi.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let found = divergence(&case.p, &pi);
        prop_assert!(found <= allowed + 1e-9, "{found}");
        // Where next to nothing is rejected, what is has few digits left.
        let all = acceptance(&q, &pi) > 1.0 - 1e-6;
        prop_assert!(found > allowed - 1e-9 || all, "{found} of {allowed}: more was allowed");
    }

    /// From D = 0, where π = p, to D = KL(p‖q̂), where every draft is accepted.
    #[test]
    fn the_ends_are_the_target_and_the_draft(case in cases()) {
        let q = case.dense_q();
        prop_assert_eq!(solution(&case, 0.0), case.p.clone());
        let enough = divergence(&case.p, &q);
        if enough == f64::INFINITY {
            return Ok(());
        }
        let all = acceptance(&q, &solution(&case, enough * (1.0 + 1e-6) + 1e-12));
        prop_assert!((all - 1.0).abs() < 1e-12);
        // Short of it some are rejected.
        prop_assert!(enough < 1e-3 || acceptance(&q, &solution(&case, enough * 0.9)) < 1.0);
    }

    /// More is accepted if more is allowed; and never less than by the exact rule.
    #[test]
    fn acceptance_grows_with_the_divergence(case in cases()) {
        let q = case.dense_q();
        let accepted = [0.0, 1e-4, 0.01, 0.1, 0.5, 2.0, 10.0].map(|allowed| acceptance(&q, &solution(&case, allowed)));
        prop_assert!(accepted.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{accepted:?}");
    }

    /// Neither points between p and q̂ and other rules' π, nor random ones, nor an optimiser's do better.
    #[test]
    fn no_other_distribution_accepts_more(case in cases(), allowed in 0.001f64..2.0, seed: u64) {
        let allowed = Rule::new("mentored", allowed).unwrap().parameter();
        let mut randomness = Randomness::new(seed, End::Cloud);
        let (q, p) = (case.dense_q(), case.p.clone());
        let best = acceptance(&q, &solution(&case, allowed)) + 1e-9;
        for _ in 0..200 {
            let weights: Vec<f64> = p.iter().map(|_| -f64::ln(1.0 - randomness.unit())).collect();
            let share = randomness.unit().powi(3);
            let other = randomness.unit();
            let pi = p.iter().zip(&q).zip(&weights);
            let pi: Vec<f64> =
                pi.map(|((p, q), w)| (1.0 - share) * (other * p + (1.0 - other) * q) + share * w * p).collect();
            let sum: f64 = pi.iter().sum();
            let pi: Vec<f64> = pi.iter().map(|pi| pi / sum).collect();
            prop_assert!(divergence(&p, &pi) > allowed || acceptance(&q, &pi) <= best);
        }
        for rule in rules() {
            let distribution = case.judge(&rule).committed(&case.q, &case.p);
            prop_assert!(divergence(&p, &distribution) > allowed || acceptance(&q, &distribution) <= best, "{rule:?}");
        }
        let climbed = climb(&q, &p, allowed, &mut randomness);
        prop_assert!(acceptance(&q, &climbed) <= best, "{climbed:?}");
    }
}

/// Every distribution over three tokens with probabilities of 1/200 each: none accepts more, and the best of them
/// accepts nearly as much, so the comparison is with something.
#[test]
fn a_grid_finds_nothing_better() {
    let positions = [
        ([0.7, 0.2, 0.1], [0.2, 0.5, 0.3]),
        ([0.5, 0.5, 0.0], [0.1, 0.3, 0.6]),
        ([0.1, 0.8, 0.1], [0.0, 0.4, 0.6]),
        ([0.6, 0.4, 0.0], [0.0, 0.0, 1.0]),
        ([0.3, 0.3, 0.4], [0.3, 0.4, 0.3]),
    ];
    for (q, p) in positions {
        let case = Case::new(q.map(f32::ln).to_vec(), p.map(f32::ln).to_vec(), NEUTRAL, None);
        let (q, p) = (case.dense_q(), case.p.clone());
        for allowed in [0.02f64, 0.1, 0.3, 0.8] {
            let allowed = Rule::new("mentored", allowed).unwrap().parameter();
            let best = acceptance(&q, &solution(&case, allowed));
            let mut found = 0.0f64;
            for (i, j) in (0..=200u32).flat_map(|i| (0..=200 - i).map(move |j| (i, j))) {
                let pi = [i, j, 200 - i - j].map(|units| f64::from(units) / 200.0);
                if divergence(&p, &pi) <= allowed {
                    found = found.max(acceptance(&q, &pi));
                }
            }
            assert!(found <= best + 1e-9, "{q:?} {p:?} {allowed}: {found} is over {best}");
            assert!(found >= best - 0.02, "{q:?} {p:?} {allowed}: {found} is far below {best}");
        }
    }
}

/// Tokens outside of q̂'s support with little mass of p. π would be less there than an f64 can represent: it stays
/// above 0, and the divergence finite.
#[test]
fn a_generous_divergence_leaves_no_token_without_mass() {
    for (tail, gap) in [(-6.0f32, 1.0f32), (-20.0, f32::NEG_INFINITY), (-40.0, 1.0)] {
        let case = Case::new(vec![2.0, 0.0, f32::NEG_INFINITY, 1.0], vec![1.0, 2.0, tail, gap], NEUTRAL, None);
        let (q, pi) = (case.dense_q(), solution(&case, 2.5));
        assert!(pi[2] > 0.0 && divergence(&case.p, &pi) <= 2.5, "{pi:?}");
        assert!(acceptance(&q, &pi) > 1.0 - 1e-15, "{pi:?}");
    }
}

/// With no token in common only the divergence buys acceptance: π = p·e^−D + q·(1 − e^−D).
#[test]
fn disjoint_supports_have_a_closed_form() {
    let certain = |id| (0..4).map(|i| if i == id { 0.0 } else { f32::NEG_INFINITY }).collect::<Vec<f32>>();
    for sampling in [GREEDY, NEUTRAL] {
        let case = Case::new(certain(1), certain(3), sampling, None);
        for allowed in [0.25f64, 1.0, 3.0] {
            let pi = solution(&case, allowed);
            let kept = f64::exp(-allowed);
            for (found, expected) in pi.iter().zip([0.0, 1.0 - kept, 0.0, kept]) {
                assert!((found - expected).abs() < 1e-12, "{pi:?}");
            }
        }
    }
}
