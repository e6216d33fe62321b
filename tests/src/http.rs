//! HTTP by hand, so that a test can also do what no client would.
//!
//! Requests are of version 1.0: the answer is then neither chunked nor kept alive, and ends with the connection.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

/// An answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status of the answer, such as 200; 0 if the connection ended without an answer.
    pub status: u16,
    /// The lines of the head, in lower case.
    pub head: String,
    /// The whole body, as text.
    pub body: String,
}

impl Answer {
    /// Parses the bytes of an answer.
    pub fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).expect("the answer is UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{text}\r\n{body}").into_bytes()
}

/// Sends bytes and waits for the end of the answer.
pub async fn exchange(address: &str, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    rest(&mut stream).await
}

/// Reads the rest of a connection as an answer.
pub async fn rest(stream: &mut TcpStream) -> Answer {
    Answer::of(&to_end(stream).await)
}

async fn to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let read = time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
    // A connection that is reset after the answer has ended as well.
    let _ = read.expect("the server answers and closes");
    answer
}

/// Sends a GET request for a file that need not be text; returns the answer without its body, and the body.
pub async fn get_bytes(address: &str, path: &str, headers: &[(&str, &str)]) -> (Answer, Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&request("GET", path, headers, "")).await.unwrap();
    let answer = to_end(&mut stream).await;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("the head ends");
    let (head, body) = answer.split_at(end + 4);
    (Answer::of(head), body.to_vec())
}

/// Sends a GET request and returns its answer.
pub async fn get(address: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    exchange(address, &request("GET", path, headers, "")).await
}

/// Sends a POST request of JSON and returns its answer.
pub async fn post(address: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers = [&[("Content-Type", "application/json")], headers].concat();
    exchange(address, &request("POST", path, &headers, body)).await
}
