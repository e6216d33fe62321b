//! An engine that streams its texts, and whose proposers receive the edges' guesses: over real sockets on all sides.

mod failures;
mod real;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use outrider_cloud::{
    edge::{NativeEdge, Retry},
    pair::{PairPaths, target_info},
    session::Limits,
    target::{
        Target,
        gateway::{EngineArgs, GatewayError, Way, WorkerCounts},
    },
};
use outrider_codec::{
    frame::{Frame, Request, SamplingParameters},
    scheme::{Code, SchemeParameters},
};
use outrider_speculation::{
    control::plan::Schedule,
    session::{
        cloud::TargetInfo,
        edge::{Ahead, DraftInfo, Mode, Settings, Speculation},
    },
};
use outrider_tests::{
    blocks,
    goodness::{self, Fit, assert_caught, assert_follows, cell, samples_for},
    http,
    proxy::Proxy,
    samplings::{GREEDY, NEUTRAL, SHARPENED},
    server::{Edge, MAX_DRAFT_TOKENS, RawClient, Server, generate},
    toy::ToyModel,
};

use super::{
    K_SQS,
    mock::{
        MockEngine, Mood, of_model,
        proposer::{Manner, Proposer},
        served::Streaming,
    },
    toy_edge::{ToyEdge, complaint, info, of_toy, tokenizer},
};

const TOKEN: &[u8] = b"between us";
const K_SQS_TOY: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: Code::Enumerative };
/// Number of edges that write at a time, for tests of many texts.
const AT_A_TIME: usize = 24;
const STEP: Duration = Duration::from_millis(2);
const RETRY: Retry =
    Retry { attempts: 40, pause: Duration::from_millis(2), longest: Duration::from_millis(20), stall: Duration::MAX };

/// Path of a file that no other test uses.
fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{process}-{number}-{name}"))
}

fn socket(manner: Manner) -> Proposer {
    // A socket's path has at most some hundred bytes.
    let path = scratch("guesses.sock");
    let path = if path.as_os_str().len() < 100 { path } else { std::env::temp_dir().join(path.file_name().unwrap()) };
    Proposer::on_socket(path, manner)
}

fn options(proposers: &[&Proposer]) -> EngineArgs {
    let file = scratch("guesses-token");
    std::fs::write(&file, [TOKEN, b"\n"].concat()).unwrap();
    EngineArgs {
        target_logprobs: 3,
        target_timeout: 5,
        guesses_to: proposers.iter().map(|proposer| proposer.address.parse().unwrap()).collect(),
        guesses_token_file: Some(file),
        ..EngineArgs::default()
    }
}

/// Starts a gateway in front of an engine, and waits until all its workers are connected.
async fn gateway(engine: &MockEngine, options: EngineArgs, info: TargetInfo) -> Server {
    let workers = options.guesses_to.len() as i64;
    let connected = options.connect((Way::Streamed, &engine.address), &tokenizer(), info, 2 * AT_A_TIME).await;
    let (gateway, info) = connected.unwrap();
    assert!(info.limits.own_draws && info.limits.max_guesses > 0);
    let server = Server::start_for(Target::Gateway(gateway), info, Limits::default()).await;
    until(|| counts(&server).connected == workers).await;
    server
}

fn guessing(mut info: TargetInfo) -> TargetInfo {
    (info.limits.max_guesses, info.limits.max_branches) = (16, 4);
    info
}

fn counts(server: &Server) -> WorkerCounts {
    server.engine.workers().unwrap()
}

async fn until(mut is_so: impl FnMut() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits).await.expect("it comes to pass");
}

fn ahead(group: usize, branches: bool) -> Mode {
    let plan = Schedule { group, ..Schedule::AT_ONCE };
    Mode::Ahead(Ahead { fixed: Some(plan), branches: Some(branches), ..Ahead::default() })
}

fn rounds(scheme: SchemeParameters, max_in_flight: u8) -> Mode {
    Mode::Speculative(Speculation { max_in_flight, ..Speculation::new(scheme, 3) })
}

fn settings(mode: Mode, sampling: SamplingParameters, seed: u64, max_new_tokens: u32) -> Settings {
    Settings { mode, sampling, seed, max_new_tokens }
}

