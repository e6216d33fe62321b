//! Failures between a gateway and an engine that streams: the edge receives an error, operators can see it, neither
//! side waits.

use super::*;

/// Whatever the engine streams, the edge receives an error, and the session goes on when the engine does.
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
        (raw(&event("{\"token_ids\": [], \"finish_reason\": \"stop\"}")), unusable),
        (raw("data: [DONE]\n\n"), unusable),
        (raw("<html>Welcome to nginx!</html>\n"), unusable),
        (raw(&"x".repeat(80_000)), unusable),
        (raw("data: {\"error\": {\"message\": \"out of memory\", \"code\": 500}}\n\n"), "the engine behind it refuses"),
        (Streaming { step: STEP, ..raw(": not yet\n") }, "the engine behind it takes too long"),
        (Streaming { step: Duration::from_secs(30), ..Streaming::default() }, "the engine behind it takes too long"),
        (raw(&event("{\"token_ids\": [], \"finish_reason\": \"abort\"}")), "the engine behind it cannot be reached"),
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
        // The engine still lists its models.
        let error = server.engine.slot().unwrap().probe().await;
        assert!(error.is_err(), "{mood:?}");
    }
    engine.feel(Mood::Well);
    assert!(server.engine.slot().unwrap().probe().await.is_ok());
}

/// vLLM says 500 in a stream whatever ended it, such as an engine that died and is started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_engine_in_a_text_is_no_end_of_it() {
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 64).await;
    let server = gateway(&engine, options(&[]), guessing(info(vec![]))).await;
    let mut edge = ToyEdge::connect(&server.url, target.clone(), 64).await;
    for error in [
        "{\"error\": {\"message\": \"EngineCore encountered an issue\", \"code\": 500}}",
        "{\"error\": {\"message\": \"slow down\", \"code\": \"rate_limit_exceeded\"}}",
        "{\"object\": \"error\", \"message\": null, \"code\": \"503\"}",
    ] {
        let before = engine.counts().cut.load(Ordering::Relaxed);
        let fails_with = Some(format!("data: {error}\n\n"));
        engine.stream(Streaming { cut_after: 3, fails_with, ..Streaming::default() });
        for start in 0..4 {
            let (ids, _) = edge.generate(&[start, 2], &settings(Mode::CloudOnly, GREEDY, 1, 40)).await;
            assert_eq!(ids, target.greedy(&[start, 2], 40, &[]), "{error}");
        }
        assert!(engine.counts().cut.load(Ordering::Relaxed) > before + 10, "{error}");
    }
    // The same holds for a request that is refused.
    engine.stream(Streaming::default());
    engine.feel(Mood::Refuses(500));
    let before = engine.requests();
    let writes = async { edge.generate(&[1, 2], &settings(Mode::CloudOnly, GREEDY, 1, 40)).await.0 };
    let recovers = async {
        until(|| engine.requests() > before).await;
        engine.feel(Mood::Well);
    };
    assert_eq!(tokio::join!(writes, recovers).0, target.greedy(&[1, 2], 40, &[]));
}

/// A stream may be cut as often as it brings something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_in_the_middle_of_a_round_are_no_failure() {
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 64).await;
    let server = gateway(&engine, options(&[]), guessing(info(vec![]))).await;
    let mut edge = ToyEdge::connect(&server.url, target.clone(), 64).await;
    // One or two tokens each, where a round takes up to four.
    engine.stream(Streaming { cut_after: 1, ..Streaming::default() });
    for start in 0..4 {
        let (ids, _) = edge.generate(&[start, 2], &settings(rounds(SchemeParameters::Coupled, 1), GREEDY, 1, 40)).await;
        assert_eq!(ids, target.greedy(&[start, 2], 40, &[]));
    }
    assert!(engine.counts().cut.load(Ordering::Relaxed) > 40);
}

/// Workers that are away, refuse or do not read delay no text, and operators can see them.
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

