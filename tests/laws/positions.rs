//! Every acceptance rule at single positions, to the last digits: what becomes of a draft is what the closed form says.

use outrider_codec::{
    distribution::DraftDist,
    frame::SamplingParameters,
    scheme::{Code, Scheme, SchemeParameters},
};
use outrider_speculation::{
    draft::propose,
    judge::{self, Rule, Statistic},
    sample::Distribution,
};
use outrider_tests::{
    closed_forms::{Fate, Position},
    samplings::NEUTRAL,
};
use proptest::prelude::*;

use crate::rules::needs_more;

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

fn quantized(q: &Distribution<'_>, parameters: SchemeParameters) -> DraftDist {
    let scheme = Scheme::new(parameters, 50).unwrap();
    propose(q, parameters, &scheme, 0.0).unwrap().dist
}

/// The largest difference between two numbers of the same index.
fn gap(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// For every rule, parameter, scheme and S(·): what is accepted, and what takes the place of a rejected draft.
    #[test]
    fn every_rule_does_what_its_closed_form_says(
        (row, logits) in logits(), sampling in samplings(), sparse in prop::option::of((1u32..8, 10u32..1000)),
    ) {
        let draft = Distribution::new(&row, &sampling).unwrap();
        let target = Distribution::new(&logits, &sampling).unwrap();
        let scheme = match sparse {
            None => SchemeParameters::Dense,
            Some((support_size, lattice_resolution)) => {
                SchemeParameters::KSqs { support_size, lattice_resolution, code: Code::Adaptive }
            }
        };
        let q = &quantized(&draft, scheme);
        let position = Position::new(&row, &logits, &sampling, (q, scheme));
        for info in Rule::all() {
            if needs_more(info, scheme, &sampling) {
                continue;
            }
            for parameter in [-3.0, -1.0, -0.2, -0.01, 0.0, 0.01, 0.1, 0.5, 0.9, 1.0, 3.0, info.default] {
                let Ok(rule) = Rule::new(info.name, parameter) else { continue };
                let is_known = sampling == NEUTRAL && sparse.is_none();
                let statistic =
                    if is_known { Statistic::Nothing } else { rule.info().need.of_unscaled(&draft, q.ids()) };
                let found = judge::Position { q, statistic: &statistic, p: &target, sampling: &sampling };
                let found = rule.consequences(&found);
                // Where a comparison is a tie either side will do.
                let [below, Fate { accepted, replaced }, above] =
                    [-1e-9, 0.0, 1e-9].map(|more| position.fate_at(info.name, rule.parameter() + more));
                if gap(&below.accepted, &above.accepted) > 1e-6 || gap(&below.replaced, &above.replaced) > 1e-6 {
                    continue;
                }
                let tolerance = if ["mentored", "lossy-tuned"].contains(&info.name) { 1e-7 } else { 1e-11 };
                for (found, expected) in found.iter().zip([&accepted, &replaced]) {
                    prop_assert!(gap(found, expected) < tolerance, "{rule:?}: {found:?}, not {expected:?}");
                }
                let sum: f64 = found.iter().flatten().sum();
                prop_assert!((sum - 1.0).abs() < tolerance, "{rule:?}: {found:?}");
            }
        }
    }
}
