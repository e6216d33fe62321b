//! Several rounds in flight, at the edge. The draft model always says 3.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use outrider_codec::frame::Shape;

use super::*;

fn ahead(draft_length: u32) -> Speculation {
    Speculation { max_in_flight: 3, ..Speculation::new(K_SQS, draft_length) }
}

/// A generation after 0, 1 with all that it sends and drafts before the first verdict.
fn flying(speculation: Speculation, max_new_tokens: u32) -> (EdgeSession, Vec<Draft>) {
    let mut session = connected(16);
    let mode = Mode::Speculative(speculation);
    session.start(vec![0, 1], &Settings { mode, ..settings(max_new_tokens) }, NOW).unwrap();
    let drafts = drafts(&mut session);
    (session, drafts)
}

/// The Draft frames that are sent until nothing is to be done.
fn drafts(session: &mut EdgeSession) -> Vec<Draft> {
    let (frames, _) = polled(session);
    frames.into_iter().filter_map(|frame| if let Frame::Draft(draft) = frame { Some(draft) } else { None }).collect()
}

fn of(round: u32, accepted: u8, next: Next, finish: Option<Finish>) -> Frame {
    Frame::Verdict(Verdict { generation: 1, round, accepted, next, finish })
}

/// Round, epoch, whether it is continued, and drafts.
fn shapes(drafts: &[Draft]) -> Vec<(u32, u32, bool, u8)> {
    drafts.iter().map(|draft| (draft.round, draft.epoch, draft.continued, draft.count)).collect()
}

#[test]
fn as_many_are_sent_as_may_be_in_flight_and_one_more_is_drafted() {
    let (mut session, drafts) = flying(ahead(1), 9);
    assert_eq!(shapes(&drafts), [(0, 0, true, 1), (1, 0, true, 1), (2, 0, true, 1)]);
    assert!(session.is_ahead());
    give(&mut session, of(0, 1, Next::Nothing, None)).unwrap();
    // The fourth needs no forward pass any more.
    assert!(matches!(session.poll(NOW), Ok(Some(EdgeOutput::Event(Event::Committed(_))))));
    let Ok(Some(EdgeOutput::Send(bytes))) = session.poll(NOW) else { panic!("it was ready") };
    let Ok(Frame::Draft(fourth)) = Frame::decode(&bytes) else { panic!("a Draft") };
    assert_eq!(shapes(&[fourth]), [(3, 0, true, 1)]);
    assert_eq!(session.statistics().tokens, 1);
}

/// The last round of a text has the bonus token, where the rule has one: nothing can follow it.
#[test]
fn the_last_round_is_not_continued() {
    let (mut session, drafts) = flying(ahead(2), 6);
    assert_eq!(shapes(&drafts), [(0, 0, true, 2), (1, 0, true, 2), (2, 0, false, 1)]);
    assert!(!session.is_ahead());
    give(&mut session, of(0, 2, Next::Nothing, None)).unwrap();
    give(&mut session, of(1, 2, Next::Nothing, None)).unwrap();
    give(&mut session, of(2, 1, Next::Token(4), Some(Finish::Length))).unwrap();
    assert!(session.is_idle());
    assert_eq!((session.statistics().tokens, session.statistics().rounds), (6, 3));
    // Without bonus token drafts reach the end.
    let lossy = Speculation { explain: false, draft_length: 2, max_in_flight: 3, ..ruled("lossy") };
    let (_, drafts) = flying(lossy, 6);
    assert_eq!(shapes(&drafts), [(0, 0, true, 2), (1, 0, true, 2), (2, 0, false, 2)]);
    // One at a time as ever.
    let (_, drafts) = flying(Speculation::new(K_SQS, 2), 6);
    assert_eq!(shapes(&drafts), [(0, 0, false, 2)]);
}

