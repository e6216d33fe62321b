//! Services for operators: request ids, named keys with limits and usage, and the admin port.

use outrider_cloud::{app::Access, keys::Keys};
use outrider_codec::frame::{ErrorCode, Frame};
use outrider_tests::{
    http::{self, Answer},
    server::{self, Edge, Options, RawClient, Server},
};
use serde_json::Value;

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_response_and_every_error_has_the_request_id() {
    let server = Server::start_as(Options::default()).await;
    let own = ("X-Request-Id", "trace-1_a.b");
    for path in ["/healthz", "/v1/models", "/pair/tokenizer.json", "/nowhere", "/v1/nowhere", "/session"] {
        let answer = http::get(server.address(), path, &[own]).await;
        assert_eq!(answer.header("x-request-id"), Some("trace-1_a.b"), "{path}");
    }
    let error = json(&http::get(server.address(), "/v1/nowhere", &[own]).await);
    assert_eq!(error["error"]["request_id"], "trace-1_a.b", "{error}");
    let too_long = "a".repeat(65);
    let mut made = Vec::new();
    for id in ["", "a b", "a\"b", "ü", &too_long] {
        let answer = http::get(server.address(), "/healthz", &[("X-Request-Id", id)]).await;
        made.push(answer.header("x-request-id").unwrap().to_owned());
    }
    assert!(made.iter().all(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())), "{made:?}");
    made.dedup();
    assert_eq!(made.len(), 5, "each is another");
}

const SECRET: &str = "0123456789abcdef";
const SCRAPER: &str = "abcdef0123456789";

/// A server with a key that has these limits, and one for metrics.
async fn with_key(limits: &str) -> (Server, Keys) {
    let text = format!(
        "[[key]]\nname = \"web\"\nsecret = \"{SECRET}\"\n{limits}\n\
         [[key]]\nname = \"scraper\"\nsecret = \"{SCRAPER}\"\nrights = [\"metrics\"]\n"
    );
    let keys = Keys::parse(&text).unwrap();
    let access = Access { keys: Some(keys.clone()), ..Access::default() };
    (Server::start_as(Options { access, ..Options::default() }).await, keys)
}

async fn get(server: &Server, path: &str, secret: &str) -> Answer {
    http::get(server.address(), path, &[("Authorization", &format!("Bearer {secret}"))]).await
}

