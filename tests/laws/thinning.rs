//! Verification by single probabilities and samples gives the target's distribution. Errors are planted, and the same
//! test must see them.

use outrider_codec::{
    distribution::DraftToken,
    frame::SamplingParameters,
    scheme::{Code, Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    draft,
    judge::{NextToken, Round, thinning},
    sample::{Distribution, End, Randomness},
};
use outrider_tests::{
    goodness::{self, assert_follows, cell, samples},
    toy::ToyModel,
};

const V: u32 = 4;
const LENGTH: usize = 3;
const PROMPT: [u32; 2] = [1, 2];
const NEUTRAL: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
const COOL: SamplingParameters = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.9 };
/// Drafts a round.
const GAMMA: usize = 2;
/// Samples that are asked for at a time.
const AT_ONCE: usize = 2;
const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 5, code: Code::Enumerative };

/// An engine: p at each place of a round, which is told of single tokens or sampled from. Its random draws are not the
/// gateway's.
struct Engine<'a> {
    places: Vec<Distribution<'a>>,
    randomness: &'a mut Randomness,
}

impl Engine<'_> {
    fn probability(&self, place: usize, id: u32) -> f64 {
        self.places[place].probability(id)
    }

    fn sample(&mut self, place: usize) -> (u32, f64) {
        let id = self.places[place].draw(self.randomness);
        (id, self.places[place].probability(id))
    }

    fn samples(&mut self, place: usize) -> Vec<(u32, f64)> {
        (0..AT_ONCE).map(|_| self.sample(place)).collect()
    }
}

