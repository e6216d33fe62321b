//! An engine that streams its texts, and whose proposers are told what edges guess: over real sockets on all sides.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

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
    policy::ahead::Plan,
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
    server::{Edge, MAX_DRAFT_TOKENS, Server, generate},
    toy::ToyModel,
};

use super::{
    K_SQS,
    mock::{
        MockEngine, Mood, of_model,
        proposer::{Manner, Proposer},
        stream::Streaming,
    },
    toy_edge::{ToyEdge, complaint, info, of_toy, tokenizer},
};

const TOKEN: &[u8] = b"between us";
const K_SQS_TOY: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: Code::Enumerative };
const STEP: Duration = Duration::from_millis(2);
const RETRY: Retry = Retry { attempts: 40, pause: Duration::from_millis(2), longest: Duration::from_millis(20) };

/// A file that no other test has.
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

/// A gateway in front of an engine, when as many workers as it has are connected.
async fn gateway(engine: &MockEngine, options: EngineArgs, info: TargetInfo) -> Server {
    let workers = options.guesses_to.len() as i64;
    let connected = options.connect((Way::Streamed, &engine.address), &tokenizer(), info, 4).await;
    let (gateway, info) = connected.unwrap();
    assert!(info.own_draws && info.max_guesses > 0);
    let server = Server::start_for(Target::Gateway(gateway), info, Limits::default()).await;
    until(|| counts(&server).connected == workers).await;
    server
}

fn guessing(info: TargetInfo) -> TargetInfo {
    TargetInfo { max_guesses: 16, max_branches: 4, ..info }
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
    let plan = Plan { group, ..Plan::AT_ONCE };
    Mode::Ahead(Ahead { fixed: Some(plan), branches: Some(branches), ..Ahead::default() })
}

fn rounds(scheme: SchemeParameters, max_in_flight: u8) -> Mode {
    Mode::Speculative(Speculation { max_in_flight, ..Speculation::new(scheme, 3) })
}

fn settings(mode: Mode, sampling: SamplingParameters, seed: u64, max_new_tokens: u32) -> Settings {
    Settings { mode, sampling, seed, max_new_tokens }
}

