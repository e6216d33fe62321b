//! Strangers who begin sessions and go away.

use core::time::Duration;

use outrider_cloud::app::{Access, Caps, Proxies};
use outrider_codec::{
    frame::{ErrorCode, Frame, Prompt, Request, Resume, Ticket},
    scheme::{Code, SchemeParameters},
};
use outrider_tests::{
    samplings::NEUTRAL,
    server::{Edge, Options, RawClient, Server, hello},
};

const SCHEME: SchemeParameters =
    SchemeParameters::KSqs { support_size: 8, lattice_resolution: 100, code: Code::Enumerative };

/// A server after a proxy that forwards the addresses of clients.
async fn server(sessions: usize, per_address: usize) -> Server {
    let caps = Caps { sessions_per_address: per_address, frames_per_second: 0, ..Caps::default() };
    let access = Access { proxies: Proxies::new(vec!["127.0.0.0/8".parse().unwrap()]), ..Access::default() };
    Server::start_as(Options { sessions, caps, access, ..Options::default() }).await
}

/// A connection of this address and the answer to its Hello and its prompt.
async fn begin(server: &Server, hello: &[u8], address: &str) -> (RawClient, Option<Frame>) {
    let mut client = server.raw_with(&[("x-forwarded-for", address)]).await.unwrap();
    client.send(hello.to_vec()).await;
    let answer = client.receive().await;
    let request = Request { generation: 1, sampling: NEUTRAL, seed: 1, max_new_tokens: 64, tokens: vec![0, 5] };
    // Whom there is no room for is gone.
    let _ = client.try_send(Frame::Prompt(Prompt::exact(SCHEME, request)).encode()).await;
    (client, answer)
}

/// A session of this address. A server may learn a moment later that an earlier client has gone.
async fn welcomed(server: &Server, hello: &[u8], address: &str) -> (RawClient, Ticket) {
    for _ in 0..50 {
        match begin(server, hello, address).await {
            (client, Some(Frame::Welcome(welcome))) => return (client, welcome.ticket),
            (_, Some(Frame::Error(error))) if error.code == ErrorCode::ServerFull => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            (_, other) => panic!("{address}: {other:?}"),
        }
    }
    panic!("{address} finds the server full");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_takes_no_more_than_its_seats_with_sessions_that_it_leaves_behind() {
    let (server, hello) = (server(12, 4).await, hello(&Edge::load().info()));
    for _ in 0..48 {
        // The address's own abandoned sessions give way: it is never refused, and neither are others.
        drop(welcomed(&server, &hello, "192.0.2.1").await);
    }
    let mut others = Vec::new();
    for other in 0..8 {
        others.push(welcomed(&server, &hello, &format!("198.51.100.{other}")).await);
    }
    // Those that have a connection do not give way.
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(welcomed(&server, &hello, "203.0.113.1").await);
    }
    match begin(&server, &hello, "203.0.113.1").await.1 {
        Some(Frame::Error(error)) => assert_eq!(error.code, ErrorCode::ServerFull, "{}", error.text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_many_addresses_leave_behind_give_way_in_the_middle_of_their_texts() {
    let (server, hello) = (server(8, 4).await, hello(&Edge::load().info()));
    let mut tickets = Vec::new();
    for address in 0..40 {
        tickets.push(welcomed(&server, &hello, &format!("192.0.2.{address}")).await.1);
    }
    let mut held = Vec::new();
    for other in 0..8 {
        held.push(welcomed(&server, &hello, &format!("198.51.100.{other}")).await);
    }
    // Their edges receive an error when they come back, and begin another session.
    for ticket in tickets {
        let mut client = server.raw().await;
        client.send(Frame::Resume(Resume { ticket, attempt: 1, generation: 1, length: 2 }).encode()).await;
        client.expect_refusal(ErrorCode::UnknownSession).await;
    }
}
