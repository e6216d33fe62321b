//! Traces as an OpenTelemetry collector receives them. `cargo xtask test native --full` runs these tests.
#![cfg(all(target_os = "linux", feature = "otel"))]
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[expect(dead_code, reason = "what other tests ask of it, too")]
mod process;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use outrider_testing::process::Server;

/// Trace that the client belongs to: sixteen bytes.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Reads the first line and the body of a request, and answers that it went well.
fn take(stream: TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    (first, body)
}

#[test]
fn a_request_and_its_session_are_spans_of_the_clients_trace() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    thread::spawn(move || collector.incoming().for_each(|stream| sender.send(take(stream.unwrap())).unwrap()));

    let mut command = process::command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--drain", "0"]).env_remove("RUST_LOG");
    let mut server = Server::start(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)).unwrap();
    let body = r#"{"prompt": "Once", "max_tokens": 4}"#;
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    // Its last spans are sent before it ends.
    server.terminate();
    assert!(server.ended_within(Duration::from_secs(30)).is_some());

    let requests: Vec<_> = received.try_iter().collect();
    assert!(!requests.is_empty() && requests.iter().all(|(first, _)| first.starts_with("POST /v1/traces ")));
    let sent: Vec<u8> = requests.into_iter().flat_map(|(_, body)| body).collect();
    let holds = |bytes: &[u8]| sent.windows(bytes.len()).any(|window| window == bytes);
    let trace: Vec<u8> = (0..16).map(|i| u8::from_str_radix(&TRACE[2 * i..2 * i + 2], 16).unwrap()).collect();
    assert!(holds(&trace) && holds(b"request") && holds(b"session"));
    assert!(holds(b"service.name") && holds(b"outrider"));
    assert!(!holds(b"Once"), "a prompt is in the traces");
}
