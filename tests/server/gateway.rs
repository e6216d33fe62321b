//! Any engine as the target: through the gateway and two real sockets, in front of an engine whose p is known.

pub(crate) mod mock;
mod streams;
mod toy_edge;

use std::time::Duration;

use self::mock::{MockEngine, Mood, of_model};
use self::toy_edge::{ToyEdge, complaint, info, of_toy, tokenizer};
use outrider_cloud::{
    edge::{NativeEdge, NativeEdgeError},
    pair::{PairPaths, target_info},
    session::Limits,
    target::{
        Target,
        gateway::{EngineArgs, Way},
    },
};
use outrider_codec::{
    frame::{ErrorCode, SamplingParameters},
    scheme::{Code, Downlink, SchemeParameters},
};
use outrider_speculation::{
    judge::Rule,
    session::edge::{Mode, Settings, Speculation},
};
use outrider_tests::{
    goodness::{self, assert_follows, cell, samples_for},
    samplings::{GREEDY, NEUTRAL, SHARPENED},
    server::{Edge, MAX_DRAFT_TOKENS, Server, generate},
    toy::ToyModel,
};

pub(crate) const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 8, lattice_resolution: 100, code: Code::Enumerative };

/// An engine that runs the pair's target, and a gateway in front of it.
async fn pair(options: EngineArgs) -> (MockEngine, Server) {
    let pair = PairPaths::default();
    let (target, tokenizer) = (pair.target().unwrap(), pair.tokenizer().unwrap());
    let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS).unwrap();
    let context_length = info.limits.context_length;
    let engine = MockEngine::start(of_model(target), pair.tokenizer().unwrap(), context_length).await;
    let (gateway, info) = options.connect((Way::Asked, &engine.address), &tokenizer, info, 4).await.unwrap();
    assert_eq!(info.limits.context_length, context_length);
    let server = Server::start_for(Target::Gateway(gateway), info, Limits::default()).await;
    (engine, server)
}

fn settings(scheme: Option<SchemeParameters>, sampling: SamplingParameters, seed: u64, tokens: u32) -> Settings {
    let mode = scheme.map_or(Mode::CloudOnly, |scheme| Mode::Speculative(Speculation::new(scheme, 4)));
    Settings { mode, sampling, seed, max_new_tokens: tokens }
}

/// The same settings with up to `max_in_flight` rounds in flight.
fn with_rounds_in_flight(max_in_flight: u8, settings: Settings) -> Settings {
    let Mode::Speculative(speculation) = settings.mode else { return settings };
    Settings { mode: Mode::Speculative(Speculation { max_in_flight, ..speculation }), ..settings }
}

/// At temperature 0 the text is the model's own of this process, whatever is drafted, and every round is one question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_greedy_text_is_the_models_own() {
    let edge = Edge::load();
    let own = Server::start(1, Limits::default()).await;
    let mut alone = edge.connect(&own.url).await;
    let (engine, server) = pair(EngineArgs::default()).await;
    let mut session = edge.connect(&server.url).await;
    for text in ["Once upon a time", "The wolf looked at the lamb and said"] {
        let prompt = edge.prompt(text);
        let (expected, _) = generate(&mut alone, prompt.clone(), &settings(None, GREEDY, 1, 40)).await;
        let dssd = SchemeParameters::Dssd { downlink: Downlink::Sampled(2) };
        let coupled = SchemeParameters::Coupled;
        for (scheme, in_flight) in
            [(None, 1), (Some(K_SQS), 1), (Some(dssd), 1), (Some(coupled), 1), (Some(K_SQS), 3), (Some(coupled), 3)]
        {
            let before = engine.requests();
            let settings = with_rounds_in_flight(in_flight, settings(scheme, GREEDY, 1, 40));
            let (ids, generated) = generate(&mut session, prompt.clone(), &settings).await;
            assert_eq!(ids, expected, "{text} with {scheme:?}");
            let asked = engine.requests() - before;
            let rounds = if scheme.is_some() { generated.statistics.rounds } else { expected.len().div_ceil(8) };
            assert_eq!(asked, rounds, "{scheme:?}");
        }
    }
    let load = server.engine.load();
    assert!(load.sessions == 1 && load.passes > 0 && load.runs > 0, "{load:?}");
}

