//! Several rounds in flight, at the cloud.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::*;

/// A generation of up to 3 rounds in flight after token 0.
fn begun() -> CloudSession {
    let mut session = greeted();
    let prompt = Prompt { max_in_flight: 3, ..Prompt::exact(SCHEME, request(1, &[0])) };
    session.handle_frame(&Frame::Prompt(prompt).encode());
    session
}

fn flying(round: u32, epoch: u32, continued: bool, ids: &[u32]) -> Vec<u8> {
    let Ok(Frame::Draft(plain)) = Frame::decode(&draft(1, round, ids)) else { unreachable!() };
    Frame::Draft(Draft { epoch, continued, ..plain }).encode()
}

fn verdict(round: u32, accepted: u8, next: Next, finish: Option<Finish>) -> Frame {
    Frame::Verdict(Verdict { generation: 1, round, accepted, next, finish })
}

#[test]
fn rounds_wait_for_their_turn_and_go_on_from_the_draft_before() {
    let mut session = begun();
    for (round, ids) in [(0, &[1, 2][..]), (1, &[3]), (2, &[4])] {
        session.handle_frame(&flying(round, 0, round < 2, ids));
    }
    // No row after the last draft: no token is drawn there.
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 2));
    answer(&mut session, &[1, 2]);
    assert_eq!(sent(&mut session), verdict(0, 2, Next::Nothing, None));
    // It comes with the next, whose own last draft is not continued from.
    assert_eq!(forward(&mut session), Forward::new(2, vec![2], 1));
    answer(&mut session, &[3]);
    assert_eq!(sent(&mut session), verdict(1, 1, Next::Nothing, None));
    assert_eq!(forward(&mut session), Forward::new(3, vec![3, 4], 2));
    answer(&mut session, &[4, 5]);
    assert_eq!(sent(&mut session), verdict(2, 1, Next::Token(5), None));
    assert_eq!(session.poll(), None);
}

#[test]
fn what_was_drafted_behind_a_rejection_is_dropped_without_a_word() {
    let mut session = begun();
    session.handle_frame(&flying(0, 0, true, &[1, 2]));
    session.handle_frame(&flying(1, 0, true, &[3]));
    forward(&mut session);
    answer(&mut session, &[1, 5]);
    assert_eq!(sent(&mut session), verdict(0, 1, Next::Token(5), None));
    // The second was dropped, and the third had been sent before the verdict came.
    session.handle_frame(&flying(2, 0, true, &[4]));
    assert_eq!(session.poll(), None);
    session.handle_frame(&flying(1, 1, true, &[6]));
    assert_eq!(forward(&mut session), Forward::new(2, vec![5], 1));
    for late in [flying(1, 0, true, &[3]), flying(2, 0, false, &[4]), flying(9, 0, false, &[4])] {
        session.handle_frame(&late);
    }
    answer(&mut session, &[6]);
    assert_eq!(sent(&mut session), verdict(1, 1, Next::Nothing, None));
    assert_eq!(session.poll(), None);
}

/// The edge resamples, and what it had sent before comes in between.
#[test]
fn what_is_late_under_dssd_is_not_taken_for_the_round_with_the_resampled_token() {
    let scheme = SchemeParameters::Dssd { downlink: Downlink::Sampled(1) };
    let mut session = greeted();
    let prompt = Prompt { max_in_flight: 3, ..Prompt::exact(scheme, request(1, &[0])) };
    session.handle_frame(&Frame::Prompt(prompt).encode());
    let drafted = |round, epoch, resampled| {
        let drafted = DraftProbability { id: 3, count: half::ONE, total: half::ONE };
        let payload = Scheme::new(scheme, V).unwrap().encode_round(&Drafts::Probabilities(vec![drafted])).unwrap();
        let (generation, continued, count) = (1, true, 1);
        Frame::Draft(Draft { generation, round, epoch, continued, resampled, count, payload, ..Draft::default() })
    };
    session.handle_frame(&drafted(0, 0, None).encode());
    forward(&mut session);
    answer(&mut session, &[4]);
    assert!(matches!(sent(&mut session), Frame::Verdict(Verdict { next: Next::Samples(_), .. })));
    session.handle_frame(&drafted(1, 0, None).encode());
    session.handle_frame(&Frame::Resample { generation: 1, round: 0 }.encode());
    assert!(matches!(sent(&mut session), Frame::Distribution(_)));
    session.handle_frame(&drafted(2, 0, None).encode());
    assert_eq!(session.poll(), None);
    session.handle_frame(&drafted(1, 1, Some(4)).encode());
    assert_eq!(forward(&mut session), Forward::new(1, vec![4], 1));
}