#[test]
fn a_rejection_drops_what_was_drafted_behind_it() {
    let (mut session, _) = flying(ahead(2), 14);
    give(&mut session, of(0, 1, Next::Token(5), None)).unwrap();
    assert_eq!(session.statistics().wasted, 4);
    let forward = loop {
        if let Some(EdgeOutput::Forward(forward)) = session.poll(NOW).unwrap() {
            break forward;
        }
    };
    // 0 1 3 are right in the cache, the rejected 3 and what followed it is cut.
    assert_eq!(forward.rows_alone(), Forward::new(3, vec![5], 1));
    session.handle_logits(&row(3), &[], NOW).unwrap();
    let next = drafts(&mut session);
    assert_eq!(shapes(&next), [(1, 1, true, 2), (2, 1, true, 2), (3, 1, true, 2)]);
    // What is said of the past is not heard.
    give(&mut session, of(0, 1, Next::Token(5), None)).unwrap();
    assert_eq!(session.statistics().tokens, 2);
    give(&mut session, of(1, 2, Next::Nothing, None)).unwrap();
    assert_eq!(session.statistics().tokens, 4);
}

/// The driver had begun the forward pass before the verdict came.
#[test]
fn rows_of_a_discarded_forward_pass_are_dropped() {
    let mut session = connected(16);
    session.start(vec![0, 1], &Settings { mode: Mode::Speculative(ahead(2)), ..settings(14) }, NOW).unwrap();
    assert_eq!(next_draft(&mut session).round, 0);
    assert!(matches!(session.poll(NOW), Ok(Some(EdgeOutput::Forward(forward))) if forward.keep == 3));
    give(&mut session, of(0, 0, Next::Token(5), None)).unwrap();
    assert!(matches!(session.poll(NOW), Ok(Some(EdgeOutput::Event(Event::Committed(_))))));
    assert_eq!(session.poll(NOW), Ok(None), "the rows come first");
    session.handle_logits(&row(6), &[], NOW).unwrap();
    let Some(EdgeOutput::Forward(next)) = session.poll(NOW).unwrap() else { panic!("no pass") };
    assert_eq!(next.rows_alone(), Forward::new(2, vec![5], 1));
}

#[test]
fn verdicts_that_a_continued_round_does_not_have_are_errors() {
    for (speculation, round, next) in [
        (ahead(2), of(0, 2, Next::Token(4), None), "a bonus token"),
        (ahead(2), of(1, 2, Next::Nothing, None), "another round's"),
        (ahead(2), of(0, 1, Next::Nothing, None), "nothing in place of the rejected"),
    ] {
        let (mut session, _) = flying(speculation, 14);
        let result = give(&mut session, round);
        assert!(matches!(result, Err(EdgeError::ImpossibleVerdict { .. })), "{next}: {result:?}");
    }
    let (mut session, drafts) = flying(ahead(4), 5);
    assert_eq!(shapes(&drafts), [(0, 0, false, 4)]);
    let result = give(&mut session, of(0, 4, Next::Nothing, None));
    assert!(matches!(result, Err(EdgeError::ImpossibleVerdict { .. })), "without the bonus token: {result:?}");
}

#[test]
fn rounds_in_flight_are_sent_again_in_order() {
    let (mut session, sent) = flying(ahead(1), 9);
    give(&mut session, of(0, 1, Next::Nothing, None)).unwrap();
    let fourth = drafts(&mut session);
    for attempt in 1..3 {
        assert!(session.disconnected());
        assert!(!session.is_ahead(), "there is nobody to hear from");
        session.reconnected();
        assert_eq!(polled(&mut session).0, [resume(attempt, 1, 3)]);
        give(&mut session, Frame::Welcome(welcome(16))).unwrap();
        assert_eq!(drafts(&mut session), [&sent[1..], &fourth].concat());
    }
    // A rejection leaves nothing to be answered.
    give(&mut session, of(1, 0, Next::Token(5), None)).unwrap();
    assert!(session.disconnected());
    session.reconnected();
    give(&mut session, Frame::Welcome(welcome(16))).unwrap();
    assert_eq!(shapes(&drafts(&mut session)), [(2, 1, true, 1), (3, 1, true, 1), (4, 1, true, 1)]);
}