/// Right, in part right, lying or late: the text is the model's own, and of guesses that are right and in time the
/// engine makes use. All its workers are told, wherever they are.
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
                    let expected = target.greedy(&prompt, 40, &eos_ids);
                    let (ids, _) = edge.generate(&prompt, &settings(mode.clone(), GREEDY, 1, 40)).await;
                    assert_eq!(ids, expected, "{mode:?}, {prompt:?}, {eos_ids:?}");
                    tokens += if is_ahead { ids.len() } else { 0 };
                }
                if number == 1 && useful && eos_ids.is_empty() {
                    let (steps, right) = (self::steps(&engine) - steps, accepted(&engine) - before);
                    println!("{tokens} tokens in {steps} steps, {right} guesses accepted");
                    assert!(2 * right > tokens && 3 * steps < 2 * tokens, "{right} of {tokens} in {steps} steps");
                }
            }
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
    let mut edge = ToyEdge::connect(&server.url, target.draft(1.5), 64).await;
    for (mode, sampling, coarser, believes) in [
        (ahead(1, true), NEUTRAL, 2.0, false),
        (ahead(2, false), SHARPENED, 3.0, false),
        (rounds(SchemeParameters::Coupled, 1), NEUTRAL, 4.0, false),
        (rounds(SchemeParameters::Coupled, 3), SHARPENED, 4.0, false),
        (ahead(1, true), NEUTRAL, 4.0, true),
    ] {
        let (step, guesses) = (Duration::from_micros(500), Some(proposer.store.clone()));
        engine.stream(Streaming { step, guesses, believes, ..Streaming::default() });
        let distribution = target.distribution(&[1, 2], LENGTH as usize, &sampling);
        let mut counts = vec![0; distribution.len()];
        let judged = || engine.counts().judged.load(Ordering::Relaxed);
        let before = (judged(), accepted(&engine));
        for seed in 0..samples_for(counts.len(), coarser * goodness::error()).into() {
            let (ids, _) = edge.generate(&[1, 2], &settings(mode.clone(), sampling, seed, LENGTH)).await;
            counts[cell(&ids, 4)] += 1;
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

/// Whatever the engine streams, the edge is told, and the session goes on when the engine does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_text_is_told_and_forgiven() {
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 64).await;
    let options = EngineArgs { target_timeout: 1, guesses_to: vec![], ..options(&[]) };
    let server = gateway(&engine, options, guessing(info(vec![]))).await;
    let mut edge = ToyEdge::connect(&server.url, target.clone(), 64).await;
    let event = |choice: &str| format!("data: {{\"choices\": [{choice}]}}\n\n");
    let unusable = "the engine behind it does not answer what it was asked";
    let raw = |raw: &str| Streaming { raw: Some(raw.to_owned()), ..Streaming::default() };
    for (streamed, said) in [
        (raw(&event("{\"text\": \"ha\"}")), unusable),
        (raw(&event("{\"token_ids\": [4]}")), unusable),
        (raw(&event(&format!("{{\"token_ids\": {:?}}}", [1; 21]))), unusable),
        (raw(&event("{\"token_ids\": [1], \"prompt_token_ids\": [1]}")), unusable),
        (raw(&event("{\"token_ids\": [], \"finish_reason\": \"abort\"}")), unusable),
        (raw("data: [DONE]\n\n"), unusable),
        (raw("<html>Welcome to nginx!</html>\n"), unusable),
        (raw(&"x".repeat(80_000)), unusable),
        (raw("data: {\"error\": {\"message\": \"out of memory\", \"code\": 500}}\n\n"), "the engine behind it refuses"),
        (Streaming { step: STEP, ..raw(": not yet\n") }, "the engine behind it takes too long"),
        (Streaming { step: Duration::from_secs(30), ..Streaming::default() }, "the engine behind it takes too long"),
        (
            Streaming { cut_after: 1, raw: Some(": cut\n".to_owned()), ..Streaming::default() },
            "the engine behind it cannot be reached",
        ),
    ] {
        engine.stream(streamed);
        let refusal = edge.refusal(&[1, 2], &settings(ahead(1, false), GREEDY, 1, 20)).await;
        assert_eq!(refusal, format!("The server failed: {said}. Try again later."));
        engine.stream(Streaming::default());
        let (ids, _) = edge.generate(&[1, 2], &settings(ahead(1, false), GREEDY, 1, 20)).await;
        assert_eq!(ids, target.greedy(&[1, 2], 20, &[]), "after {said}");
    }
    for (mood, said) in
        [(Mood::Refuses(503), "refuses"), (Mood::Babbles, "does not answer"), (Mood::Dies, "be reached")]
    {
        engine.feel(mood);
        let refusal = edge.refusal(&[1, 2], &settings(Mode::CloudOnly, GREEDY, 1, 20)).await;
        assert!(refusal.contains(said), "{mood:?}: {refusal}");
    }
}

/// Nobody waits for workers that are away, refuse or do not read, and operators can see them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_take_no_guesses_change_nothing() {
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 64).await;
    let other = Proposer::on_port(b"another", Manner::default()).await;
    let newer = socket(Manner { version: 2, ..Manner::default() });
    let small = socket(Manner { vocab_size: 3, ..Manner::default() });
    let silent = socket(Manner { reads: false, ..Manner::default() });
    let gone = socket(Manner::default());
    let workers = options(&[&other, &newer, &small, &silent, &gone]);
    drop(gone);
    let connected = workers.connect((Way::Streamed, &engine.address), &tokenizer(), guessing(info(vec![])), 4).await;
    let (gateway, info) = connected.unwrap();
    let server = Server::start_for(Target::Gateway(gateway), info, Limits::default()).await;
    until(|| counts(&server) == WorkerCounts { connected: 1, connecting: 1, refused: 3 }).await;
    let mut edge = ToyEdge::connect(&server.url, target.clone(), 64).await;
    for start in 0..4 {
        let (ids, _) = edge.generate(&[start, 2], &settings(ahead(1, true), GREEDY, 1, 40)).await;
        assert_eq!(ids, target.greedy(&[start, 2], 40, &[]));
    }
    let expected = "\"guessWorkers\":{\"connected\":1,\"connecting\":1,\"refused\":3}";
    for path in ["/readyz", "/healthz", "/v1/info"] {
        let answer = http::get(server.address(), path, &[]).await;
        assert!(answer.status == 200 && answer.body.contains(expected), "{path}: {}", answer.body);
    }
}

