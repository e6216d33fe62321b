//! Texts of OpenAI's API that a draft model at the server drafts, over a real socket.

use std::{sync::Arc, time::Duration};

use outrider_cloud::{
    api_drafting::{ApiDrafting, ApiMode},
    pair::{PairPaths, draft_info},
};
use outrider_tests::{
    http,
    server::{Options, Server},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

const COMPLETIONS: &str = "/v1/completions";

async fn server(default: &str) -> Server {
    server_of(default, 8).await
}

async fn server_of(default: &str, sessions: usize) -> Server {
    let pair = PairPaths::default();
    let model = pair.draft().unwrap();
    let info = draft_info(&model, &pair.tokenizer().unwrap()).unwrap();
    let default: ApiMode = default.parse().unwrap();
    let drafting = ApiDrafting { model, info, default };
    Server::start_as(Options { sessions, api_drafting: Some(Arc::new(drafting)), ..Options::default() }).await
}

async fn post(server: &Server, more: &Value) -> http::Answer {
    let mut body = json!({ "prompt": "Once upon a time", "max_tokens": 48, "seed": 5, "temperature": 0.8 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    http::post(server.address(), COMPLETIONS, &[], &body.to_string()).await
}

async fn texts(server: &Server, more: &Value) -> Vec<(String, String)> {
    let answer = post(server, more).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let choices = body["choices"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    choices.map(|choice| (word(&choice["text"]), word(&choice["finish_reason"]))).collect()
}

async fn rounds(server: &Server, scheme: &str) -> bool {
    let metrics = http::get(server.address(), "/metrics", &[]).await.body;
    let line = format!("outrider_draft_tokens_proposed_total{{scheme=\"{scheme}\"}} ");
    metrics.lines().any(|found| found.strip_prefix(&line).is_some_and(|count| count != "0"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_chooses_how_its_text_is_drafted() {
    let server = server("null").await;
    let alone = texts(&server, &json!({})).await;
    assert!(!rounds(&server, "coupled").await);
    // Coupled drafting has the target's own draws: the same text.
    assert_eq!(texts(&server, &json!({ "outrider": { "scheme": "coupled" } })).await, alone);
    assert!(rounds(&server, "coupled").await);
    let greedy = json!({ "temperature": 0 });
    let best = texts(&server, &greedy).await;
    for (scheme, more) in [("k-sqs", json!({ "supportSize": 4 })), ("dssd", json!({}))] {
        let mut options = json!({ "scheme": scheme });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let drafted = texts(&server, &json!({ "temperature": 0, "outrider": options })).await;
        assert_eq!(drafted, best, "{scheme}");
        assert!(rounds(&server, scheme).await, "{scheme}");
    }
    // A rule that accepts nearly all writes what the draft model writes.
    let lossy = json!({ "scheme": "dense", "rule": "lossy", "ruleParameter": 0.99 });
    assert_ne!(texts(&server, &json!({ "temperature": 0.8, "outrider": lossy })).await, alone);
    // Several choices, an early end, and a stream.
    let several = json!({ "n": 3, "stop": ["the"], "outrider": { "scheme": "coupled" } });
    let several_alone = texts(&server, &json!({ "n": 3, "stop": ["the"] })).await;
    assert_eq!(texts(&server, &several).await, several_alone);
    let streamed = post(&server, &json!({ "stream": true, "outrider": { "scheme": "coupled" } })).await;
    assert!(streamed.body.lines().filter(|line| line.starts_with("data: {")).count() > 8, "{}", streamed.body);
    let read =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["choices"][0]["text"].as_str().map(str::to_owned);
    let pieces =
        streamed.body.lines().filter_map(|line| line.strip_prefix("data: ").filter(|data| data.starts_with('{')));
    assert_eq!(pieces.filter_map(read).collect::<String>(), alone[0].0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_drafts_by_default_and_refuses_what_it_cannot_draft() {
    let drafting = server(r#"{"scheme": "dense", "draftLength": 3}"#).await;
    texts(&drafting, &json!({})).await;
    assert!(rounds(&drafting, "dense").await);
    let error = |answer: http::Answer| {
        assert_eq!(answer.status, 400, "{}", answer.body);
        serde_json::from_str::<Value>(&answer.body).unwrap()["error"]["message"].as_str().unwrap().to_owned()
    };
    let with_logprobs = error(post(&drafting, &json!({ "logprobs": 1 })).await);
    assert!(with_logprobs.contains("outrider: false"), "{with_logprobs}");
    texts(&drafting, &json!({ "logprobs": 1, "outrider": false })).await;
    for (options, part) in [
        (json!({ "scheme": "none" }), "none"),
        (json!({ "gama": 4 }), "there is no drafting option gama"),
        (json!({ "draftLength": 0 }), "draftLength must be"),
        (json!(7), "an object of drafting options"),
    ] {
        let refused = error(post(&drafting, &json!({ "outrider": options })).await);
        assert!(refused.contains(part), "{refused}");
    }
    let alone = Server::start_as(Options::default()).await;
    let refused = error(post(&alone, &json!({ "outrider": { "scheme": "dense" } })).await);
    assert!(refused.contains("--api-drafting"), "{refused}");
    texts(&alone, &json!({ "outrider": false })).await;
}

/// A session that ends with an error or an early leave is over, and its slot is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_slot_is_free_after_an_error_and_after_a_client_that_left() {
    let server = server_of("null", 1).await;
    // Which rules a scheme can have is known when the session has its target.
    let refused = post(&server, &json!({ "outrider": { "scheme": "k-sqs", "rule": "bild" } })).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    eventually(&server).await;
    let body = json!({ "prompt": "Once", "max_tokens": 400, "stream": true, "outrider": { "scheme": "coupled" } });
    let body = body.to_string();
    let head = format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n");
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    assert!(stream.read(&mut [0; 64]).await.unwrap() > 0);
    drop(stream);
    eventually(&server).await;
}

/// Asks until the slot is free, for at most ten seconds.
async fn eventually(server: &Server) {
    for _ in 0..100 {
        let answer = post(server, &json!({ "max_tokens": 1 })).await;
        if answer.status == 200 {
            return;
        }
        time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the slot is still taken");
}
