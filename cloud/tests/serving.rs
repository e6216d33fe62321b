//! `outrider serve` and its clients as processes: with an engine as the target, and at shutdown.
//!
//! The engine is a mock with the pair's target, so that a test controls how long a pass takes.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

#[path = "../../tests/server/gateway/mock.rs"]
#[expect(dead_code, reason = "what other tests ask of it, too")]
mod mock;
#[expect(dead_code, reason = "other tests use the rest")]
mod process;

use std::{
    sync::{atomic::Ordering, mpsc},
    thread,
    time::{Duration, Instant},
};

use futures_util::{SinkExt, Stream, StreamExt};
use mock::{
    MockEngine, Mood, of_model,
    proposer::{Manner, Proposer},
    served::Streaming,
};
use outrider_cloud::{
    edge::{NativeEdge, Retry},
    pair::{self, PairPaths},
};
use outrider_codec::{
    frame::{Draft, ErrorCode, Frame, Hello, Prompt, Request, SamplingParameters},
    scheme::{Code, SchemeParameters},
};
use outrider_speculation::session::edge::{Mode, Settings, Speculation};
use outrider_testing::process::Server;
use process::{complaint, outrider, start, start_at, stdout};
use serde_json::Value;
use tokio::time;
use tokio_tungstenite::tungstenite::{self, Message};

const TOKENIZER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pair/tokenizer.json");
const PROMPT: &str = "Once upon a time";
const TOKENS: u32 = 48;
const GREEDY: SamplingParameters = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 8, lattice_resolution: 100, code: Code::Enumerative };

/// Starts a mock engine with the pair's target.
async fn engine() -> MockEngine {
    let pair = PairPaths::default();
    let target = pair.target().unwrap();
    let context_length = target.config().context_length as u32;
    MockEngine::start(of_model(target), pair.tokenizer().unwrap(), context_length).await
}

/// Arguments of `outrider serve` for an engine at this address.
fn target(address: &str) -> [String; 4] {
    ["--target", &format!("openai:{address}"), "--tokenizer", TOKENIZER].map(str::to_owned)
}

fn server(engine: &MockEngine) -> Server {
    start(&target(&engine.address).each_ref().map(String::as_str))
}

/// Acceptance rate that `outrider check` reports, and the report.
fn checked(options: &[&str], temperature: &str) -> (f64, Value) {
    let arguments = ["check", "--json", "--tokens", "48", "--temperature", temperature];
    let report: Value = serde_json::from_str(&stdout(&outrider(&[&arguments, options].concat()))).unwrap();
    (report["measured"]["acceptanceRate"].as_f64().unwrap(), report)
}

/// An engine lists a few probabilities at each position: at temperature 0 they decide the choice, and otherwise they
/// bound the acceptance rate from below. What judged guesses add to its passes is not known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_is_checked_against_an_engine() {
    let engine = engine().await;
    for (kind, temperature) in [("openai", "0"), ("vllm", "0.7")] {
        let address = format!("{kind}:{}", engine.address);
        let elsewhere = ["--target", &address, "--tokenizer", TOKENIZER];
        let (here, _) = checked(&[], temperature);
        let (there, report) = checked(&elsewhere, temperature);
        // The engine says nothing of the first token, whose distribution it has no list for.
        assert!(there <= here + 0.03 && there > here - 0.15, "{there} there, {here} here");
        assert_eq!((&report["target"]["name"], &report["measured"]["isLeast"]), (&"known".into(), &true.into()));
        assert!(report["measured"]["rowPasses"].as_array().unwrap().is_empty(), "{report}");
        assert!(report["passMs"].as_f64().unwrap() > 0.0, "{report}");
        let text = stdout(&outrider(&[&["check", "--tokens", "48"], &elsewhere[..]].concat()));
        assert!(text.contains("what judged guesses add cannot be measured from here"), "{text}");
    }
    let address = format!("vllm:{}", engine.address);
    let line = complaint(&["check", "--target", &address]);
    assert!(line.contains("needs --tokenizer"), "{line}");
}

