//! Several models on one server, over real sockets: each has a name, a target and KV caches of its own, and all share
//! the slots.

use std::time::Duration;

use futures_util::future::{join, join_all};
use outrider_cloud::{
    app::PairFile,
    edge::{NativeEdge, Retry},
    http::{Models, Served},
    pair::{PairPaths, target_info},
    target::{
        cpu::CpuTarget,
        engine::{Engine, EngineSettings},
    },
};
use outrider_codec::{
    frame::{ErrorCode, Frame, Request, Resume, SamplingParameters},
    scheme::{Code, SchemeParameters},
};
use outrider_models::Model;
use outrider_speculation::session::edge::{Ahead, Mode, Settings, Speculation};
use outrider_tests::{
    http,
    proxy::Proxy,
    samplings::GREEDY,
    server::{Edge, MAX_DRAFT_TOKENS, Options, RawClient, Server, generate, hello, served},
};
use serde_json::{Value, json};
use tokio::time;

use crate::metric_rules::violations;

const PROMPT: &str = "Once upon a time";
const TOKENS: u32 = 48;
const NAMES: [&str; 2] = ["big", "small"];
const SCHEME: SchemeParameters =
    SchemeParameters::KSqs { support_size: 8, lattice_resolution: 100, code: Code::Enumerative };

/// The pair's target as "big", its draft model as "small".
fn model(name: &str) -> Model {
    let pair = PairPaths::default();
    if name == "big" { pair.target().unwrap() } else { pair.draft().unwrap() }
}

fn started(name: &str, settings: EngineSettings, options: &Options) -> Served {
    let model = model(name);
    let info = target_info(&model, &PairPaths::default().tokenizer().unwrap(), MAX_DRAFT_TOKENS).unwrap();
    let engine = Engine::start_with(CpuTarget::from(model), settings).unwrap();
    served(name, engine.into(), info, options)
}

fn slots(sessions: usize) -> EngineSettings {
    EngineSettings { sessions, ..EngineSettings::default() }
}

/// A server of both models, each with these settings.
fn both(settings: [EngineSettings; 2]) -> Server {
    let options = Options::default();
    let [big, mut small] = [0, 1].map(|index| started(NAMES[index], settings[index], &options));
    small.draft = Some(PairFile::weights(b"the small model's draft".to_vec()));
    Server::serve_models(Models::new(big, vec![small]), options)
}

fn url(server: &Server, name: &str) -> String {
    format!("{}?model={name}", server.url)
}

async fn raw(url: &str) -> RawClient {
    tokio_tungstenite::connect_async(url).await.unwrap().0.into()
}

/// A session with a model, after the handshake.
async fn greeted(server: &Server, name: &str, edge: &Edge) -> RawClient {
    let mut client = raw(&url(server, name)).await;
    client.send(hello(&edge.info())).await;
    assert!(matches!(client.receive().await, Some(Frame::Welcome(_))));
    client
}

/// Greedy text at temperature 0, or a seeded one.
async fn ids(url: &str, edge: &Edge, mode: Mode, temperature: f32) -> Vec<u32> {
    let mut session = edge.connect(url).await;
    let sampling = SamplingParameters { temperature, ..GREEDY };
    let settings = Settings { mode, sampling, seed: 7, max_new_tokens: TOKENS };
    let (ids, _) = generate(&mut session, edge.prompt(PROMPT), &settings).await;
    session.close().await;
    ids
}

