//! Judgements on a device: the CPU's judgements for the same random draws, and the target's distribution. Run on
//! candle's CPU device, which executes the same code.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use outrider_codec::{
    distribution::DraftToken,
    frame::SamplingParameters,
    probabilities::DraftProbability,
    scheme::{Code, Downlink, Drafts, SchemeParameters},
};
use outrider_device::{BatchRows, Device};
use outrider_speculation::{
    judge::{Judgement, NextToken, Round, Rule, Verification, judge},
    sample::{End, Randomness},
};
use outrider_tests::{
    goodness::{assert_caught, assert_follows},
    samplings::at,
    texts::{Ends, PROMPT, Texts},
    toy::ToyModel,
};

const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 5, code: Code::Enumerative };

/// A round of drafts after a text, with the rows that judge it.
fn round(texts: &Texts, text: &[u32], seed: u64) -> (Round, Vec<Vec<f32>>) {
    let mut ends = Ends::new(seed, text);
    let (tokens, rows) = texts.round(text, |row, _| Some(texts.draw(row, &mut ends.edge)));
    let drafts = match texts.scheme {
        SchemeParameters::Dssd { .. } => Drafts::Probabilities(tokens.iter().map(DraftProbability::from).collect()),
        _ => Drafts::Distributions(tokens),
    };
    (Round { scheme: Some(texts.scheme), drafts, ..Round::alone(texts.sampling, seed, text.len()) }, rows)
}

/// Judges rounds together on the device.
fn on_device(rounds: &[(Round, Vec<Vec<f32>>)]) -> Vec<Option<Judgement>> {
    let vocab_size = rounds[0].1[0].len();
    let mut end = 0;
    let ends = rounds.iter().map(|(_, rows)| {
        end += rows.len();
        end
    });
    let ends = ends.collect();
    let logits = rounds.iter().flat_map(|(_, rows)| rows).flatten().copied().collect();
    let batch = BatchRows::new(logits, vocab_size, ends, &Device::Cpu).unwrap();
    batch.judge(&rounds.iter().map(|(round, _)| Some(round)).collect::<Vec<_>>()).unwrap()
}

