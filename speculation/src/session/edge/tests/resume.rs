//! Sessions that outlive their connections.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::*;

#[test]
fn what_was_not_answered_is_sent_again() {
    let (mut session, draft) = drafted(ruled("exact"), 6);
    assert!(session.disconnected());
    assert_eq!(polled(&mut session).0, [], "there is nobody to send to");
    session.reconnected();
    assert_eq!(polled(&mut session).0, [resume(1, 1, 2)]);
    give(&mut session, Frame::Welcome(welcome(16))).unwrap();
    let (frames, events) = polled(&mut session);
    assert!(matches!(&frames[..], [Frame::Prompt(_), again] if *again == Frame::Draft(draft)), "{frames:?}");
    assert_eq!(events, [Event::Resumed { anew: false }]);
    // The verdict had been sent before, and the round goes on from it once.
    give(&mut session, verdict(1, Next::Token(4), None)).unwrap();
    give(&mut session, verdict(1, Next::Token(4), None)).unwrap();
    assert_eq!(session.statistics().tokens, 2);
    assert!(session.disconnected());
    session.reconnected();
    assert_eq!(polled(&mut session).0, [resume(2, 1, 4)]);
    give(&mut session, Frame::Welcome(welcome(16))).unwrap();
    let (frames, _) = polled(&mut session);
    assert!(matches!(&frames[..], [Frame::Draft(draft)] if draft.round == 1), "{frames:?}");
}

/// The time without a connection is neither the link's nor the drafting's, but it is the text's.
#[test]
fn the_time_without_a_connection_is_no_round_trip() {
    let at = Duration::from_millis;
    let (mut session, _) = drafted(ruled("exact"), 6);
    assert!(session.disconnected());
    session.reconnected();
    polled(&mut session);
    session.handle_frame(&Frame::Welcome(welcome(16)).encode(), at(9000)).unwrap();
    session.handle_frame(&verdict(1, Next::Token(4), None).encode(), at(9050)).unwrap();
    let statistics = session.statistics();
    assert_eq!((statistics.round_trip, statistics.drafting, statistics.elapsed), (at(50), at(0), at(9050)));
    // In another session as well.
    polled(&mut session);
    give(&mut session, refusal(ErrorCode::ShuttingDown)).unwrap();
    assert!(session.disconnected());
    session.reconnected();
    let another = Welcome { ticket: Ticket { id: [3; 16], ..TICKET }, ..welcome(16) };
    session.handle_frame(&Frame::Welcome(another).encode(), at(20_000)).unwrap();
    polled(&mut session);
    let last = Verdict { generation: 2, round: 0, accepted: 0, next: Next::Token(7), finish: Some(Finish::Eos) };
    session.handle_frame(&Frame::Verdict(last).encode(), at(20_100)).unwrap();
    assert_eq!(session.statistics().elapsed, at(20_100));
}

#[test]
fn a_cancel_without_a_connection_is_sent_when_there_is_one() {
    let (mut session, _) = drafted(ruled("exact"), 6);
    assert!(session.disconnected());
    session.cancel();
    assert_eq!(polled(&mut session).1, [Event::Finished(EndReason::Cancelled)]);
    session.start(vec![0], &settings(4), NOW).unwrap();
    session.reconnected();
    assert_eq!(polled(&mut session).0, [resume(1, 2, 1)]);
    give(&mut session, Frame::Welcome(welcome(16))).unwrap();
    let (frames, _) = polled(&mut session);
    assert!(matches!(&frames[..], [Frame::Cancel { generation: 1 }, Frame::Generate(_)]), "{frames:?}");
}

