//! The rules at random positions, and the table. `tests/laws/positions.rs` compares each with its closed form.

mod lemmas;
mod optimum;

use outrider_codec::{distribution::DraftDist, frame::SamplingParameters};
use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::{Decision, Need, Position, Range, Rule, RuleError, Statistic};
use crate::{
    draft::{half, lattice, sparsify},
    sample::{Distribution, transform},
};

/// A position of its own.
#[derive(Debug, Clone)]
struct Case {
    /// The draft model's logits.
    row: Vec<f32>,
    /// Logits of the target.
    logits: Vec<f32>,
    sampling: SamplingParameters,
    q: DraftDist,
    p: Vec<f64>,
}

impl Case {
    /// A case whose q̂ has the support size and the lattice resolution of `sparse`, or is dense.
    fn new(row: Vec<f32>, logits: Vec<f32>, sampling: SamplingParameters, sparse: Option<(u32, u32)>) -> Self {
        let q = Distribution::new(&row, &sampling).unwrap();
        let q = match sparse {
            None => half::quantize_all(&q),
            Some((k, resolution)) => lattice::quantize(&sparsify::top_k(&q, k), resolution),
        };
        let p = transform(&logits, &sampling).unwrap();
        Self { row, logits, sampling, q: q.unwrap(), p }
    }

    /// S(·) changes nothing.
    fn neutral(&self) -> bool {
        self.sampling == SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 }
    }

    /// The statistic that travels with a draft.
    fn statistic(&self, need: Need) -> Statistic {
        if self.neutral() {
            Statistic::Nothing
        } else {
            need.of_unscaled(&Distribution::new(&self.row, &self.sampling).unwrap(), self.q.ids())
        }
    }

    fn judge(&self, rule: &Rule) -> Decision {
        let Self { q, logits, sampling, .. } = self;
        let p = Distribution::new(logits, sampling).unwrap();
        rule.judge(&Position { q, statistic: &self.statistic(rule.info().need), p: &p, sampling })
    }

    /// q̂, V probabilities.
    fn dense_q(&self) -> Vec<f64> {
        let total = f64::from(self.q.total());
        (0..self.p.len() as u32).map(|id| f64::from(self.q.count(id)) / total).collect()
    }
}