/// The number of accepted drafts and the token after them.
type Outcome = (usize, u32);
type Judge = dyn Fn(&[DraftToken], &mut Engine<'_>, &mut Randomness) -> Outcome;

/// Texts of three tokens by value, what they should follow, and how many drafts were accepted of those judged.
fn texts(sampling: SamplingParameters, scheme: SchemeParameters, judge: &Judge) -> (Vec<u32>, Vec<f64>, f64) {
    let target = ToyModel::target(V, 5);
    let draft_model = target.draft(1.5);
    let wire = Scheme::new(scheme, V).unwrap();
    let mut counts = vec![0; (V as usize).pow(LENGTH as u32)];
    let (mut judged, mut accepts) = (0u32, 0u32);
    for seed in 0..u64::from(samples(counts.len())) {
        let mut edge = Randomness::new(seed, End::Edge);
        let mut gateway = Randomness::new(seed, End::Cloud);
        let mut draws = Randomness::new(seed + (1 << 40), End::Cloud);
        let mut text = PROMPT.to_vec();
        while text.len() < PROMPT.len() + LENGTH {
            let (mut prefix, mut drafts) = (text.clone(), Vec::new());
            let mut rows = vec![target.logits(&prefix)];
            for _ in 0..GAMMA {
                let row = draft_model.logits(&prefix);
                let q = Distribution::new(&row, &sampling).unwrap();
                let token = draft::draw(draft::propose(&q, scheme, &wire, 0.2).unwrap(), &mut edge);
                prefix.push(token.id);
                drafts.push(token);
                rows.push(target.logits(&prefix));
            }
            let places = rows.iter().map(|row| Distribution::new(row, &sampling).unwrap()).collect();
            let (accepted, token) = judge(&drafts, &mut Engine { places, randomness: &mut draws }, &mut gateway);
            judged += drafts.len().min(accepted + 1) as u32;
            accepts += accepted as u32;
            text.extend(drafts[..accepted].iter().map(|draft| draft.id));
            text.push(token);
        }
        let written = &text[PROMPT.len()..PROMPT.len() + LENGTH];
        counts[cell(written, V)] += 1;
    }
    (counts, target.distribution(&PROMPT, LENGTH, &sampling), f64::from(accepts) / f64::from(judged))
}

fn probabilities(drafts: &[DraftToken], engine: &Engine<'_>) -> Vec<f64> {
    drafts.iter().enumerate().map(|(place, draft)| engine.probability(place, draft.id)).collect()
}

fn thinned(drafts: &[DraftToken], engine: &mut Engine<'_>, randomness: &mut Randomness) -> Outcome {
    let told = probabilities(drafts, engine);
    thinned_by(&told, drafts, engine, randomness)
}

/// With `told` as the probabilities of the drafts.
fn thinned_by(told: &[f64], drafts: &[DraftToken], engine: &mut Engine<'_>, randomness: &mut Randomness) -> Outcome {
    let accepted = thinning::accepted(drafts, told, randomness);
    let Some(draft) = drafts.get(accepted) else {
        return (accepted, engine.sample(accepted).0);
    };
    loop {
        if let Some(token) = thinning::survivor(&engine.samples(accepted), &draft.dist, randomness) {
            return (accepted, token);
        }
    }
}

fn matched(drafts: &[DraftToken], engine: &mut Engine<'_>, _: &mut Randomness) -> Outcome {
    let own: Vec<u32> = (0..=drafts.len()).map(|place| engine.sample(place).0).collect();
    let drafts = Drafts::Distributions(drafts.to_vec());
    let judgement = thinning::matching(&Round { drafts, ..Round::alone(COOL, 0, PROMPT.len()) }, &own);
    let NextToken::Token(token) = judgement.next else { panic!("{judgement:?}") };
    (judgement.accepted, token)
}

fn assert_right(sampling: SamplingParameters, scheme: SchemeParameters, judge: &Judge) -> f64 {
    let (counts, distribution, rate) = texts(sampling, scheme, judge);
    assert_follows(&counts, &distribution, scheme);
    rate
}

fn assert_caught(sampling: SamplingParameters, judge: &Judge) {
    let (counts, distribution, _) = texts(sampling, K_SQS, judge);
    goodness::assert_caught(&counts, &distribution, "planted");
}

#[test]
fn thinning_is_exact_and_accepts_more_than_matching() {
    for scheme in [K_SQS, SchemeParameters::Dense, SchemeParameters::TkSlt { support_size: 2 }] {
        let by_probability = assert_right(NEUTRAL, scheme, &thinned);
        let by_sample = assert_right(NEUTRAL, scheme, &matched);
        assert!(by_probability > by_sample + 0.05, "{by_probability} and {by_sample}");
    }
}

#[test]
fn matching_is_exact_at_any_sampling() {
    assert_right(COOL, K_SQS, &matched);
}

#[test]
fn a_replacement_that_is_not_thinned_is_caught() {
    assert_caught(NEUTRAL, &|drafts, engine, randomness| {
        let accepted = thinning::accepted(drafts, &probabilities(drafts, engine), randomness);
        // The planted error: p in place of norm(max(0, p − q̂)).
        (accepted, engine.sample(accepted).0)
    });
}

#[test]
fn giving_up_after_the_first_samples_is_caught() {
    assert_caught(NEUTRAL, &|drafts, engine, randomness| {
        let accepted = thinning::accepted(drafts, &probabilities(drafts, engine), randomness);
        let Some(draft) = drafts.get(accepted) else {
            return (accepted, engine.sample(accepted).0);
        };
        let samples = engine.samples(accepted);
        // The planted error: nobody asks for more.
        let token = thinning::survivor(&samples, &draft.dist, randomness).unwrap_or(samples[0].0);
        (accepted, token)
    });
}

#[test]
fn a_probability_of_the_place_before_is_caught() {
    assert_caught(NEUTRAL, &|drafts, engine, randomness| {
        // The planted error: prompt log-probabilities read one place off.
        let shifted: Vec<f64> =
            drafts.iter().enumerate().map(|(place, draft)| engine.probability(place.max(1) - 1, draft.id)).collect();
        thinned_by(&shifted, drafts, engine, randomness)
    });
}

#[test]
fn going_on_behind_a_token_of_the_targets_own_is_caught() {
    assert_caught(COOL, &|drafts, engine, _| {
        let own: Vec<u32> = (0..=drafts.len()).map(|place| engine.sample(place).0).collect();
        let accepted = drafts.iter().zip(&own).take_while(|(draft, own)| draft.id == **own).count();
        // The planted error: the token behind the first that differs, which was written after a rejected draft.
        (accepted, own[(accepted + 1).min(drafts.len())])
    });
}