#[test]
fn a_server_that_knows_nothing_is_asked_for_the_rest() {
    for refused in [ErrorCode::UnknownSession, ErrorCode::ShuttingDown] {
        let (mut session, _) = drafted(ruled("exact"), 6);
        give(&mut session, verdict(1, Next::Token(4), None)).unwrap();
        next_draft(&mut session);
        if refused == ErrorCode::UnknownSession {
            assert!(session.disconnected());
            session.reconnected();
            assert_eq!(polled(&mut session).0, [resume(1, 1, 4)]);
        }
        polled(&mut session);
        give(&mut session, refusal(refused)).unwrap();
        // What the old connection still has does not matter.
        give(&mut session, verdict(2, Next::Token(4), None)).unwrap();
        assert!(session.disconnected());
        session.reconnected();
        assert!(matches!(polled(&mut session).0[..], [Frame::Hello(_)]));
        let ticket = Ticket { id: [3; 16], ..TICKET };
        give(&mut session, Frame::Welcome(Welcome { ticket, ..welcome(16) })).unwrap();
        assert_eq!(session.saved(), Some(SavedSession { ticket, attempts: 0, generation: 2 }));
        let (frames, events) = polled(&mut session);
        assert!(events.contains(&Event::Resumed { anew: true }));
        let [Frame::Prompt(prompt), Frame::Draft(draft)] = &frames[..] else { panic!("{frames:?}") };
        let request = &prompt.request;
        assert_eq!((&request.tokens[..], request.max_new_tokens, request.seed), (&[0, 1, 3, 4][..], 4, 1));
        assert_eq!((request.generation, draft.generation, draft.round), (2, 2, 0));
        assert_eq!(session.statistics().tokens, 2, "what was counted stays");
        let last = Verdict { generation: 2, round: 0, accepted: 0, next: Next::Token(7), finish: Some(Finish::Eos) };
        give(&mut session, Frame::Verdict(last)).unwrap();
        assert!(session.is_idle());
    }
}

#[test]
fn only_a_session_that_there_is_goes_on() {
    let draft = draft_info();
    let mut session = EdgeSession::new(draft.clone());
    assert!(!session.disconnected(), "the server was never met");
    let mut session = connected(16);
    give(&mut session, refusal(ErrorCode::TakenOver)).unwrap();
    assert!(!session.disconnected(), "two pages would fight for it");
    let mut session = connected(16);
    assert!(session.disconnected());
    session.reconnected();
    let other = Welcome { ticket: Ticket { id: [3; 16], ..TICKET }, ..welcome(16) };
    assert_eq!(give(&mut session, Frame::Welcome(other)), Err(EdgeError::Unexpected { frame: "Welcome" }));
    // After a reload only the ticket is left: the generation is given up, and its text may be the prompt of the next.
    let saved = SavedSession { ticket: TICKET, attempts: 2, generation: 4 };
    let mut session = EdgeSession::returning(draft.clone(), saved);
    assert_eq!(polled(&mut session).0, [resume(3, 4, 0)]);
    give(&mut session, Frame::Welcome(welcome(16))).unwrap();
    assert_eq!(polled(&mut session).0, [Frame::Cancel { generation: 4 }]);
    session.start(vec![0, 3], &settings(4), NOW).unwrap();
    assert!(matches!(&polled(&mut session).0[..], [Frame::Generate(request)] if request.generation == 5));
    // If that is gone as well, there is a new session.
    let mut session = EdgeSession::returning(draft, saved);
    give(&mut session, refusal(ErrorCode::UnknownSession)).unwrap();
    assert!(session.disconnected());
    session.reconnected();
    assert!(matches!(polled(&mut session).0[..], [Frame::Hello(_)]));
    give(&mut session, Frame::Welcome(welcome(16))).unwrap();
    assert!(session.is_idle() && polled(&mut session).0.is_empty());
}

/// Ten tokens may pass before the target is asked, whichever server has read them.
#[test]
fn a_server_that_knows_nothing_does_not_change_when_a_cascade_asks() {
    for before in [0, 4, 9] {
        let mut session = connected(16);
        let gate = Gate::TokenCascade { alpha: 1.0 };
        let mode = Mode::Speculative(Speculation { gate, ..Speculation::new(K_SQS, 1) });
        session.start(vec![0, 1], &Settings { mode, ..settings(13) }, NOW).unwrap();
        let mut passed = 0;
        while passed < before {
            if let Some(EdgeOutput::Forward(_)) = session.poll(NOW).unwrap() {
                session.handle_logits(&row(3), &[], NOW).unwrap();
                passed += 1;
            }
        }
        give(&mut session, refusal(ErrorCode::ShuttingDown)).unwrap();
        assert!(session.disconnected());
        session.reconnected();
        polled(&mut session);
        give(&mut session, Frame::Welcome(Welcome { ticket: Ticket { id: [3; 16], ..TICKET }, ..welcome(16) }))
            .unwrap();
        assert_eq!(next_draft(&mut session).passed.len(), 10 - before, "after {before}");
    }
}