async fn complete(server: &Server, max_tokens: u32) -> Answer {
    let body = format!(r#"{{"prompt": [0, 5, 6], "max_tokens": {max_tokens}, "temperature": 0, "seed": 1}}"#);
    let header = format!("Bearer {SECRET}");
    http::post(server.address(), "/v1/completions", &[("Authorization", &header)], &body).await
}

async fn session(server: &Server) -> RawClient {
    let header = format!("Bearer {SECRET}");
    let mut client = server.raw_with(&[("authorization", &header)]).await.unwrap();
    client.send(server::hello(&Edge::load().info())).await;
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_has_its_rights_and_no_others() {
    let (server, keys) = with_key("").await;
    for (path, secret, status) in [
        ("/v1/models", SECRET, 200),
        ("/v1/info", SECRET, 200),
        ("/metrics", SECRET, 403),
        ("/metrics", SCRAPER, 200),
        ("/v1/models", SCRAPER, 403),
        ("/v1/models", "0123456789abcdeg", 401),
    ] {
        assert_eq!(get(&server, path, secret).await.status, status, "{path} {secret}");
    }
    let refused = json(&get(&server, "/v1/models", SCRAPER).await);
    assert_eq!(
        (&refused["error"]["type"], &refused["error"]["code"]),
        (&"permission_error".into(), &"missing_right".into())
    );
    assert_eq!(http::get(server.address(), "/v1/models", &[]).await.status, 401);
    let header = format!("Bearer {SCRAPER}");
    let mut client = server.raw_with(&[("authorization", &header)]).await.unwrap();
    assert!(client.expect_refusal(ErrorCode::Unauthorized).await.contains("no right \"session\""));
    // Another file of keys counts from the next request on.
    keys.replace("[[key]]\nname = \"other\"\nsecret = \"ABCDEFGHIJKLMNOP\"\n").unwrap();
    assert_eq!(get(&server, "/v1/models", SECRET).await.status, 401);
    assert_eq!(get(&server, "/v1/models", "ABCDEFGHIJKLMNOP").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_per_minute_are_limited_as_openai_says_it() {
    let (server, _) = with_key("requests-per-minute = 2").await;
    for (path, status) in [("/v1/nope", 404), ("/v1/models", 405), ("/chat/completions", 404)] {
        let key = format!("Bearer {SECRET}");
        let wrong = http::post(server.address(), path, &[("Authorization", &*key)], "{}").await;
        assert_eq!((wrong.status, json(&wrong)["error"]["type"].as_str()), (status, Some("invalid_request_error")));
    }
    let first = complete(&server, 4).await;
    assert_eq!((first.status, first.header("x-ratelimit-limit-requests")), (200, Some("2")));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("1"));
    assert!(first.header("x-ratelimit-reset-requests").unwrap().ends_with('s'));
    assert_eq!(first.header("x-ratelimit-limit-tokens"), None, "tokens have no limit");
    assert_eq!(complete(&server, 4).await.status, 200);
    let refused = complete(&server, 4).await;
    let error = &json(&refused)["error"];
    assert_eq!(
        (refused.status, &error["type"], &error["code"]),
        (429, &"rate_limit_error".into(), &"rate_limit_exceeded".into())
    );
    assert_eq!(refused.header("x-ratelimit-remaining-requests"), Some("0"));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    // Looking at models costs nothing, nor does a wrong path.
    assert_eq!(get(&server, "/v1/models", SECRET).await.status, 200);
    session(&server).await.expect_refusal(ErrorCode::ServerFull).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_sessions_are_counted_and_limited() {
    let (server, _) = with_key("tokens-per-minute = 6\nsessions = 1").await;
    let mut only = session(&server).await;
    assert!(matches!(only.receive().await, Some(Frame::Welcome(_))));
    let text = session(&server).await.expect_refusal(ErrorCode::ServerFull).await;
    assert_eq!(text, "This key has 1 sessions, as many as it may; end one, or try again later.");
    let answer = complete(&server, 8).await;
    let completed = json(&answer)["usage"]["completion_tokens"].as_u64().unwrap();
    let refused = complete(&server, 8).await;
    assert_eq!((refused.status, refused.header("x-ratelimit-remaining-tokens")), (429, Some("0")));
    assert!(json(&refused)["error"]["message"].as_str().unwrap().contains("6 tokens per minute"));

    let usage = json(&get(&server, "/v1/usage", SECRET).await);
    assert_eq!(usage["data"].as_array().unwrap().len(), 1, "a key sees its own");
    let own = &usage["data"][0];
    assert_eq!((&own["key"], &own["requests"], &own["refused"]), (&"web".into(), &2.into(), &2.into()), "{own}");
    assert_eq!((&own["prompt_tokens"], &own["completion_tokens"]), (&3.into(), &completed.into()));
    assert_eq!((&own["sessions"], &own["limits"]["tokens_per_minute"]), (&1.into(), &6.into()));
    let all = json(&get(&server, "/v1/usage", SCRAPER).await);
    assert_eq!(all["data"].as_array().unwrap().len(), 2);
    let metrics = get(&server, "/metrics", SCRAPER).await.body;
    for line in [
        "outrider_key_requests_total{key=\"web\"} 2",
        "outrider_key_prompt_tokens_total{key=\"web\"} 3",
        "outrider_key_sessions{key=\"web\"} 1",
        "outrider_key_refused_total{key=\"scraper\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains(SECRET));
    only.send(Frame::Bye.encode()).await;
    server.is_empty().await;
}