/// An engine that writes alone writes ahead. Tokens that were not used are no part of the next text, and it does not
/// write beyond its context.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_engine_writes_ahead_is_of_its_text_alone() {
    let edge = Edge::load();
    let own = Server::start(1, Limits::default()).await;
    let mut alone = edge.connect(&own.url).await;
    let (_engine, server) = pair(EngineArgs::default()).await;
    let mut session = edge.connect(&server.url).await;
    // Eight tokens a question: three of the last are left over.
    let wanted = settings(None, GREEDY, 1, 13);
    for text in ["Once upon a time", "The wolf looked at the lamb and said", "Once upon a time"] {
        let (expected, _) = generate(&mut alone, edge.prompt(text), &wanted).await;
        assert_eq!(generate(&mut session, edge.prompt(text), &wanted).await.0, expected, "{text}");
    }
    let long: Vec<u32> = (0..500).map(|i| 1 + i * 37 % 4000).collect();
    for scheme in [None, Some(K_SQS)] {
        let (expected, _) = generate(&mut alone, long.clone(), &settings(None, GREEDY, 1, 100)).await;
        let (ids, generated) = generate(&mut session, long.clone(), &settings(scheme, GREEDY, 1, 100)).await;
        assert_eq!((&ids, generated.end.name()), (&expected, "context"), "{scheme:?}");
    }
}

const LENGTH: u32 = 3;
const PROMPT: [u32; 2] = [1, 2];

/// Whole sessions have the target's distribution, each way of deciding a round with schemes of each kind. As every
/// round is a question to the engine, errors are seen of four times the size that `tests/laws/thinning.rs` sees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_sessions_are_distributed_as_the_target() {
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 64).await;
    let options = EngineArgs { target_logprobs: 3, ..EngineArgs::default() };
    let (gateway, info) = options.connect((Way::Asked, &engine.address), &tokenizer(), info(vec![]), 2).await.unwrap();
    let server = Server::start_for(Target::Gateway(gateway), info, Limits::default()).await;
    let mut edge = ToyEdge::connect(&server.url, target.draft(1.5), 64).await;

    let k_sqs = SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: Code::Enumerative };
    let dssd = SchemeParameters::Dssd { downlink: Downlink::Sampled(1) };
    let few = SamplingParameters { temperature: 0.7, top_k: 3, top_p: 0.95 };
    for (way, scheme, in_flight, sampling) in [
        ("thinned", Some(k_sqs), 1, NEUTRAL),
        ("thinned", Some(SchemeParameters::Dense), 1, NEUTRAL),
        ("thinned", Some(k_sqs), 3, NEUTRAL),
        ("matched", Some(k_sqs), 1, SHARPENED),
        ("matched", Some(k_sqs), 3, SHARPENED),
        ("matched", Some(dssd), 1, NEUTRAL),
        ("matched", Some(SchemeParameters::Coupled), 1, NEUTRAL),
        ("listed", Some(k_sqs), 1, few),
        ("listed", Some(dssd), 1, few),
        ("listed", Some(dssd), 3, few),
        ("listed", Some(SchemeParameters::Coupled), 1, few),
        ("alone", None, 1, SHARPENED),
    ] {
        let distribution = target.distribution(&PROMPT, LENGTH as usize, &sampling);
        let mut counts = vec![0; distribution.len()];
        let (mut judged, mut accepted, before) = (0, 0, engine.requests());
        let texts = samples_for(counts.len(), 4.0 * goodness::error()).into();
        for seed in 0..texts {
            // Of four drafts a round nothing is left to follow it.
            let mut settings = with_rounds_in_flight(in_flight, settings(scheme, sampling, seed, LENGTH));
            if let (Mode::Speculative(speculation), 2..) = (&mut settings.mode, in_flight) {
                speculation.draft_length = 1;
            }
            let (ids, statistics) = edge.generate(&PROMPT, &settings).await;
            counts[cell(&ids, 4)] += 1;
            judged += statistics.judged;
            accepted += statistics.accepted;
        }
        let asked = (engine.requests() - before) as f64 / texts as f64;
        assert_follows(&counts, &distribution, (scheme, way));
        println!("{way}: {accepted} of {judged} accepted, {asked:.2} questions a text");
        assert!(
            scheme.is_none() || 0 < accepted && accepted < judged,
            "some drafts are rejected, or nothing is tested"
        );
    }
}

