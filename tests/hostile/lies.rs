//! Peers that lie: each receives an error that names its mistake, and the others go on.

use outrider_codec::{
    bits::BitWriter,
    frame::{Draft, ErrorCode, Frame, Prompt, Request},
    scheme::{Code, Downlink, SchemeParameters},
};
use outrider_speculation::session::edge::{Mode, Settings, Speculation};
use outrider_tests::{
    samplings::{GREEDY, NEUTRAL},
    server::{Edge, MAX_DRAFT_TOKENS, Options, Server, generate},
};

const V: u32 = 4096;
/// 1 and ½ in binary16.
const ONE: u64 = 0x3c00;
const HALF: u64 = 0x3800;
const TK_SLT: SchemeParameters = SchemeParameters::TkSlt { support_size: 2 };
const DSSD: SchemeParameters = SchemeParameters::Dssd { downlink: Downlink::Sampled(1) };

fn prompt(scheme: SchemeParameters) -> Vec<u8> {
    let request = Request { generation: 1, sampling: NEUTRAL, seed: 1, max_new_tokens: 64, tokens: vec![0, 5] };
    Frame::Prompt(Prompt::exact(scheme, request)).encode()
}

/// Fields, each with its width in bits.
fn payload(fields: &[(u64, u32)]) -> Vec<u8> {
    let mut bits = BitWriter::new();
    for &(value, width) in fields {
        bits.put(value, width);
    }
    bits.into_bytes()
}

/// A round of one draft under TK-SLT: two ids, their probabilities, the index of the drafted one.
fn tk_slt(ids: [u64; 2], probabilities: [u64; 2], drafted: u64) -> Draft {
    let fields = [(ids[0], 12), (ids[1], 12), (probabilities[0], 16), (probabilities[1], 16), (drafted, 1)];
    Draft { generation: 1, count: 1, payload: payload(&fields), ..Draft::default() }
}

/// A round of one draft under DSSD: its id, its probability, the sum of all counts.
fn dssd(id: u64, probability: u64, total: u64) -> Draft {
    let payload = payload(&[(id, 12), (probability, 16), (total, 25)]);
    Draft { generation: 1, count: 1, payload, ..Draft::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lies_are_refused_by_name_and_others_never_notice() {
    let edge = Edge::load();
    let server = Server::start_as(Options::default()).await;
    let mut good = edge.connect(&server.url).await;
    let start = edge.prompt("Once upon a time");
    let scheme = SchemeParameters::KSqs { support_size: 8, lattice_resolution: 100, code: Code::Enumerative };
    let mode = Mode::Speculative(Speculation::new(scheme, 4));
    let settings = Settings { mode, sampling: GREEDY, seed: 1, max_new_tokens: 48 };
    let (expected, _) = generate(&mut good, start.clone(), &settings).await;

    let honest = tk_slt([3, 9], [HALF, HALF], 1);
    let many = Draft { count: MAX_DRAFT_TOKENS + 1, ..honest.clone() };
    let payload = |payload: &[u8]| Draft { payload: payload.to_vec(), ..honest.clone() };
    let longer = [&honest.payload[..], &[0]].concat();
    let malformed = [
        ("more than one in all", TK_SLT, tk_slt([3, 9], [ONE, ONE], 0), "sum of probabilities holds 33554432"),
        ("a total of zero", TK_SLT, tk_slt([0, 1], [0, 0], 0), "counts holds 0"),
        ("below zero", TK_SLT, tk_slt([3, 9], [HALF | 0x8000, HALF], 1), "probability holds 47104"),
        ("above one", TK_SLT, tk_slt([3, 9], [0x4000, HALF], 1), "probability holds 16384"),
        ("not a number", TK_SLT, tk_slt([3, 9], [0x7e00, HALF], 1), "probability holds 32256"),
        ("a draft without mass", TK_SLT, tk_slt([0, 9], [0, HALF], 0), "index holds 0"),
        ("ids that descend", TK_SLT, tk_slt([9, 3], [HALF, HALF], 0), "holds 3"),
        ("a total below its part", DSSD, dssd(7, ONE, 5), "probability holds 16777216"),
        ("a total of zero (DSSD)", DSSD, dssd(7, HALF, 0), "probability holds 8388608"),
        ("no probability at all", DSSD, dssd(7, 0, 100), "probability holds 0"),
        ("half a payload", TK_SLT, payload(&honest.payload[..4]), "ends inside"),
        ("more than a payload", TK_SLT, payload(&longer), "left after the last field"),
    ];
    let again = || honest.clone();
    let out_of_order = [
        ("another generation", Draft { generation: 7, ..again() }, "Draft 7/0 came while generation 1 is under way"),
        ("another round", Draft { round: 3, ..again() }, "Draft 1/3 came while 1/0 was expected"),
        ("an epoch to come", Draft { epoch: 3, ..again() }, "Draft 1/0 is of epoch 3 while 0 is under way"),
        ("nobody rejected", Draft { resampled: Some(5), ..again() }, "resampled token came where none was due"),
    ];
    let invalid = [
        ("outside the vocabulary", Draft { passed: vec![V], ..again() }, "passed tokens"),
        ("more drafts than agreed", many, "17 drafts are more than the 16 allowed"),
    ];
    let lies = malformed
        .map(|(name, scheme, draft, part)| (name, scheme, draft, ErrorCode::Malformed, part))
        .into_iter()
        .chain(out_of_order.map(|(name, draft, part)| (name, TK_SLT, draft, ErrorCode::OutOfOrder, part)))
        .chain(invalid.map(|(name, draft, part)| (name, TK_SLT, draft, ErrorCode::InvalidDraft, part)));
    let lie = async {
        for (name, scheme, draft, code, part) in lies {
            let (mut client, _) = server.greeted(&edge.info()).await;
            client.send(prompt(scheme)).await;
            client.send(Frame::Draft(draft).encode()).await;
            let text = client.expect_refusal(code).await;
            println!("{name}: {} ({text})", code.name());
            assert!(text.contains(part), "{name}: {text}");
        }
        // What they are measured by is accepted.
        let (mut client, _) = server.greeted(&edge.info()).await;
        client.send(prompt(TK_SLT)).await;
        client.send(Frame::Draft(honest).encode()).await;
        assert!(matches!(client.receive().await, Some(Frame::Verdict(_))));
    };
    let go_on = async {
        for _ in 0..4 {
            assert_eq!(generate(&mut good, start.clone(), &settings).await.0, expected);
        }
    };
    tokio::join!(lie, go_on);
}
