//! The lemmas of Narasimhan et al. on what the rules do. Lemmas 5 and 9, on what they lose, are in `outrider-papers`.

use super::*;
use crate::theory::total_variation;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

proptest! {
    /// Lemma 2: π = max{min{q, p/(1 − α)}, p/β} is lossy speculative sampling, by Tran-Thien's acceptance (eq. 17) and
    /// residual (eq. 18).
    #[test]
    fn lemma_2_lossy_speculative_sampling(case in cases(), alpha in 0.0f64..0.99) {
        for name in ["lossy", "lossy-tuned"] {
            let rule = Rule::new(name, alpha).unwrap();
            let decision = case.judge(&rule);
            let strictness = 1.0 - rule.parameter();
            for &x in case.q.ids() {
                let (q, p) = (case.dense_q()[x as usize], case.p[x as usize]);
                prop_assert!(close(decision.acceptance(&case.q, x), f64::min(1.0, p / (strictness * q))));
            }
            if decision.rejection_rate(&case.q) < 1e-9 {
                continue;
            }
            let Decision::Speculate(pi) = &decision else { panic!("{decision:?} rejects") };
            let pi = pi.dense(&case.q, &case.p);
            // Wherever π is above q̂ it is p/β.
            let raised = pi.iter().zip(case.dense_q()).zip(&case.p).filter(|&((pi, q), _)| *pi > q + 1e-12);
            let Some(beta) = raised.map(|((pi, _), p)| p / pi).next() else { panic!("nothing replaces {pi:?}") };
            prop_assert!(beta >= strictness, "{beta} {strictness}");
            prop_assert!(name != "lossy" || close(beta, 1.0));
            let residual = case.p.iter().zip(case.dense_q()).map(|(p, q)| (p / beta - q).max(0.0));
            for (found, expected) in decision.replacement(&case.q, &case.p).iter().zip(residual) {
                prop_assert!(close(*found, expected));
            }
        }
    }

    /// Lemma 3: a cascade rejects with probability δ·TV(p, q).
    #[test]
    fn lemma_3_a_cascades_rejection_rate(case in cases()) {
        let distance = total_variation(&case.p, &case.dense_q());
        let mut rates = vec![];
        for rule in rules() {
            let name = rule.info().name;
            if !["chow", "diff", "opt", "bild-star"].iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            let decision = case.judge(&rule);
            let deferral = f64::from(u8::from(decision != Decision::Keep));
            let rate = decision.rejection_rate(&case.q);
            prop_assert!(close(rate, deferral * distance), "{rule:?}");
            rates.push(rate);
        }
        prop_assert!(rates.len() >= 7);
    }

    /// The right end of Figure 2: with α low enough every token is deferred, and the text is the target's. At −1 for
    /// diff, as max q ≤ 1 < max p + 1; for opt where α·TV is as low.
    #[test]
    fn figure_2_has_the_target_at_its_right_end(case in cases()) {
        let exact = case.judge(&Rule::EXACT);
        for (name, end) in [("diff", -1.0), ("diff-log", -1e3), ("opt", -1e6), ("opt-log", -1e9)] {
            let decision = case.judge(&Rule::new(name, end).unwrap());
            // opt has no reason to defer where p and q̂ are the same, nor an effect.
            let rejected = exact.rejection_rate(&case.q);
            prop_assert!(decision == exact || name.starts_with("opt") && rejected < 1e-4, "{name} {rejected}");
        }
        let oracle = case.judge(&Rule::new("oracle-diff", -1.0).unwrap());
        prop_assert_eq!(oracle, Decision::Replace);
    }

    /// Lemma 6: at T = 0 lossy speculative sampling is exact, whatever α.
    #[test]
    fn lemma_6_lossy_is_exact_at_temperature_0((row, logits) in logits(), alpha in 0.0f64..0.999) {
        let case = Case::new(row, logits, GREEDY, None);
        for name in ["lossy", "lossy-tuned"] {
            let decision = case.judge(&Rule::new(name, alpha).unwrap());
            let exact = case.judge(&Rule::EXACT);
            let x = case.q.ids()[0];
            prop_assert_eq!(decision.acceptance(&case.q, x), exact.acceptance(&case.q, x));
            prop_assert_eq!(decision.committed(&case.q, &case.p), case.p.clone());
        }
    }

    /// Lemma 7: at T = 0 token-v3 is the greedy rule of Leviathan et al.: the draft v is accepted if and only if
    /// p(v) ≥ (1 − α)·max p, and what replaces it is the target's most likely token.
    #[test]
    fn lemma_7_token_v3_is_lossy_greedy_at_temperature_0((row, logits) in logits(), alpha in 0.0f64..=1.0) {
        let case = Case::new(row, logits, GREEDY, None);
        let rule = Rule::new("token-v3", alpha).unwrap();
        let decision = case.judge(&rule);
        let v = case.q.ids()[0];
        let max = case.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        // p(v)/max p
        let share = f64::exp(f64::from(case.logits[v as usize]) - f64::from(max));
        prop_assume!((share - (1.0 - rule.parameter())).abs() > 1e-9);
        let accepted = share >= 1.0 - rule.parameter();
        prop_assert_eq!(decision.acceptance(&case.q, v), f64::from(u8::from(accepted)));
        if !accepted {
            prop_assert_eq!(decision.replacement(&case.q, &case.p), case.p.clone());
        }
    }

    /// Lemma 10: at T = 0 opt is diff. δ may differ where both models agree; then nothing follows from it.
    #[test]
    fn lemma_10_opt_is_diff_at_temperature_0((row, logits) in logits(), alpha in -1.0f64..=1.0) {
        let case = Case::new(row, logits, GREEDY, None);
        for (opt, diff) in [("opt", "diff"), ("opt-log", "diff-log")] {
            let [opt, diff] = [opt, diff].map(|name| case.judge(&Rule::new(name, alpha).unwrap()));
            let x = case.q.ids()[0];
            prop_assert_eq!(opt.acceptance(&case.q, x), diff.acceptance(&case.q, x));
            prop_assert_eq!(opt.committed(&case.q, &case.p), diff.committed(&case.q, &case.p));
        }
    }

    /// bild and bild-star have one distribution, and so have oracle-diff and diff; without the draw more is rejected,
    /// or the same.
    #[test]
    fn the_draw_changes_no_distribution(case in cases(), parameter in 0.0f64..=1.0) {
        for (sure, draw) in [("bild", "bild-star"), ("oracle-diff", "diff")] {
            let [sure, draw] = [sure, draw].map(|name| case.judge(&Rule::new(name, parameter).unwrap()));
            let distributions = [&sure, &draw].map(|decision| decision.committed(&case.q, &case.p));
            prop_assert!(distributions[0].iter().zip(&distributions[1]).all(|(a, b)| close(*a, *b)));
            prop_assert!(sure.rejection_rate(&case.q) >= draw.rejection_rate(&case.q) - 1e-12);
        }
    }
}

/// The distribution of lossy with β = 1, by hand: q = (1/2, 1/2, 0), p = (1/4, 1/4, 1/2), α = 1/4. Then p/(1 − α) =
/// (1/3, 1/3, 2/3), E = 1/3, and all of it goes to the third token, which is the only one that p makes more likely.
#[test]
fn lossy_without_tuning_has_a_distribution_of_its_own() {
    let logits = [0.25f32, 0.25, 0.5].map(f32::ln).to_vec();
    let case = Case::new(vec![0.0, 0.0, f32::NEG_INFINITY], logits, NEUTRAL, None);
    let decision = case.judge(&Rule::new("lossy", 0.25).unwrap());
    for (found, expected) in decision.committed(&case.q, &case.p).iter().zip([1.0 / 3.0; 3]) {
        assert!((found - expected).abs() < 1e-7, "{found}");
    }
    let Decision::Speculate(pi) = decision else { panic!("{decision:?}") };
    let sum: f64 = pi.dense(&case.q, &case.p).iter().sum();
    assert!((sum - 7.0 / 6.0).abs() < 1e-6, "π adds up to {sum}");
}
