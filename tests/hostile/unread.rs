//! A peer that never reads. The test runs in a process of its own, because it measures the memory of the whole process.
#![cfg(target_os = "linux")]

use std::{process::Command, time::Duration};

use outrider_cloud::session::Limits;
use outrider_codec::{
    bits::BitWriter,
    frame::{Draft, ErrorCode, Frame, Next, Prompt, Request, Resume},
    scheme::{Downlink, SchemeParameters},
};
use outrider_tests::{
    samplings::NEUTRAL,
    server::{Edge, Options, Server},
};
use tokio::{runtime::Builder, time};

/// Variable that is set in the process of its own.
const ALONE: &str = "OUTRIDER_TEST_ALONE";
const DSSD: SchemeParameters = SchemeParameters::Dssd { downlink: Downlink::Sampled(1) };

/// A few bytes ask for sixteen thousand, again and again, and are never read: once the sockets' buffers are full, the
/// session has to stop instead of piling them up.
#[test]
fn a_peer_that_never_reads_is_let_go_and_costs_no_memory() {
    const NAME: &str = "unread::a_peer_that_never_reads_is_let_go_and_costs_no_memory";
    if std::env::var_os(ALONE).is_some() {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(never_read());
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", NAME, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

async fn never_read() {
    const ASKED: usize = 8000;
    let edge = Edge::load();
    let limits =
        Limits { write: Duration::from_millis(500), detached: Duration::from_millis(500), ..Limits::default() };
    let server = Server::start_as(Options { limits, ..Options::default() }).await;
    let (mut client, welcome) = server.greeted(&edge.info()).await;
    let request = Request { generation: 1, sampling: NEUTRAL, seed: 1, max_new_tokens: 64, tokens: vec![0, 5] };
    client.send(Frame::Prompt(Prompt::exact(DSSD, request)).encode()).await;
    // A draft that the target would hardly make: it is rejected, and the edge may ask for the distribution.
    // Its id, its probability (1 in binary16), the sum of all counts.
    let mut bits = BitWriter::new();
    for (value, width) in [(4000, 12), (0x3c00, 16), (1 << 24, 25)] {
        bits.put(value, width);
    }
    let draft = Draft { generation: 1, count: 1, payload: bits.into_bytes(), ..Draft::default() };
    client.send(Frame::Draft(draft).encode()).await;
    let Some(Frame::Verdict(verdict)) = client.receive().await else { panic!("no verdict") };
    assert!(matches!(verdict.next, Next::Samples(_)), "{verdict:?}");
    let ask = Frame::Resample { generation: 1, round: 0 }.encode();
    client.send(ask.clone()).await;
    let Some(Frame::Distribution(answer)) = client.receive().await else { panic!("no distribution") };
    let bytes = Frame::Distribution(answer).encode().len();

    let before = resident_bytes();
    let flood = async {
        for _ in 0..ASKED {
            // Once the server has let go the connection takes no message.
            if client.try_send(ask.clone()).await.is_err() {
                break;
            }
        }
        server.is_empty().await;
    };
    time::timeout(Duration::from_secs(30), flood).await.expect("the session is let go");
    let grown = resident_bytes().saturating_sub(before);
    assert!(ASKED * bytes > 100 << 20 && grown < 24 << 20, "{bytes} {grown}");
    // What it then reads is what the sockets held, and an end; and if it asks for its session, why there is none.
    while let Some(frame) = client.receive().await {
        assert!(matches!(frame, Frame::Distribution(_)), "{frame:?}");
    }
    let mut client = server.raw().await;
    client.send(Frame::Resume(Resume { ticket: welcome.ticket, attempt: 1, generation: 1, length: 2 }).encode()).await;
    let text = client.expect_refusal(ErrorCode::UnknownSession).await;
    assert!(text.starts_with("There is no such session: it waited too long"), "{text}");
    edge.connect(&server.url).await;
}

/// The most memory that this process has had.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}