/// Who cancels or goes leaves nothing running at the engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_nobody_wants_is_aborted() {
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 2000).await;
    engine.stream(Streaming { step: Duration::from_millis(20), ..Streaming::default() });
    let server = gateway(&engine, options(&[]), guessing(info(vec![]))).await;
    let draft = DraftInfo { vocab_size: 4, tokenizer_hash: tokenizer().fingerprint(), context_length: 64, heads: None };
    let request = |generation| {
        let (sampling, tokens) = (GREEDY, vec![1, 2]);
        Frame::Generate(Request { generation, sampling, seed: 1, max_new_tokens: 1000, tokens }).encode()
    };
    let aborted = || engine.counts().aborted.load(Ordering::Relaxed);
    let (mut client, _) = server.greeted(&draft).await;
    // In the middle of a pass, which takes 20 ms, and before the first token.
    for (generation, waits) in [(1, true), (2, false), (3, true)] {
        let before = aborted();
        client.send(request(generation)).await;
        if waits {
            assert!(matches!(client.receive().await, Some(Frame::Tokens(tokens)) if tokens.generation == generation));
        } else {
            until(|| engine.requests() > 0).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.send(Frame::Cancel { generation }.encode()).await;
        until(|| aborted() > before).await;
    }
    let before = aborted();
    client.send(request(4)).await;
    // What was still on its way is of a text before.
    while !matches!(client.receive().await, Some(Frame::Tokens(tokens)) if tokens.generation == 4) {}
    client.send(Frame::Bye.encode()).await;
    until(|| aborted() > before).await;
    server.is_empty().await;
}

/// With the pair: whoever asks, the text is the model's own, and one request is all that the engine gets for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_the_api_get_the_engines_text_for_one_request() {
    let edge = Edge::load();
    let own = Server::start(1, Limits::default()).await;
    let mut alone = edge.connect(&own.url).await;
    let pair = PairPaths::default();
    let (target, tokenizer) = (pair.target().unwrap(), pair.tokenizer().unwrap());
    let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS).unwrap();
    let engine = MockEngine::start(of_model(target), pair.tokenizer().unwrap(), info.context_length).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_stream_or_be_told_guesses_is_refused_at_the_start() {
    let engine = MockEngine::start(of_toy(ToyModel::target(4, 5)), tokenizer(), 64).await;
    let connect = async |options: EngineArgs, way| {
        options.connect((way, &engine.address), &tokenizer(), guessing(info(vec![])), 1).await
    };
    let to = |address: &str| EngineArgs { guesses_to: vec![address.parse().unwrap()], ..EngineArgs::default() };
    assert!(complaint(connect(to("unix:/x"), Way::Asked).await).contains("--guesses-to needs --target vllm:URL"));
    assert!(complaint(connect(to("tcp:h:1"), Way::Streamed).await).contains("needs --guesses-token-file"));
    let file = scratch("no-token");
    std::fs::write(&file, "\n").unwrap();
    for (file, said) in [(file.clone(), "it is empty"), (file.with_extension("none"), "cannot be read")] {
        let options = EngineArgs { guesses_token_file: Some(file), ..to("tcp:h:1") };
        assert!(complaint(connect(options, Way::Streamed).await).contains(said));
    }
    // The probe streams, too.
    for (raw, said) in
        [("data: {\"choices\": [{\"text\": \"a\"}]}\n\n", "no token_ids"), ("[]\n", "no server-sent event")]
    {
        engine.stream(Streaming { raw: Some(raw.to_owned()), ..Streaming::default() });
        let error = connect(EngineArgs::default(), Way::Streamed).await.unwrap_err();
        assert!(matches!(&error, GatewayError::NoStream { what } if what.contains(said)), "{error}");
    }
    let other = MockEngine::start(of_toy(ToyModel::target(4, 5)), PairPaths::default().tokenizer().unwrap(), 512).await;
    let options = EngineArgs { target_logprobs: 0, ..EngineArgs::default() };
    let said = complaint(options.connect((Way::Streamed, &other.address), &tokenizer(), info(vec![]), 1).await);
    assert!(said.contains("not the one given with --tokenizer"), "{said}");
}
