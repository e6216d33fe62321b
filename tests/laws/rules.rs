//! Every acceptance rule over whole sessions, both state machines, frames and roll-back included: the distribution of a
//! text is the one that the papers' closed forms give, put together round by round in
//! [`texts`](outrider_tests::texts).
//!
//! Each rule has the parameter at which its distribution is farthest
//! from both the draft's and the target's, so that neither passes for it.

use std::time::Duration;

use outrider_codec::{
    frame::SamplingParameters,
    scheme::{Code, Drafts, SchemeParameters, Sends},
};
use outrider_speculation::{
    judge::{Need, NextToken, Round, Rule, RuleInfo, Statistic, judge},
    sample::{self, Distribution},
    session::edge::{Mode, Settings},
};
use outrider_tests::{
    goodness::{Fit, assert_follows, distance},
    in_process::InProcess,
    samplings::{GREEDY, NEUTRAL, SHARPENED},
    schemes,
    texts::{PROMPT, Texts},
    toy::ToyModel,
};
use proptest::prelude::*;

pub const SPARSE: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 7, code: Code::Enumerative };

fn texts(rule: Rule, sampling: SamplingParameters, scheme: SchemeParameters) -> Texts {
    Texts { rule, ..Texts::of_three(scheme, sampling) }
}

/// Finds the parameter of a rule whose distribution is farthest from both models'; returns texts under it and that
/// distribution.
pub fn farthest(name: &str, sampling: SamplingParameters, scheme: SchemeParameters) -> (Texts, Vec<f64>) {
    let info = Rule::all().iter().find(|info| info.name == name).unwrap();
    let parameters = (0..40).map(|step| f64::from(step) / 20.0).filter(|&parameter| Rule::new(name, parameter).is_ok());
    let exact = texts(Rule::EXACT, sampling, scheme);
    let (p, q) = (exact.ungated(), exact.distribution(&|_, _| true));
    let mut best = (-1.0, None);
    for parameter in parameters {
        let texts = texts(Rule::new(name, parameter).unwrap(), sampling, scheme);
        let distribution = texts.ungated();
        let far = distance(&distribution, &p).min(distance(&distribution, &q));
        if far > best.0 {
            best = (far, Some((texts, distribution)));
        }
    }
    let (texts, distribution) = best.1.unwrap();
    assert_eq!(best.0 > 0.2, info.lossy, "the distribution of {name} is its own");
    (texts, distribution)
}

/// True if the rule needs more of the draft's distribution than is sent: D(q, p) of BiLD is over the whole vocabulary,
/// of which only `dense` sends all, and at temperature 0 the likeliest token says all.
pub fn needs_more(info: &RuleInfo, scheme: SchemeParameters, sampling: &SamplingParameters) -> bool {
    ["bild", "bild-star"].contains(&info.name) && scheme != SchemeParameters::Dense && sampling.temperature > 0.0
}

fn settings(texts: &Texts, seed: u64, length: u32) -> Settings {
    let mode = Mode::Speculative(texts.speculation());
    Settings { mode, sampling: texts.sampling, seed, max_new_tokens: length }
}

fn assert_closed_form(name: &str) {
    for (sampling, scheme) in [(NEUTRAL, SchemeParameters::Dense), (SHARPENED, SPARSE)] {
        let rule = Rule::new(name, 0.0).unwrap();
        let scheme = if needs_more(rule.info(), scheme, &sampling) { SchemeParameters::Dense } else { scheme };
        let (texts, distribution) = farthest(name, sampling, scheme);
        let counts = texts.of_sessions(Mode::Speculative(texts.speculation()), &mut texts.connect(), |_| {});
        assert_follows(&counts, &distribution, (texts.rule, scheme, sampling));
    }
}

