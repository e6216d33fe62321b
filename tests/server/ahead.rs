//! Drafting ahead over real sockets, on the CPU engine: the text of a seed is the same with and without it.

use std::time::Duration;

use outrider_cloud::{
    edge::{NativeEdge, Retry},
    pair::{self, PairPaths},
    session::Limits,
    target::{
        cpu::CpuTarget,
        engine::{Engine, EngineSettings, GuessPolicy, OwnDraftPolicy},
    },
};
use outrider_codec::frame::{Frame, Request, SamplingParameters};
use outrider_speculation::{
    control::plan::Schedule,
    session::edge::{Ahead, Committed, Mode, Origin, Settings},
};
use outrider_tests::{
    blocks::{self, draft_info},
    proxy::Proxy,
    server::{Edge, Server, generate},
};

const LENGTH: u32 = 24;
const LONG: u32 = 44;
const WAITING: Schedule = Schedule { group: 2, patience: 0.01, lead: 64 };
const RETRY: Retry =
    Retry { attempts: 40, pause: Duration::from_millis(2), longest: Duration::from_millis(20), stall: Duration::MAX };

fn settings(mode: &Mode, temperature: f32, seed: u64) -> Settings {
    let sampling = SamplingParameters { temperature, top_k: 0, top_p: 1.0 };
    Settings { mode: mode.clone(), sampling, seed, max_new_tokens: LENGTH }
}

/// At T = 0, 0.7 and 1, under every plan, with a draft as good as the target and one that is not: token for token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_is_the_same_with_and_without_drafting() {
    let server = blocks::server(4, Limits::default()).await;
    // As good as the target, and one that is right at times.
    let drafts = [blocks::target(), blocks::draft()];
    let plans = [(1, 0.0, 64), (4, 0.0, 64), (3, 0.005, 64), (8, 0.02, 8)];
    let plans = plans.map(|(group, patience, lead)| Some(Schedule { group, patience, lead }));
    let texts = 126;
    let (mut generations, mut in_time, mut resumed) = (0, 0, 0);
    for (number, draft) in drafts.iter().enumerate() {
        let mut calm = NativeEdge::connect(draft, draft_info(draft), &server.url, None, RETRY).await.unwrap();
        let proxy = Proxy::before(&server.url, if number == 1 { 1000 } else { 1 << 20 }, 7).await;
        let mut edge = loop {
            if let Ok(edge) = NativeEdge::connect(draft, draft_info(draft), &proxy.url, None, RETRY).await {
                break edge;
            }
        };
        for seed in 0..texts {
            let temperature = [0.0, 0.7, 1.0][seed as usize % 3];
            let prompt = vec![3, 1 + seed as u32 % 5];
            let alone = settings(&Mode::CloudOnly, temperature, seed);
            let expected = generate(&mut calm, prompt.clone(), &alone).await.0;
            assert_eq!(expected.len(), LENGTH as usize);
            let plans = [plans[seed as usize % 4], None, plans[(seed as usize + 1) % 4], Some(Schedule::AT_ONCE)];
            for (number_of_plan, fixed) in plans.into_iter().enumerate() {
                let branches = [Some(true), None, Some(true), Some(false)][number_of_plan];
                let ahead = Ahead { fixed, branches, ..Ahead::default() };
                let wanted = settings(&Mode::Ahead(ahead), temperature, seed);
                let (text, generated) = generate(&mut edge, prompt.clone(), &wanted).await;
                assert_eq!(text, expected, "draft {number}, {fixed:?}, T = {temperature}, seed {seed}");
                generations += 1;
                in_time += generated.statistics.in_time;
                resumed += generated.resumed;
            }
        }
    }
    let counts = format!("{in_time} guesses in time, {resumed} resumptions");
    println!("{generations} generations, {counts}");
    assert!(in_time > generations && resumed > 200, "{counts}");
}

/// Second candidates come after first ones, for which the passes above leave no time. Over a link that is cut and one
/// that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_change_no_text() {
    // Whatever rows cost: a busy machine's times are not what is tested.
    let target = Engine::start(blocks::slow_target(), 4).unwrap().judging(GuessPolicy::All);
    let server = Server::start_for(target.into(), blocks::target_info(), Limits::default()).await;
    let draft = blocks::draft();
    let mut calm = NativeEdge::connect(&draft, draft_info(&draft), &server.url, None, RETRY).await.unwrap();
    let proxy = Proxy::before(&server.url, 2000, 7).await;
    let mut cut = NativeEdge::connect(&draft, draft_info(&draft), &proxy.url, None, RETRY).await.unwrap();
    let plan = Schedule { group: 1, patience: 0.0, lead: 3 };
    let (mut branched, mut resumed) = (0, 0);
    for seed in 0..90 {
        // On a busy machine second candidates seldom come in time: more texts then.
        if seed >= 18 && branched > 2 && resumed > 4 {
            break;
        }
        let temperature = [0.0, 0.7, 1.0][seed as usize % 3];
        let prompt = vec![3, 1 + seed as u32 % 5];
        let settings = |mode| settings(&mode, temperature, seed);
        let expected = generate(&mut calm, prompt.clone(), &settings(Mode::CloudOnly)).await.0;
        for edge in [&mut calm, &mut cut] {
            // Another temperature makes the draft err.
            let (branches, draft_temperature) = (Some(true), Some(2.0));
            let ahead = Ahead { fixed: Some(plan), branches, draft_temperature, ..Ahead::default() };
            let (text, generated) = generate(edge, prompt.clone(), &settings(Mode::Ahead(ahead))).await;
            assert_eq!(text, expected, "T = {temperature}, seed {seed}");
            branched += generated.statistics.branched;
            resumed += generated.resumed;
        }
    }
    println!("{branched} tokens of branches, {resumed} resumptions");
    assert!(branched > 2 && resumed > 4, "{branched} tokens of branches, {resumed} resumptions");
}

