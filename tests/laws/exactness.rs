//! The exactness contract: whatever is drafted, sparsified, quantized and sent, the text is distributed as the
//! target's own samples. Each law is in closed form, each test is strong enough to see a total-variation error of
//! 0.01. `planted.rs` shows that they catch errors.

use outrider_codec::{
    distribution::DraftDist,
    frame::SamplingParameters,
    scheme::{Code, Downlink, SchemeParameters},
};
use outrider_speculation::{
    draft::{self, Proposal, conformal::ThresholdParameters},
    judge::acceptance,
    sample::{End, Randomness},
    session::edge::{Mode, Settings, Speculation},
};
use outrider_tests::{
    goodness::{ALARM, SAMPLES, p_value, total_variation},
    in_process::InProcess,
    toy::ToyModel,
};

const V: u32 = 4;
const LENGTH: usize = 3;
const PROMPT: [u32; 2] = [1, 2];

fn at(temperature: f32) -> SamplingParameters {
    SamplingParameters { temperature, top_k: 0, top_p: 1.0 }
}

fn models() -> (ToyModel, ToyModel) {
    let target = ToyModel::target(V, 5);
    (target.draft(1.5), target)
}

fn cell(tokens: &[u32]) -> usize {
    tokens.iter().fold(0, |cell, &id| cell * V as usize + id as usize)
}

/// The law of whole sessions: both state machines, frames and roll-back included.
fn session_counts(parameters: SamplingParameters, mode: &Mode) -> Vec<u32> {
    let (draft, target) = models();
    let mut pair = InProcess::connect(draft, target, 64, &[]);
    let mut counts = vec![0; (V as usize).pow(LENGTH as u32)];
    for seed in 0..SAMPLES {
        let settings =
            Settings { mode: mode.clone(), sampling: parameters, seed: seed.into(), max_new_tokens: LENGTH as u32 };
        counts[cell(&pair.generate(&PROMPT, &settings).tokens)] += 1;
    }
    counts
}

const ENUMERATIVE: Code = Code::Enumerative;
/// C-SQS with a threshold that moves.
const RESTLESS: ThresholdParameters = ThresholdParameters { target: 0.1, step: 0.3, initial: 0.2 };

fn assert_exact(parameters: SamplingParameters, speculation: Speculation) {
    let speculation = Speculation { threshold: RESTLESS, ..speculation };
    assert_law(parameters, &Mode::Speculative(speculation));
}

fn assert_law(parameters: SamplingParameters, mode: &Mode) {
    let law = models().1.law(&PROMPT, LENGTH, &parameters);
    let counts = session_counts(parameters, mode);
    let p = p_value(&counts, &law);
    assert!(p > ALARM, "p = {p:e}, total variation {:.4} for {mode:?}", total_variation(&counts, &law));
}

/// Every scheme with a fixed draft length at temperature 1, and under a budget that ends rounds early at 0.7.
macro_rules! exact {
    ($($name:ident: $scheme:expr, $budget:literal;)+) => {$(
        mod $name {
            use super::*;

            #[test]
            fn is_exact_with_a_fixed_draft_length() {
                assert_exact(at(1.0), Speculation::new($scheme, 2));
            }

            #[test]
            fn is_exact_under_a_bit_budget() {
                assert_exact(at(0.7), Speculation::new($scheme, 5).with_budget($budget));
            }
        }
    )+};
}

// The budgets have room for one token or two, of those that cost the same: over four tokens 66, 11, 10, 37, 43 and 2 bits.
exact! {
    dense: SchemeParameters::Dense, 140;
    qs: SchemeParameters::Qs { lattice_resolution: 12, code: ENUMERATIVE }, 25;
    qs_adaptive: SchemeParameters::Qs { lattice_resolution: 12, code: Code::Adaptive }, 20;
    k_sqs: SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: ENUMERATIVE }, 20;
    k_sqs_adaptive: SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: Code::Adaptive }, 20;
    c_sqs: SchemeParameters::CSqs { lattice_resolution: 12, code: ENUMERATIVE }, 20;
    c_sqs_adaptive: SchemeParameters::CSqs { lattice_resolution: 12, code: Code::Adaptive }, 20;
    tk_slt: SchemeParameters::TkSlt { support_size: 2 }, 80;
    dssd_full: SchemeParameters::Dssd { downlink: Downlink::Full }, 90;
    dssd_sampled: SchemeParameters::Dssd { downlink: Downlink::Sampled(2) }, 90;
    coupled: SchemeParameters::Coupled, 5;
}

#[test]
fn k_sqs_is_exact_with_one_candidate_and_with_truncated_sampling() {
    let scheme = SchemeParameters::KSqs { support_size: 1, lattice_resolution: 1, code: ENUMERATIVE };
    assert_exact(SamplingParameters { temperature: 1.0, top_k: 3, top_p: 0.9 }, Speculation::new(scheme, 3));
}

#[test]
fn cloud_only_is_the_target() {
    assert_law(at(0.7), &Mode::CloudOnly);
}

/// The yardstick itself: a law that is wrong by 0.01 in total variation is rejected, the right one is not.
#[test]
fn a_total_variation_error_of_one_percent_is_caught() {
    let law = models().1.law(&PROMPT, LENGTH, &at(1.0));
    let mut wrong = law.clone();
    let half = wrong.len() / 2;
    // Spread over all cells in proportion: the error that χ² sees worst.
    let (first, second) = (wrong[..half].iter().sum::<f64>(), wrong[half..].iter().sum::<f64>());
    for (i, p) in wrong.iter_mut().enumerate() {
        *p *= if i < half { 1.0 + 0.01 / first } else { 1.0 - 0.01 / second };
    }
    let mut randomness = Randomness::new(1, End::Cloud);
    let mut counts = vec![0; law.len()];
    for _ in 0..SAMPLES {
        counts[acceptance::sample(&law, &mut randomness) as usize] += 1;
    }
    assert!(p_value(&counts, &law) > ALARM);
    assert!(p_value(&counts, &wrong) < ALARM, "p = {:e}", p_value(&counts, &wrong));
}

#[test]
fn a_distribution_is_what_its_counts_say() {
    let dist = DraftDist::new(vec![0, 3], vec![1, 4]).unwrap();
    let proposal = Proposal { dist, support_size: 2, dropped_mass: 0.0 };
    let mut randomness = Randomness::new(2, End::Edge);
    let mut counts = [0; 4];
    for _ in 0..SAMPLES {
        counts[draft::draw(proposal.clone(), &mut randomness).id as usize] += 1;
    }
    assert!(p_value(&counts, &[0.2, 0.0, 0.0, 0.8]) > ALARM);
    assert!(p_value(&counts, &[0.21, 0.0, 0.0, 0.79]) < ALARM);
}
