//! The lemmas against enumeration: of all distributions in eighths, sixths or quarters, of all rules.

use outrider_codec::{
    frame::SamplingParameters,
    scheme::{Scheme, SchemeParameters},
};
use outrider_speculation::{
    draft::propose,
    judge::{Position, Rule, Statistic},
    sample::{Distribution, transform},
};
use proptest::prelude::*;

use super::*;
use crate::theory::total_variation;

/// α, with two below 0, where even a worse p is deferred to. All are sums of few powers of two, so that the 0-1 losses
/// and their ties have no rounding.
const ALPHAS: [f64; 7] = [-1.0, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0];

/// Every distribution over `tokens` tokens that gives each `least` or more of `units` equal parts.
fn grid(tokens: usize, units: u32, least: u32) -> Vec<Vec<f64>> {
    fn parts(tokens: usize, units: u32, least: u32) -> Vec<Vec<u32>> {
        if tokens == 1 {
            return if units < least { Vec::new() } else { vec![vec![units]] };
        }
        let with = |first| {
            let mut rest = parts(tokens - 1, units - first, least);
            rest.iter_mut().for_each(|rest| rest.push(first));
            rest
        };
        (least..=units).flat_map(with).collect()
    }
    let share = |parts: Vec<u32>| parts.into_iter().map(|part| f64::from(part) / f64::from(units)).collect();
    parts(tokens, units, least).into_iter().map(share).collect()
}

/// Every (P, q, p) over two, three and four tokens; q and p give each token `least` parts.
fn positions(least: u32) -> impl Iterator<Item = [Vec<f64>; 3]> {
    let sizes = if least == 0 { [(2, 8), (3, 8), (4, 4)] } else { [(2, 8), (3, 6), (4, 6)] };
    sizes.into_iter().flat_map(move |(tokens, units)| {
        let models = grid(tokens, units, least);
        let pairs: Vec<_> = models.iter().flat_map(|q| models.iter().map(|p| [q.clone(), p.clone()])).collect();
        (grid(tokens, units, 0).into_iter())
            .flat_map(move |data| pairs.clone().into_iter().map(move |[q, p]| [data.clone(), q, p]))
    })
}

/// Equations 3, 8 and 24 as they are printed: `deferred` is what r is multiplied with.
fn printed_risk(r: f64, data: &[f64], draft_loss: &dyn Fn(usize) -> f64, deferred: &dyn Fn(usize) -> f64) -> f64 {
    (0..data.len()).filter(|&v| data[v] > 0.0).map(|v| data[v] * ((1.0 - r) * draft_loss(v) + r * deferred(v))).sum()
}

/// ℓ₀₁(v, m) and ℓ_log(v, m) of §3.2.
fn printed_loss(loss: Loss, v: usize, model: &[f64]) -> f64 {
    let most = model.iter().copied().fold(0.0, f64::max);
    match loss {
        Loss::ZeroOne => f64::from(v != model.iter().position(|m| *m == most).unwrap()),
        Loss::Log => -model[v].ln(),
    }
}

/// Lemmas 1, 4 and 8: no rule risks less, not even one that draws.
#[test]
fn deferral_where_it_pays_is_the_best_rule() {
    let (mut deferred, mut kept) = (0, 0);
    for [data, q, p] in positions(1) {
        for loss in [Loss::ZeroOne, Loss::Log] {
            let draft_loss = |v| printed_loss(loss, v, &q);
            for (alpha, lemma) in ALPHAS.into_iter().flat_map(|alpha| [1, 4, 8].map(|lemma| (alpha, lemma))) {
                let cost = if lemma == 4 { alpha * total_variation(&p, &q) } else { alpha };
                let target_loss = |v| if lemma == 8 { 0.0 } else { printed_loss(loss, v, &p) };
                let deferral = Deferral {
                    draft_loss: loss.expected(&data, &q),
                    target_loss: if lemma == 8 { 0.0 } else { loss.expected(&data, &p) },
                    cost,
                };
                let risk = |r| printed_risk(r, &data, &draft_loss, &|v| target_loss(v) + cost);
                let best = risk(f64::from(deferral.pays()));
                *if deferral.pays() { &mut deferred } else { &mut kept } += 1;
                for r in [0.0, 0.25, 0.5, 1.0] {
                    assert!(
                        (deferral.risk(r) - risk(r)).abs() < 1e-12,
                        "{loss:?} {alpha} {lemma} {data:?} {q:?} {p:?}"
                    );
                    assert!(best <= risk(r) + 1e-12, "{loss:?} {alpha} {lemma} {data:?} {q:?} {p:?}");
                }
                let other = risk(f64::from(!deferral.pays()));
                assert!((deferral.regret(!deferral.pays()) - (other - best)).abs() < 1e-12);
                assert_eq!(deferral.regret(deferral.pays()), 0.0);
            }
        }
    }
    assert!(deferred > 10_000 && kept > 10_000, "{deferred} {kept}");
}

