//! Drafts at a temperature of their own (Zheng and Yang, §VI-B): the exact rule stays exact, other rules mix in what
//! the drafts are drawn from, and all of them judge by the draft model's own q, which no temperature changes.

use core::time::Duration;

use outrider_codec::scheme::SchemeParameters;
use outrider_speculation::{
    judge::Rule,
    session::edge::{Mode, Settings, Speculation, StartError},
};
use outrider_tests::{
    goodness::{assert_caught, assert_follows, distance},
    samplings::{NEUTRAL, at},
    schemes,
    texts::{PROMPT, Texts},
};

fn texts(scheme: SchemeParameters, temperature: f32, draft_temperature: f32) -> Texts {
    Texts { draft_temperature: Some(draft_temperature), ..Texts::of_three(scheme, at(temperature)) }
}

fn counts(texts: &Texts) -> Vec<u32> {
    texts.of_sessions(Mode::Speculative(texts.speculation()), &mut texts.connect(), |_| {})
}

macro_rules! exact {
    ($($name:ident: $temperature:literal, $draft:literal;)+) => {$(
        #[test]
        fn $name() {
            for scheme in schemes::every(2, 12) {
                let texts = texts(scheme, $temperature, $draft);
                assert_follows(&counts(&texts), &texts.of_target(), scheme);
            }
        }
    )+};
}

exact! {
    the_exact_rule_stays_exact_with_greedy_drafts: 1.0, 0.0;
    the_exact_rule_stays_exact_with_sharper_drafts: 1.0, 0.4;
    the_exact_rule_stays_exact_with_drafts_at_1: 0.6, 1.0;
}

/// At T = 0 the text is the target's greedy one, however its drafts are drawn.
#[test]
fn a_greedy_target_takes_drafts_at_any_temperature() {
    for scheme in schemes::every(2, 12) {
        for draft_temperature in [0.3, 1.0, 3.0] {
            let texts = Texts { length: 24, ..texts(scheme, 0.0, draft_temperature) };
            let expected = texts.target.greedy(&PROMPT, texts.length, &[]);
            let (mut pair, mode) = (texts.connect(), Mode::Speculative(texts.speculation()));
            let mut rejected = 0;
            for seed in 0..40 {
                let settings = Settings { mode: mode.clone(), sampling: texts.sampling, seed, max_new_tokens: 24 };
                assert_eq!(pair.generate(&PROMPT, &settings).tokens, expected, "{scheme:?}");
                let statistics = pair.edge.statistics();
                rejected += statistics.judged - statistics.accepted;
            }
            assert!(rejected > 40, "{rejected} drafts were rejected: {scheme:?}");
        }
    }
}

/// Rules of cascades decide by q, which is the draft model's own whatever its drafts are drawn at, and mix q̂.
#[test]
fn cascades_judge_by_the_models_own_q() {
    let scheme = schemes::every(2, 12)[3];
    for (name, parameters) in [("chow", [0.2, 0.35, 0.5]), ("diff", [0.05, 0.15, 0.3]), ("token-v1", [0.1, 0.3, 0.5])] {
        for (temperature, draft_temperature) in [(1.0, 0.3), (0.6, 1.0)] {
            let of = |parameter: f64| {
                let rule = Rule::new(name, parameter).unwrap();
                Texts { rule, ..texts(scheme, temperature, draft_temperature) }
            };
            // The parameter at which the rule is farthest from taking all drafts and from taking none.
            let [all, none] =
                [texts(scheme, draft_temperature, draft_temperature).distribution(&|_, _| true), of(0.0).of_target()];
            let between = |parameter: f64| {
                let distribution = of(parameter).ungated();
                distance(&distribution, &all).min(distance(&distribution, &none))
            };
            let parameter = parameters.into_iter().max_by(|a, b| between(*a).total_cmp(&between(*b))).unwrap();
            let texts = of(parameter);
            let what = format!("{name} {parameter}, {scheme:?}, T = {temperature}, drafts at {draft_temperature}");
            assert_follows(&counts(&texts), &texts.ungated(), what);
        }
    }
}

/// The test above sees an edge that takes S(q) at the drafts' temperature for q.
#[test]
fn a_statistic_at_the_drafts_temperature_is_caught() {
    let scheme = SchemeParameters::TkSlt { support_size: 2 };
    let row = |texts: &Texts| texts.draft.logits(&PROMPT);
    let peak = |temperature| {
        let texts = texts(scheme, 1.0, 0.3);
        let q = outrider_speculation::sample::transform(&row(&texts), &at(temperature)).unwrap();
        q.into_iter().fold(0.0, f64::max)
    };
    // Between max q and max S(q) of the first token: the one defers there, the other does not.
    let alpha = 1.0 - f64::midpoint(peak(1.0), peak(0.3));
    let rule = Rule::new("chow", alpha).unwrap();
    let right = Texts { rule, ..texts(scheme, 1.0, 0.3) };
    let found = counts(&right);
    assert_follows(&found, &right.ungated(), "q");
    // The same as if the first token's drafts were all accepted.
    let sure = Texts { rule: Rule::new("chow", 1.0).unwrap(), ..right.clone() };
    assert_caught(&found, &sure.ungated(), "S(q)");
}

/// If nothing is sent of q because dense drafts at T = 1 contain all of it, they must be drawn at T = 1.
#[test]
fn a_rule_that_takes_drafts_for_q_needs_them_at_1() {
    let refused = |rule: &str, scheme, draft_temperature| {
        let speculation = Speculation {
            rule: Rule::new(rule, if rule == "exact" { 0.0 } else { 0.1 }).unwrap(),
            ..Speculation::new(scheme, 2)
        };
        let mode = Mode::Speculative(Speculation { draft_temperature, ..speculation });
        let texts = texts(scheme, 1.0, 1.0);
        let settings = Settings { mode, sampling: NEUTRAL, seed: 1, max_new_tokens: 4 };
        match texts.connect().edge.start(PROMPT.to_vec(), &settings, Duration::ZERO) {
            Err(error) => {
                let is_setting = matches!(error, StartError::Setting { name: "the draft model's temperature", .. });
                assert!(is_setting, "{error}");
                true
            }
            Ok(()) => false,
        }
    };
    let dense = SchemeParameters::Dense;
    assert!(refused("chow", dense, Some(0.5)) && refused("token-v1", dense, Some(0.0)));
    assert!(!refused("chow", dense, Some(1.0)) && !refused("chow", dense, None) && !refused("lossy", dense, Some(0.5)));
    assert!(!refused("chow", SchemeParameters::TkSlt { support_size: 2 }, Some(0.5)));
    assert!(refused("exact", dense, Some(-1.0)) && refused("exact", dense, Some(f32::NAN)));
}
