//! Sessions that survive, over real sockets: a native edge, a proxy that cuts, the real server with a small target.

use std::time::{Duration, Instant};

use outrider_cloud::{
    edge::{NativeEdge, NativeEdgeError, Retry},
    session::Limits,
};
use outrider_codec::{
    frame::{Draft, ErrorCode, Frame, Prompt, Request, Resume, Ticket},
    scheme::SchemeParameters,
};
use outrider_speculation::session::edge::{Mode, Settings, Speculation};
use outrider_tests::{
    blocks::{self, draft_info, server},
    proxy::Proxy,
    samplings::GREEDY,
    server::{RawClient, Server, generate, hello},
};

/// The one that sends most: connections are cut by bytes, and passes take time.
const SCHEME: SchemeParameters = SchemeParameters::Dense;
const RETRY: Retry =
    Retry { attempts: 40, pause: Duration::from_millis(2), longest: Duration::from_millis(20), stall: Duration::MAX };

fn settings(mode: Mode, max_new_tokens: u32) -> Settings {
    Settings { mode, sampling: GREEDY, seed: 1, max_new_tokens }
}

fn speculative() -> Mode {
    Mode::Speculative(Speculation::new(SCHEME, 3))
}

/// In the bytes of a handshake there is no place where a cut ends more than the attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_connection_that_is_cut_is_tried_again() {
    let draft = blocks::draft();
    let server = server(4, Limits::default()).await;
    let mut again = 0;
    for seed in 0..20 {
        let proxy = Proxy::before(&server.url, 1200, seed).await;
        let edge = NativeEdge::connect(&draft, draft_info(&draft), &proxy.url, None, RETRY).await;
        edge.unwrap_or_else(|error| panic!("{error} after {} cuts", proxy.cuts())).close().await;
        again += usize::from(proxy.cuts() > 0);
    }
    assert!(again > 0);
    // No server listens there, which another attempt would not mend.
    let nobody = NativeEdge::connect(&draft, draft_info(&draft), "ws://127.0.0.1:9/session", None, RETRY).await;
    assert!(nobody.is_err());
}

/// Two hundred cuts, and a few servers that go, one with a word and one without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_cuts_change_nothing() {
    let draft = blocks::draft();
    let length = draft.config().context_length as u32 / 2;
    let mut servers = vec![server(4, Limits::default()).await];
    let mut calm =
        NativeEdge::connect(&draft, draft_info(&draft), &servers[0].url, None, Retry::default()).await.unwrap();
    let mut expected = Vec::new();
    for start in 0..4 {
        expected.push(generate(&mut calm, vec![3, start], &settings(Mode::CloudOnly, length)).await.0);
    }
    calm.close().await;

    // A handshake takes about 400 bytes; HTTP's is the longest part of it. The first has nothing to go on with.
    let proxy = Proxy::before(&servers[0].url, 900, 7).await;
    let mut edge = NativeEdge::connect(&draft, draft_info(&draft), &proxy.url, None, RETRY).await.unwrap();
    let (mut resumed, mut texts) = (0, 0);
    while proxy.cuts() < 200 {
        for (start, expected) in (0u32..).zip(&expected) {
            let mode = if (texts + start) % 3 == 0 { Mode::CloudOnly } else { speculative() };
            let (text, generated) = generate(&mut edge, vec![3, start], &settings(mode, length)).await;
            assert_eq!(text, *expected, "after {} cuts", proxy.cuts());
            resumed += generated.resumed;
        }
        texts += 4;
        if texts % 20 == 0 {
            let next = server(4, Limits::default()).await;
            proxy.turn_to(&next.url);
            if texts % 40 == 0 {
                servers.last().unwrap().stop();
            }
            servers.push(next);
        }
    }
    println!("{} cuts, {resumed} resumed, {texts} texts, {} servers", proxy.cuts(), servers.len());
    assert!(resumed > 100);
}