/// Frames to a server that has forgotten the session, after its Welcome to another.
fn asked_anew(session: &mut EdgeSession, welcome: Welcome) -> Vec<Frame> {
    assert!(session.disconnected());
    session.reconnected();
    give(session, refusal(ErrorCode::UnknownSession)).unwrap();
    assert!(session.disconnected());
    session.reconnected();
    give(session, Frame::Welcome(welcome)).unwrap();
    polled(session).0
}

#[test]
fn a_server_that_knows_nothing_drafts_anew_from_what_is_committed() {
    let (mut session, _) = flying(ahead(1), 9);
    give(&mut session, of(0, 1, Next::Nothing, None)).unwrap();
    let frames = asked_anew(&mut session, granted(Limits { max_in_flight: 2, ..LIMITS }));
    let [.., Frame::Prompt(prompt), Frame::Draft(first), Frame::Draft(second)] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert_eq!((&prompt.request.tokens[..], prompt.max_in_flight), (&[0, 1, 3][..], 2), "no more than it allows");
    assert_eq!((first.round, second.round, first.epoch), (0, 1, 0));
}

/// The change of logits comes before what it changes, and counts what is committed as answered.
#[test]
fn a_change_of_logits_is_asked_for_anew_with_its_text() {
    let shape = |generation, answered| Shape { generation, answered, options: "{}".to_owned() };
    let mut session = connected(16);
    session.set_shaping(Some("{}".to_owned()), 1);
    let settings = Settings { mode: Mode::Speculative(ahead(1)), ..settings(9) };
    session.start(vec![0, 5], &settings, NOW).unwrap();
    let (frames, _) = polled(&mut session);
    let [Frame::Hello(_), Frame::Shape(first), Frame::Prompt(_), ..] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(*first, shape(1, 1));
    give(&mut session, of(0, 1, Next::Nothing, None)).unwrap();
    let frames = asked_anew(&mut session, welcome(16));
    let [Frame::Hello(_), Frame::Shape(second), Frame::Prompt(prompt), ..] = &frames[..] else { panic!("{frames:?}") };
    let committed = prompt.request.tokens.len() as u32 - 2;
    assert!(committed > 0);
    assert_eq!(*second, shape(2, 1 + committed));
}

#[test]
fn rounds_in_flight_have_their_bounds() {
    let refuse = |speculation| {
        let settings = Settings { mode: Mode::Speculative(speculation), ..settings(4) };
        connected(16).start(vec![0], &settings, NOW).unwrap_err()
    };
    let name = "the number of rounds in flight";
    let none = Speculation { max_in_flight: 0, ..ahead(1) };
    assert_eq!(refuse(none), StartError::Setting { name, range: "at least 1" });
    for gate in [Gate::TokenCascade { alpha: 0.5 }, Gate::SequenceCascade { alpha: 0.5, confidence: Confidence::Mean }]
    {
        let range = "1 where a gate lets tokens pass";
        assert_eq!(refuse(Speculation { gate, ..ahead(1) }), StartError::Setting { name, range });
    }
}

/// Under DSSD the edge says first what it put in place of the rejected draft.
#[test]
fn the_resampled_token_goes_with_the_first_round_of_the_next_epoch() {
    let scheme = SchemeParameters::Dssd { downlink: Downlink::Full };
    let (mut session, _) = flying(Speculation { max_in_flight: 3, ..Speculation::new(scheme, 1) }, 9);
    let target = TargetDist(vec![(5, 1.0)]);
    give(&mut session, of(0, 0, Next::Distribution(target), None)).unwrap();
    let next = drafts(&mut session);
    assert_eq!(shapes(&next)[0], (1, 1, true, 1));
    assert_eq!(next.iter().map(|draft| draft.resampled).collect::<Vec<_>>(), [Some(5), None, None]);
    assert_eq!(session.statistics().wasted, 2);
}