async fn refused(session: &mut NativeEdge<'_>, prompt: &[u32], settings: &Settings) -> (ErrorCode, String) {
    match session.generate(prompt.to_vec(), settings, |_| {}).await {
        Err(NativeEdgeError::Refused(error)) => (error.code, error.text),
        other => panic!("{other:?}"),
    }
}

/// Whatever the engine does, the edge receives an error, and the session goes on when the engine does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_fails_in_a_round_is_told_of_and_forgiven() {
    let edge = Edge::load();
    let (engine, server) = pair(EngineArgs { target_timeout: 1, ..EngineArgs::default() }).await;
    let mut session = edge.connect(&server.url).await;
    let prompt = edge.prompt("Once upon a time");
    let wanted = settings(Some(K_SQS), GREEDY, 1, 16);
    let (expected, _) = generate(&mut session, prompt.clone(), &wanted).await;
    for (mood, asked, said) in [
        (Mood::Dies, 3, "the engine behind it cannot be reached"),
        (Mood::Refuses(503), 3, "the engine behind it refuses"),
        (Mood::Refuses(500), 1, "the engine behind it refuses"),
        (Mood::Babbles, 1, "the engine behind it does not answer what it was asked"),
        (Mood::KeepsQuiet, 1, "the engine behind it does not answer what it was asked"),
        (Mood::Dawdles(Duration::from_secs(30)), 1, "the engine behind it takes too long"),
    ] {
        engine.feel(Mood::Well);
        let mut before = None;
        let result = session
            .generate(prompt.clone(), &wanted, |_| {
                // After the first round, so that there is a text to be lost.
                before.get_or_insert_with(|| {
                    engine.feel(mood);
                    engine.requests()
                });
            })
            .await;
        let Err(NativeEdgeError::Refused(error)) = result else { panic!("{mood:?}: {result:?}") };
        assert_eq!(
            (error.code, error.text),
            (ErrorCode::Internal, format!("The server failed: {said}. Try again later."))
        );
        assert_eq!(engine.requests() - before.unwrap(), asked, "{mood:?}");
        engine.feel(Mood::Well);
        assert_eq!(generate(&mut session, prompt.clone(), &wanted).await.0, expected, "after {mood:?}");
    }
    let slot = server.engine.slot().unwrap();
    assert!(slot.probe().await.is_ok());
    // The engine still lists its models.
    for status in [404, 500] {
        engine.feel(Mood::Refuses(status));
        assert!(slot.probe().await.unwrap_err().to_string().contains(&format!("answered {status}")));
    }
}

