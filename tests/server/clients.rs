//! A client that misbehaves receives an error that names its mistake, and the others go on.

use std::time::Duration;

use outrider_cloud::{
    edge::{NativeEdge, NativeEdgeError, Transport},
    session::Limits,
};
use outrider_codec::{
    frame::{Draft, ErrorCode, Frame, MAX_FRAME_BYTES, Prompt, Request},
    scheme::{Code, SchemeParameters},
};
use outrider_speculation::session::edge::{DraftInfo, Mode, Settings, Speculation};
use outrider_tests::{
    samplings::GREEDY,
    server::{Edge, Server, generate, hello},
};

const SCHEME: SchemeParameters =
    SchemeParameters::KSqs { support_size: 8, lattice_resolution: 100, code: Code::Enumerative };

fn settings(max_new_tokens: u32) -> Settings {
    let mode = Mode::Speculative(Speculation::new(SCHEME, 4));
    Settings { mode, sampling: GREEDY, seed: 1, max_new_tokens }
}

fn prompt(generation: u32, tokens: Vec<u32>) -> Frame {
    let request = Request { generation, sampling: GREEDY, seed: 1, max_new_tokens: 8, tokens };
    Frame::Prompt(Prompt::exact(SCHEME, request))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_clients_are_told_and_good_ones_never_notice() {
    let edge = Edge::load();
    let info = edge.info();
    // Who goes without a goodbye is waited for.
    let limits = Limits { detached: Duration::from_secs(1), ..Limits::default() };
    let server = Server::start(8, limits).await;
    let mut good = edge.connect(&server.url).await;
    let start = edge.prompt("Once upon a time");
    let (expected, _) = generate(&mut good, start.clone(), &settings(48)).await;

    let misbehave = async {
        let cases: [(&str, Vec<u8>, ErrorCode); 7] = [
            ("malformed", b"GET / HTTP/1.1".to_vec(), ErrorCode::Malformed),
            ("empty", Vec::new(), ErrorCode::Malformed),
            ("truncated", hello(&info)[..20].to_vec(), ErrorCode::Malformed),
            ("too long", vec![1; MAX_FRAME_BYTES + 1], ErrorCode::FrameTooLong),
            ("another version", b"\x01OUTR\x63\x00".to_vec(), ErrorCode::Version),
            ("another tokenizer", hello(&DraftInfo { tokenizer_hash: [0; 32], ..info.clone() }), ErrorCode::Tokenizer),
            ("no hello", prompt(1, vec![0]).encode(), ErrorCode::OutOfOrder),
        ];
        for (name, bytes, code) in cases {
            let mut client = server.raw().await;
            client.send(bytes).await;
            client.expect_refusal(code).await;
            println!("{name}: {}", code.name());
        }
        let mut client = server.raw().await;
        client.send_text("hello").await;
        client.expect_refusal(ErrorCode::Malformed).await;

        let draft = Draft { generation: 1, count: 1, payload: vec![0; 15], ..Draft::default() };
        for (bytes, code) in [
            (hello(&info), ErrorCode::OutOfOrder),
            (Frame::Draft(draft).encode(), ErrorCode::OutOfOrder),
            (vec![0x77], ErrorCode::Malformed),
        ] {
            let (mut client, _) = server.greeted(&info).await;
            client.send(bytes).await;
            client.expect_refusal(code).await;
        }
        // `hostile/lies.rs` has drafts that lie.
        let (mut client, _) = server.greeted(&info).await;
        client.send(prompt(1, vec![0, 1, 2]).encode()).await;
        client.send(prompt(2, vec![0]).encode()).await;
        client.expect_refusal(ErrorCode::OutOfOrder).await;
        // A client that goes away in the middle of a generation.
        let (mut client, _) = server.greeted(&info).await;
        client.send(prompt(1, vec![0; 400]).encode()).await;
        drop(client);

        // A refused request leaves the connection as it was.
        let (mut client, _) = server.greeted(&info).await;
        client.send(prompt(1, vec![0; 512]).encode()).await;
        client.send(prompt(2, vec![info.vocab_size]).encode()).await;
        for (generation, code) in [(1, ErrorCode::PromptTooLong), (2, ErrorCode::InvalidParameters)] {
            match client.receive().await {
                Some(Frame::Error(error)) => assert_eq!((error.generation, error.code), (generation, code)),
                other => panic!("{other:?}"),
            }
        }
        client.send(prompt(3, vec![0, 5]).encode()).await;
        client.send(Frame::Draft(Draft { generation: 3, ..Draft::default() }).encode()).await;
        assert!(matches!(client.receive().await, Some(Frame::Verdict(verdict)) if verdict.generation == 3));
    };
    let go_on = async {
        for _ in 0..4 {
            assert_eq!(generate(&mut good, start.clone(), &settings(48)).await.0, expected);
        }
    };
    tokio::join!(misbehave, go_on);
    good.close().await;
    server.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_says_so_and_has_room_again() {
    let edge = Edge::load();
    let info = edge.info();
    let server = Server::start(1, Limits::default()).await;
    let mut first = edge.connect(&server.url).await;
    let mut client = server.raw().await;
    client.send(hello(&info)).await;
    let text = client.expect_refusal(ErrorCode::ServerFull).await;
    assert_eq!(text, "The server is full; try again in some seconds.");
    let refused = NativeEdge::greet(&edge.model, info, Transport::connect(&server.url).await.unwrap()).await;
    let Err(refused @ NativeEdgeError::Refused(_)) = refused else { panic!("there is a place") };
    assert_eq!(refused.to_string(), format!("the server refused the request (server-full): {text}"));
    assert_eq!(generate(&mut first, vec![0, 1], &settings(8)).await.0.len(), 8);
    first.close().await;
    server.is_empty().await;
    edge.connect(&server.url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_ends_at_the_context_and_the_longest_prompt_fits() {
    let edge = Edge::load();
    let server = Server::start(2, Limits::default()).await;
    let mut session = edge.connect(&server.url).await;
    let context = edge.model.config().context_length;
    for length in [context - 30, context - 1] {
        let prompt: Vec<u32> = (0..length as u32).map(|i| 1 + i * 37 % 4000).collect();
        let (ids, generated) = generate(&mut session, prompt, &settings(100)).await;
        assert_eq!((ids.len(), generated.end.name()), (context - length, "context"));
    }
}
