use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::{Finish, Limits, Next, Prompt, SamplingParameters, Tokens, Verdict},
    half,
    probabilities::DraftProbability,
    rule::RuleParameters,
    scheme::{Code, Downlink, Drafts, Scheme, SchemeParameters},
};

use super::*;
use crate::{
    Forward,
    judge::{judge, rules::Rule},
};

mod branches;
mod flight;
mod guesses;
mod in_process;
mod judgement;
mod resume;

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const V: u32 = 8;
const ADMISSION: Admission = Admission {
    ticket: Ticket { id: [1; 16], secret: [2; 16] },
    detached_seconds: 120,
    refuses_evidence: false,
    pass_micros: [8, 9, 10, 14, 20],
};
const SCHEME: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 10, code: Code::Enumerative };

const LIMITS: Limits = Limits { max_in_flight: 3, max_guesses: 8, max_branches: 4, ..Limits::rounds(16, 4) };

fn target() -> TargetInfo {
    limited(LIMITS)
}

fn limited(limits: Limits) -> TargetInfo {
    TargetInfo { vocab_size: V, tokenizer_hash: [1; 32], limits, eos_ids: vec![7] }
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

fn resume(generation: u32, length: u32) -> Vec<u8> {
    Frame::Resume(Resume { ticket: ADMISSION.ticket, attempt: 1, generation, length }).encode()
}

fn resumes(session: &mut CloudSession, generation: u32, length: u32) -> Vec<Frame> {
    let attempt = session.attempt + 1;
    let late = Resume { ticket: ADMISSION.ticket, attempt: attempt - 1, generation, length };
    assert!(!session.resume(&late), "a later one has the session");
    assert!(session.resume(&Resume { attempt, ..late }));
    let Frame::Welcome(welcome) = sent(session) else { panic!("no Welcome") };
    assert_eq!((welcome.ticket, welcome.detached_seconds), (ADMISSION.ticket, 120));
    assert_eq!(welcome.pass_micros, ADMISSION.pass_micros);
    let mut frames = Vec::new();
    while let Some(CloudOutput::Send(bytes)) = session.outputs.pop_front() {
        frames.push(Frame::decode(&bytes).unwrap());
    }
    frames
}

fn greeted() -> CloudSession {
    let mut session = CloudSession::new(target(), ADMISSION);
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
        Some(CloudOutput::Verify(pass)) => pass.forward,
        other => panic!("{other:?}"),
    }
}

/// Rows whose greedy tokens are `best`.
fn rows(best: &[usize]) -> Vec<Vec<f32>> {
    best.iter().map(|&best| (0..V as usize).map(|i| f32::from(u8::from(i == best))).collect()).collect()
}

/// Hands in the judgement of the pass under way by such rows.
fn answer(session: &mut CloudSession, best: &[usize]) {
    answer_by(session, &rows(best).iter().map(Vec::as_slice).collect::<Vec<_>>());
}

fn answer_by(session: &mut CloudSession, rows: &[&[f32]]) {
    let InFlight { round, reads, .. } = session.in_flight.as_ref().unwrap();
    let judgement = if reads.is_some() { Judgement::default() } else { judge(round, rows).unwrap() };
    session.handle_judgement(judgement);
}

#[test]
fn a_round_feeds_the_last_token_and_the_drafts() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0, 1, 2]));
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 0));
    // The drafts come while the prompt is being read.
    session.handle_frame(&draft(1, 0, &[3, 4]));
    assert_eq!(session.poll(), None);
    answer(&mut session, &[]);
    assert_eq!(forward(&mut session), Forward::new(2, vec![2, 3, 4], 3));
    answer(&mut session, &[3, 5, 6]);
    let verdict = Verdict { generation: 1, round: 0, accepted: 1, next: Next::Token(5), finish: None };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
    assert_eq!(session.poll(), None);
    // 0 1 2 3 are in the cache, the rejected 4 is cut, 5 is new.
    session.handle_frame(&draft(1, 1, &[6]));
    assert_eq!(forward(&mut session), Forward::new(4, vec![5, 6], 2));
    answer(&mut session, &[6, 0]);
    let verdict = Verdict { generation: 1, round: 1, accepted: 1, next: Next::Token(0), finish: None };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
    // Four of six tokens are there: a draft of one leaves a place for the cloud's own.
    session.handle_frame(&draft(1, 2, &[1]));
    assert_eq!(forward(&mut session), Forward::new(6, vec![0, 1], 2));
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
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 1));
    answer(&mut session, &[4]);
    assert_eq!(sent(&mut session), Frame::Tokens(Tokens::one(1, 2, 4, None)));
    assert_eq!(forward(&mut session), Forward::new(2, vec![4], 1));
    answer(&mut session, &[7]);
    assert_eq!(sent(&mut session), Frame::Tokens(Tokens::one(1, 3, 7, Some(Finish::Eos))));
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
        (resume(1, 0), ErrorCode::UnknownSession),
        (b"GET / HTTP/1.1".to_vec(), ErrorCode::Malformed),
        (vec![1; outrider_codec::frame::MAX_FRAME_BYTES + 1], ErrorCode::FrameTooLong),
        (vec![], ErrorCode::Malformed),
    ] {
        let mut session = CloudSession::new(target(), ADMISSION);
        session.handle_frame(&bytes);
        assert_eq!(error(&mut session), (0, code, true));
        session.handle_frame(&hello());
        assert_eq!(session.poll(), None, "a closed session says nothing more");
    }
}

