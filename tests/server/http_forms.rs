//! Requests in forms of HTTP that are malformed or not decoded, each with the status that its RFC or OpenAI's has.

use outrider_tests::{
    http,
    server::{Options, Server},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn raw(server: &Server, request: &str) -> http::Answer {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    http::rest(&mut stream).await
}

fn code(answer: &http::Answer) -> Value {
    serde_json::from_str::<Value>(&answer.body).map_or(Value::Null, |mut body| body["error"]["code"].take())
}

/// Clients retry a 408: nothing timed out here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_body_is_the_clients_mistake() {
    let server = Server::start_as(Options::default()).await;
    let head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let chunked = raw(&server, &format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n")).await;
    assert_eq!((chunked.status, code(&chunked)), (400, json!("malformed_body")), "{}", chunked.body);
    let coded = raw(&server, &format!("{head}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{{}}")).await;
    assert_eq!((coded.status, code(&coded)), (415, json!("unsupported_content_coding")), "{}", coded.body);
}

/// RFC 9112, section 3.2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_1_1_needs_one_host() {
    let server = Server::start_as(Options::default()).await;
    for (hosts, status) in [("", 400), ("Host: a\r\nHost: b\r\n", 400), ("Host: a\r\n", 200)] {
        let request = format!("GET /v1/models HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        assert_eq!(raw(&server, &request).await.status, status, "{hosts}");
    }
    assert_eq!(raw(&server, "GET /v1/models HTTP/1.0\r\n\r\n").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_not_stored() {
    let server = Server::start_as(Options::default()).await;
    let body = json!({ "prompt": "a", "max_tokens": 1, "stream": true }).to_string();
    let answer = http::post(server.address(), "/v1/completions", &[], &body).await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

/// The server stops while it streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_within_a_stream_has_the_requests_id() {
    let texts = ("/v1/completions", "prompt", "max_tokens");
    for (path, prompt, limit) in [texts, ("/v1/responses", "input", "max_output_tokens")] {
        let server = Server::start_as(Options::default()).await;
        let body = json!({ prompt: "Once upon a time", "stream": true, "temperature": 0, limit: 500 });
        let mut client = TcpStream::connect(server.address()).await.unwrap();
        let head = [("Content-Type", "application/json"), ("X-Request-Id", "one-2")];
        client.write_all(&http::request("POST", path, &head, &body.to_string())).await.unwrap();
        client.read_exact(&mut [0; 400]).await.unwrap();
        server.close();
        let mut rest = String::new();
        client.read_to_string(&mut rest).await.unwrap();
        let mut events = rest.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok());
        let error = events.find_map(|event: Value| match event["type"] == "error" {
            true => Some(event),
            false => event.get("error").cloned(),
        });
        let error = error.unwrap_or_else(|| panic!("no error: {rest}"));
        assert_eq!((&error["code"], &error["request_id"]), (&json!("shutting_down"), &json!("one-2")), "{error}");
    }
}