/// Greedy text that `outrider generate` prints as ids.
fn greedy(options: &[&str]) -> Vec<u64> {
    let tokens = TOKENS.to_string();
    let arguments = ["generate", "--json", "--temperature", "0", "--max-tokens", &tokens, PROMPT];
    let run: Value = serde_json::from_str(&stdout(&outrider(&[&arguments, options].concat()))).unwrap();
    run["tokenIds"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_users_guesses_reach_the_engines_workers() {
    let engine = engine().await;
    let own = greedy(&["--local", "--cloud-only"]);
    let path = std::env::temp_dir().join(format!("outrider-{}-guesses.sock", std::process::id()));
    let proposer = Proposer::on_socket(path, Manner::default());
    let guesses = Some(proposer.store.clone());
    engine.stream(Streaming { step: Duration::from_millis(4), guesses, ..Streaming::default() });
    let target = format!("vllm:{}", engine.address);
    let server = start(&["--target", &target, "--tokenizer", TOKENIZER, "--guesses-to", &proposer.address]);
    for options in [&[][..], &["--scheme", "ahead"], &["--cloud-only"], &["--scheme", "k-sqs"]] {
        assert_eq!(greedy(&[&["--server", &server.url], options].concat()), own, "{options:?}");
    }
    assert!(proposer.store.messages.load(Ordering::Relaxed) > 10);
}

/// Last line that a failing run writes to standard error; lines of the log may precede it.
fn last_words(arguments: &[&str]) -> String {
    let output = outrider(arguments);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap().lines().last().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_reads_why_an_engine_cannot_be_the_target() {
    let serve = |address: &str, flags: &[&str]| -> Vec<String> {
        let listen = ["serve", "--listen", "127.0.0.1:0"].map(str::to_owned);
        listen.into_iter().chain(target(address)).chain(flags.iter().map(|&flag| flag.to_owned())).collect()
    };
    let words = |arguments: &[String]| last_words(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    // The discard port, where nothing listens.
    let line = words(&serve("http://127.0.0.1:9", &[]));
    assert!(line.contains("the engine at http://127.0.0.1:9/v1 cannot be reached"), "{line}");
    assert!(line.contains("is it running?"), "{line}");

    let engine = engine().await;
    engine.feel(Mood::KeepsQuiet);
    let line = words(&serve(&engine.address, &[]));
    assert!(line.contains("does not serve prompt log-probabilities") && line.contains("--target-logprobs 0"), "{line}");
    // The advice in the sentence works.
    let flags = target(&engine.address);
    let flags = flags.iter().map(String::as_str).chain(["--target-logprobs", "0"]);
    let server = start(&flags.collect::<Vec<_>>());
    assert_eq!(greedy(&["--server", &server.url]), greedy(&["--local", "--cloud-only"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_reads_what_cannot_be_served_and_when_the_engine_fails() {
    let engine = engine().await;
    let server = server(&engine);
    let generate = |options: &[&str]| complaint(&[&["generate", "--server", &server.url], options, &[PROMPT]].concat());
    let line = generate(&["--rule", "lossy"]);
    let (rule, way_out) = ("The acceptance rule lossy needs the target's whole distribution", "use the exact rule.");
    assert!(line.contains("invalid-parameters") && line.contains(rule) && line.contains(way_out), "{line}");
    let line = generate(&["--explain"]);
    assert!(line.contains("invalid-parameters") && line.contains("use temperature 0 or top-k from 1 to 20"), "{line}");
    for (mood, said) in [
        (Mood::Dies, "the engine behind it cannot be reached"),
        (Mood::Refuses(500), "the engine behind it refuses"),
        (Mood::Babbles, "the engine behind it does not answer what it was asked"),
    ] {
        engine.feel(mood);
        let line = generate(&[]);
        let expected =
            format!("the server refused the request (internal): The server failed: {said}. Try again later.");
        assert!(line.contains(&expected), "{mood:?}: {line}");
    }
    engine.feel(Mood::Well);
    assert_eq!(greedy(&["--server", &server.url]).len(), TOKENS as usize);
}

type Answer = Option<Result<Message, tungstenite::Error>>;

/// Receives the next frame; `None` when the server has closed.
async fn receive(socket: &mut (impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin)) -> Option<Frame> {
    let message: Answer = time::timeout(Duration::from_secs(20), socket.next()).await.expect("the server answers");
    match message {
        Some(Ok(Message::Binary(bytes))) => Some(Frame::decode(&bytes).unwrap()),
        _ => None,
    }
}

/// Stops the server while a round is under way at the engine, which takes this long for it. Returns the frames that its
/// client receives from then on, the time until the last of them, and the server.
async fn stopped_in_a_round(pass: Duration) -> (Vec<Frame>, Duration, Server) {
    let engine = engine().await;
    let server = server(&engine);
    let pair = PairPaths::default();
    let info = pair::draft_info(&pair.draft().unwrap(), &pair.tokenizer().unwrap()).unwrap();
    let (mut socket, _) = tokio_tungstenite::connect_async(&server.url).await.unwrap();
    let request = Request { generation: 1, sampling: GREEDY, seed: 1, max_new_tokens: 8, tokens: vec![0, 5] };
    let hello = Frame::Hello(Hello { vocab_size: info.vocab_size, tokenizer_hash: info.tokenizer_hash });
    let draft = Frame::Draft(Draft { generation: 1, ..Draft::default() });
    engine.feel(Mood::Dawdles(pass));
    let asked = engine.requests();
    for frame in [hello, Frame::Prompt(Prompt::exact(K_SQS, request)), draft] {
        socket.send(Message::Binary(frame.encode().into())).await.unwrap();
    }
    assert!(matches!(receive(&mut socket).await, Some(Frame::Welcome(_))));
    while engine.requests() == asked {
        time::sleep(Duration::from_millis(5)).await;
    }
    server.terminate();
    let start = Instant::now();
    let mut frames = Vec::new();
    while let Some(frame) = receive(&mut socket).await {
        frames.push(frame);
    }
    (frames, start.elapsed(), server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_finishes_the_round_and_says_so() {
    let pass = Duration::from_millis(1500);
    let (frames, took, mut server) = stopped_in_a_round(pass).await;
    let [Frame::Verdict(verdict), Frame::Error(error)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((verdict.generation, verdict.round), (1, 0));
    assert_eq!((error.generation, error.code), (0, ErrorCode::ShuttingDown));
    assert_eq!(error.text, "The server is stopping; reconnect.");
    assert!(took > pass - Duration::from_millis(500) && took < pass + Duration::from_secs(2), "{took:?}");
    // The server has no session left to wait for.
    assert!(server.ended_within(Duration::from_secs(2)).expect("it ends").success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_does_not_wait_for_a_round_that_never_ends() {
    let (frames, took, mut server) = stopped_in_a_round(Duration::from_secs(60)).await;
    assert_eq!(frames, []);
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(server.ended_within(Duration::from_secs(2)).expect("it ends").success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_at_the_server_that_comes_after() {
    let engine = engine().await;
    let own = greedy(&["--local", "--cloud-only"]);
    let first = server(&engine);
    let pair = PairPaths::default();
    let (draft, tokenizer) = (pair.draft().unwrap(), pair.tokenizer().unwrap());
    let info = pair::draft_info(&draft, &tokenizer).unwrap();
    let mut edge = NativeEdge::connect(&draft, info, &first.url, None, Retry::default()).await.unwrap();

    let (stop, stopping) = mpsc::channel();
    let flags = target(&engine.address);
    let operator = thread::spawn(move || {
        let mut first = first;
        stopping.recv().unwrap();
        first.terminate();
        let status = first.ended_within(Duration::from_secs(5)).expect("it ends");
        assert!(status.success());
        start_at(&first.address.clone(), &flags.each_ref().map(String::as_str))
    });
    // Slow enough to be stopped in the middle.
    engine.feel(Mood::Dawdles(Duration::from_millis(50)));
    let mode = Mode::Speculative(Speculation::new(K_SQS, 4));
    let settings = Settings { mode, sampling: GREEDY, seed: 1, max_new_tokens: TOKENS };
    let prompt = tokenizer.encode_prompt(draft.config().first_token(), PROMPT).unwrap();
    let (mut ids, mut before_the_stop) = (Vec::new(), None);
    let generated = edge
        .generate(prompt, &settings, |committed| {
            ids.extend(committed.tokens.iter().map(|&(id, _)| u64::from(id)));
            if before_the_stop.is_none() && ids.len() > 8 {
                before_the_stop = Some(ids.len());
                stop.send(()).unwrap();
            }
        })
        .await
        .unwrap();
    let _second = operator.join().unwrap();
    assert_eq!((ids, generated.resumed), (own, 1));
    assert!(before_the_stop.is_some_and(|length| length < TOKENS as usize / 2));
}