macro_rules! rules {
    ($($test:ident: $name:literal;)+) => {
        $(
            #[test]
            fn $test() {
                assert_closed_form($name);
            }
        )+

        #[test]
        fn all_rules_are_tested() {
            let names: Vec<_> = Rule::all().iter().map(|info| info.name).collect();
            assert_eq!(names, [$($name),+]);
        }
    };
}

rules! {
    exact: "exact";
    lossy: "lossy";
    lossy_tuned: "lossy-tuned";
    chow: "chow";
    chow_log: "chow-log";
    diff: "diff";
    diff_log: "diff-log";
    opt: "opt";
    opt_log: "opt-log";
    token_v1: "token-v1";
    token_v2: "token-v2";
    token_v3: "token-v3";
    bild_star: "bild-star";
    bild: "bild";
    mentored: "mentored";
    oracle_diff: "oracle-diff";
}

/// D(q, p) = −Σ_v q(v)·ln p(v) runs over the whole vocabulary (Narasimhan et al., App. F.1). A server that has a part
/// of q cannot know it: the edge refuses to ask, and says which scheme works. At T = 0, D is −ln p(argmax q).
#[test]
fn bild_is_refused_where_a_part_of_q_is_sent() {
    let samplings = [NEUTRAL, SHARPENED, GREEDY];
    for (scheme, sampling) in schemes::every(2, 7).into_iter().flat_map(|scheme| samplings.map(|s| (scheme, s))) {
        for name in ["bild", "bild-star"] {
            let texts = texts(Rule::new(name, 3.0).unwrap(), sampling, scheme);
            let started = texts.connect().edge.start(PROMPT.to_vec(), &settings(&texts, 1, 3), Duration::ZERO);
            let is_whole = scheme == SchemeParameters::Dense || sampling == GREEDY;
            match started {
                Ok(()) => assert!(scheme.sends() == Sends::Distributions && is_whole, "{name} {scheme:?} {sampling:?}"),
                Err(error) => {
                    assert!(scheme.sends() != Sends::Distributions || !is_whole, "{name} {scheme:?}: {error}");
                    let says = error.to_string();
                    assert!(sampling == GREEDY || says.contains("use the scheme dense, or temperature 0"), "{says}");
                }
            }
        }
    }
}

/// Errors that are easily made.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    /// A token of p's follows where all drafts are accepted, under a rule that has none.
    Bonus,
    /// Each draft is judged by the statistic of the other.
    OtherDraft,
    /// The statistic is one of S(q), not of q.
    Scaled,
    /// The target's statistic is one of S(p).
    ScaledTarget,
}