/// Text that the API writes, with the name of the model that it reports.
async fn completion(server: &Server, name: Option<&str>, temperature: f32) -> (Value, Value) {
    let mut body = json!({ "prompt": PROMPT, "max_tokens": TOKENS, "temperature": temperature, "seed": 7 });
    if let Some(name) = name {
        body["model"] = json!(name);
    }
    let answer = http::post(server.address(), "/v1/completions", &[], &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    (answer["choices"][0]["text"].clone(), answer["model"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_model_writes_what_it_writes_alone_at_the_same_time() {
    let edge = Edge::load();
    let mut alone = Vec::new();
    for name in NAMES {
        let options = Options::default();
        let server = Server::serve_models(started(name, slots(4), &options).into(), options);
        let greedy = ids(&server.url, &edge, Mode::CloudOnly, 0.0).await;
        let seeded = ids(&server.url, &edge, Mode::CloudOnly, 1.0).await;
        alone.push([greedy, seeded]);
    }
    assert!(alone[0][0] != alone[1][0] && alone[0][1] != alone[1][1], "the models differ");

    let server = both([slots(16); 2]);
    let speculative = Mode::Speculative(Speculation::new(SCHEME, 4));
    let sessions = NAMES.iter().zip(&alone).flat_map(|(name, [greedy, seeded])| {
        let texts = [
            (Mode::CloudOnly, 0.0, greedy),
            (speculative.clone(), 0.0, greedy),
            (Mode::CloudOnly, 1.0, seeded),
            (Mode::Ahead(Ahead::default()), 1.0, seeded),
        ];
        texts.map(|(mode, temperature, expected)| {
            let (server, edge) = (&server, &edge);
            // Boxed, because all of them together are more than a thread's stack holds.
            Box::pin(
                async move { assert_eq!(ids(&url(server, name), edge, mode, temperature).await, *expected, "{name}") },
            )
        })
    });
    let requests = NAMES.iter().zip(&alone).flat_map(|(name, texts)| {
        let (server, edge) = (&server, &edge);
        [0, 1].map(|index| async move {
            let (text, shown) = completion(server, Some(name), [0.0, 1.0][index]).await;
            assert_eq!((text, shown), (json!(edge.tokenizer.decode(&texts[index])), json!(name)));
        })
    });
    join(join_all(sessions), join_all(requests)).await;

    // The first one is the default.
    assert_eq!(ids(&server.url, &edge, Mode::CloudOnly, 0.0).await, alone[0][0]);
    let text = edge.tokenizer.decode(&alone[0][0]);
    assert_eq!(completion(&server, None, 0.0).await, (json!(text), json!("big")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_are_found_by_their_names() {
    let server = both([slots(4); 2]);
    let get = async |path: &str| {
        let answer = http::get(server.address(), path, &[]).await;
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap_or(json!(answer.body)))
    };
    let ids =
        |list: &Value| list["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&get("/v1/models").await.1), NAMES);
    assert_eq!(get("/v1/models/small").await.1["id"], "small");
    for (query, name) in [("", "big"), ("?model=big", "big"), ("?a=b&model=sm%61ll", "small"), ("?a=%ff", "big")] {
        let (status, info) = get(&format!("/v1/info{query}")).await;
        assert_eq!((status, &info["models"]["target"]), (200, &json!(name)), "{query}");
        let (answer, draft) = http::get_bytes(server.address(), &format!("/pair/draft{query}"), &[]).await;
        assert_eq!((answer.status, draft == b"the small model's draft"), (200, name == "small"), "{query}");
        for file in ["tokenizer.json", "chat.json", "heads.safetensors"] {
            let (answer, _) = http::get_bytes(server.address(), &format!("/pair/{file}{query}"), &[]).await;
            assert_eq!(answer.status, 200, "{file}");
        }
    }
    // An unknown name is refused everywhere, with those that there are.
    let error = json!({
        "message": "There is no model \"huge\" here; this server has \"big\", \"small\".",
        "type": "invalid_request_error", "param": "model", "code": "model_not_found",
    });
    let pair =
        ["draft", "tokenizer.json", "chat.json", "heads.safetensors"].map(|file| format!("/pair/{file}?model=huge"));
    for path in pair.iter().map(String::as_str).chain(["/v1/info?model=huge", "/v1/models/huge"]) {
        let (status, mut body) = get(path).await;
        body["error"].as_object_mut().unwrap().remove("request_id");
        assert_eq!((status, &body["error"]), (404, &error), "{path}");
    }
    for (path, prompt) in [
        ("/v1/completions", json!({ "prompt": PROMPT, "model": "huge" })),
        ("/v1/chat/completions", json!({ "messages": [{ "role": "user", "content": "Hi" }], "model": "huge" })),
    ] {
        let answer = http::post(server.address(), path, &[], &prompt.to_string()).await;
        let mut body: Value = serde_json::from_str(&answer.body).unwrap();
        body["error"].as_object_mut().unwrap().remove("request_id");
        assert_eq!((answer.status, &body["error"]), (404, &error), "{path}");
    }
    let refusal = raw(&url(&server, "huge")).await.expect_refusal(ErrorCode::InvalidParameters).await;
    assert_eq!(json!(refusal), error["message"]);
    let long = format!("{}?model={}", server.url, "h".repeat(4000));
    let refusal = raw(&long).await.expect_refusal(ErrorCode::InvalidParameters).await;
    assert!(refusal.len() < 200 && refusal.ends_with("\"small\"."), "{refusal}");
}

/// A session that has lost its connection goes on with its own model, at whichever address its client returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_resumed_with_its_own_model() {
    let edge = Edge::load();
    let server = both([slots(8); 2]);
    let expected = ids(&url(&server, "small"), &edge, Mode::CloudOnly, 1.0).await;
    let proxy = Proxy::before(&server.url, 900, 7).await;
    let retry = Retry {
        attempts: 40,
        pause: Duration::from_millis(2),
        longest: Duration::from_millis(20),
        stall: Duration::MAX,
    };
    let address = format!("{}?model=small", proxy.url);
    let mut session = NativeEdge::connect(&edge.model, edge.info(), &address, None, retry).await.unwrap();
    let mut resumed = 0;
    let sampling = SamplingParameters { temperature: 1.0, ..GREEDY };
    let settings = Settings { mode: Mode::CloudOnly, sampling, seed: 7, max_new_tokens: TOKENS };
    while resumed == 0 {
        let (ids, generated) = generate(&mut session, edge.prompt(PROMPT), &settings).await;
        assert_eq!(ids, expected, "after {} cuts", proxy.cuts());
        resumed += generated.resumed;
    }

    // The ticket decides, not the name in the address.
    let mut first = raw(&url(&server, "small")).await;
    first.send(hello(&edge.info())).await;
    let Some(Frame::Welcome(welcome)) = first.receive().await else { panic!("no welcome") };
    let tokens = edge.prompt(PROMPT);
    let length = tokens.len() as u32;
    let request = Request { generation: 1, sampling, seed: 7, max_new_tokens: TOKENS, tokens };
    first.send(Frame::Generate(request).encode()).await;
    assert!(matches!(first.receive().await, Some(Frame::Tokens(_))));
    drop(first);
    for (attempt, address) in [(1, url(&server, "big")), (2, server.url.clone())] {
        let mut again = raw(&address).await;
        again.send(Frame::Resume(Resume { ticket: welcome.ticket, attempt, generation: 1, length }).encode()).await;
        assert_eq!(again.receive().await, Some(Frame::Welcome(welcome.clone())), "{address}");
        let mut text = Vec::new();
        loop {
            let Some(Frame::Tokens(tokens)) = again.receive().await else { panic!("no tokens") };
            text.extend(tokens.ids);
            if tokens.finish.is_some() {
                break;
            }
        }
        assert_eq!(text, expected, "{address}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_models_share_the_slots_and_none_the_caches() {
    let edge = Edge::load();
    let memory = |name: &str| model(name).new_cache().bytes_for(64) as u64;
    let settings = |name: &str, turn, sessions| EngineSettings {
        kv_memory: memory(name).to_string().parse().unwrap(),
        turn,
        ..slots(sessions)
    };
    // A cache of the big model stays for the whole test, unless its session ends.
    let server = both([settings("big", Duration::from_secs(600), 4), settings("small", Duration::ZERO, 64)]);
    let prompt = |generation| {
        let tokens = (0..48).map(|token| token * 37 % 4000).collect();
        Frame::Generate(Request { generation, sampling: GREEDY, seed: 1, max_new_tokens: 2, tokens }).encode()
    };
    let is_tokens = |frame: Option<Frame>| matches!(frame, Some(Frame::Tokens(_)));
    let mut holds = greeted(&server, "big", &edge).await;
    holds.send(prompt(1)).await;
    assert!(is_tokens(holds.receive().await) && is_tokens(holds.receive().await));
    let mut waits = greeted(&server, "big", &edge).await;
    waits.send(prompt(1)).await;
    assert!(time::timeout(Duration::from_millis(300), waits.receive()).await.is_err(), "there is no memory for it");
    for _ in 0..3 {
        let mut small = greeted(&server, "small", &edge).await;
        small.send(prompt(1)).await;
        assert!(is_tokens(small.receive().await) && is_tokens(small.receive().await));
        small.send(Frame::Bye.encode()).await;
        assert_eq!(small.receive().await, None);
    }

    // Four slots, whichever model has them.
    let health = async || -> Value {
        let answer = http::get(server.address(), "/healthz", &[]).await;
        serde_json::from_str(&answer.body).unwrap()
    };
    while server.engine.load().sessions > 2 {
        time::sleep(Duration::from_millis(5)).await;
    }
    let mut others = Vec::new();
    while others.len() < 2 {
        others.push(greeted(&server, "small", &edge).await);
    }
    let limit = memory("big") + memory("small");
    let load = health().await;
    assert_eq!(
        [&load["sessions"], &load["sessionLimit"], &load["kvLimitBytes"]],
        [&json!(4), &json!(4), &json!(limit)],
        "{load}"
    );
    for name in NAMES {
        let mut refused = raw(&url(&server, name)).await;
        refused.send(hello(&edge.info())).await;
        refused.expect_refusal(ErrorCode::ServerFull).await;
    }
    assert_eq!(http::get(server.address(), "/readyz", &[]).await.status, 503);
    holds.send(Frame::Bye.encode()).await;
    assert!(is_tokens(waits.receive().await), "the cache of the session that ended");
    drop(others);

    let metrics = http::get(server.address(), "/metrics", &[]).await.body;
    assert_eq!(violations(&metrics), Vec::<String>::new(), "{metrics}");
    for line in [
        "outrider_sessions_limit 4",
        &format!("outrider_kv_limit_bytes{{model=\"big\"}} {}", memory("big")),
        &format!("outrider_kv_limit_bytes{{model=\"small\"}} {}", memory("small")),
        "outrider_sessions_total{model=\"big\"} 2",
        "outrider_sessions_total{model=\"small\"} 5",
        "outrider_sessions_refused_total{model=\"big\",cause=\"server-full\"} 1",
        "outrider_sessions_refused_total{model=\"small\",cause=\"server-full\"} 1",
        "outrider_pass_seconds_count{model=\"small\"} 6",
        "outrider_http_requests_total{route=\"/healthz\",status=\"200\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}
