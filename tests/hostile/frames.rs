//! Strangers whose messages are no frames: the server answers with an error, so that no edge takes it for a cut and
//! sends them again.

use outrider_codec::frame::{ErrorCode, MAX_FRAME_BYTES};
use outrider_tests::server::{Edge, Options, RawClient, Server, hello};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};

async fn welcomed(server: &Server) -> RawClient {
    server.greeted(&Edge::load().info()).await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_no_frame_even_if_its_bytes_are_one() {
    let server = Server::start_as(Options::default()).await;
    let mut client = welcomed(&server).await;
    client.send_text("hello").await;
    client.expect_refusal(ErrorCode::Malformed).await;
    // All bytes of a Cancel of generation 1 are below 128, so that they are text as well.
    let cancel = outrider_codec::frame::Frame::Cancel { generation: 1 }.encode();
    let mut client = welcomed(&server).await;
    client.send_text(core::str::from_utf8(&cancel).unwrap()).await;
    client.expect_refusal(ErrorCode::Malformed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_is_told_however_it_comes() {
    let server = Server::start_as(Options::default()).await;
    for length in [MAX_FRAME_BYTES + 1, MAX_FRAME_BYTES + (64 << 10) + 1, 4 * MAX_FRAME_BYTES] {
        let mut client = welcomed(&server).await;
        // The server may close before all of it is out.
        let _ = client.try_send(vec![1; length]).await;
        client.expect_refusal(ErrorCode::FrameTooLong).await;
    }
}

/// A header says how long a message is before there is any of it (RFC 6455, section 5.2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_says_that_it_is_too_long_is_told_too() {
    let server = Server::start_as(Options::default()).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let request = format!(
        "GET /session HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        server.address()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    let hello = hello(&Edge::load().info());
    // Binary, masked by zeros.
    let mut bytes = vec![0x82, 0x80 | u8::try_from(hello.len()).unwrap(), 0, 0, 0, 0];
    bytes.extend(hello);
    // Binary, and 2^40 bytes long.
    bytes.extend([0x82, 0xff]);
    bytes.extend((1_u64 << 40).to_be_bytes());
    bytes.extend([0; 8]);
    stream.write_all(&bytes).await.unwrap();
    let socket = WebSocketStream::from_raw_socket(tokio_tungstenite::MaybeTlsStream::Plain(stream), Role::Client, None);
    let mut client = RawClient::from(socket.await);
    assert!(client.receive().await.is_some(), "the welcome");
    client.expect_refusal(ErrorCode::FrameTooLong).await;
}
