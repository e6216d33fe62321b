//! Tests with an engine that is vLLM itself; `docs/gateway.md` has their results.

use super::*;

/// At a real engine with our proposer: a hundred cuts each between edge and gateway, gateway and engine, gateway and
/// proposer, and every greedy text is the one that was written without any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs vLLM with the pair's target and our proposer; OUTRIDER_ENGINE and OUTRIDER_GUESSES_TO say where"]
async fn three_hundred_cuts_lose_nothing_at_a_real_engine() {
    const ENOUGH: usize = 100;
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (engine, worker) = (variable("OUTRIDER_ENGINE"), variable("OUTRIDER_GUESSES_TO"));
    let pair = PairPaths::default();
    let tokenizer = pair.tokenizer().unwrap();
    let info = target_info(&pair.target().unwrap(), &tokenizer, MAX_DRAFT_TOKENS).unwrap();
    let engine_proxy = Proxy::before(engine.trim_start_matches("http://"), 8000, 1).await;
    let worker_proxy = Proxy::before(worker.trim_start_matches("tcp:"), 2000, 2).await;
    let behind = |proxy: &Proxy| proxy.url.trim_start_matches("ws://").trim_end_matches("/session").to_owned();
    let options = |guesses_to: String| EngineArgs {
        target_logprobs: 0,
        target_timeout: 20,
        guesses_to: vec![guesses_to.parse().unwrap()],
        guesses_token_file: Some(variable("OUTRIDER_GUESSES_TOKEN_FILE").into()),
        ..EngineArgs::default()
    };
    let serve = async |options: EngineArgs, address: &str| {
        // The proxy may cut what is asked at the start, too.
        let (gateway, info) = loop {
            match options.connect((Way::Streamed, address), &tokenizer, info.clone(), 2).await {
                Ok(connected) => break connected,
                Err(error) => println!("{error}"),
            }
        };
        Server::start_for(Target::Gateway(gateway), info, Limits::default()).await
    };
    let calm = serve(options(worker.clone()), &engine).await;
    let cut =
        serve(options(format!("tcp:{}", behind(&worker_proxy))), &format!("http://{}", behind(&engine_proxy))).await;
    let edge = Edge::load();
    let mut alone = edge.connect(&calm.url).await;
    let mut texts = Vec::new();
    for text in ["Once upon a time", "The old king had three sons", "The wolf looked at the lamb and said", "Far away"]
    {
        let prompt = edge.prompt(text);
        let (ids, _) = generate(&mut alone, prompt.clone(), &settings(Mode::CloudOnly, GREEDY, 1, 128)).await;
        texts.push((prompt, ids));
    }
    let proxy = Proxy::before(&cut.url, 1500, 3).await;
    let mut session = loop {
        if let Ok(session) = NativeEdge::connect(&edge.model, edge.info(), &proxy.url, None, RETRY).await {
            break session;
        }
    };
    let (mut written, mut resumed, mut right, began) = (0, 0, 0, Instant::now());
    let cuts = || [proxy.cuts(), engine_proxy.cuts(), worker_proxy.cuts()];
    while cuts().iter().any(|cuts| *cuts < ENOUGH) {
        for (number, (prompt, expected)) in texts.iter().enumerate() {
            let wanted = settings(ahead(1 + number % 3, number % 2 == 0), GREEDY, 1, 128);
            let (ids, generated) = generate(&mut session, prompt.clone(), &wanted).await;
            assert_eq!(ids, *expected, "after {:?} cuts", cuts());
            (written, resumed) = (written + 1, resumed + generated.resumed);
            right += generated.statistics.in_time;
        }
        assert!(began.elapsed() < Duration::from_secs(600), "{:?} cuts", cuts());
        println!("{:?} cuts, {written} texts, {resumed} times resumed, {right} guesses right and in time", cuts());
    }
    assert!(resumed > 20 && right > written, "{resumed} resumed, {right} right");
}
