use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::{Evidence, Finish, Next, Prompt, SamplingParameters, Token, Verdict},
    half,
    probabilities::DraftProbability,
    scheme::{Code, Downlink, Drafts, Scheme, SchemeParameters},
};

use super::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const V: u32 = 8;
const SCHEME: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 10, code: Code::Enumerative };

fn target() -> TargetInfo {
    TargetInfo { vocab_size: V, tokenizer_hash: [1; 32], context_length: 16, max_draft_tokens: 4, eos_ids: vec![7] }
}

fn hello() -> Vec<u8> {
    Frame::Hello(Hello { vocab_size: V, tokenizer_hash: [1; 32] }).encode()
}

fn request(generation: u32, tokens: &[u32]) -> Request {
    let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
    Request { generation, sampling, seed: 1, max_new_tokens: 6, tokens: tokens.to_vec() }
}

fn prompt(generation: u32, tokens: &[u32]) -> Vec<u8> {
    let scheme = SCHEME;
    Frame::Prompt(Prompt::exact(scheme, request(generation, tokens))).encode()
}

fn draft(generation: u32, round: u32, ids: &[u32]) -> Vec<u8> {
    let scheme = Scheme::new(SCHEME, V).unwrap();
    let certain = |id| DraftToken { id, dist: DraftDist::new(vec![id], vec![10]).unwrap(), support_size: 2 };
    let payload = scheme.encode_round(&Drafts::Distributions(ids.iter().copied().map(certain).collect())).unwrap();
    Frame::Draft(Draft { generation, round, count: ids.len() as u8, payload, ..Draft::default() }).encode()
}

fn greeted() -> CloudSession {
    let mut session = CloudSession::new(target());
    session.handle_frame(&hello());
    assert!(matches!(sent(&mut session), Frame::Welcome(_)));
    session
}

fn sent(session: &mut CloudSession) -> Frame {
    match session.poll() {
        Some(CloudOutput::Send(bytes)) => Frame::decode(&bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The error that a session answers with, and whether it then closes.
fn error(session: &mut CloudSession) -> (u32, ErrorCode, bool) {
    match sent(session) {
        Frame::Error(error) => {
            let closes = session.poll() == Some(CloudOutput::Close);
            assert_eq!(closes, error.generation == 0);
            (error.generation, error.code, closes)
        }
        other => panic!("{other:?}"),
    }
}

fn forward(session: &mut CloudSession) -> Forward {
    match session.poll() {
        Some(CloudOutput::Forward(forward)) => forward,
        other => panic!("{other:?}"),
    }
}

/// Rows whose greedy tokens are `best`.
fn rows(best: &[usize]) -> Vec<Vec<f32>> {
    best.iter().map(|&best| (0..V as usize).map(|i| f32::from(u8::from(i == best))).collect()).collect()
}

fn answer(session: &mut CloudSession, best: &[usize]) {
    let rows = rows(best);
    session.handle_logits(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn a_round_feeds_the_last_token_and_the_drafts() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0, 1, 2]));
    assert_eq!(forward(&mut session), Forward { keep: 0, tokens: vec![0, 1], rows: 0 });
    // The drafts come while the prompt is being read.
    session.handle_frame(&draft(1, 0, &[3, 4]));
    assert_eq!(session.poll(), None);
    answer(&mut session, &[]);
    assert_eq!(forward(&mut session), Forward { keep: 2, tokens: vec![2, 3, 4], rows: 3 });
    answer(&mut session, &[3, 5, 6]);
    let verdict = Verdict { generation: 1, round: 0, accepted: 1, next: Next::Token(5), finish: None };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
    assert_eq!(session.poll(), None);
    // 0 1 2 3 are in the cache, the rejected 4 is cut, 5 is new.
    session.handle_frame(&draft(1, 1, &[6]));
    assert_eq!(forward(&mut session), Forward { keep: 4, tokens: vec![5, 6], rows: 2 });
    answer(&mut session, &[6, 0]);
    let verdict = Verdict { generation: 1, round: 1, accepted: 1, next: Next::Token(0), finish: None };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
    // Four of six tokens are there: a draft of one leaves a place for the cloud's own.
    session.handle_frame(&draft(1, 2, &[1]));
    assert_eq!(forward(&mut session), Forward { keep: 6, tokens: vec![0, 1], rows: 2 });
    answer(&mut session, &[1, 2]);
    let verdict = Verdict { generation: 1, round: 2, accepted: 1, next: Next::Token(2), finish: Some(Finish::Length) };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
    assert!(!session.is_generating());
}

#[test]
fn an_accepted_end_of_text_is_the_last_token() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0]));
    session.handle_frame(&draft(1, 0, &[3, 7, 4]));
    forward(&mut session);
    answer(&mut session, &[3, 7, 4, 5]);
    let verdict = Verdict { generation: 1, round: 0, accepted: 2, next: Next::Nothing, finish: Some(Finish::Eos) };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
}