/// The server's own drafts save passes, for edges that guess, whose guesses are then late, and for those that do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_own_drafts_change_no_text() {
    let calm = blocks::server(4, Limits::default()).await;
    for (own, most) in [(blocks::target(), 0.5), (blocks::draft(), 1.0)] {
        let helped = blocks::server_that_drafts(own).await;
        let draft = blocks::draft();
        let mut alone = NativeEdge::connect(&draft, draft_info(&draft), &calm.url, None, RETRY).await.unwrap();
        let mut edge = NativeEdge::connect(&draft, draft_info(&draft), &helped.url, None, RETRY).await.unwrap();
        for seed in 0..9 {
            let temperature = [0.0, 0.7, 1.0][seed as usize % 3];
            let settings = |mode| settings(&mode, temperature, seed);
            let expected = generate(&mut alone, vec![3, 2], &settings(Mode::CloudOnly)).await.0;
            for mode in [Mode::CloudOnly, Mode::Ahead(Ahead { fixed: Some(WAITING), ..Ahead::default() })] {
                let (text, generated) = generate(&mut edge, vec![3, 2], &settings(mode.clone())).await;
                assert_eq!(text, expected, "{mode:?}, T = {temperature}, seed {seed}");
                // Guesses of the edge's that are in time are judged in their place, and its draft is worse.
                let most = if mode == Mode::CloudOnly { most } else { 1.0 };
                let passes = generated.statistics.server_passes as f64;
                assert!(passes <= most * f64::from(LENGTH), "{passes} passes, {mode:?}, T = {temperature}");
            }
        }
        let text = helped.engine.metrics().text();
        let count = |name: &str| {
            let lines = text.lines().filter(|line| line.starts_with(&format!("outrider_{name}_total{{")));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
        };
        assert!(count("own_drafts_right") > 20 && count("own_drafts_judged") >= count("own_drafts_right"), "{text}");
    }
}

/// The server's own draft model reads prompts beside the target; it stops with them when their clients cancel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_own_draft_model_reads_no_cancelled_prompt() {
    const PROMPTS: u32 = 12;
    const LENGTH: u32 = 480;
    // Each run of the draft model has a chunk of 32 tokens.
    const WHOLE: u64 = (PROMPTS * LENGTH / 32) as u64;
    let (edge, pair) = (Edge::load(), PairPaths::default());
    let (tokenizer, target) = (pair.tokenizer().unwrap(), pair.target().unwrap());
    let info = pair::target_info(&target, &tokenizer, 16).unwrap();
    let settings = EngineSettings { batch_rows: 128, ..EngineSettings::default() };
    let drafting = Engine::start_with(CpuTarget::from(pair.draft().unwrap()), settings).unwrap();
    let target = Engine::start(target, 4).unwrap().with_own_draft(drafting.clone(), OwnDraftPolicy::On);
    let server = Server::start_for(target.into(), info, Limits::default()).await;
    let (mut client, _) = server.greeted(&edge.info()).await;
    for generation in 1..=PROMPTS {
        let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
        let tokens = (0..LENGTH).map(|token| (token * 37 + generation * 101) % 4000).collect();
        let request = Request { generation, sampling, seed: 1, max_new_tokens: 1, tokens };
        client.send(Frame::Generate(request).encode()).await;
        // On a busy machine others may be cancelled before anything reads them.
        if generation < PROMPTS {
            client.send(Frame::Cancel { generation }.encode()).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let runs = drafting.load().runs;
    assert!(runs > 0 && runs < WHOLE / 2, "{runs} runs of {WHOLE} for all prompts");
}

/// The page shows the origin of every token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_say_where_they_came_from() {
    let server = blocks::server(4, Limits::default()).await;
    let draft = blocks::target();
    let mut edge = NativeEdge::connect(&draft, draft_info(&draft), &server.url, None, RETRY).await.unwrap();
    let patient =
        Mode::Ahead(Ahead { fixed: Some(Schedule { group: 4, patience: 2.0, ..WAITING }), ..Ahead::default() });
    let mut fewest = LONG as usize;
    // Long enough for the server to learn of it before the end, in one of some texts at least: who else is at work here
    // decides when it does.
    for seed in 1..=12 {
        let settings = Settings { max_new_tokens: LONG, ..settings(&patient, 0.7, seed) };
        let mut origins = Vec::new();
        let told = |committed: &Committed| {
            origins.extend(committed.tokens.iter().map(|token| token.1));
        };
        let generated = edge.generate(vec![3, 1], &settings, told).await.unwrap();
        let accepted = origins.iter().filter(|origin| **origin == Origin::Accepted).count();
        assert_eq!((accepted, origins.len()), (generated.statistics.in_time, LONG as usize));
        assert!(!origins.contains(&Origin::Resampled) && origins.iter().all(|origin| *origin != Origin::Bonus));
        // The same model guesses what the target writes: once the server knows of their patience, passes wait for four.
        let passes = generated.statistics.server_passes;
        fewest = fewest.min(if accepted >= LONG as usize / 2 { passes } else { LONG as usize });
    }
    assert!(fewest < LONG as usize * 3 / 4, "{fewest} passes at least");
}
