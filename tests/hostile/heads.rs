//! Strangers who send long heads, and lists in them.

use std::time::{Duration, Instant};

use outrider_tests::{
    http::{self, Answer},
    server::{Options, Server},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

/// Bytes that the head of a request may have.
const LONGEST_HEAD: usize = 32 << 10;
/// The longest time that a probe may wait for its answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request whose head has `bytes` bytes.
fn head(bytes: usize) -> Vec<u8> {
    let (start, end) = ("GET /healthz HTTP/1.0\r\nX-Filler: ", "\r\n\r\n");
    let filler = "a".repeat(bytes - start.len() - end.len());
    format!("{start}{filler}{end}").into_bytes()
}

/// A value of Range with this many parts.
fn ranges(parts: usize) -> String {
    format!("bytes=0-0{}", ",2-2".repeat(parts - 1))
}

/// The status of the answer. It is 0 if the connection was reset first, since the server does not read a long head to
/// its end.
async fn status(address: &str, bytes: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.write_all(bytes).await;
    let _ = stream.read_to_end(&mut answer).await;
    Answer::of(&answer).status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_has_32_kib_at_most() {
    let server = Server::start_as(Options::default()).await;
    for (bytes, expected) in [(LONGEST_HEAD, 200), (LONGEST_HEAD + 1, 431)] {
        assert_eq!(http::exchange(server.address(), &head(bytes)).await.status, expected, "{bytes} bytes");
    }
    let refused = status(server.address(), &head(10 * LONGEST_HEAD)).await;
    assert!([0, 431].contains(&refused), "{refused}");
    // The request for a session has a head, too.
    assert!(server.raw_with(&[("x-filler", &"a".repeat(30 << 10))]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ranges_keep_nobody_waiting() {
    let server = Server::start_as(Options::default()).await;
    // As many as a head holds are answered with the whole file.
    let range = ranges(8000);
    for path in ["/pair/draft", "/pair/tokenizer.json"] {
        let start = Instant::now();
        let (answer, bytes) = http::get_bytes(server.address(), path, &[("Range", &range)]).await;
        assert_eq!((answer.status, answer.header("content-range")), (200, None), "{path}");
        assert_eq!(answer.header("content-length"), Some(&*bytes.len().to_string()), "{path}");
        assert!(start.elapsed() < PATIENCE, "{path}: {:?}", start.elapsed());
    }
    let request = http::request("GET", "/pair/draft", &[("Range", &ranges(40_000))], "");
    let mut strangers = Vec::new();
    for _ in 0..4 {
        let (address, request) = (server.address().to_owned(), request.clone());
        strangers.push(tokio::spawn(async move {
            for _ in 0..20 {
                let refused = status(&address, &request).await;
                assert!([0, 431].contains(&refused), "{refused}");
            }
        }));
    }
    while !strangers.iter().all(tokio::task::JoinHandle::is_finished) {
        let answer = time::timeout(PATIENCE, http::get(server.address(), "/healthz", &[])).await;
        assert_eq!(answer.expect("the probe is answered").status, 200);
    }
    for stranger in strangers {
        stranger.await.unwrap();
    }
}
