//! Every acceptance rule at single positions, to the last digits: what becomes of a draft is what the closed form says.

use outrider_codec::{
    frame::SamplingParameters,
    scheme::{Code, SchemeParameters},
};
use outrider_speculation::{
    draft::{half, lattice, sparsify},
    judge::{
        rules::{self, Rule, Statistic},
        unscaled,
    },
    sample::{Distribution, transform},
};
use outrider_tests::{
    closed_forms::{Fate, Position},
    samplings::NEUTRAL,
};
use proptest::prelude::*;

/// Logits of both models: random, nearly equal, peaked, of disjoint supports, with gaps, one-hot.
fn logits() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
    let both = |v| (prop::collection::vec((-4f32..4.0, -4f32..4.0), v), 0..v, 0..v, 0..6);
    (5usize..=50).prop_flat_map(both).prop_map(|(logits, i, j, shape)| {
        let keep = |kept, logit| if kept { logit } else { f32::NEG_INFINITY };
        let peak = |is_peak, logit| if is_peak { logit + 9.0 } else { logit };
        let shaped = logits.into_iter().enumerate().map(|(id, (q, p))| match shape {
            0 => (q, p),
            1 => (q, q + 0.2 * p),
            2 => (peak(id == i, q), peak(id == j, p)),
            3 => (keep(id % 2 == 0, q), keep(id % 2 == 1, p)),
            4 => (keep(id == i || q > -1.0, q), keep(id == j || p > -1.0, p)),
            _ => (keep(id == i, q), keep(id == j, p)),
        });
        shaped.unzip()
    })
}

fn samplings() -> impl Strategy<Value = SamplingParameters> {
    let temperature = prop_oneof![1 => Just(0.0f32), 3 => Just(1.0), 2 => 0.2f32..2.0];
    let top_k = prop_oneof![3 => Just(0u32), 1 => 1u32..6];
    let top_p = prop_oneof![3 => Just(1.0f32), 1 => 0.3f32..1.0];
    (temperature, top_k, top_p).prop_map(|(temperature, top_k, top_p)| SamplingParameters { temperature, top_k, top_p })
}

/// The largest difference between two numbers of the same index.
fn gap(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// With β = 1 the π of lossy adds up to 7/6 here, and so is no distribution; what is committed is (⅓, ⅓, ⅓).
#[test]
fn lossy_at_beta_one_commits_another_distribution_than_its_pi() {
    let (q, p) = ([0.5f64, 0.5, 0.0], [0.25f64, 0.25, 0.5]);
    let pi: f64 = q.iter().zip(&p).map(|(q, p)| q.min(p / 0.75).max(*p)).sum();
    assert!((pi - 7.0 / 6.0).abs() < 1e-12, "{pi}");
    let [row, logits] = [q, p].map(|own| own.map(|probability| probability.ln() as f32));
    let (draft, target) = (Distribution::new(&row, &NEUTRAL).unwrap(), Distribution::new(&logits, &NEUTRAL).unwrap());
    let q = &half::quantize_all(&draft).unwrap();
    let position = rules::Position { q, statistic: &Statistic::Nothing, p: &target, sampling: &NEUTRAL };
    let committed = Rule::new("lossy", 0.25).unwrap().judge(&position).committed(q, &target.dense());
    assert!(gap(&committed, &[1.0 / 3.0; 3]) < 1e-6, "{committed:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// For every rule, parameter, scheme and S(·): what is accepted, and what takes the place of a rejected draft.
    #[test]
    fn every_rule_does_what_its_closed_form_says(
        (row, logits) in logits(), sampling in samplings(), sparse in prop::option::of((1u32..8, 10u32..1000)),
    ) {
        let draft = Distribution::new(&row, &sampling).unwrap();
        let q = match sparse {
            None => half::quantize_all(&draft),
            Some((k, resolution)) => lattice::quantize(&sparsify::top_k(&draft, k), resolution),
        };
        let q = &q.unwrap();
        let (target, p) = (Distribution::new(&logits, &sampling).unwrap(), transform(&logits, &sampling).unwrap());
        let scheme = match sparse {
            None => SchemeParameters::Dense,
            Some((support_size, lattice_resolution)) => {
                SchemeParameters::KSqs { support_size, lattice_resolution, code: Code::Enumerative }
            }
        };
        let position = Position::new(&row, &logits, &sampling, (q, scheme));
        for info in Rule::all() {
            if unscaled::check(&Rule::new(info.name, info.default).unwrap(), scheme, &sampling).is_err() {
                continue;
            }
            for parameter in [-3.0, -1.0, -0.2, -0.01, 0.0, 0.01, 0.1, 0.5, 0.9, 1.0, 3.0, info.default] {
                let Ok(rule) = Rule::new(info.name, parameter) else { continue };
                let is_known = sampling == NEUTRAL && sparse.is_none();
                let statistic =
                    if is_known { Statistic::Nothing } else { rule.need().of_unscaled(&draft, q.ids()) };
                let found = rule.judge(&rules::Position { q, statistic: &statistic, p: &target, sampling: &sampling });
                // Where a comparison is a tie either side will do.
                let [below, Fate { accepted, replaced }, above] =
                    [-1e-9, 0.0, 1e-9].map(|more| position.fate_at(info.name, rule.parameter() + more));
                if gap(&below.accepted, &above.accepted) > 1e-6 || gap(&below.replaced, &above.replaced) > 1e-6 {
                    continue;
                }
                let tolerance = if ["mentored", "lossy-tuned"].contains(&info.name) { 1e-7 } else { 1e-11 };
                let acceptance: Vec<f64> =
                    position.q.iter().zip(0..).map(|(mass, id)| mass * found.acceptance(q, id)).collect();
                prop_assert!(gap(&acceptance, &accepted) < tolerance, "{rule:?}: {acceptance:?}, not {accepted:?}");
                let rejection: f64 = replaced.iter().sum();
                prop_assert!((found.rejection_rate(q) - rejection).abs() < tolerance, "{rule:?}: {rejection}");
                let replacement = found.replacement(q, &p);
                let sum: f64 = replacement.iter().sum();
                let replacement: Vec<f64> = replacement.iter().map(|weight| rejection * weight / sum).collect();
                prop_assert!(gap(&replacement, &replaced) < tolerance, "{rule:?}: {replacement:?}, not {replaced:?}");
                let committed: Vec<f64> = accepted.iter().zip(&replaced).map(|(a, b)| a + b).collect();
                prop_assert!((committed.iter().sum::<f64>() - 1.0).abs() < tolerance, "{rule:?}: {committed:?}");
                prop_assert!(gap(&found.committed(q, &p), &committed) < tolerance, "{rule:?}: {committed:?}");
            }
        }
    }
}