#[test]
fn frames_out_of_order_close_the_connection() {
    let servers_frame = Frame::Tokens(Tokens::one(1, 1, 1, None)).encode();
    let cases = [
        ("second hello", vec![hello()], ErrorCode::OutOfOrder),
        ("prompt while generating", vec![prompt(2, &[0])], ErrorCode::OutOfOrder),
        ("wrong round", vec![draft(1, 1, &[1])], ErrorCode::OutOfOrder),
        ("wrong generation", vec![draft(2, 0, &[1])], ErrorCode::OutOfOrder),
        ("a round too far", vec![draft(1, 0, &[1]), draft(1, 1, &[1])], ErrorCode::OutOfOrder),
        ("resume in a session", vec![resume(1, 0)], ErrorCode::OutOfOrder),
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
    session.handle_refusal("not by this target");
    assert_eq!(error(&mut session), (2, ErrorCode::InvalidParameters, false));
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
    assert_eq!(forward(&mut session), Forward::new(0, vec![5], 1));
    session.handle_frame(&Frame::Cancel { generation: 1 }.encode());
    answer(&mut session, &[3]);
    assert_eq!(sent(&mut session), Frame::Tokens(Tokens::one(2, 1, 3, None)));
}

fn with_rule(name: &str, scheme: SchemeParameters) -> Vec<u8> {
    let rule = Rule::new(name, 0.5).unwrap();
    let rule = RuleParameters { number: rule.number(), parameter: 0.5 };
    Frame::Prompt(Prompt { rule, ..Prompt::exact(scheme, request(1, &[0])) }).encode()
}

/// A draft of ids that are certain, after the bytes of their statistics.
fn draft_with(statistics: &[u8], ids: &[u32]) -> Draft {
    let Ok(Frame::Draft(draft)) = Frame::decode(&draft(1, 0, ids)) else { unreachable!() };
    Draft { payload: [statistics, &draft.payload].concat(), ..draft }
}

/// Passed tokens that came while the prompt was being read were taken to be in the cache.
#[test]
fn passed_tokens_that_come_while_the_prompt_is_read_are_fed_with_the_drafts() {
    for stream in [0, 2] {
        let mut session = greeted();
        session.handle_frame(&prompt(1, &[0, 1, 2]));
        assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 0));
        let draft = draft_with(&[], if stream > 0 { &[] } else { &[5] });
        session.handle_frame(&Frame::Draft(Draft { passed: vec![3, 4], stream, ..draft }).encode());
        answer(&mut session, &[]);
        let (tokens, rows) = if stream > 0 { (vec![2, 3, 4], 1) } else { (vec![2, 3, 4, 5], 2) };
        assert_eq!(forward(&mut session), Forward::new(2, tokens, rows));
        answer(&mut session, &[5, 6][..rows]);
        match sent(&mut session) {
            Frame::Verdict(verdict) => assert_eq!((verdict.accepted, verdict.next), (1, Next::Token(6))),
            frame => assert_eq!(frame, Frame::Tokens(Tokens::one(1, 5, 5, None))),
        }
    }
}

/// No bonus token, and so a draft more: it may be the last token of the text.
#[test]
fn lossy_rounds_reach_the_end_and_feed_all_but_the_last_draft() {
    let mut session = greeted();
    session.handle_frame(&with_rule("lossy", SCHEME));
    session.handle_frame(&draft(1, 0, &[1, 2]));
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 2));
    answer(&mut session, &[1, 2]);
    let verdict = Verdict { generation: 1, round: 0, accepted: 2, next: Next::Nothing, finish: None };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
    // The second was not fed: its row comes with the next round.
    session.handle_frame(&draft(1, 1, &[3, 4, 5, 6]));
    assert_eq!(forward(&mut session), Forward::new(2, vec![2, 3, 4, 5], 4));
    answer(&mut session, &[3, 4, 5, 6]);
    let verdict = Verdict { generation: 1, round: 1, accepted: 4, next: Next::Nothing, finish: Some(Finish::Length) };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
}

#[test]
fn a_round_of_no_drafts_gives_a_token_under_every_rule() {
    for info in Rule::all() {
        let mut session = greeted();
        let parameter = info.default as f32;
        let rule = RuleParameters { number: Rule::new(info.name, info.default).unwrap().number(), parameter };
        session.handle_frame(&Frame::Prompt(Prompt { rule, ..Prompt::exact(SCHEME, request(1, &[0])) }).encode());
        session.handle_frame(&draft(1, 0, &[]));
        assert_eq!(forward(&mut session), Forward::new(0, vec![0], 1));
        answer(&mut session, &[3]);
        let verdict = Verdict { generation: 1, round: 0, accepted: 0, next: Next::Token(3), finish: None };
        assert_eq!(sent(&mut session), Frame::Verdict(verdict), "{}", info.name);
    }
}