/// Black holes: bytes vanish and connections stay open, in the handshake and in the middle of a text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_replaced_and_the_text_is_whole() {
    let draft = blocks::draft();
    let length = draft.config().context_length as u32 / 2;
    let server = server(4, Limits::default()).await;
    let mut calm = NativeEdge::connect(&draft, draft_info(&draft), &server.url, None, Retry::default()).await.unwrap();
    let (expected, _) = generate(&mut calm, vec![3, 1], &settings(Mode::CloudOnly, length)).await;
    calm.close().await;

    let proxy = Proxy::before(&server.url, 1 << 30, 7).await;
    let retry = Retry { stall: Duration::from_secs(1), ..Retry::default() };
    proxy.swallow(0, 1);
    let mut edge = NativeEdge::connect(&draft, draft_info(&draft), &proxy.url, None, retry).await.unwrap();
    for (mode, more) in [(Mode::CloudOnly, 0), (speculative(), 0), (Mode::CloudOnly, 1)] {
        let began = Instant::now();
        let mut text = Vec::new();
        let settings = settings(mode, length);
        // Enough for the first tokens, too little for the text.
        proxy.swallow(60, more);
        let written = edge.generate(vec![3, 1], &settings, |committed| {
            text.extend(committed.tokens.iter().map(|&(id, _)| id));
        });
        let generated = tokio::time::timeout(Duration::from_secs(10), written).await.expect("it never ends").unwrap();
        assert_eq!((&text, generated.resumed), (&expected, 1));
        assert!(began.elapsed() >= Duration::from_secs(1));
    }
}

fn prompt() -> Vec<u8> {
    let request = Request { generation: 1, sampling: GREEDY, seed: 1, max_new_tokens: 8, tokens: vec![3, 1] };
    Frame::Prompt(Prompt::exact(SCHEME, request)).encode()
}

async fn resume(server: &Server, ticket: Ticket, attempt: u32, length: u32) -> RawClient {
    let mut client = server.raw().await;
    client.send(Frame::Resume(Resume { ticket, attempt, generation: 1, length }).encode()).await;
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_has_the_secret_takes_a_session_over_and_the_first_is_told() {
    let draft = blocks::draft();
    let limits = Limits { detached: Duration::from_secs(1), ..Limits::default() };
    let server = server(2, limits).await;
    let (mut first, welcome) = server.greeted(&draft_info(&draft)).await;
    assert_eq!(welcome.detached_seconds, 1);
    let (_other, others) = server.greeted(&draft_info(&draft)).await;
    assert!(others.ticket.id != welcome.ticket.id && others.ticket.secret != welcome.ticket.secret);
    first.send(prompt()).await;
    first.send(Frame::Draft(Draft { generation: 1, ..Draft::default() }).encode()).await;
    let verdict = first.receive().await;
    assert!(matches!(&verdict, Some(Frame::Verdict(_))), "{verdict:?}");

    let guess = Ticket { secret: others.ticket.secret, ..welcome.ticket };
    let unknown = "There is no such session: it waited too long, or the server was restarted.";
    assert_eq!(resume(&server, guess, 1, 2).await.expect_refusal(ErrorCode::UnknownSession).await, unknown);
    let mut second = resume(&server, welcome.ticket, 1, 2).await;
    let text = first.expect_refusal(ErrorCode::TakenOver).await;
    assert_eq!(text, "Another connection has taken over the session.");
    assert_eq!(second.receive().await, Some(Frame::Welcome(welcome.clone())));
    assert_eq!(second.receive().await, verdict, "it is sent again");
    let late = resume(&server, welcome.ticket, 1, 2).await.expect_refusal(ErrorCode::UnknownSession).await;
    assert_eq!(late, unknown);
    second.send(Frame::Draft(Draft { generation: 1, round: 1, ..Draft::default() }).encode()).await;
    assert!(matches!(second.receive().await, Some(Frame::Verdict(verdict)) if verdict.round == 1));

    // The edge does not come back in time.
    drop(second);
    assert_eq!(server.engine.load().sessions, 2);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(server.engine.load().sessions, 1);
    assert_eq!(resume(&server, welcome.ticket, 2, 4).await.expect_refusal(ErrorCode::UnknownSession).await, unknown);
}

/// A session that has begun nothing has nothing to resume, so its place is not kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_where_nothing_was_begun_is_free_at_once() {
    let server = server(1, Limits::default()).await;
    let (client, welcome) = server.greeted(&draft_info(&blocks::draft())).await;
    drop(client);
    server.is_empty().await;
    let mut client = resume(&server, welcome.ticket, 1, 0).await;
    client.expect_refusal(ErrorCode::UnknownSession).await;
}