fn on_cpu((round, rows): &(Round, Vec<Vec<f32>>)) -> Judgement {
    judge(round, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
}

/// With the same draws a device's judgement is the CPU's, whatever the scheme and the size of the vocabulary.
#[test]
fn the_same_draws_give_the_same_judgements_as_on_the_cpu() {
    let dssd = SchemeParameters::Dssd { downlink: Downlink::Sampled(2) };
    let schemes =
        [K_SQS, SchemeParameters::Dense, SchemeParameters::Qs { lattice_resolution: 40, code: Code::Adaptive }, dssd];
    let mut whole = 0;
    for (scheme, temperature, vocab_size) in schemes
        .into_iter()
        .flat_map(|scheme| [(scheme, 1.0, 4), (scheme, 0.6, 300), (scheme, 1.7, 700), (scheme, 0.0, 300)])
    {
        let texts = Texts::new(ToyModel::target(vocab_size, 5), 1.5, scheme, at(temperature));
        let round = |seed: u64| {
            let (round, mut rows) = round(&Texts { draft_length: (seed % 5) as usize, ..texts.clone() }, &PROMPT, seed);
            // Every other round is continued: nothing follows its last draft.
            let round = Round { continued: seed.is_multiple_of(2), ..round };
            rows.truncate(round.rows());
            (round, rows)
        };
        let rounds: Vec<_> = (0..400).map(round).collect();
        let (mut rejections, mut differ) = (0, 0);
        for (round, found) in rounds.iter().zip(on_device(&rounds)) {
            let expected = on_cpu(round);
            let rejects = expected.accepted < round.0.drafts.len();
            // Where the edge resamples from all of p, the rows come back; at temperature 0 there is no more than one
            // token.
            let comes_back = rejects && scheme == dssd && temperature > 0.0;
            differ += usize::from(found != (!comes_back).then(|| expected.clone()));
            rejections += usize::from(rejects);
            whole += usize::from(expected.next == NextToken::Nothing);
        }
        // A border between two tokens moves by rounding; 400 draws rarely fall so near to one.
        assert!(differ <= 1, "{differ} of 400 differ: {scheme:?}, temperature {temperature}, {vocab_size} tokens");
        assert!(rejections > 40, "some drafts are rejected, or nothing is tested: {rejections}");
    }
    assert!(whole > 100, "some continued rounds are accepted whole, or nothing is tested: {whole}");
}

#[test]
fn what_is_not_judged_here_is_left_to_the_cpu() {
    let texts = Texts::new(ToyModel::target(300, 5), 1.5, K_SQS, at(1.0));
    let (round, rows) = round(&texts, &PROMPT, 1);
    let sampled =
        |top_k, top_p| Round { sampling: SamplingParameters { temperature: 0.9, top_k, top_p }, ..round.clone() };
    let lossy = Round { rule: Rule::new("lossy", 0.3).unwrap(), ..round.clone() };
    let coupled = Round { scheme: Some(SchemeParameters::Coupled), drafts: Drafts::Ids(vec![1, 2]), ..round.clone() };
    let evidence = Round { evidence: true, ..round.clone() };
    let block = Round { verification: Verification::Block, ..round.clone() };
    for other in [sampled(5, 1.0), sampled(0, 0.9), lossy, evidence, coupled, block] {
        let rows = rows[..other.rows()].to_vec();
        assert_eq!(on_device(&[(other.clone(), rows)]), [None], "{other:?}");
    }
    // All that top-k keeps is no cut.
    let uncut = (sampled(300, 1.0), rows.clone());
    assert_eq!(on_device(std::slice::from_ref(&uncut)), [Some(on_cpu(&uncut))]);
    // At temperature 0, whatever else is set, the largest logit of each row.
    let sampling = SamplingParameters { temperature: 0.0, top_k: 7, top_p: 0.5 };
    let greedy = (Round { sampling, ..round.clone() }, rows.clone());
    assert_eq!(on_device(std::slice::from_ref(&greedy)), [Some(on_cpu(&greedy))]);
    // A broken row is left to the CPU, which reports it, and fails no other session.
    let mut broken = rows.clone();
    broken[0][7] = f32::NAN;
    let sound = (round.clone(), rows);
    assert_eq!(on_device(&[(round, broken.clone()), sound.clone()]), [None, Some(on_cpu(&sound))]);
    assert_eq!(on_device(&[(greedy.0, broken)]), [None]);
}

/// Texts that a device commits, by value, and what they should follow. `spoil` may change the round of a seed.
fn written(
    scheme: SchemeParameters,
    sampling: SamplingParameters,
    spoil: impl Fn(&mut Round, u64),
) -> (Vec<u32>, Vec<f64>) {
    let texts = Texts::of_four(scheme, sampling);
    let counts = texts.of_rounds_together(|under_way| {
        let mut rounds: Vec<_> = under_way.iter().map(|(seed, text)| round(&texts, text, *seed)).collect();
        rounds.iter_mut().zip(under_way).for_each(|((round, _), (seed, _))| spoil(round, *seed));
        let committed = |((round, _), judgement): (&(Round, _), Option<Judgement>)| {
            let Some(Judgement { accepted, next: NextToken::Token(token), .. }) = judgement else {
                panic!("{judgement:?}")
            };
            [&round.drafts.ids()[..accepted], &[token]].concat()
        };
        rounds.iter().zip(on_device(&rounds)).map(committed).collect()
    });
    (counts, texts.of_target())
}

#[test]
fn what_a_device_commits_is_distributed_as_the_target() {
    for (scheme, temperature) in [(K_SQS, 1.0), (K_SQS, 0.7), (SchemeParameters::Dense, 1.0)] {
        let (counts, distribution) = written(scheme, at(temperature), |_, _| {});
        assert_follows(&counts, &distribution, (scheme, temperature));
    }
}

fn assert_spoilt(spoil: impl Fn(&mut Round, u64)) {
    let (counts, distribution) = written(K_SQS, at(1.0), spoil);
    assert_caught(&counts, &distribution, "spoilt");
}

/// The planted error: the draws that made the drafts judge them as well.
#[test]
fn draws_that_are_used_twice_are_caught() {
    assert_spoilt(|round, seed| {
        round.randomness = Randomness::new(seed, End::Edge);
        round.randomness.begin_round(round.position);
    });
}

/// The planted error: another q̂ than the one that was drafted from.
#[test]
fn another_draft_distribution_is_caught() {
    assert_spoilt(|round, _| {
        let Drafts::Distributions(tokens) = &mut round.drafts else { return };
        for DraftToken { dist, .. } in tokens {
            let counts = vec![1; dist.ids().len()];
            *dist = outrider_codec::distribution::DraftDist::new(dist.ids().to_vec(), counts).unwrap();
        }
    });
}