#[test]
fn cloud_only_streams_until_the_end() {
    let mut session = greeted();
    session.handle_frame(&Frame::Generate(request(1, &[0, 1])).encode());
    assert_eq!(forward(&mut session), Forward { keep: 0, tokens: vec![0, 1], rows: 1 });
    answer(&mut session, &[4]);
    assert_eq!(sent(&mut session), Frame::Token(Token { generation: 1, token: 4, finish: None }));
    assert_eq!(forward(&mut session), Forward { keep: 2, tokens: vec![4], rows: 1 });
    answer(&mut session, &[7]);
    assert_eq!(sent(&mut session), Frame::Token(Token { generation: 1, token: 7, finish: Some(Finish::Eos) }));
    assert_eq!(session.poll(), None);
}

#[test]
fn the_context_ends_a_text() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0; 14]));
    forward(&mut session);
    answer(&mut session, &[]);
    session.handle_frame(&draft(1, 0, &[1, 1]));
    assert_eq!(error(&mut session), (0, ErrorCode::InvalidDraft, true), "two drafts and a token are one too many");
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0; 15]));
    forward(&mut session);
    answer(&mut session, &[]);
    session.handle_frame(&draft(1, 0, &[]));
    forward(&mut session);
    answer(&mut session, &[3]);
    let verdict = Verdict { generation: 1, round: 0, accepted: 0, next: Next::Token(3), finish: Some(Finish::Context) };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
}

#[test]
fn wrong_handshakes_are_refused() {
    for (bytes, code) in [
        (b"\x01OUTR\x09\x00".to_vec(), ErrorCode::Version),
        (Frame::Hello(Hello { vocab_size: V + 1, tokenizer_hash: [1; 32] }).encode(), ErrorCode::Tokenizer),
        (Frame::Hello(Hello { vocab_size: V, tokenizer_hash: [2; 32] }).encode(), ErrorCode::Tokenizer),
        (prompt(1, &[0]), ErrorCode::OutOfOrder),
        (b"GET / HTTP/1.1".to_vec(), ErrorCode::Malformed),
        (vec![1; outrider_codec::frame::MAX_FRAME_BYTES + 1], ErrorCode::FrameTooLong),
        (vec![], ErrorCode::Malformed),
    ] {
        let mut session = CloudSession::new(target());
        session.handle_frame(&bytes);
        assert_eq!(error(&mut session), (0, code, true));
        session.handle_frame(&hello());
        assert_eq!(session.poll(), None, "a closed session says nothing more");
    }
}

#[test]
fn frames_out_of_order_close_the_connection() {
    let servers_frame = Frame::Token(Token { generation: 1, token: 1, finish: None }).encode();
    let cases = [
        ("second hello", vec![hello()], ErrorCode::OutOfOrder),
        ("prompt while generating", vec![prompt(2, &[0])], ErrorCode::OutOfOrder),
        ("wrong round", vec![draft(1, 1, &[1])], ErrorCode::OutOfOrder),
        ("wrong generation", vec![draft(2, 0, &[1])], ErrorCode::OutOfOrder),
        ("two drafts", vec![draft(1, 0, &[1]), draft(1, 0, &[1])], ErrorCode::OutOfOrder),
        ("cancel of the future", vec![Frame::Cancel { generation: 9 }.encode()], ErrorCode::OutOfOrder),
        ("a server's frame", vec![servers_frame], ErrorCode::OutOfOrder),
        ("too many drafts", vec![draft(1, 0, &[1; 5])], ErrorCode::InvalidDraft),
    ];
    for (name, frames, code) in cases {
        let mut session = greeted();
        session.handle_frame(&prompt(1, &[0]));
        for frame in frames {
            session.handle_frame(&frame);
        }
        assert_eq!(error(&mut session), (0, code, true), "{name}");
    }
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0]));
    let mut bad = draft(1, 0, &[1]);
    bad.push(0);
    session.handle_frame(&bad);
    assert_eq!(error(&mut session), (0, ErrorCode::Malformed, true), "a payload with a byte too many");
}

