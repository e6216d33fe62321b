//! The exactness contract: whatever is drafted, sparsified, quantized and sent, the text is distributed as the
//! target's own samples. Each law is in closed form, each test is strong enough to see a total-variation error of
//! 0.01, and each is shown to catch planted errors.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use outrider_codec::{
    distribution::DraftDist,
    frame::{SamplingParameters, SchemeParameters},
    k_sqs::DraftToken,
};
use outrider_speculation::{
    acceptance::{self, Outcome},
    draft,
    edge::{Mode, Settings},
    random::{End, Randomness},
    sampling,
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

fn k_sqs(support_size: u32, lattice_resolution: u32, draft_length: u32, bit_budget: Option<u32>) -> Mode {
    let scheme = SchemeParameters::KSqs { support_size, lattice_resolution };
    Mode::Speculative { scheme, draft_length, bit_budget }
}

fn assert_exact(parameters: SamplingParameters, mode: &Mode) {
    let law = models().1.law(&PROMPT, LENGTH, &parameters);
    let counts = session_counts(parameters, mode);
    let p = p_value(&counts, &law);
    assert!(p > ALARM, "p = {p:e}, total variation {:.4} for {mode:?}", total_variation(&counts, &law));
}

#[test]
fn k_sqs_is_exact_at_temperature_1() {
    assert_exact(at(1.0), &k_sqs(2, 5, 2, None));
}

#[test]
fn k_sqs_is_exact_at_temperature_07() {
    assert_exact(at(0.7), &k_sqs(3, 20, 2, None));
}

#[test]
fn k_sqs_is_exact_under_a_bit_budget() {
    // K = 4 of 4 costs no bits for the support, 10 for the counts (C(15,3) = 455 is 9) and 2 for the index: one token
    // a round fits into 15 bits.
    assert_exact(at(1.0), &k_sqs(4, 12, 5, Some(15)));
}

#[test]
fn k_sqs_is_exact_with_one_candidate_and_with_truncated_sampling() {
    assert_exact(SamplingParameters { temperature: 1.0, top_k: 3, top_p: 0.9 }, &k_sqs(1, 1, 3, None));
}

#[test]
fn cloud_only_is_the_target() {
    assert_exact(at(0.7), &Mode::CloudOnly);
}

/// A round loop whose two halves can be exchanged for broken ones.
fn component_counts(
    parameters: SamplingParameters,
    draft_one: impl Fn(&[f32], &mut Randomness) -> DraftToken,
    verify: impl Fn(&[DraftToken], &[&[f32]], &mut Randomness) -> Outcome,
) -> (Vec<u32>, Vec<f64>) {
    let (draft_model, target) = models();
    let mut counts = vec![0; (V as usize).pow(LENGTH as u32)];
    for seed in 0..SAMPLES {
        let mut edge = Randomness::new(seed.into(), End::Edge);
        let mut cloud = Randomness::new(seed.into(), End::Cloud);
        let mut text = PROMPT.to_vec();
        while text.len() < PROMPT.len() + LENGTH {
            let (mut prefix, mut drafts) = (text.clone(), Vec::new());
            let mut rows = vec![target.logits(&prefix)];
            for _ in 0..2 {
                let token = draft_one(&draft_model.logits(&prefix), &mut edge);
                prefix.push(token.id);
                drafts.push(token);
                rows.push(target.logits(&prefix));
            }
            let outcome = verify(&drafts, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut cloud);
            text.extend(drafts[..outcome.accepted].iter().map(|draft| draft.id));
            text.push(outcome.token);
        }
        counts[cell(&text[PROMPT.len()..PROMPT.len() + LENGTH])] += 1;
    }
    let law = target.law(&PROMPT, LENGTH, &parameters);
    (counts, law)
}

fn right_draft(logits: &[f32], randomness: &mut Randomness) -> DraftToken {
    draft::draw(draft::k_sqs(logits, &at(1.0), 2, 5).unwrap(), randomness)
}

fn right_verify(drafts: &[DraftToken], rows: &[&[f32]], randomness: &mut Randomness) -> Outcome {
    acceptance::verify(drafts, rows, &at(1.0), randomness).unwrap()
}

#[test]
fn the_round_loop_with_the_right_halves_is_exact() {
    let (counts, law) = component_counts(at(1.0), right_draft, right_verify);
    assert!(p_value(&counts, &law) > ALARM);
}

#[test]
fn drawing_before_quantizing_is_caught() {
    let broken = |logits: &[f32], randomness: &mut Randomness| {
        let dist = draft::k_sqs(logits, &at(1.0), 2, 5).unwrap();
        // The planted error: drawn from q cut to the support, while q̂ is what the cloud is told.
        let q = sampling::transform(logits, &at(1.0)).unwrap();
        let weights: Vec<f64> = (0..V).map(|id| if dist.count(id) > 0 { q[id as usize] } else { 0.0 }).collect();
        DraftToken { id: acceptance::sample(&weights, randomness), dist }
    };
    let (counts, law) = component_counts(at(1.0), broken, right_verify);
    assert!(p_value(&counts, &law) < ALARM, "missed at total variation {:.4}", total_variation(&counts, &law));
}

#[test]
fn an_inverted_ratio_is_caught() {
    let broken = |drafts: &[DraftToken], rows: &[&[f32]], randomness: &mut Randomness| {
        for (accepted, (draft, row)) in drafts.iter().zip(rows).enumerate() {
            let p = sampling::transform(row, &at(1.0)).unwrap();
            let q = f64::from(draft.dist.count(draft.id)) / f64::from(draft.dist.total());
            // The planted error, printed in two of the papers: q/p in place of p/q.
            if randomness.unit() * p[draft.id as usize] >= q {
                let token = acceptance::sample(&acceptance::residual(&p, &draft.dist), randomness);
                return Outcome { accepted, token };
            }
        }
        right_verify(&[], &rows[drafts.len()..], randomness).token_after(drafts.len())
    };
    let (counts, law) = component_counts(at(1.0), right_draft, broken);
    assert!(p_value(&counts, &law) < ALARM, "missed at total variation {:.4}", total_variation(&counts, &law));
}

#[test]
fn resampling_from_p_is_caught() {
    let broken = |drafts: &[DraftToken], rows: &[&[f32]], randomness: &mut Randomness| {
        let outcome = right_verify(drafts, rows, randomness);
        // The planted error: after a rejection the token is drawn from p, not from the residual.
        if outcome.accepted < drafts.len() {
            return right_verify(&[], &rows[outcome.accepted..=outcome.accepted], randomness)
                .token_after(outcome.accepted);
        }
        outcome
    };
    let (counts, law) = component_counts(at(1.0), right_draft, broken);
    assert!(p_value(&counts, &law) < ALARM, "missed at total variation {:.4}", total_variation(&counts, &law));
}

trait TokenAfter {
    fn token_after(self, accepted: usize) -> Outcome;
}

impl TokenAfter for Outcome {
    fn token_after(self, accepted: usize) -> Outcome {
        Outcome { accepted, ..self }
    }
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
    let mut randomness = Randomness::new(2, End::Edge);
    let mut counts = [0; 4];
    for _ in 0..SAMPLES {
        counts[draft::draw(dist.clone(), &mut randomness).id as usize] += 1;
    }
    assert!(p_value(&counts, &[0.2, 0.0, 0.0, 0.8]) > ALARM);
    assert!(p_value(&counts, &[0.21, 0.0, 0.0, 0.79]) < ALARM);
}
