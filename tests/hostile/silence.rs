//! Strangers who connect and send nothing, or bytes that are no HTTP/1.1.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use outrider_cloud::app::Caps;
use outrider_tests::{
    http,
    server::{Options, Server},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time,
};

const SHORT: Duration = Duration::from_millis(300);

async fn server(caps: Caps) -> (Server, SocketAddr) {
    let server = Server::start_as(Options { caps, ..Options::default() }).await;
    let address = server.address().parse().unwrap();
    (server, address)
}

/// Reads a connection to its end; `None` if it does not end within 5 s.
async fn rest(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // Reset or closed: it has ended.
    let _ = time::timeout(Duration::from_secs(5), stream.read_to_end(&mut bytes)).await.ok()?;
    Some(bytes)
}

/// A connection from this address of the machine.
async fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_nothing_is_not_waited_for() {
    let (_server, address) = server(Caps { header_read: SHORT, ..Caps::default() }).await;
    let start = Instant::now();
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(rest(&mut silent).await, Some(Vec::new()));
    assert!(start.elapsed() >= SHORT, "{:?}", start.elapsed());
    // Nor who has asked once and keeps the connection.
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let answer = rest(&mut idle).await.expect("an idle connection is closed");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_has_so_many_connections() {
    let (_server, address) = server(Caps { connections_per_address: 8, ..Caps::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..24 {
        silent.push(connect("127.0.0.2", address).await);
    }
    let mut ended = 0;
    for stream in &mut silent {
        let read = time::timeout(Duration::from_millis(200), stream.read_u8()).await;
        ended += usize::from(read.is_ok());
    }
    assert_eq!(ended, 16, "the rest waits for its first words");
    let others = http::get(&address.to_string(), "/healthz", &[]).await;
    assert_eq!(others.status, 200);
    // As they go, others of the address come in.
    drop(silent);
    let there_is_room = async {
        loop {
            let mut stream = connect("127.0.0.2", address).await;
            stream.write_all(&http::request("GET", "/healthz", &[], "")).await.unwrap();
            if http::rest(&mut stream).await.status == 200 {
                break;
            }
        }
    };
    time::timeout(Duration::from_secs(20), there_is_room).await.expect("places are given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_2_is_not_spoken() {
    let (_server, address) = server(Caps::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    // What a client says that knows that the server speaks it, and its settings (RFC 9113, sections 3.4 and 6.5).
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let answer = rest(&mut stream).await.expect("the connection ends");
    let is_http_1 = answer.is_empty() || answer.starts_with(b"HTTP/1.1 4");
    assert!(is_http_1, "{answer:?}");
}
