//! Rounds that end by the tokens drawn in them: a stop head may see a draft, for the draft is sent whatever it says.

use std::collections::BTreeMap;

use outrider_speculation::{
    control::stop::StopRule,
    draft::{Head, Heads},
    sample,
    session::edge::{Mode, Settings, Speculation},
};
use outrider_tests::{
    goodness::assert_follows,
    in_process::InProcess,
    samplings::NEUTRAL,
    schemes,
    texts::{PROMPT, Texts},
};

/// Weights of the head: for the hidden state, and for the token's ln q(x), H(q) and max q.
const WEIGHTS: [f32; 2] = [-0.5, 0.4];
const SEEN: [f32; 3] = [1.2, 0.3, -0.4];
const BIAS: f32 = 2.0;
/// Threshold of the head, h.
const THRESHOLD: f64 = 0.5;

fn heads() -> Heads {
    let stop = Head::new(WEIGHTS.to_vec(), BIAS, SEEN.to_vec()).unwrap();
    Heads { gate: None, stop: Some(stop), threshold: 0.5 }
}

fn pair(texts: &Texts) -> InProcess {
    InProcess::connect_with(texts.draft.clone(), texts.target.clone(), 64, &[], Some(heads()))
}

fn mode(texts: &Texts) -> Mode {
    Mode::Speculative(Speculation { stop: StopRule::SpecDec { threshold: THRESHOLD }, ..texts.speculation() })
}

/// P(accept) of a token after a prefix, as the head has it: σ(w·h + b + u·(ln q(x), H(q), max q)).
fn score(texts: &Texts, prefix: &[u32], id: u32) -> f64 {
    let hidden = texts.draft.hidden(prefix);
    let q = sample::transform(&texts.draft.logits(prefix), &texts.sampling).unwrap();
    let entropy: f64 = q.iter().filter(|q| **q > 0.0).map(|q| -q * q.ln()).sum();
    let seen = [q[id as usize].ln(), entropy, q.iter().copied().fold(0.0, f64::max)];
    let dot = |numbers: &[f64], weights: &[f32]| -> f64 {
        numbers.iter().zip(weights).map(|(number, weight)| number * f64::from(*weight)).sum()
    };
    let hidden: Vec<f64> = hidden.iter().map(|number| f64::from(*number)).collect();
    1.0 / (1.0 + (-(dot(&hidden, &WEIGHTS) + f64::from(BIAS) + dot(&seen, &SEEN))).exp())
}

/// SpecDec++ (Huang et al. 2024): a round ends after the first draft with which 1 − Π P(accept) exceeds h, and that
/// draft is sent. What it is decides: after one prefix some tokens end the round and others do not.
#[test]
fn a_round_ends_behind_the_draft_with_which_a_rejection_is_likely() {
    for scheme in [0, 3, 10] {
        let texts = Texts::of_four(schemes::every(2, 12)[scheme], NEUTRAL);
        let (mut pair, length) = (pair(&texts), 40);
        let (mut seen, mut lengths) = (BTreeMap::<Vec<u32>, [bool; 2]>::new(), [0; 8]);
        for seed in 0..40 {
            let settings = Settings { mode: mode(&texts), sampling: NEUTRAL, seed, max_new_tokens: length };
            let run = pair.generate(&PROMPT, &settings);
            let mut text = PROMPT.to_vec();
            for committed in &run.committed {
                let drafted = &committed.round.as_ref().unwrap().drafted;
                let (mut prefix, mut survival) = (text.clone(), 1.0);
                for (index, &id) in drafted.iter().enumerate() {
                    survival *= score(&texts, &prefix, id);
                    prefix.push(id);
                    // The end of the text ends rounds too: the last token is the cloud's.
                    let is_last = index + 1 == drafted.len();
                    let is_at_end = prefix.len() == PROMPT.len() + length as usize - 1;
                    let stops = 1.0 - survival > THRESHOLD;
                    assert!(is_last == stops || is_last && is_at_end, "{index} of {drafted:?} after {text:?}");
                    if index == 0 {
                        seen.entry(text.clone()).or_default()[usize::from(stops)] = true;
                    }
                }
                lengths[drafted.len().min(7)] += 1;
                text.extend(committed.tokens.iter().map(|token| token.0));
            }
        }
        assert!(seen.values().any(|both| *both == [true; 2]), "the drawn token decides");
        assert!(lengths.iter().filter(|count| **count > 5).count() > 1, "{lengths:?}");
    }
}

fn assert_unmoved(scheme: usize) {
    let texts = Texts::of_three(schemes::every(2, 12)[scheme], NEUTRAL);
    let counts = texts.of_sessions(mode(&texts), &mut pair(&texts), |_| {});
    assert_follows(&counts, &texts.of_target(), ("stopped by what was drawn", texts.scheme));
}

macro_rules! unmoved {
    ($($name:ident: $index:literal;)+) => {$(
        #[test]
        fn $name() {
            assert_unmoved($index);
        }
    )+};
}

// Under the exact rule the text has the target's distribution, whatever ends its rounds.
unmoved! {
    stops_over_dense: 0;
    stops_over_qs: 1;
    stops_over_k_sqs: 3;
    stops_over_c_sqs: 5;
    stops_over_tk_slt: 7;
    stops_over_dssd: 8;
    stops_over_coupled: 10;
}
