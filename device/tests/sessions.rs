//! Whole sessions whose target is on a device: the texts of the CPU's kernels, over sockets. Run on candle's CPU
//! device.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::sync::Arc;

use outrider_cloud::{
    pair::{PairPaths, info_of},
    session::Limits,
    target::{device_name::DeviceName, engine::EngineSettings},
};
use outrider_codec::{
    frame::{MAX_DRAFT_TOKENS, SamplingParameters},
    scheme::{Code, SchemeParameters},
};
use outrider_device::Device;
use outrider_models::StoredModel;
use outrider_speculation::{
    Forward,
    judge::{Judgement, NextToken, Round},
    session::{
        cloud::Pass,
        edge::{Mode, Settings, Speculation},
    },
};
use outrider_testing::padded::padded;
use outrider_tests::{
    samplings::at,
    schemes,
    server::{Edge, Server, generate},
};

const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 5, code: Code::Enumerative };

/// A server whose target is on candle's CPU device. Its file has `more` rows than there are tokens, which are cut off.
async fn server_on_candle(sessions: usize, more: usize) -> Server {
    let pair = PairPaths::default();
    let settings = EngineSettings { sessions, ..EngineSettings::default() };
    let file = padded(&pair.target_gguf().unwrap(), more);
    let mut model = StoredModel::from_gguf(&mut &*file).unwrap();
    let tokenizer = pair.tokenizer().unwrap();
    model.config.cut_vocabulary(tokenizer.vocab_size()).unwrap();
    let info = info_of(&model.config, &tokenizer, MAX_DRAFT_TOKENS).unwrap();
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
    let device = server_on_candle(cases.len(), 64).await;
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
        let forward = Forward::new(keep, tokens.to_vec(), rows);
        Pass { forward, round: Arc::new(Round::alone(at(1.0), 1, keep + tokens.len())), left: 1, shaping: None }
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