/// Logits of both models: random, nearly equal, peaked, of disjoint supports, with gaps, one-hot.
fn logits() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
    let both = |v| (prop::collection::vec((-4f32..4.0, -4f32..4.0), v), 0..v, 0..v, 0..8);
    (5usize..=50).prop_flat_map(both).prop_map(|(logits, i, j, shape)| {
        let keep = |kept, logit| if kept { logit } else { f32::NEG_INFINITY };
        let peak = |is_peak, logit| if is_peak { logit + 9.0 } else { logit };
        let shaped = logits.into_iter().enumerate().map(|(id, (q, p))| match shape {
            0 => (q, q + 0.2 * p),
            1 => (peak(id == i, q), p),
            2 => (q, peak(id == j, p)),
            3 => (peak(id == i, q), peak(id == j, p)),
            4 => (keep(id % 2 == 0, q), keep(id % 2 == 1, p)),
            5 => (keep(id == i || q > -1.0, q), keep(id == j || p > -1.0, p)),
            6 => (keep(id == i, q), keep(id == j, p)),
            _ => (q, p),
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

fn cases() -> impl Strategy<Value = Case> {
    let sparse = prop::option::of((1u32..8, 10u32..1000));
    (logits(), samplings(), sparse)
        .prop_map(|((row, logits), sampling, sparse)| Case::new(row, logits, sampling, sparse))
}

/// Every rule at several parameters of its range.
fn rules() -> impl Iterator<Item = Rule> {
    let parameters = |default| [-3.0, -1.0, -0.1, 0.0, 0.01, 0.1, 0.5, 0.9, 1.0, 3.0, default];
    Rule::all().iter().flat_map(move |info| {
        let allowed = parameters(info.default).into_iter().filter(|&parameter| info.range.contains(parameter));
        allowed.map(|parameter| Rule::new(info.name, parameter).unwrap())
    })
}

/// Numbers are on the wire: they are those of the format's table and never change.
#[test]
fn the_table_keeps_its_order() {
    let format = include_str!("../../../../shared-codec/FORMAT.md");
    for (number, info) in Rule::all().iter().enumerate() {
        assert!(format.contains(&format!("| `{number:02X}` | {} |", info.name)), "{number:02X} is not {}", info.name);
    }
    for (number, info) in Rule::all().iter().enumerate() {
        let rule = Rule::new(info.name, info.default).unwrap();
        assert_eq!((usize::from(rule.number()), rule.info().name), (number, info.name));
        assert_eq!(Rule::from_wire(rule.number(), rule.parameter() as f32), Ok(rule), "it travels");
        assert_eq!(rule == Rule::EXACT, info.name == "exact");
        assert_eq!(rule == Rule::EXACT, !info.lossy);
        assert_eq!(rule.info().has_bonus, ["exact", "bild"].contains(&info.name));
        assert_eq!(rule == Rule::EXACT, info.symbol.is_none());
        assert!(info.explanation.ends_with('.') && !info.paper.is_empty());
    }
    assert_eq!(Rule::new("exact", 0.0), Ok(Rule::EXACT));
}

#[test]
fn rules_say_what_they_need() {
    let needing = |need| {
        let all = Rule::all().iter().map(|info| Rule::new(info.name, info.default).unwrap());
        all.filter(|rule| rule.info().need == need).map(|rule| rule.info().name).collect::<Vec<_>>()
    };
    assert_eq!(needing(Need::Peak), ["chow", "diff", "opt", "oracle-diff"]);
    assert_eq!(needing(Need::Entropy), ["chow-log", "diff-log", "opt-log"]);
    assert_eq!(needing(Need::Support), ["token-v1"]);
    assert_eq!(needing(Need::Whole), ["bild-star", "bild"]);
}

#[test]
fn errors_say_what_is_allowed() {
    let message = |result: Result<Rule, RuleError>| result.unwrap_err().to_string();
    assert!(message(Rule::new("sloppy", 0.1)).contains("\"sloppy\"; the rules are exact, lossy, lossy-tuned, chow"));
    let largest = Rule::all().len() - 1;
    let expected = format!("there is no acceptance rule number 255; the largest is {largest}");
    assert_eq!(message(Rule::from_wire(255, 0.0)), expected);
    assert_eq!(message(Rule::new("lossy", 1.0)), "α of the acceptance rule lossy must be in [0, 1), not 1");
    assert_eq!(message(Rule::new("mentored", -1.0)), "D of the acceptance rule mentored must be in [0, ∞), not -1");
    assert_eq!(message(Rule::new("diff", -1.5)), "α of the acceptance rule diff must be in [-1, 1], not -1.5");
    assert_eq!(message(Rule::new("opt", -f64::INFINITY)), "α of the acceptance rule opt must be in (-∞, ∞), not -inf");
    assert_eq!(
        message(Rule::new("exact", 0.5)),
        "the parameter of the acceptance rule exact must be in [0, 0], not 0.5"
    );
    assert!(Rule::new("lossy", 1.0 - 1e-12).is_err(), "an f32 makes 1 of it");
    assert!(Rule::new("mentored", 1e300).is_err(), "an f32 makes ∞ of it");
    for info in Rule::all() {
        let number = Rule::new(info.name, info.default).unwrap().number();
        for parameter in [f32::NAN, f32::INFINITY, -f32::INFINITY] {
            assert!(Rule::from_wire(number, parameter).is_err(), "{} {parameter}", info.name);
        }
        assert_eq!(Rule::from_wire(number, 1.0).is_ok(), info.range.contains(1.0));
        assert_eq!(Rule::from_wire(number, 1.5).is_ok(), matches!(info.range, Range::NotNegative | Range::Any));
        // α < 0 is a bonus for the target; only rules that compare both models have a use for it.
        let compares = ["diff", "opt"].iter().any(|name| info.name.contains(name));
        assert_eq!(Rule::from_wire(number, -0.25).is_ok(), compares, "{}", info.name);
        assert_eq!(Rule::from_wire(number, -1.0).is_ok(), compares, "{}", info.name);
        let unbounded = compares && !["diff", "oracle-diff"].contains(&info.name);
        assert_eq!(Rule::from_wire(number, -1.5).is_ok(), unbounded, "{}", info.name);
        // There is no −0 on the wire.
        let zero = Rule::new(info.name, -0.0).map(|rule| rule.parameter().is_sign_positive());
        assert_eq!(zero, Ok(true), "{}", info.name);
    }
}

#[test]
fn the_parameter_is_an_f32() {
    assert_eq!(Rule::new("lossy", 0.3).unwrap().parameter(), f64::from(0.3f32));
    assert_eq!(Rule::new("lossy", 0.3), Rule::from_wire(1, 0.3));
    assert_ne!(Rule::new("lossy", 0.3), Rule::new("lossy", 0.25));
}

/// Comparisons are strict, as the papers have them: where both sides are equal the draft stays.
#[test]
fn ties_keep_the_draft() {
    // softmax: 1/2, 1/2 and 1/2, 1/4, 1/4, exactly.
    let even = Case::new(vec![0.0, 0.0, f32::NEG_INFINITY], vec![0.0, f32::NEG_INFINITY, 0.0], NEUTRAL, None);
    let judge = |name, parameter| even.judge(&Rule::new(name, parameter).unwrap());
    for (name, tie) in [("chow", 0.5), ("diff", 0.0), ("opt", 0.0), ("diff-log", 0.0), ("opt-log", 0.0)] {
        assert_eq!(judge(name, tie), Decision::Keep, "{name}");
    }
    assert_eq!(judge("oracle-diff", 0.0), Decision::Keep);
    assert_ne!(judge("chow", 0.49), Decision::Keep);
    assert_eq!(judge("token-v1", 0.0), Decision::Keep);
    assert_eq!(judge("token-v2", 0.5), Decision::Keep);
    assert_ne!(judge("token-v2", 0.49), Decision::Keep);
    assert_eq!(judge("token-v3", 1.0), Decision::Keep);
    let certain = Case::new(vec![f32::NEG_INFINITY, 0.0], vec![0.0, 0.0], NEUTRAL, None);
    assert_eq!(certain.judge(&Rule::new("chow-log", 0.0).unwrap()), Decision::Keep);
    assert_eq!(certain.judge(&Rule::new("chow", 0.0).unwrap()), Decision::Keep);
}

/// At T = 0 BiLD's discrepancy is −ln p(argmax q), whatever the draft model says of itself: here ln 4.
#[test]
fn greedy_bild_asks_the_target_alone() {
    let case = Case::new(vec![0.0, 1.0, 0.0], vec![2f32.ln(), 0.0, 0.0], GREEDY, None);
    let Case { q, logits, sampling, .. } = &case;
    let p = &Distribution::new(logits, sampling).unwrap();
    for own in [0.0, 0.5, 1.0] {
        let statistic = &Statistic::Support(vec![own]);
        let judge = |name, alpha| Rule::new(name, alpha).unwrap().judge(&Position { q, statistic, p, sampling });
        assert_eq!((judge("bild", 1.39), judge("bild", 1.38)), (Decision::Keep, Decision::Replace), "{own}");
        assert_eq!(judge("bild-star", 1.39), Decision::Keep);
        assert_eq!(judge("bild-star", 1.38), case.judge(&Rule::EXACT));
    }
}

/// D = −Σ_v q(v)·ln p(v) over the whole vocabulary (Narasimhan et al., App. F.1), also where top-p leaves one token of
/// q̂: with q = (½, ¼, ¼) and p = (½, ⅛, ⅜) it is ½·ln 2 + ¼·ln 8 + ¼·ln(8/3), 1.112 nats and not ln 2.
#[test]
fn bild_asks_how_far_the_target_is_from_all_of_q() {
    let ln = |p: [f32; 3]| p.map(f32::ln).to_vec();
    let (q, p) = (ln([0.5, 0.25, 0.25]), ln([0.5, 0.125, 0.375]));
    for top_p in [1.0, 0.8, 0.5] {
        let case = Case::new(q.clone(), p.clone(), SamplingParameters { top_p, ..NEUTRAL }, None);
        let judge = |name, alpha| case.judge(&Rule::new(name, alpha).unwrap());
        for name in ["bild", "bild-star"] {
            assert_eq!(judge(name, 1.112), Decision::Keep, "{name} at top-p {top_p}");
            assert_ne!(judge(name, 1.111), Decision::Keep, "{name} at top-p {top_p}");
        }
    }
}

/// At T = 0 the argmax is q's, whatever temperature q̂ was made at.
#[test]
fn greedy_bild_takes_the_likeliest_of_several_drafted_tokens() {
    let case = Case::new(vec![0.0, 1.0, 0.0], vec![2f32.ln(), 0.0, 0.0], NEUTRAL, None);
    let Case { row, q, logits, .. } = &case;
    let (q_of, p) = (Distribution::new(row, &NEUTRAL).unwrap(), Distribution::new(logits, &GREEDY).unwrap());
    let statistic = &Need::Support.of_unscaled(&q_of, q.ids());
    let position = Position { q, statistic, p: &p, sampling: &GREEDY };
    let judge = |alpha| Rule::new("bild", alpha).unwrap().judge(&position);
    // ln 4, of token 1; of token 0 it would be ln 2.
    assert_eq!((judge(1.39), judge(1.38)), (Decision::Keep, Decision::Replace));
}

#[test]
#[should_panic(expected = "the rule needs Peak")]
fn a_statistic_of_another_kind_is_refused() {
    let case = Case::new(vec![0.0, 1.0], vec![0.0, 1.0], NEUTRAL, None);
    let Case { q, logits, sampling, .. } = &case;
    let p = &Distribution::new(logits, sampling).unwrap();
    let statistic = &Statistic::Support(vec![0.5, 0.5]);
    let _ = Rule::new("chow", 0.5).unwrap().judge(&Position { q, statistic, p, sampling });
}

const NEUTRAL: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
const GREEDY: SamplingParameters = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