/// A rule is a function of the prefix: of all there are over prefixes of one token, whatever these are weighted with,
/// none has a smaller mean risk than the one that decides at each prefix separately.
#[test]
fn the_best_rule_decides_prefix_by_prefix() {
    for tokens in 2..=4 {
        let models = grid(tokens, 4, 0);
        // A position for every prefix, from all over the grid.
        for first in 0..models.len() {
            let at = |prefix: usize, stride: usize| &models[(first + prefix * stride) % models.len()];
            let positions: Vec<Deferral> = (0..tokens)
                .map(|prefix| {
                    let [data, q, p] = [at(prefix, 1), at(prefix, 7), at(prefix, 11)];
                    let [draft_loss, target_loss] = [q, p].map(|model| Loss::ZeroOne.expected(data, model));
                    Deferral { draft_loss, target_loss, cost: 0.25 * total_variation(p, q) }
                })
                .collect();
            let weights = at(0, 1);
            let mean = |rule: &dyn Fn(usize) -> bool| -> f64 {
                let risks = positions.iter().enumerate().map(|(prefix, at)| at.risk(f64::from(rule(prefix))));
                weights.iter().zip(risks).map(|(weight, risk)| weight * risk).sum()
            };
            let best = mean(&|prefix| positions[prefix].pays());
            for rule in 0..1 << tokens {
                assert!(best <= mean(&|prefix| rule >> prefix & 1 == 1) + 1e-12, "{rule:b} {positions:?}");
            }
        }
    }
}

/// Equation 10 as it is printed; exact on the grid.
fn opt(alpha: f64, q: &[f64], p: &[f64]) -> bool {
    let max = |m: &[f64]| m.iter().copied().fold(0.0, f64::max);
    max(q) < max(p) - alpha * total_variation(p, q)
}

/// Lemma 5, and that it is met: (q, p, P) = ((1, 0), (0, 1), (0, 1)) at α = 0 keeps q, which is always wrong.
#[test]
fn opt_loses_no_more_than_the_models_are_off() {
    let mut closest = 0.0f64;
    for [data, q, p] in positions(0) {
        let [draft_loss, target_loss] = [&q, &p].map(|model| Loss::ZeroOne.expected(&data, model));
        let distance = |m: &[f64]| data.iter().zip(m).map(|(data, m)| (data - m).abs()).fold(0.0, f64::max);
        let printed = distance(&q) + distance(&p);
        assert_eq!(regret_bound(Loss::ZeroOne, &data, &q, &p), printed);
        for alpha in ALPHAS {
            let cost = alpha * total_variation(&p, &q);
            let deferred = opt(alpha, &q, &p);
            let [draft, target] = [&q, &p].map(|model| Loss::ZeroOne.estimate(model));
            assert_eq!(Deferral { draft_loss: draft, target_loss: target, cost }.pays(), deferred);
            let regret = Deferral { draft_loss, target_loss, cost }.regret(deferred);
            assert!(regret <= printed + 1e-12, "{regret} > {printed}: {alpha} {data:?} {q:?} {p:?}");
            closest = closest.max(if printed > 0.0 { regret / printed } else { 0.0 });
        }
    }
    assert_eq!(closest, 1.0);
}

/// Lemma 9; half of its bound is enough, and less than a quarter is not.
#[test]
fn opt_log_loses_no_more_than_half_the_printed_bound() {
    let mut closest = 0.0f64;
    for [data, q, p] in positions(1) {
        let [draft_loss, target_loss] = [&q, &p].map(|model| Loss::Log.expected(&data, model));
        let off = |m: &[f64]| {
            let largest = m.iter().map(|m| m.ln().abs()).fold(0.0, f64::max);
            largest * data.iter().zip(m).map(|(data, m)| (data - m).abs()).sum::<f64>()
        };
        let printed = off(&q) + off(&p);
        assert!((regret_bound(Loss::Log, &data, &q, &p) - printed).abs() < 1e-12);
        for alpha in ALPHAS {
            let cost = alpha * total_variation(&p, &q);
            // Equation 28 as it is printed, and the module's; by rounding they may differ where both sides are equal.
            let negative = |m: &[f64]| m.iter().map(|m| m * m.ln()).sum::<f64>();
            let margin = negative(&p) - cost - negative(&q);
            let [draft, target] = [&q, &p].map(|model| Loss::Log.estimate(model));
            let deferred = Deferral { draft_loss: draft, target_loss: target, cost }.pays();
            assert!(deferred == (margin > 0.0) || margin.abs() < 1e-12, "{alpha} {q:?} {p:?}");
            let regret = Deferral { draft_loss, target_loss, cost }.regret(deferred);
            assert!(regret <= printed / 2.0 + 1e-12, "{regret} > {printed}/2: {alpha} {data:?} {q:?} {p:?}");
            closest = closest.max(if printed > 0.0 { regret / printed } else { 0.0 });
        }
    }
    assert!(closest > 0.25, "{closest}");
}