/// Right, in part right, lying or late: the text is the model's own, and of guesses that are right and in time the
/// engine makes use. All its workers receive them, wherever they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_greedy_text_is_the_models_own_whatever_is_guessed() {
    const EOS: u32 = 3;
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 64).await;
    let near = socket(Manner::default());
    let far = Proposer::on_port(TOKEN, Manner { vocab_size: 4, ..Manner::default() }).await;
    for eos_ids in [vec![], vec![EOS]] {
        let server = gateway(&engine, options(&[&near, &far]), guessing(info(eos_ids.clone()))).await;
        for (draft, store, step, useful) in [
            (target.clone(), &near, STEP, true),
            (target.clone(), &far, STEP, true),
            (target.draft(1.5), &near, STEP, false),
            (ToyModel::target(4, 99), &far, STEP, false),
            (target.clone(), &near, Duration::ZERO, false),
        ] {
            engine.stream(Streaming { step, guesses: Some(store.store.clone()), ..Streaming::default() });
            let mut edge = ToyEdge::connect(&server.url, draft, 64).await;
            let (mut tokens, steps, before) = (0, steps(&engine), accepted(&engine));
            for (number, mode) in [
                ahead(1, false),
                ahead(3, true),
                Mode::CloudOnly,
                rounds(SchemeParameters::Coupled, 1),
                rounds(SchemeParameters::Coupled, 3),
                rounds(K_SQS_TOY, 1),
            ]
            .into_iter()
            .enumerate()
            {
                let is_ahead = matches!(mode, Mode::Ahead(_));
                for start in 0..4 {
                    let prompt = [start, number as u32 % 4, 1];
                    let (expected, before) = (target.greedy(&prompt, 40, &eos_ids), engine.requests());
                    let (ids, _) = edge.generate(&prompt, &settings(mode.clone(), GREEDY, 1, 40)).await;
                    assert_eq!(ids, expected, "{mode:?}, {prompt:?}, {eos_ids:?}");
                    // One stream a text, to its end and not beyond.
                    assert!(mode == rounds(K_SQS_TOY, 1) || engine.requests() == before + 1, "{mode:?}, {eos_ids:?}");
                    tokens += if is_ahead { ids.len() } else { 0 };
                }
                if number == 1 && useful && eos_ids.is_empty() {
                    let (steps, right) = (self::steps(&engine) - steps, accepted(&engine) - before);
                    println!("{tokens} tokens in {steps} steps, {right} guesses accepted");
                    assert!(2 * right > tokens && 3 * steps < 2 * tokens, "{right} of {tokens} in {steps} steps");
                }
            }
        }
        if !eos_ids.is_empty() {
            continue;
        }
        let text = server.engine.metrics().text();
        assert!(count(&text, "guess_messages_sent_total") > 100 && count(&text, "chunk_tokens_count") > 100, "{text}");
        assert!(count(&text, "guesses_right_total{scheme=\"cloud-only\"}") > 50, "{text}");
    }
}

fn steps(engine: &MockEngine) -> usize {
    engine.counts().steps.load(Ordering::Relaxed)
}

fn accepted(engine: &MockEngine) -> usize {
    engine.counts().accepted.load(Ordering::Relaxed)
}

fn count(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("outrider_{name} ")));
    line.unwrap_or_else(|| panic!("{name} in\n{text}")).parse().unwrap()
}

/// At every temperature, with guesses that are accepted and others that are not; and an engine that takes every guess
/// for right is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_texts_are_distributed_as_the_target() {
    const LENGTH: u32 = 3;
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 64).await;
    let proposer = socket(Manner::default());
    let server = gateway(&engine, options(&[&proposer]), guessing(info(vec![]))).await;
    let mut edges = Vec::new();
    for _ in 0..AT_A_TIME {
        edges.push(ToyEdge::connect(&server.url, target.draft(1.5), 64).await);
    }
    for (mode, sampling, believes) in [
        (ahead(1, true), NEUTRAL, false),
        (ahead(2, false), SHARPENED, false),
        (rounds(SchemeParameters::Coupled, 1), NEUTRAL, false),
        (rounds(SchemeParameters::Coupled, 3), SHARPENED, false),
        (ahead(1, true), NEUTRAL, true),
    ] {
        let (step, guesses) = (Duration::from_micros(500), Some(proposer.store.clone()));
        engine.stream(Streaming { step, guesses, believes, ..Streaming::default() });
        let distribution = target.distribution(&[1, 2], LENGTH as usize, &sampling);
        let mut counts = vec![0; distribution.len()];
        let judged = || engine.counts().judged.load(Ordering::Relaxed);
        let before = (judged(), accepted(&engine));
        let texts = u64::from(samples_for(counts.len(), 4.0 * goodness::error()));
        let writes = async |(edge, first): (&mut ToyEdge, u64)| {
            let mut cells = Vec::new();
            for seed in (first..texts).step_by(AT_A_TIME) {
                let (ids, _) = edge.generate(&[1, 2], &settings(mode.clone(), sampling, seed, LENGTH)).await;
                cells.push(cell(&ids, 4));
            }
            cells
        };
        for cell in join_all(edges.iter_mut().zip(0..).map(writes)).await.concat() {
            counts[cell] += 1;
        }
        let (judged, accepted) = (judged() - before.0, accepted(&engine) - before.1);
        println!("{mode:?}: {accepted} of {judged} accepted, {}", Fit::new(&counts, &distribution));
        if believes {
            assert_caught(&counts, &distribution, "an engine that believes");
        } else {
            assert_follows(&counts, &distribution, &mode);
        }
        let is_ahead = matches!(mode, Mode::Ahead(_));
        assert!(!is_ahead || judged > 1000 && accepted > 100, "{accepted} of {judged}: nothing is tested");
    }
}

