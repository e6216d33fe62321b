//! Verification by single probabilities and samples gives the target's distribution. Errors are planted, and the same
//! test must see them.

use outrider_codec::{
    distribution::DraftToken,
    frame::SamplingParameters,
    scheme::{Code, Drafts, SchemeParameters},
};
use outrider_speculation::{
    judge::{NextToken, Round, thinning},
    sample::{Distribution, End, Randomness},
};
use outrider_tests::{
    goodness::{self, assert_follows},
    samplings::{NEUTRAL, SHARPENED},
    texts::Texts,
};

/// Samples that are asked for at a time.
const AT_ONCE: usize = 2;
const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 5, code: Code::Enumerative };

/// An engine: p at each place of a round, from which it reveals single tokens' probabilities or samples. Its random
/// draws are not the gateway's.
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

/// Texts by value, their expected distribution, and the share of judged drafts that was accepted.
fn written(sampling: SamplingParameters, scheme: SchemeParameters, judge: &Judge) -> (Vec<u32>, Vec<f64>, f64) {
    let texts = Texts::of_four(scheme, sampling);
    let (mut judged, mut accepts) = (0u32, 0u32);
    let counts = texts.of_rounds(|text, ends| {
        let (drafts, rows) = texts.round(text, |row, _| Some(texts.draw(row, &mut ends.edge)));
        let places = rows.iter().map(|row| Distribution::new(row, &sampling).unwrap()).collect();
        let mut draws = Randomness::new(ends.seed + (1 << 40), End::Cloud);
        draws.begin_round(text.len());
        let (accepted, token) = judge(&drafts, &mut Engine { places, randomness: &mut draws }, &mut ends.cloud);
        judged += drafts.len().min(accepted + 1) as u32;
        accepts += accepted as u32;
        drafts[..accepted].iter().map(|draft| draft.id).chain([token]).collect()
    });
    (counts, texts.of_target(), f64::from(accepts) / f64::from(judged))
}

fn probabilities(drafts: &[DraftToken], engine: &Engine<'_>) -> Vec<f64> {
    drafts.iter().enumerate().map(|(place, draft)| engine.probability(place, draft.id)).collect()
}

fn thinned(drafts: &[DraftToken], engine: &mut Engine<'_>, randomness: &mut Randomness) -> Outcome {
    let told = probabilities(drafts, engine);
    thinned_by(&told, drafts, engine, randomness)
}

/// Runs a round with the given probabilities of the drafts.
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
    let judgement = thinning::matching(&Round { drafts, ..Round::alone(SHARPENED, 0, 2) }, &own);
    let NextToken::Token(token) = judgement.next else { panic!("{judgement:?}") };
    (judgement.accepted, token)
}

fn assert_right(sampling: SamplingParameters, scheme: SchemeParameters, judge: &Judge) -> f64 {
    let (counts, distribution, rate) = written(sampling, scheme, judge);
    assert_follows(&counts, &distribution, scheme);
    rate
}

fn assert_caught(sampling: SamplingParameters, judge: &Judge) {
    let (counts, distribution, _) = written(sampling, K_SQS, judge);
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
    assert_right(SHARPENED, K_SQS, &matched);
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
        // The planted error: no more samples are requested.
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
    assert_caught(SHARPENED, &|drafts, engine, _| {
        let own: Vec<u32> = (0..=drafts.len()).map(|place| engine.sample(place).0).collect();
        let accepted = drafts.iter().zip(&own).take_while(|(draft, own)| draft.id == **own).count();
        // The planted error: the token after the first that differs, which was written after a rejected draft.
        (accepted, own[(accepted + 1).min(drafts.len())])
    });
}