/// A loop of rounds with an error.
fn loop_counts(texts: &Texts, planted: Planted) -> Vec<u32> {
    texts.of_rounds(|text, ends| {
        let mut statistics = Vec::new();
        let (drafts, mut rows) = texts.round(text, |row, _| {
            let token = texts.draw(row, &mut ends.edge);
            let q = Distribution::new(row, &texts.sampling).unwrap();
            statistics.push(match planted {
                Planted::Scaled => Statistic::Nothing,
                _ => texts.rule.info().need.of_unscaled(&q, token.dist.ids()),
            });
            Some(token)
        });
        let behind = rows.pop().unwrap();
        let mut sampling = texts.sampling;
        match planted {
            Planted::OtherDraft => statistics.reverse(),
            Planted::ScaledTarget => {
                for row in &mut rows {
                    *row = sample::transform(row, &sampling).unwrap().iter().map(|p| p.ln() as f32).collect();
                }
                sampling = NEUTRAL;
            }
            _ => {}
        }
        let drafts = Drafts::Distributions(drafts);
        let round = Round { rule: texts.rule, drafts, statistics, ..Round::alone(sampling, ends.seed, text.len()) };
        let judgement = judge(&round, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        let next = match judgement.next {
            NextToken::Token(token) => Some(token),
            _ if planted == Planted::Bonus => {
                Some(Distribution::new(&behind, &texts.sampling).unwrap().draw(&mut ends.cloud))
            }
            _ => None,
        };
        round.drafts.ids()[..judgement.accepted].iter().copied().chain(next).collect()
    })
}

#[test]
fn planted_errors_are_caught() {
    // An α between max q and max S(q) of the first token.
    let draft = texts(Rule::EXACT, SHARPENED, SchemeParameters::Dense).draft.logits(&PROMPT);
    let peak = |sampling| sample::transform(&draft, &sampling).unwrap().into_iter().fold(0.0, f64::max);
    let between = 1.0 - f64::midpoint(peak(NEUTRAL), peak(SHARPENED));
    for (name, parameter, planted) in [
        ("diff", None, Planted::Nothing),
        ("lossy", None, Planted::Bonus),
        ("diff", None, Planted::Bonus),
        ("chow", None, Planted::OtherDraft),
        ("chow", Some(between), Planted::Nothing),
        ("chow", Some(between), Planted::Scaled),
        ("diff", None, Planted::ScaledTarget),
    ] {
        let (mut texts, mut distribution) = farthest(name, SHARPENED, SchemeParameters::Dense);
        if let Some(parameter) = parameter {
            texts.rule = Rule::new(name, parameter).unwrap();
            distribution = texts.ungated();
        }
        let counts = loop_counts(&texts, planted);
        let fit = Fit::new(&counts, &distribution);
        assert_eq!(fit.is_good(), planted == Planted::Nothing, "{planted:?} of {name}: {fit}");
    }
}

/// The statistics travel where q̂ is not all of q, because S(·) changes it or the scheme cuts it, and only there; rules
/// that need none cost nothing.
#[test]
fn statistics_travel_where_they_are_needed() {
    for info in Rule::all() {
        let rule = Rule::new(info.name, info.default).unwrap();
        let sparse = SchemeParameters::TkSlt { support_size: 2 };
        let samplings = [NEUTRAL, SHARPENED, GREEDY].map(|sampling| (sampling, sparse));
        for (sampling, scheme) in samplings.into_iter().chain([(NEUTRAL, SchemeParameters::Dense)]) {
            if needs_more(rule.info(), scheme, &sampling) {
                continue;
            }
            let bits = |rule, draft_length| {
                let texts = Texts { draft_length, ..texts(rule, sampling, scheme) };
                let run = texts.connect().generate(&PROMPT, &settings(&texts, 3, 30));
                let first = run.committed[0].round.as_ref().unwrap();
                (first.payload_bits, first.drafted.len())
            };
            // Where no token of p's follows, the second draft is in the bonus token's place.
            let ((bits, drafts), (plain, _)) =
                (bits(rule, 1 + usize::from(rule.info().has_bonus)), bits(Rule::EXACT, 2));
            assert_eq!(drafts, 2);
            let support = |drafts: usize| 8 * (drafts + 2 * if sampling == GREEDY { drafts } else { 2 * drafts });
            match rule.info().need {
                _ if scheme == SchemeParameters::Dense => assert_eq!(bits, plain, "{}", info.name),
                Need::Nothing => assert_eq!(bits, plain, "{}", info.name),
                Need::Peak | Need::Entropy => assert_eq!(bits, plain + 16 * drafts, "{}", info.name),
                // Top-p leaves one token or two.
                // At T = 0 the likeliest token is in q̂, whatever the scheme.
                Need::Support | Need::Whole => {
                    assert!(bits > plain && bits <= plain + support(drafts), "{}", info.name);
                }
            }
        }
    }
    // All of q, a count of one byte and three numbers, for each draft; q̂ is one token or two of it.
    let bits = |rule| {
        let texts = texts(rule, SHARPENED, SchemeParameters::Dense);
        let run = texts.connect().generate(&PROMPT, &settings(&texts, 3, 30));
        let round = run.committed[0].round.clone().unwrap();
        (round.payload_bits, round.drafted.len())
    };
    let ((bild, drafts), (plain, _)) = (bits(Rule::new("bild", 3.0).unwrap()), bits(Rule::EXACT));
    assert_eq!((bild, drafts), (plain + drafts * 8 * (1 + 2 * 3), 2));
    assert_eq!(Need::Nothing.of_unscaled(&Distribution::new(&[0.0], &NEUTRAL).unwrap(), &[]), Statistic::Nothing);
}

fn wide(target: &ToyModel, difference: f64, rule: Rule, scheme: usize, draft_length: usize) -> Texts {
    Texts { rule, draft_length, ..Texts::new(target.clone(), difference, schemes::every(4, 20)[scheme], GREEDY) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// At T = 0 lossy speculative sampling is exact (Lemma 6), opt is diff (Lemma 10), and token-v3 is the greedy lossy
    /// rule of Leviathan et al.: the draft's token is accepted if the target gives it (1 − α) of its best (Lemma 7).
    /// Token for token, over sessions of every scheme that sends q̂ (the first eight).
    #[test]
    fn greedy_rules_are_what_the_lemmas_say(
        seed in any::<u64>(), difference in 0.0f64..2.0, alpha in 0.0f64..0.99, scheme in 0usize..8,
        draft_length in 1usize..6,
        length in 1u32..30, eos in prop::option::of(0u32..23),
    ) {
        let target = ToyModel::target(23, seed);
        let eos: Vec<u32> = eos.into_iter().collect();
        let run = |name: &str, alpha: f64| {
            let texts = wide(&target, difference, Rule::new(name, alpha).unwrap(), scheme, draft_length);
            let mut pair = InProcess::connect(texts.draft.clone(), target.clone(), 64, &eos);
            let run = pair.generate(&PROMPT, &settings(&texts, seed, length));
            run.end.expect("it ends");
            run.tokens
        };
        let exact = target.greedy(&PROMPT, length as usize, &eos);
        prop_assert_eq!(&run("lossy", alpha), &exact);
        prop_assert_eq!(&run("lossy-tuned", alpha), &exact);
        prop_assert_eq!(run("opt", alpha), run("diff", alpha));

        let draft = target.draft(difference);
        let rule = Rule::new("token-v3", alpha).unwrap();
        let mut text = PROMPT.to_vec();
        while text.len() < PROMPT.len() + length as usize {
            let best = |logits: &[f32]| (0..23).fold(0, |best, id| if logits[id] > logits[best] { id } else { best });
            let logits = target.logits(&text);
            let (own, drafted) = (best(&logits), best(&draft.logits(&text)));
            let ratio = f64::from(logits[drafted] - logits[own]).exp();
            let next = if ratio >= 1.0 - rule.parameter() { drafted } else { own } as u32;
            text.push(next);
            if eos.contains(&next) {
                break;
            }
        }
        prop_assert_eq!(&run("token-v3", alpha)[..], &text[PROMPT.len()..]);
    }
}

/// The lemmas say something: at T = 0 other rules leave the target's text.
#[test]
fn greedy_rules_are_not_all_the_same() {
    let target = ToyModel::target(23, 1);
    let exact = target.greedy(&PROMPT, 30, &[]);
    let differs = |name: &str, parameter: f64| {
        let texts = wide(&target, 1.0, Rule::new(name, parameter).unwrap(), 0, 3);
        let mut pair = texts.connect();
        pair.generate(&PROMPT, &settings(&texts, 1, 30)).tokens != exact
    };
    for (name, parameter) in [("diff", 0.1), ("chow", 0.9), ("token-v3", 0.9), ("bild", 3.0), ("mentored", 1e30)] {
        assert!(differs(name, parameter), "{name}");
    }
    // KL(p ‖ π) ≤ D leaves a greedy p's token 1 − D of the mass, at least.
    for (name, parameter) in [("token-v3", 0.0), ("lossy", 0.9), ("mentored", 1e-9)] {
        assert!(!differs(name, parameter), "{name}");
    }
}