/// With nothing said of it a round ends no epoch: its successor waits for the verdict.
#[test]
fn a_round_that_is_not_continued_ends_no_epoch() {
    let mut session = begun();
    session.handle_frame(&flying(0, 0, false, &[1]));
    forward(&mut session);
    answer(&mut session, &[5, 6]);
    assert_eq!(sent(&mut session), verdict(0, 0, Next::Token(5), None));
    session.handle_frame(&flying(1, 0, true, &[1]));
    assert_eq!(forward(&mut session), Forward::new(1, vec![5], 1));
}

#[test]
fn rounds_that_cannot_be_are_refused() {
    let first = flying(0, 0, true, &[1]);
    let cases = [
        ("more than the window", vec![flying(1, 0, true, &[1]), flying(2, 0, true, &[1]), flying(3, 0, true, &[1])]),
        ("of an epoch to come", vec![flying(1, 1, true, &[1])]),
        ("a round left out", vec![flying(2, 0, true, &[1])]),
        ("behind one that is not continued", vec![flying(1, 0, false, &[1]), flying(2, 0, false, &[1])]),
        (
            "behind a stream",
            vec![
                Frame::Draft(Draft { generation: 1, round: 1, stream: 2, ..Draft::default() }).encode(),
                flying(2, 0, false, &[1]),
            ],
        ),
    ];
    for (name, frames) in cases {
        let mut session = begun();
        session.handle_frame(&first);
        for frame in &frames[..frames.len() - 1] {
            session.handle_frame(frame);
            assert!(session.is_generating(), "{name}");
        }
        session.handle_frame(&frames[frames.len() - 1]);
        assert_eq!(error(&mut session), (0, ErrorCode::OutOfOrder, true), "{name}");
    }
    // One at a time, as was said.
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0]));
    session.handle_frame(&first);
    assert_eq!(error(&mut session), (0, ErrorCode::OutOfOrder, true));
    let mut session = greeted();
    let prompt = Prompt { max_in_flight: 4, ..Prompt::exact(SCHEME, request(1, &[0])) };
    session.handle_frame(&Frame::Prompt(prompt).encode());
    assert_eq!(error(&mut session), (1, ErrorCode::InvalidParameters, false), "more than the server allows");
    // What waits is not looked at before its turn.
    let mut session = begun();
    session.handle_frame(&first);
    session.handle_frame(&flying(1, 0, true, &[1; 5]));
    forward(&mut session);
    answer(&mut session, &[1]);
    assert_eq!(sent(&mut session), verdict(0, 1, Next::Nothing, None));
    assert_eq!(error(&mut session), (0, ErrorCode::InvalidDraft, true));
}

#[test]
fn rounds_that_come_twice_change_nothing() {
    let mut session = begun();
    for round in [0, 0, 1, 0, 1, 2, 1] {
        session.handle_frame(&flying(round, 0, round < 2, &[round + 1]));
    }
    for round in 0..3 {
        forward(&mut session);
        answer(&mut session, &[round + 1, 6][..if round < 2 { 1 } else { 2 }]);
        assert!(matches!(sent(&mut session), Frame::Verdict(verdict) if verdict.round as usize == round));
        session.handle_frame(&flying(1, 0, true, &[2]));
    }
    assert_eq!(session.poll(), None);
}

/// Only what is beyond the window, or what the edge has to have waited for, is known to have arrived.
#[test]
fn verdicts_are_kept_as_long_as_the_edge_may_lack_them() {
    let rounds = |frames: Vec<Frame>| -> Vec<u32> {
        let round = |frame| if let Frame::Verdict(verdict) = frame { verdict.round } else { panic!("{frame:?}") };
        frames.into_iter().map(round).collect()
    };
    let mut session = begun();
    for round in 0..3 {
        session.handle_frame(&flying(round, 0, true, &[1]));
    }
    for _ in 0..3 {
        while !matches!(session.poll(), Some(CloudOutput::Verify(_))) {}
        answer(&mut session, &[1]);
    }
    assert_eq!(rounds(resumes(&mut session, 1, 1)), [0, 1, 2]);
    session.handle_frame(&flying(3, 0, true, &[1]));
    assert_eq!(rounds(resumes(&mut session, 1, 2)), [1, 2], "the fourth shows that the first has its verdict");
    while !matches!(session.poll(), Some(CloudOutput::Verify(_))) {}
    answer(&mut session, &[5]);
    assert_eq!(rounds(resumes(&mut session, 1, 2)), [1, 2, 3]);
    session.handle_frame(&flying(4, 1, true, &[2]));
    assert_eq!(rounds(resumes(&mut session, 1, 5)), [0; 0], "the next epoch shows that all have");
}
