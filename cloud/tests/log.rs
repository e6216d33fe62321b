//! A log that nothing reads, or that cannot be written: the server keeps serving, and stops on request.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[expect(dead_code, reason = "what other tests ask of it, too")]
mod process;

use std::{
    fs::File,
    io::{self, Read, Write},
    net::TcpStream,
    process::Stdio,
    thread,
    time::Duration,
};

use outrider_testing::process::Server;

/// Number of lines that the flood causes; the queue holds 4,096.
const LINES: usize = 6000;
/// Number of addresses that cause them. Each has 10 lines of a kind in 10 seconds.
const ADDRESSES: usize = 1000;
/// Number of requests on one connection.
const BATCH: usize = 100;
/// Length of a text in each line, so that all lines together exceed 1 MB.
const FILLER: usize = 200;
/// Longest time for a response on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

fn server(log: impl Into<Stdio>) -> Server {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--drain", "0", "--trusted-proxy", "127.0.0.0/8"];
    Server::start(process::command().args(arguments).env("RUST_LOG", "debug").stderr(log)).unwrap()
}

/// Sends requests and returns the responses. The last request ends the connection.
fn exchange(server: &Server, requests: &str) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    answers
}

fn get(server: &Server, path: &str) -> String {
    let answer = exchange(server, &format!("GET {path} HTTP/1.0\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    answer
}

/// Makes the server refuse pages of another site, each with a line of the log.
fn flood(server: &Server) {
    let site = "a".repeat(FILLER);
    for first in (0..LINES).step_by(BATCH) {
        let request = |number: usize| {
            let address = number % ADDRESSES;
            let (high, low) = (address / 256, address % 256);
            let end = if number + 1 == first + BATCH { "close" } else { "keep-alive" };
            format!(
                "GET /v1/models HTTP/1.1\r\nHost: here\r\nOrigin: https://{site}\r\nConnection: {end}\r\n\
                 X-Forwarded-For: 10.0.{high}.{low}\r\n\r\n"
            )
        };
        let requests: String = (first..first + BATCH).map(request).collect();
        assert_eq!(exchange(server, &requests).matches("HTTP/1.1 403").count(), BATCH);
    }
}

/// Number of dropped lines that `/metrics` reports.
fn dropped(server: &Server) -> usize {
    let metrics = get(server, "/metrics");
    let count = metrics.lines().find_map(|line| line.strip_prefix("outrider_log_lines_dropped_total "));
    count.unwrap().parse().unwrap()
}

/// Stops the server, which takes `--grace` at most, and a moment for the log.
fn stop(mut server: Server) {
    server.terminate();
    let ended = server.ended_within(2 * PATIENCE);
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

/// Floods the log of a server, which responds, has dropped lines, and stops on request.
fn serves_on(server: Server) {
    flood(&server);
    get(&server, "/healthz");
    assert!(dropped(&server) > 0);
    stop(server);
}

#[test]
fn a_log_whose_reader_has_gone_is_dropped() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    serves_on(server(writer));
}

#[test]
fn a_log_that_nothing_reads_keeps_nobody_waiting() {
    let (_unread, writer) = io::pipe().unwrap();
    serves_on(server(writer));
}

#[test]
fn a_log_on_a_full_disk_is_dropped() {
    serves_on(server(File::options().write(true).open("/dev/full").unwrap()));
}

#[test]
fn one_address_causes_few_lines_and_the_log_says_how_many_more_there_were() {
    let (mut reader, writer) = io::pipe().unwrap();
    let server = server(writer);
    let refused = "GET /v1/models HTTP/1.0\r\nOrigin: https://elsewhere\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n";
    for _ in 0..100 {
        assert!(exchange(&server, refused).starts_with("HTTP/1.0 403"));
    }
    thread::sleep(Duration::from_secs(11));
    exchange(&server, refused);
    stop(server);
    let mut log = String::new();
    reader.read_to_string(&mut log).unwrap();
    let (reports, lines): (Vec<&str>, Vec<&str>) =
        log.lines().filter(|line| line.contains("refused a page")).partition(|line| line.contains("left out"));
    // A window may have ended among the hundred.
    assert!([11, 21].contains(&lines.len()), "{} lines in\n{log}", lines.len());
    assert!(reports[0].contains("left out lines of clients that caused too many"), "{log}");
}