/// A model without a token of the data loses without end by the log, and nothing is NaN.
#[test]
fn missing_tokens_cost_without_end() {
    let (data, q, p) = ([0.5, 0.5], [1.0, 0.0], [0.25, 0.75]);
    assert_eq!((Loss::Log.expected(&data, &q), Loss::Log.estimate(&q)), (f64::INFINITY, 0.0));
    assert_eq!((Loss::Log.estimate_error(&q, &q), Loss::Log.estimate_error(&data, &q)), (0.0, f64::INFINITY));
    assert_eq!(regret_bound(Loss::Log, &data, &q, &p), f64::INFINITY);
    let deferral = Deferral { draft_loss: f64::INFINITY, target_loss: Loss::Log.expected(&data, &p), cost: 1.0 };
    assert!(deferral.pays() && deferral.regret(false) == f64::INFINITY && deferral.regret(true) == 0.0);
    assert_eq!(deferral.risk(1.0), deferral.target_loss + 1.0);
    let neither = Deferral { target_loss: f64::INFINITY, ..deferral };
    assert_eq!((neither.pays(), neither.regret(true), neither.regret(false)), (false, 0.0, 0.0));
    assert_eq!(Loss::ZeroOne.expected(&data, &[0.5, 0.5]), 0.5, "of equally likely tokens the first");
}

/// The distribution with these logits.
fn softmax(logits: &[f64]) -> Vec<f64> {
    let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
    logits.iter().map(|logit| logit.exp() / sum).collect()
}

/// Distributions over five to 50 tokens: the data's, peaked or flat, and both models', which may be nearly equal or
/// peaked.
fn triples() -> impl Strategy<Value = [Vec<f64>; 3]> {
    let tokens = |count| prop::collection::vec((-4f64..4.0, -4f64..4.0, -4f64..4.0), count);
    (5usize..=50).prop_flat_map(move |count| (tokens(count), 0..count, 0u8..4)).prop_map(|(tokens, peak, shape)| {
        let peaked = |id, logit| if id == peak { logit + 9.0 } else { logit };
        let data: Vec<f64> = tokens.iter().map(|(data, ..)| 3.0 * data).collect();
        let each = tokens.into_iter().enumerate().map(|(id, (_, q, p))| match shape {
            0 => (q, q + 0.2 * p),
            1 => (peaked(id, q), p),
            2 => (q, peaked(id, p)),
            _ => (q, p),
        });
        let (q, p): (Vec<f64>, Vec<f64>) = each.unzip();
        [data, q, p].map(|logits| softmax(&logits))
    })
}

proptest! {
    /// Lemmas 1, 4 and 8 with each model in the data's place: the rules. And Lemmas 5 and 9: whatever the data are,
    /// they lose no more than that by it.
    #[test]
    fn lemmas_5_and_9_the_rules_regret([data, q, p] in triples(), alpha in -1.0f64..1.0) {
        let neutral = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
        let rows = [&q, &p].map(|model| model.iter().map(|m| m.ln() as f32).collect::<Vec<_>>());
        let [drawn, target] = rows.each_ref().map(|row| Distribution::new(row, &neutral).unwrap());
        let dense = SchemeParameters::Dense;
        let scheme = Scheme::new(dense, q.len() as u32).unwrap();
        let drawn = propose(&drawn, dense, &scheme, 0.0).unwrap().dist;
        let p = transform(&rows[1], &neutral).unwrap();
        let position = Position { q: &drawn, statistic: &Statistic::Nothing, p: &target, sampling: &neutral };
        let total = f64::from(drawn.total());
        let q: Vec<f64> = (0..q.len() as u32).map(|id| f64::from(drawn.count(id)) / total).collect();
        for (suffix, loss) in [("", Loss::ZeroOne), ("-log", Loss::Log)] {
            for name in ["chow", "diff", "opt"] {
                let alpha = if name == "chow" { alpha.abs() } else { alpha };
                let rule = Rule::new(&format!("{name}{suffix}"), alpha).unwrap();
                let cost = rule.parameter() * if name == "opt" { total_variation(&p, &q) } else { 1.0 };
                let [draft_loss, mut target_loss] = [&q, &p].map(|model| loss.estimate(model));
                if name == "chow" {
                    target_loss = 0.0;
                }
                let deferred = rule.consequences(&position)[1].iter().any(|&replaced| replaced > 0.0);
                let plug_in = Deferral { draft_loss, target_loss, cost };
                let margin = plug_in.draft_loss - plug_in.target_loss - cost;
                prop_assert!(deferred == plug_in.pays() || margin.abs() < 1e-6, "{rule:?} {margin}");
                let draft_loss = loss.expected(&data, &q);
                if name != "chow" && draft_loss.is_finite() {
                    let deferral = Deferral { draft_loss, target_loss: loss.expected(&data, &p), cost };
                    prop_assert!(deferral.regret(deferred) <= regret_bound(loss, &data, &q, &p) + 1e-6);
                }
            }
        }
    }
}
