//! Signals to `outrider serve`: a drain before the end, settings that are read again, and notices to a supervisor.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[expect(dead_code, reason = "what other tests ask of it, too")]
mod process;

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixDatagram,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use outrider_testing::process::Server;

/// Longest time for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Text of a prompt that is in no other text.
const MARKER: &str = "zanzibarquux";

fn exchange(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Status of the answer to a request with a token.
fn status(server: &Server, path: &str, token: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n");
    exchange(server, &request).split(' ').nth(1).unwrap().parse().unwrap()
}

/// Waits until this holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_drains_is_not_ready_and_still_serves() {
    let mut server = process::start(&["--drain", "3"]);
    assert_eq!(status(&server, "/readyz", ""), 200);
    server.terminate();
    let start = Instant::now();
    eventually("/readyz answers 503", || status(&server, "/readyz", "") == 503);
    let ids = ["generate", "--server", &server.url, "--max-tokens", "8", "Once upon a time"];
    process::stdout(&process::outrider(&ids));
    assert_eq!(status(&server, "/v1/models", ""), 200);
    assert!(server.ended_within(PATIENCE).is_some_and(|status| status.success()));
    assert!(start.elapsed() > Duration::from_secs(2), "it waits for balancers: {:?}", start.elapsed());
}

#[test]
fn a_second_signal_ends_the_drain() {
    let mut server = process::start(&["--drain", "600"]);
    server.terminate();
    eventually("/readyz answers 503", || status(&server, "/readyz", "") == 503);
    server.terminate();
    assert!(server.ended_within(PATIENCE).is_some_and(|status| status.success()));
}

/// Texts end within the time of grace; meanwhile other clients are refused at once, and another server may listen.
#[test]
fn an_ending_server_no_longer_listens() {
    let mut server = process::start(&["--drain", "0", "--grace", "60"]);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let body = format!(r#"{{"prompt": [{}"a"], "n": 16, "max_tokens": 400, "stream": true}}"#, r#""b", "#.repeat(15));
    let head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length:";
    write!(stream, "{head} {}\r\n\r\n{body}", body.len()).unwrap();
    stream.read_exact(&mut [0; 600]).unwrap();
    server.terminate();
    eventually("clients are refused", || TcpStream::connect(&server.address).is_err());
    assert!(server.ended_within(Duration::ZERO).is_none(), "its texts are not over");
    drop(stream);
    assert!(server.ended_within(PATIENCE).is_some_and(|status| status.success()));
}

#[test]
fn tokens_and_the_log_level_are_read_again() {
    let (first, second) = ("0123456789abcdef", "fedcba9876543210");
    let tokens = process::scratch("reloaded-tokens", format!("alice {first}\n").as_bytes());
    let setting = |level: &str| format!("tokens-file = {:?}\nlog-level = {level:?}\n", tokens.display().to_string());
    let config = process::scratch("reloaded.toml", setting("warn").as_bytes());
    let log = process::scratch("reloaded.log", b"");
    let mut command = process::command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--drain", "0", "--config"]).arg(&config);
    let server = Server::start(command.env_remove("RUST_LOG").stderr(File::create(&log).unwrap())).unwrap();
    assert_eq!((status(&server, "/v1/models", first), status(&server, "/v1/models", second)), (200, 401));
    fs::write(&tokens, format!("bob {second}\n")).unwrap();
    fs::write(&config, setting("info")).unwrap();
    server.hang_up();
    eventually("the second token is known", || status(&server, "/v1/models", second) == 200);
    assert_eq!(status(&server, "/v1/models", first), 401);
    // A file that cannot be used changes nothing.
    fs::write(&tokens, "bob short\n").unwrap();
    server.hang_up();
    eventually("the log has the reason", || fs::read_to_string(&log).unwrap().contains("fewer than 16 characters"));
    assert_eq!(status(&server, "/v1/models", second), 200);
    eventually("the log has lines at level INFO", || fs::read_to_string(&log).unwrap().contains("INFO"));
}

#[test]
fn a_supervisor_is_notified() {
    let path = std::env::temp_dir().join(format!("outrider-{}-notify.sock", std::process::id()));
    let _ = fs::remove_file(&path);
    let supervisor = UnixDatagram::bind(&path).unwrap();
    supervisor.set_read_timeout(Some(PATIENCE)).unwrap();
    let notice = || {
        let mut bytes = [0; 256];
        let length = supervisor.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).trim().to_owned()
    };
    let mut command = process::command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--drain", "0"]).stderr(Stdio::null());
    let server = Server::start(command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000")).unwrap();
    assert_eq!(notice(), "READY=1");
    assert_eq!([notice(), notice()], ["WATCHDOG=1", "WATCHDOG=1"]);
    server.terminate();
    while notice() != "STOPPING=1" {}
    let _ = fs::remove_file(&path);
}

#[test]
fn the_log_has_no_prompt_at_any_level() {
    let log = process::scratch("trace.log", b"");
    let mut command = process::command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--drain", "0"]).env("RUST_LOG", "trace");
    let mut server = Server::start(command.stderr(File::create(&log).unwrap())).unwrap();
    let body = format!(r#"{{"model":"outrider-target","prompt":"{MARKER}","max_tokens":4}}"#);
    let length = body.len();
    let post = "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length";
    let answer = exchange(&server, &format!("{post}: {length}\r\n\r\n{body}"));
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    process::stdout(&process::outrider(&["generate", "--server", &server.url, "--max-tokens", "8", MARKER]));
    server.terminate();
    assert!(server.ended_within(PATIENCE).is_some());
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("session closed"), "{text}");
    assert!(!text.contains(MARKER), "a prompt is in the log");
    // The WebSocket's library would log whole frames, and so ids of prompts and secrets of tickets, in hexadecimal.
    let frames = text.lines().find(|line| line.contains("TRACE") && line.contains("tungstenite"));
    assert_eq!(frames, None, "frames are in the log");
}

#[test]
fn settings_with_which_no_client_could_be_served_are_refused() {
    for flag in ["hello-timeout", "idle-timeout", "session-lifetime", "request-timeout", "max-body", "max-sessions"] {
        let output = process::outrider(&["serve", &format!("--{flag}=0")]);
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(&format!("--{flag}")) && text.contains("set 1 or more"), "{text}");
    }
}
