//! What is judged on a device: the CPU's judgements by the same draws, the target's distribution, and whole sessions.
//! On candle's CPU device, which runs the same code.

use std::sync::Arc;

use outrider_cloud::{
    pair::{PairPaths, info_of},
    session::Limits,
    target::{device_name::DeviceName, engine::EngineSettings},
};
use outrider_codec::{
    distribution::DraftToken,
    frame::{MAX_DRAFT_TOKENS, SamplingParameters},
    probabilities::DraftProbability,
    scheme::{Code, Downlink, Drafts, SchemeParameters},
};
use outrider_device::{BatchRows, Device};
use outrider_speculation::{
    Forward,
    judge::{Judgement, NextToken, Round, judge, rules::Rule},
    sample::{End, Randomness},
    session::{
        cloud::Pass,
        edge::{Mode, Settings, Speculation},
    },
};
use outrider_tests::{
    goodness::{assert_caught, assert_follows},
    samplings::at,
    schemes,
    server::{Edge, Server, generate},
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
    for other in [sampled(5, 1.0), sampled(0, 0.9), lossy, Round { evidence: true, ..round.clone() }, coupled] {
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
    // A broken row is left to the CPU, to say so, and takes nobody else with it.
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

/// A server whose target is on candle's CPU device.
async fn server_on_candle(sessions: usize) -> Server {
    let pair = PairPaths::default();
    let settings = EngineSettings { sessions, ..EngineSettings::default() };
    let model = pair.stored_target().unwrap();
    let info = info_of(&model.config, &pair.tokenizer().unwrap(), MAX_DRAFT_TOKENS).unwrap();
    let engine = DeviceName::Candle.bring(model, settings.kv_memory, settings).unwrap().unwrap();
    Server::start_for(engine.into(), info, Limits::default()).await
}

/// With the same seed, and so the same draws, whole sessions over sockets write the same text on the CPU's kernels and
/// on the device: every scheme at temperature 0 and at 1, and what brings its rows back. Several at once, so that runs
/// are shared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_write_the_same_text_as_on_the_cpu() {
    let edge = Edge::load();
    let mut cases: Vec<(Mode, SamplingParameters)> = Vec::new();
    for scheme in schemes::every(16, 100) {
        let mode = Mode::Speculative(Speculation::new(scheme, 4));
        cases.extend([(mode.clone(), at(0.0)), (mode, at(1.0))]);
    }
    cases.extend([(Mode::CloudOnly, at(0.0)), (Mode::CloudOnly, at(0.8))]);
    let few = SamplingParameters { temperature: 0.9, top_k: 20, top_p: 0.95 };
    cases.push((Mode::Speculative(Speculation::new(K_SQS, 4)), few));
    let device = server_on_candle(cases.len()).await;
    let cpu = Server::start(cases.len(), Limits::default()).await;
    futures_util::future::join_all(cases.iter().map(async |(mode, sampling)| {
        let (mut here, mut there) = (edge.connect(&cpu.url).await, edge.connect(&device.url).await);
        for (seed, prompt) in ["Once upon a time", "The old king had three sons"].into_iter().enumerate() {
            let settings = Settings { mode: mode.clone(), sampling: *sampling, seed: seed as u64, max_new_tokens: 40 };
            let (expected, _) = generate(&mut here, edge.prompt(prompt), &settings).await;
            let (text, _) = generate(&mut there, edge.prompt(prompt), &settings).await;
            assert_eq!(text, expected, "{prompt} with {mode:?} at {sampling:?}");
        }
        here.close().await;
        there.close().await;
    }))
    .await;
    let load = device.engine.load();
    assert!(load.runs < load.passes, "passes shared runs: {load:?}");
    let metrics = device.engine.metrics().text();
    assert!(metrics.contains("instruction_set=\"candle\",batching=\"approximate\""), "{metrics}");
}

/// Sessions that lost their pages for others read their tokens again, as on the CPU.
#[tokio::test]
async fn parked_sessions_come_back_on_a_device() {
    let model = PairPaths::default().stored_target().unwrap();
    let room = outrider_device::DeviceModel::new(model, &Device::Cpu, 1 << 20).unwrap().new_cache().bytes_for(64);
    let settings = EngineSettings {
        sessions: 3,
        kv_memory: (2 * room as u64).to_string().parse().unwrap(),
        ..EngineSettings::default()
    };
    let model = PairPaths::default().stored_target().unwrap();
    let engine = DeviceName::Candle.bring(model, settings.kv_memory, settings).unwrap().unwrap();
    let slots: Vec<_> = (0..3).map(|_| engine.slot().unwrap()).collect();
    let pass = |keep, tokens: &[u32], rows| {
        let forward = Forward { keep, tokens: tokens.to_vec(), rows };
        Pass { forward, round: Arc::new(Round::alone(at(1.0), 1, keep + tokens.len())), left: 1 }
    };
    let text: Vec<u32> = (0..60).map(|index| index * 41 % 4000).collect();
    for slot in &slots {
        assert_eq!(slot.judge(pass(0, &text[..50], 0)).await.unwrap(), Judgement::default());
    }
    for slot in &slots {
        let judgement = slot.judge(pass(50, &text[50..], 1)).await.unwrap();
        assert!(matches!(judgement.next, NextToken::Token(_)), "{judgement:?}");
    }
    let metrics = engine.metrics().text();
    assert!(!metrics.contains("outrider_parkings_total 0\n"), "{metrics}");
}