#[test]
fn drafts_that_lie_about_what_passed_are_invalid() {
    let cases: [(&str, &[u32], &[u32]); 5] = [
        ("an end of text", &[1, 7], &[]),
        ("a token outside the vocabulary", &[V], &[]),
        ("a whole text", &[1; 6], &[]),
        ("no place for the bonus token", &[1; 4], &[1, 2]),
        ("more than the context", &[1; 15], &[]),
    ];
    for (name, passed, ids) in cases {
        let mut session = greeted();
        session.handle_frame(&prompt(1, &[0]));
        let draft = Draft { passed: passed.to_vec(), ..draft_with(&[], ids) };
        session.handle_frame(&Frame::Draft(draft).encode());
        assert_eq!(error(&mut session), (0, ErrorCode::InvalidDraft, true), "{name}");
    }
    // As many as there may be.
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0]));
    session.handle_frame(&Frame::Draft(Draft { passed: vec![1; 4], ..draft_with(&[], &[2]) }).encode());
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1, 1, 1, 1, 2], 2));
}

#[test]
fn nothing_is_drafted_while_the_target_writes() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0]));
    let stream = Draft { stream: 2, ..draft_with(&[], &[]) };
    session.handle_frame(&Frame::Draft(stream.clone()).encode());
    forward(&mut session);
    answer(&mut session, &[3]);
    assert!(matches!(sent(&mut session), Frame::Tokens(_)));
    session.handle_frame(&Frame::Draft(stream.clone()).encode());
    session.handle_frame(&Frame::Draft(Draft { round: 1, ..stream }).encode());
    assert_eq!(error(&mut session), (0, ErrorCode::OutOfOrder, true));
}

#[test]
fn statistics_that_are_not_the_drafts_are_malformed() {
    // f16: ½ is 3800, 2 is 4000, −½ is b800, NaN is 7e00; the drafts' q̂ has one id.
    let half = [0x00, 0x38];
    let cases: [(&str, &str, Vec<u8>, bool); 8] = [
        ("chow", "one number", half.to_vec(), true),
        ("chow", "none", vec![], false),
        ("chow", "two", [half, half].concat(), false),
        ("chow", "NaN", vec![0x00, 0x7e], false),
        ("chow", "a negative number", vec![0x00, 0xb8], false),
        ("token-v1", "one for the one id", [&[1], &half[..]].concat(), true),
        ("token-v1", "one too many", [&[2], &half[..], &half].concat(), false),
        ("token-v1", "a count without numbers", vec![200, 200, 1], false),
    ];
    for (rule, name, statistics, is_right) in cases {
        let mut session = greeted();
        session.handle_frame(&with_rule(rule, SCHEME));
        session.handle_frame(&Frame::Draft(draft_with(&statistics, &[3])).encode());
        if is_right {
            assert_eq!(forward(&mut session), Forward::new(0, vec![0], 1), "{rule}: {name}");
        } else {
            assert_eq!(error(&mut session), (0, ErrorCode::Malformed, true), "{rule}: {name}");
        }
    }
}

#[test]
fn rules_that_cannot_be_used_are_refused_and_the_session_goes_on() {
    let cases = [
        (255, 0.5, SCHEME),
        (127, 0.0, SCHEME),
        (1, 1.0, SCHEME),
        (3, 1.5, SCHEME),
        (1, 0.5, SchemeParameters::Dssd { downlink: Downlink::Full }),
        (15, 0.5, SchemeParameters::Dssd { downlink: Downlink::Sampled(2) }),
        (3, 0.5, SchemeParameters::Coupled),
        // D(q, p) runs over the whole vocabulary (Narasimhan et al., F.1), of which these send a part.
        (12, 3.0, SCHEME),
        (13, 3.0, SchemeParameters::TkSlt { support_size: V - 1 }),
        (13, 3.0, SchemeParameters::Qs { lattice_resolution: 10, code: Code::Enumerative }),
    ];
    for (number, parameter, scheme) in cases {
        let mut session = greeted();
        let rule = RuleParameters { number, parameter };
        let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
        let request = Request { sampling, ..request(1, &[0]) };
        session.handle_frame(&Frame::Prompt(Prompt { rule, ..Prompt::exact(scheme, request) }).encode());
        assert_eq!(error(&mut session), (1, ErrorCode::InvalidParameters, false), "rule {number} with {scheme:?}");
        session.handle_frame(&prompt(2, &[0]));
        session.handle_frame(&draft(2, 0, &[1]));
        forward(&mut session);
        answer(&mut session, &[1, 2]);
        assert!(matches!(sent(&mut session), Frame::Verdict(_)));
    }
}