/// Silence counts from when somebody was there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_back_late_may_be_silent_as_long_as_anybody() {
    let draft = draft_info(&blocks::draft());
    let limits = Limits { idle: Duration::from_millis(600), ..Limits::default() };
    let server = server(1, limits).await;
    let (mut client, welcome) = server.greeted(&draft).await;
    client.send(prompt()).await;
    client.send(Frame::Draft(Draft { generation: 1, ..Draft::default() }).encode()).await;
    assert!(matches!(client.receive().await, Some(Frame::Verdict(_))));
    drop(client);
    tokio::time::sleep(Duration::from_millis(900)).await;
    let mut client = resume(&server, welcome.ticket, 1, 3).await;
    assert_eq!(client.receive().await, Some(Frame::Welcome(welcome)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.send(Frame::Draft(Draft { generation: 1, round: 1, ..Draft::default() }).encode()).await;
    assert!(matches!(client.receive().await, Some(Frame::Verdict(verdict)) if verdict.round == 1));
    assert_eq!(client.expect_refusal(ErrorCode::Idle).await, "The session was silent for too long.");
}

/// An edge that finds no server any more reports the address that it tried; one without a way back, that the connection
/// is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_come_back_is_told_why() {
    let draft = blocks::draft();
    let server = server(2, Limits::default()).await;
    let length = draft.config().context_length as u32 / 2;
    for (attempts, said) in [(0, "the connection to the server was lost"), (3, "cannot be reached")] {
        let proxy = Proxy::before(&server.url, 900, 7).await;
        let retry = Retry { attempts, ..RETRY };
        let mut edge = loop {
            if let Ok(edge) = NativeEdge::connect(&draft, draft_info(&draft), &proxy.url, None, retry).await {
                break edge;
            }
        };
        // The discard port, where nothing listens.
        proxy.turn_to("ws://127.0.0.1:9/session");
        let error = loop {
            if let Err(error) = edge.generate(vec![3, 1], &settings(speculative(), length), |_| {}).await {
                break error.to_string();
            }
        };
        assert!(error.contains(said) && (attempts == 0 || error.contains(&proxy.url)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_without_a_connection_gives_way_and_one_with_does_not() {
    let draft = blocks::draft();
    let server = server(1, Limits::default()).await;
    let (mut client, _) = server.greeted(&draft_info(&draft)).await;
    client.send(prompt()).await;
    client.send(Frame::Cancel { generation: 1 }.encode()).await;
    client.send(Frame::Cancel { generation: 1 }.encode()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(client);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.engine.load().sessions, 1, "it waits for its client");
    let (mut client, _) = server.greeted(&draft_info(&draft)).await;
    client.send(prompt()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(client);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.engine.load().sessions, 1, "in the middle of a text, too");
    let (_client, _) = server.greeted(&draft_info(&draft)).await;
    let mut refused = server.raw().await;
    refused.send(hello(&draft_info(&draft))).await;
    let text = refused.expect_refusal(ErrorCode::ServerFull).await;
    assert_eq!(text, "The server is full; try again in some seconds.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_says_so_to_who_is_there_and_to_who_comes() {
    let draft = blocks::draft();
    let server = server(2, Limits::default()).await;
    let (mut client, _) = server.greeted(&draft_info(&draft)).await;
    client.send(prompt()).await;
    client.send(Frame::Draft(Draft { generation: 1, ..Draft::default() }).encode()).await;
    assert!(matches!(client.receive().await, Some(Frame::Verdict(_))));
    server.stop();
    assert_eq!(client.expect_refusal(ErrorCode::ShuttingDown).await, "The server is stopping; reconnect.");
    match NativeEdge::connect(&draft, draft_info(&draft), &server.url, None, RETRY).await {
        Err(error @ NativeEdgeError::Refused(_)) => {
            assert_eq!(
                error.to_string(),
                "the server refused the request (shutting-down): The server is stopping; reconnect."
            );
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a server that stops lets nobody in"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_too_old_is_begun_anew_by_itself() {
    let draft = blocks::draft();
    let limits = Limits { lifetime: Duration::from_millis(40), ..Limits::default() };
    let server = server(2, limits).await;
    let (mut client, _) = server.greeted(&draft_info(&draft)).await;
    let text = client.expect_refusal(ErrorCode::SessionExpired).await;
    assert_eq!(text, "The session has reached its maximum age; start a new one.");
    let mut edge = NativeEdge::connect(&draft, draft_info(&draft), &server.url, None, RETRY).await.unwrap();
    let length = draft.config().context_length as u32 / 2;
    let long_lived = blocks::server(1, Limits::default()).await;
    let mut calm = NativeEdge::connect(&draft, draft_info(&draft), &long_lived.url, None, RETRY).await.unwrap();
    let (expected, _) = generate(&mut calm, vec![3, 1], &settings(speculative(), length)).await;
    for _ in 0..20 {
        let (text, _) = generate(&mut edge, vec![3, 1], &settings(speculative(), length)).await;
        assert_eq!(text, expected);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
