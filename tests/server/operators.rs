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