/// Found by the fuzz target `cloud`: the number of the round after it did not exist.
#[test]
fn a_resample_of_the_largest_round_is_out_of_order() {
    let scheme = SchemeParameters::Dssd { downlink: Downlink::Sampled(1) };
    for (round, is_right) in [(0, true), (1, false), (u32::MAX, false)] {
        let mut session = greeted();
        session.handle_frame(&Frame::Prompt(Prompt::exact(scheme, request(1, &[0]))).encode());
        let drafted = DraftProbability { id: 3, count: half::ONE, total: half::ONE };
        let payload = Scheme::new(scheme, V).unwrap().encode_round(&Drafts::Probabilities(vec![drafted])).unwrap();
        let draft = Draft { generation: 1, count: 1, payload, ..Draft::default() };
        session.handle_frame(&Frame::Draft(draft).encode());
        forward(&mut session);
        answer(&mut session, &[4, 4]);
        assert!(matches!(sent(&mut session), Frame::Verdict(Verdict { next: Next::Samples(_), .. })));
        session.handle_frame(&Frame::Resample { generation: 1, round }.encode());
        if is_right {
            assert!(matches!(sent(&mut session), Frame::Distribution(_)));
        } else {
            assert_eq!(error(&mut session), (0, ErrorCode::OutOfOrder, true));
        }
    }
}

#[test]
fn a_bad_request_ends_the_generation_and_the_session_goes_on() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0; 16]));
    assert_eq!(error(&mut session), (1, ErrorCode::PromptTooLong, false));
    session.handle_frame(&prompt(2, &[V]));
    assert_eq!(error(&mut session), (2, ErrorCode::InvalidParameters, false));
    let scheme = SchemeParameters::KSqs { support_size: 9, lattice_resolution: 10, code: Code::Enumerative };
    session.handle_frame(&Frame::Prompt(Prompt::exact(scheme, request(3, &[0]))).encode());
    assert_eq!(error(&mut session), (3, ErrorCode::InvalidParameters, false));
    // The edge had sent its first drafts before it read the refusal.
    session.handle_frame(&draft(3, 0, &[1]));
    assert_eq!(session.poll(), None);
    session.handle_frame(&prompt(4, &[0]));
    session.handle_frame(&draft(4, 0, &[1]));
    forward(&mut session);
    answer(&mut session, &[1, 2]);
    assert!(matches!(sent(&mut session), Frame::Verdict(_)));
}

#[test]
fn a_failing_target_ends_the_generation_only() {
    let mut session = greeted();
    session.handle_frame(&Frame::Generate(request(1, &[0])).encode());
    forward(&mut session);
    session.handle_failure("out of memory");
    assert_eq!(error(&mut session), (1, ErrorCode::Internal, false));
    session.handle_frame(&Frame::Generate(request(2, &[0])).encode());
    forward(&mut session);
    session.handle_logits(&[&[f32::NAN; V as usize]]);
    assert_eq!(error(&mut session), (2, ErrorCode::Internal, false));
}

#[test]
fn a_cancelled_pass_is_dropped_and_a_new_generation_starts_from_nothing() {
    let mut session = greeted();
    session.handle_frame(&Frame::Generate(request(1, &[0, 1])).encode());
    forward(&mut session);
    session.handle_frame(&Frame::Cancel { generation: 1 }.encode());
    session.handle_frame(&Frame::Generate(request(2, &[5])).encode());
    assert_eq!(session.poll(), None, "one pass at a time");
    answer(&mut session, &[3]);
    assert_eq!(forward(&mut session), Forward { keep: 0, tokens: vec![5], rows: 1 });
    session.handle_frame(&Frame::Cancel { generation: 1 }.encode());
    answer(&mut session, &[3]);
    assert_eq!(sent(&mut session), Frame::Token(Token { generation: 2, token: 3, finish: None }));
}

/// Found by the fuzz target `cloud`: tokens that passed while the prompt was read were taken to be in the cache.
#[test]
fn what_passes_while_the_prompt_is_read_is_fed_after_it() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0, 1, 2]));
    assert_eq!(forward(&mut session), Forward { keep: 0, tokens: vec![0, 1], rows: 0 });
    let Frame::Draft(drafted) = Frame::decode(&draft(1, 0, &[5])).unwrap() else { panic!("not a draft") };
    session.handle_frame(&Frame::Draft(Draft { passed: vec![3, 4], ..drafted }).encode());
    answer(&mut session, &[]);
    assert_eq!(forward(&mut session), Forward { keep: 2, tokens: vec![2, 3, 4, 5], rows: 2 });
}

/// Found by the fuzz target `cloud`: evidence went on after the end of the text.
#[test]
fn nothing_drafted_after_the_end_is_witnessed() {
    let mut session = greeted();
    let prompt = Prompt { evidence: true, ..Prompt::exact(SCHEME, request(1, &[0])) };
    session.handle_frame(&Frame::Prompt(prompt).encode());
    session.handle_frame(&draft(1, 0, &[3, 7, 4]));
    forward(&mut session);
    answer(&mut session, &[3, 7, 4, 5]);
    for expected in 0..2 {
        assert!(matches!(sent(&mut session), Frame::Evidence(Evidence { index, .. }) if index == expected));
    }
    assert!(matches!(sent(&mut session), Frame::Verdict(Verdict { accepted: 2, finish: Some(Finish::Eos), .. })));
}