/// A hundred cuts each between edge and gateway, gateway and engine, gateway and proposer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_cuts_change_nothing() {
    const ENOUGH: usize = 100;
    let (target, draft) = (blocks::target(), blocks::draft());
    let length = target.config().context_length as u32 / 2;
    let calm = blocks::server(1, Limits::default()).await;
    let mut alone = NativeEdge::connect(&draft, blocks::draft_info(&draft), &calm.url, None, RETRY).await.unwrap();
    let mut expected = Vec::new();
    for start in 0..4 {
        expected.push(generate(&mut alone, vec![3, start], &settings(Mode::CloudOnly, GREEDY, 1, length)).await.0);
    }
    let engine =
        MockEngine::start(of_model(blocks::target()), tokenizer(), target.config().context_length as u32).await;
    let proposer = socket(Manner { closes_after: 4, ..Manner::default() });
    let server = gateway(&engine, options(&[&proposer]), blocks::target_info()).await;
    let (step, guesses) = (Duration::from_millis(1), Some(proposer.store.clone()));
    engine.stream(Streaming { step, guesses, cut_after: 8, ..Streaming::default() });
    let proxy = Proxy::before(&server.url, 1000, 7).await;
    let mut edge = loop {
        if let Ok(edge) = NativeEdge::connect(&draft, blocks::draft_info(&draft), &proxy.url, None, RETRY).await {
            break edge;
        }
    };
    let cuts = || {
        let (engine, proposer) = (engine.counts().cut.load(Ordering::Relaxed), &proposer.store.closed);
        [proxy.cuts(), engine, proposer.load(Ordering::Relaxed)]
    };
    let (mut resumed, mut texts, began) = (0, 0, Instant::now());
    while cuts().iter().any(|cuts| *cuts < ENOUGH) {
        for (start, expected) in (0u32..).zip(&expected) {
            let wanted = settings(ahead(1 + start as usize % 3, start % 2 == 0), GREEDY, 1, length);
            let (text, generated) = generate(&mut edge, vec![3, start], &wanted).await;
            assert_eq!(text, *expected, "after {:?} cuts", cuts());
            (resumed, texts) = (resumed + generated.resumed, texts + 1);
        }
        assert!(began.elapsed() < Duration::from_secs(200), "{:?} cuts", cuts());
    }
    println!("{:?} cuts, {resumed} resumed, {texts} texts, {} accepted", cuts(), accepted(&engine));
    assert!(resumed > 20 && accepted(&engine) > texts, "{resumed} resumed");
    assert!(count(&server.engine.metrics().text(), "streams_cut_total") > 50);
}

/// With the pair: for pages and for the API the text is the model's own, and one request is all that the engine gets
/// for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_the_api_get_the_engines_text_for_one_request() {
    let edge = Edge::load();
    let own = Server::start(1, Limits::default()).await;
    let mut alone = edge.connect(&own.url).await;
    let pair = PairPaths::default();
    let (target, tokenizer) = (pair.target().unwrap(), pair.tokenizer().unwrap());
    let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS).unwrap();
    let engine = MockEngine::start(of_model(target), pair.tokenizer().unwrap(), info.limits.context_length).await;
    let proposer = socket(Manner::default());
    let guesses = Some(proposer.store.clone());
    engine.stream(Streaming { step: Duration::from_millis(5), guesses, ..Streaming::default() });
    let options = EngineArgs { target_logprobs: 0, ..options(&[&proposer]) };
    let (gateway, info) = options.connect((Way::Streamed, &engine.address), &tokenizer, info, 4).await.unwrap();
    let server = Server::start_for(Target::Gateway(gateway), info, Limits::default()).await;
    until(|| counts(&server).connected == 1).await;
    let mut session = edge.connect(&server.url).await;
    for text in ["Once upon a time", "The wolf looked at the lamb and said"] {
        let wanted = |mode| settings(mode, GREEDY, 1, 40);
        let prompt = edge.prompt(text);
        let (expected, _) = generate(&mut alone, prompt.clone(), &wanted(Mode::CloudOnly)).await;
        for mode in [Mode::Auto(Speculation::new(K_SQS, 4)), Mode::CloudOnly] {
            let (before, right) = (engine.requests(), accepted(&engine));
            let (ids, generated) = generate(&mut session, prompt.clone(), &wanted(mode.clone())).await;
            assert_eq!(ids, expected, "{text} {mode:?}");
            assert_eq!(engine.requests() - before, 1);
            println!("{mode:?}: {} accepted, {:?}", accepted(&engine) - right, generated.statistics.in_time);
        }
        let before = engine.requests();
        let body = format!("{{\"model\": \"pair\", \"prompt\": \"{text}\", \"temperature\": 0, \"max_tokens\": 40}}");
        let answer = http::post(server.address(), "/v1/completions", &[], &body).await;
        let answer: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer["choices"][0]["text"], edge.tokenizer.decode(&expected), "{answer}");
        assert_eq!(engine.requests() - before, 1);
    }
    assert!(accepted(&engine) > 10, "{:?}", engine.counts());
}
