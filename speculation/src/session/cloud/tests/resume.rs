//! Frames that come twice, too late, or again over another connection.

use super::*;

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[test]
fn frames_that_come_twice_change_nothing() {
    let mut session = greeted();
    for frame in [prompt(1, &[0]), draft(1, 0, &[1]), prompt(1, &[0]), draft(1, 0, &[1])] {
        session.handle_frame(&frame);
    }
    forward(&mut session);
    answer(&mut session, &[1, 2]);
    assert!(matches!(sent(&mut session), Frame::Verdict(verdict) if verdict.round == 0));
    for frame in [draft(1, 0, &[1]), prompt(1, &[0])] {
        session.handle_frame(&frame);
        assert_eq!(session.poll(), None);
    }
    session.handle_frame(&Frame::Cancel { generation: 1 }.encode());
    session.handle_frame(&prompt(2, &[0]));
    for frame in [Frame::Cancel { generation: 1 }.encode(), draft(1, 1, &[1]), prompt(1, &[3])] {
        session.handle_frame(&frame);
        assert!(session.is_generating());
    }
    session.handle_frame(&draft(2, 0, &[1]));
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 2));
}

/// A generation that an edge cancels before its request has come never begins.
#[test]
fn a_cancel_that_comes_before_its_request_has_the_last_word() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0]));
    session.handle_frame(&Frame::Cancel { generation: 3 }.encode());
    for number in 1..=3 {
        session.handle_frame(&prompt(number, &[0]));
        assert!(!session.is_generating(), "{number}");
    }
    session.handle_frame(&prompt(4, &[0]));
    assert!(session.is_generating());
}

#[test]
fn a_verdict_is_kept_until_the_edge_shows_that_it_has_come() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0, 1]));
    session.handle_frame(&draft(1, 0, &[3]));
    forward(&mut session);
    // The connection is lost while the pass runs: no driver polls, and the result comes all the same.
    answer(&mut session, &[3, 5]);
    let verdict = Verdict { generation: 1, round: 0, accepted: 1, next: Next::Token(5), finish: None };
    for _ in 0..3 {
        assert_eq!(resumes(&mut session, 1, 2), [Frame::Verdict(verdict.clone())]);
    }
    // It has come, and the next Draft has not.
    assert_eq!(resumes(&mut session, 1, 4), []);
    session.handle_frame(&draft(1, 1, &[6]));
    assert_eq!(resumes(&mut session, 1, 4), []);
    assert_eq!(forward(&mut session), Forward::new(3, vec![5, 6], 2));
    answer(&mut session, &[6, 7]);
    let last = Verdict { generation: 1, round: 1, accepted: 1, next: Next::Token(7), finish: Some(Finish::Eos) };
    assert_eq!(resumes(&mut session, 1, 4), [Frame::Verdict(last)]);
    // A generation that the server has not heard of yet.
    assert_eq!(resumes(&mut session, 2, 1), []);
    session.handle_frame(&prompt(2, &[0]));
    assert_eq!(resumes(&mut session, 2, 1), []);
    let old = Resume { ticket: ADMISSION.ticket, attempt: 99, generation: 1, length: 9 };
    assert!(!session.resume(&old), "an edge that knows less than the server cannot go on");
}

#[test]
fn what_was_cancelled_is_not_sent_again() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0, 1]));
    session.handle_frame(&draft(1, 0, &[3]));
    forward(&mut session);
    answer(&mut session, &[3, 5]);
    session.handle_frame(&Frame::Cancel { generation: 1 }.encode());
    assert_eq!(resumes(&mut session, 1, 0), []);
}

#[test]
fn tokens_are_sent_again_from_the_place_where_the_edge_is() {
    let mut session = greeted();
    session.handle_frame(&Frame::Generate(request(1, &[0, 1])).encode());
    for best in [3, 4, 5] {
        forward(&mut session);
        answer(&mut session, &[best]);
        assert!(matches!(session.outputs.pop_front(), Some(CloudOutput::Send(_))));
    }
    let positions = |session: &mut CloudSession, length| {
        let places = resumes(session, 1, length).into_iter().map(|frame| match frame {
            Frame::Tokens(token) => token.position,
            other => panic!("{other:?}"),
        });
        places.collect::<Vec<_>>()
    };
    for (length, expected) in [(2, vec![2, 3, 4]), (4, vec![4]), (5, vec![])] {
        assert_eq!(positions(&mut session, length), expected);
    }
}

#[test]
fn a_refusal_is_sent_again_and_what_is_over_is_not_resumed() {
    let mut session = greeted();
    assert!(!session.is_worth_keeping(), "nothing was begun");
    session.handle_frame(&prompt(1, &[V]));
    assert!(matches!(&resumes(&mut session, 1, 1)[..], [Frame::Error(error)] if error.generation == 1));
    assert!(session.is_worth_keeping());
    session.close(ErrorCode::SessionExpired, "old");
    assert!(
        !session.is_worth_keeping()
            && !session.resume(&Resume { ticket: ADMISSION.ticket, attempt: 99, generation: 1, length: 1 })
    );
    assert_eq!(error(&mut session), (0, ErrorCode::SessionExpired, true), "the end is still told");
}

/// A session whose edge may lack what was too much to keep cannot be resumed until the edge shows that it has it.
#[test]
fn what_is_too_much_to_keep_cannot_be_resumed() {
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[0]));
    let error = Frame::Error(ErrorFrame { generation: 1, code: ErrorCode::Internal, text: "x".repeat(400) });
    while session.is_worth_keeping() {
        session.say(error.clone(), 0, 0);
    }
    session.handle_frame(&draft(1, 0, &[1]));
    session.outputs.clear();
    forward(&mut session);
    answer(&mut session, &[1, 2]);
    assert!(!session.is_worth_keeping());
    session.handle_frame(&draft(1, 1, &[1]));
    assert!(session.is_worth_keeping(), "the edge has shown that it has all");
}