/// An edge that cancels or leaves keeps nothing running at the engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_nobody_wants_is_aborted() {
    let target = ToyModel::target(4, 5);
    let engine = MockEngine::start(of_toy(target.clone()), tokenizer(), 2000).await;
    engine.stream(Streaming { step: Duration::from_millis(20), ..Streaming::default() });
    let server = gateway(&engine, options(&[]), guessing(info(vec![]))).await;
    let draft = DraftInfo {
        vocab_size: 4,
        tokenizer_hash: tokenizer().fingerprint(),
        context_length: 64,
        heads: None,
        guess_chance: None,
    };
    let request = |generation| {
        let (sampling, tokens) = (GREEDY, vec![1, 2]);
        Frame::Generate(Request { generation, sampling, seed: 1, max_new_tokens: 1000, tokens }).encode()
    };
    let aborted = || engine.counts().aborted.load(Ordering::Relaxed);
    let (mut client, _) = server.greeted(&draft).await;
    // In the middle of a pass, which takes 20 ms, and before the first token.
    for (generation, waits) in [(1, true), (2, false), (3, true)] {
        let (before, asked) = (aborted(), engine.requests());
        client.send(request(generation)).await;
        if waits {
            // What was still on its way is of a text before.
            while !matches!(client.receive().await, Some(Frame::Tokens(tokens)) if tokens.generation == generation) {}
        } else {
            until(|| engine.requests() > asked).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.send(Frame::Cancel { generation }.encode()).await;
        until(|| aborted() > before).await;
    }
    let begin = async |client: &mut RawClient, generation| {
        client.send(request(generation)).await;
        while !matches!(client.receive().await, Some(Frame::Tokens(tokens)) if tokens.generation == generation) {}
        aborted()
    };
    // One whose connection is lost may come back, but reads nothing meanwhile.
    let (mut lost, _) = server.greeted(&draft).await;
    let before = begin(&mut lost, 1).await;
    drop(lost);
    until(|| aborted() > before).await;
    assert_eq!(count(&server.engine.metrics().text(), "sessions_connected"), 2, "it is kept");
    let before = begin(&mut client, 4).await;
    client.send(Frame::Bye.encode()).await;
    until(|| aborted() > before).await;
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
        [("data: {\"choices\": [{\"text\": \"a\"}]}\n\n", "no token_ids"), ("[]\n", "not a server-sent event")]
    {
        engine.stream(Streaming { raw: Some(raw.to_owned()), ..Streaming::default() });
        let error = connect(EngineArgs::default(), Way::Streamed).await.unwrap_err();
        assert!(matches!(&error, GatewayError::NoStream { what } if what.contains(said)), "{error}");
    }
    // A failure of the engine is its own, and one that passes is no failure.
    let raw = "data: {\"error\": {\"message\": \"EngineCore is dead\", \"code\": 500}}\n\n".to_owned();
    engine.stream(Streaming { raw: Some(raw), ..Streaming::default() });
    let before = engine.requests();
    let said = complaint(connect(EngineArgs::default(), Way::Streamed).await);
    assert!(said.contains("answered 500: EngineCore is dead"), "{said}");
    assert_eq!(engine.requests(), before + 3);
    engine.stream(Streaming::default());
    engine.feel(Mood::Refuses(503));
    let recovers = async {
        until(|| engine.requests() > before + 3).await;
        engine.feel(Mood::Well);
    };
    assert!(tokio::join!(connect(EngineArgs::default(), Way::Streamed), recovers).0.is_ok());
    let other = MockEngine::start(of_toy(ToyModel::target(4, 5)), PairPaths::default().tokenizer().unwrap(), 512).await;
    let options = EngineArgs { target_logprobs: 0, ..EngineArgs::default() };
    let said = complaint(options.connect((Way::Streamed, &other.address), &tokenizer(), info(vec![]), 1).await);
    assert!(said.contains("not the one given with --tokenizer"), "{said}");
}