/// The engine's model may have more tokens than its tokenizer, and so more than the session knows of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_outside_the_vocabulary_is_no_answer() {
    let engine = MockEngine::start(of_toy(ToyModel::target(5, 5)), tokenizer(), 64).await;
    let options = EngineArgs { target_logprobs: 3, ..EngineArgs::default() };
    let (gateway, info) = options.connect((Way::Asked, &engine.address), &tokenizer(), info(vec![]), 2).await.unwrap();
    let server = Server::start_for(Target::Gateway(gateway), info, Limits::default()).await;
    let mut edge = ToyEdge::connect(&server.url, ToyModel::target(4, 5), 64).await;
    let k_sqs = SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: Code::Enumerative };
    let cool = SamplingParameters { temperature: 0.7, ..NEUTRAL };
    let few = SamplingParameters { top_k: 3, ..NEUTRAL };
    for (scheme, sampling) in [(Some(k_sqs), NEUTRAL), (Some(k_sqs), cool), (Some(k_sqs), few), (None, cool)] {
        let said = edge.refusal(&PROMPT, &settings(scheme, sampling, 1, 60)).await;
        let expected = "The server failed: the engine behind it does not answer what it was asked. Try again later.";
        assert_eq!(said, expected, "{scheme:?} {sampling:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_exact_is_refused_with_a_way_out() {
    let edge = Edge::load();
    let (_engine, server) = pair(EngineArgs::default()).await;
    let mut session = edge.connect(&server.url).await;
    let prompt = edge.prompt("Once upon a time");
    let speculation = Speculation::new(K_SQS, 4);
    let lossy = Speculation { rule: Rule::new("lossy", 0.3).unwrap(), ..speculation.clone() };
    let evidence = Speculation { explain: true, ..speculation };
    for (speculation, sampling, advice) in
        [(lossy, GREEDY, "use the exact rule"), (evidence.clone(), NEUTRAL, "use temperature 0 or top-k from 1 to 20")]
    {
        let wanted = Settings { mode: Mode::Speculative(speculation), ..settings(None, sampling, 1, 16) };
        let (code, text) = refused(&mut session, &prompt, &wanted).await;
        assert_eq!(code, ErrorCode::InvalidParameters);
        assert!(text.contains("whole distribution") && text.contains(advice), "{text}");
    }
    let wanted = Settings { mode: Mode::Speculative(evidence), ..settings(None, GREEDY, 1, 16) };
    assert!(!generate(&mut session, prompt, &wanted).await.0.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_cannot_be_the_target_is_refused_at_the_start() {
    let toy = || of_toy(ToyModel::target(4, 5));
    let connect = async |address: &str, options: EngineArgs| {
        options.connect((Way::Asked, address), &tokenizer(), info(vec![]), 1).await
    };
    let options = EngineArgs::default;
    for address in ["somewhere", "ftp://engine", "http://engine/?x=1"] {
        assert!(complaint(connect(address, options()).await).contains("openai:http://HOST:PORT"), "{address}");
    }
    let said = complaint(connect("http://127.0.0.1:1", options()).await);
    assert!(said.contains("http://127.0.0.1:1/v1 cannot be reached") && said.contains("refused"), "{said}");

    let engine = MockEngine::start(toy(), tokenizer(), 64).await;
    for address in [engine.address.clone(), format!("{}/", engine.address), format!("{}/v1/", engine.address)] {
        assert!(connect(&address, options()).await.is_ok(), "{address}");
    }
    engine.feel(Mood::KeepsQuiet);
    assert!(complaint(connect(&engine.address, options()).await).contains("--target-logprobs 0"));
    let without = || EngineArgs { target_logprobs: 0, ..options() };
    let (gateway, _) = connect(&engine.address, without()).await.unwrap();
    let said = complaint(gateway.survey(&[0, 1, 2]).await);
    assert!(said.contains("--target-logprobs 1 or more") && said.contains("but not checked"), "{said}");
    engine.feel(Mood::Refuses(400));
    assert!(complaint(connect(&engine.address, options()).await).contains("answered 400: {\"error\": \"not today\"}"));

    let other = PairPaths::default().tokenizer().unwrap();
    let engine = MockEngine::start(toy(), other, 512).await;
    // By probabilities, by ids, and by their number.
    for (mood, options, said) in [
        (Mood::Well, options(), ", the file as"),
        (Mood::Well, without(), ", the file as"),
        (Mood::KeepsQuiet, without(), " tokens, the file as"),
    ] {
        engine.feel(mood);
        let complaint = complaint(connect(&engine.address, options).await);
        assert!(complaint.contains("not the one given with --tokenizer") && complaint.contains(said), "{complaint}");
    }

    let engine = MockEngine::start_with(toy(), tokenizer(), 64, Some("secret"), vec!["known", "other"]).await;
    let named = |name: &str| EngineArgs { target_model: Some(name.to_owned()), ..options() };
    assert!(
        complaint(connect(&engine.address, options()).await).contains("known, other: choose one with --target-model")
    );
    assert!(complaint(connect(&engine.address, named("third")).await).contains("known, other"));
    assert!(complaint(connect(&engine.address, named("known")).await).contains("requires a key"));
    let adapted = MockEngine::start_with(toy(), tokenizer(), 64, None, vec!["base/adapter", "base"]).await;
    let (gateway, info) = connect(&adapted.address, named("base/adapter")).await.unwrap();
    assert_eq!((gateway.model(), info.limits.context_length), ("base/adapter", 64));
    let orphan = MockEngine::start_with(toy(), tokenizer(), 64, None, vec!["base/adapter"]).await;
    assert!(complaint(connect(&orphan.address, options()).await).contains("max_model_len"));
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("engine-key");
    std::fs::write(&file, "secret\n").unwrap();
    let keyed = EngineArgs { target_key_file: Some(file.clone()), ..named("known") };
    assert!(connect(&engine.address, keyed.clone()).await.is_ok());
    let lost = EngineArgs { target_key_file: Some(file.with_file_name("none")), ..keyed };
    assert!(complaint(connect(&engine.address, lost).await).contains("cannot be read"));
}

/// Says how a real engine with the pair's target does; `docs/gateway.md` has what it said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an engine that serves the pair's target, at the address in OUTRIDER_ENGINE"]
async fn a_real_engine_is_the_target() {
    let address = std::env::var("OUTRIDER_ENGINE").unwrap();
    let pair = PairPaths::default();
    let tokenizer = pair.tokenizer().unwrap();
    let info = target_info(&pair.target().unwrap(), &tokenizer, MAX_DRAFT_TOKENS).unwrap();
    let (gateway, info) = EngineArgs::default().connect((Way::Asked, &address), &tokenizer, info, 1).await.unwrap();
    let server = Server::start_for(Target::Gateway(gateway), info, Limits::default()).await;
    let edge = Edge::load();
    let mut session = edge.connect(&server.url).await;
    let usual = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 };
    let mut own = Vec::new();
    for (way, scheme, sampling) in [
        ("T = 0, alone", None, GREEDY),
        ("T = 0, k-sqs", Some(K_SQS), GREEDY),
        ("T = 1, dense", Some(SchemeParameters::Dense), NEUTRAL),
        ("T = 1, coupled", Some(SchemeParameters::Coupled), NEUTRAL),
        ("T = 0.7, top-p 0.95, k-sqs", Some(K_SQS), usual),
        ("the same and top-k 20", Some(K_SQS), SamplingParameters { top_k: 20, ..usual }),
    ] {
        let (mut tokens, mut judged, mut accepted, mut same) = (0, 0, 0, 0);
        let (before, began) = (server.engine.load().runs, std::time::Instant::now());
        for (seed, text) in ["Once upon a time", "The old king had three sons"].iter().enumerate() {
            let wanted = settings(scheme, sampling, seed as u64, 48);
            let (ids, generated) = generate(&mut session, edge.prompt(text), &wanted).await;
            tokens += ids.len();
            judged += generated.statistics.judged;
            accepted += generated.statistics.accepted;
            if sampling == GREEDY && scheme.is_none() {
                own.push(ids);
            } else if sampling == GREEDY {
                same += ids.iter().zip(&own[seed]).take_while(|(a, b)| a == b).count();
            }
        }
        let rate = tokens as f64 / began.elapsed().as_secs_f64();
        let asked = (server.engine.load().runs - before) as f64 / tokens as f64;
        println!(
            "{way}: {tokens} tokens, {same} as alone, {accepted} of {judged} accepted, {asked:.2} questions and {rate:.1} tokens/s"
        );
    }
}
