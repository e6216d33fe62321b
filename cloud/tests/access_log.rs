//! The access log, as a program reads it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[expect(dead_code, reason = "what other tests ask of it, too")]
mod process;

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use outrider_testing::process::Server;
use serde_json::Value;

const TOKEN: &str = "0123456789abcdef";

/// Sends a request to an address and returns the response.
fn exchange(address: &str, method: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n{headers}\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn lines_name_the_request_the_key_and_the_session() {
    let tokens = process::scratch("access-log-tokens", format!("alice {TOKEN}\n").as_bytes());
    let (mut reader, writer) = io::pipe().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--tokens-file"];
    let mut command = process::command();
    command.args(arguments).arg(tokens).env_remove("RUST_LOG").stderr(writer);
    let mut server = Server::start(&mut command).unwrap();
    drop(command);
    let headers = format!("Authorization: Bearer {TOKEN}\r\nX-Request-Id: abc\r\nContent-Type: application/json\r\n");
    let body = r#"{"prompt": "Once", "max_tokens": 4}"#;
    let answer = exchange(&server.address, "POST", "/v1/completions?secret=1", &headers, body);
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    exchange(&server.address, "GET", "/v1/models", "", "");
    server.terminate();
    assert!(server.ended_within(Duration::from_secs(30)).is_some());
    let mut log = String::new();
    reader.read_to_string(&mut log).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines_of = |message: &str| lines.iter().filter(|line| line["message"] == message).collect::<Vec<_>>();
    let requests = lines_of("request");
    let [made, refused] = requests[..] else { panic!("{log}") };
    assert_eq!(
        (&made["method"], &made["path"], &made["status"]),
        (&"POST".into(), &"/v1/completions".into(), &200.into())
    );
    assert_eq!((&made["span"]["id"], &made["span"]["key"]), (&"abc".into(), &"alice".into()));
    assert_eq!((&refused["status"], &refused["span"]["key"]), (&401.into(), &Value::Null));
    let ended = lines_of("generation ended")[0];
    let spans = ended["spans"].as_array().unwrap();
    assert_eq!(
        (&spans[0]["name"], &spans[0]["id"], &spans[0]["key"]),
        (&"request".into(), &"abc".into(), &"alice".into())
    );
    assert_eq!((&spans[1]["name"], &spans[1]["id"].is_number()), (&"session".into(), &true));
    assert!(!log.contains(TOKEN) && !log.contains("secret=1") && !log.contains("Once"), "{log}");
}
