//! Guesses ahead of a text that the target writes.

use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::*;
use crate::{control::goodput::RowCosts, judge::NextToken};

/// Next token of the target by the token before, greedily. Token 7 ends a text.
const NEXT: [usize; V as usize] = [3, 5, 1, 6, 2, 4, 2, 0];
const PROMPT: u32 = 0;
/// After the prompt, to the limit of six.
pub(super) const TEXT: [u32; 6] = [3, 6, 2, 1, 5, 4];

pub(super) fn begun() -> CloudSession {
    let mut session = greeted();
    session.handle_frame(&Frame::Generate(request(1, &[PROMPT])).encode());
    session
}

pub(super) fn guesses(chain: u32, position: u32, patience: u32, ids: &[u32]) -> Vec<u8> {
    branch(chain, 0, position, patience, ids)
}

pub(super) fn branch(chain: u32, parent: u32, position: u32, patience: u32, ids: &[u32]) -> Vec<u8> {
    let scheme = Scheme::new(SchemeParameters::Coupled, V).unwrap();
    let payload = scheme.encode_round(&Drafts::Ids(ids.to_vec())).unwrap();
    let count = ids.len() as u8;
    Frame::Guesses(Guesses { generation: 1, chain, parent, position, patience, count, payload }).encode()
}

/// Answers the pass under way as this target does.
pub(super) fn run_pass(session: &mut CloudSession, pass: &Pass) {
    let last = pass.forward.tokens.len() - pass.forward.rows;
    let branches = pass.round.branches.iter().flat_map(|branch| &branch.ids);
    let best: Vec<usize> = pass.forward.tokens[last..].iter().chain(branches).map(|&id| NEXT[id as usize]).collect();
    answer(session, &best);
}

pub(super) fn tokens(session: &mut CloudSession) -> Tokens {
    match sent(session) {
        Frame::Tokens(tokens) => tokens,
        other => panic!("{other:?}"),
    }
}

pub(super) fn pass(session: &mut CloudSession) -> Pass {
    match session.poll() {
        Some(CloudOutput::Verify(pass)) => pass,
        other => panic!("{other:?}"),
    }
}

/// The edge takes the time between the two for the link's and the pass's.
#[test]
fn what_comes_during_a_pass_is_heard_by_the_next() {
    let mut session = begun();
    let first = pass(&mut session);
    session.handle_frame(&guesses(1, 1, 0, &[TEXT[0]]));
    run_pass(&mut session, &first);
    assert_eq!(tokens(&mut session).heard, 0);
    let second = pass(&mut session);
    run_pass(&mut session, &second);
    assert_eq!(tokens(&mut session).heard, 1);
}

#[test]
fn a_pass_judges_what_is_at_hand_and_writes_what_the_target_chooses() {
    let mut session = begun();
    let first = pass(&mut session);
    assert_eq!(first.forward, Forward::new(0, vec![0], 1));
    run_pass(&mut session, &first);
    assert_eq!(tokens(&mut session), Tokens::one(1, 1, TEXT[0], None));
    // Two are right, the third is not.
    session.handle_frame(&guesses(1, 2, 0, &[6, 2, 0]));
    assert_eq!(session.events(), [CloudEvent::Guessed { came: 3, late: 0 }]);
    let second = pass(&mut session);
    assert_eq!(second.forward, Forward::new(1, vec![3, 6, 2, 0], 4));
    session.pass_took(Duration::from_millis(41));
    run_pass(&mut session, &second);
    let wrote = CloudEvent::Wrote { tokens: 3, judged: 3, accepted: 2, branched: 0, own: false };
    assert_eq!(session.events(), [wrote]);
    let expected = Tokens { ids: vec![6, 2, 1], accepted: 2, heard: 1, pass: 410, ..Tokens::one(1, 2, 0, None) };
    assert_eq!(tokens(&mut session), expected);
    // Tokens fed after the accepted guesses are cut.
    assert_eq!(pass(&mut session).forward, Forward::new(4, vec![1], 1));
}

#[test]
fn a_wrong_guess_breaks_its_chain_in_time_or_late() {
    for late in [false, true] {
        let mut session = begun();
        if late {
            let first = pass(&mut session);
            run_pass(&mut session, &first);
            assert_eq!(tokens(&mut session).ids, [TEXT[0]]);
        }
        session.handle_frame(&guesses(1, 1, 0, &[4, 6]));
        let next = pass(&mut session);
        assert_eq!(next.round.drafts.len(), if late { 0 } else { 2 });
        run_pass(&mut session, &next);
        assert_eq!(tokens(&mut session).accepted, 0);
        // It goes on, and that is of no use; the next chain is.
        session.handle_frame(&guesses(1, 3, 0, &[2]));
        let length = 2 + usize::from(late);
        assert_eq!(pass(&mut session).forward.tokens.len(), 1, "at length {length}");
        session.handle_frame(&guesses(2, length as u32, 0, &TEXT[length - 1..length + 1]));
        answer(&mut session, &[TEXT[length - 1] as usize]);
        assert_eq!(tokens(&mut session).ids, [TEXT[length - 1]]);
        assert_eq!(pass(&mut session).round.drafts.ids(), [TEXT[length]], "the first was written meanwhile");
    }
}

#[test]
fn a_pass_is_held_as_long_as_the_edge_has_patience() {
    let mut session = begun();
    // The first pass reads the prompt, patience or not.
    session.handle_frame(&guesses(1, 1, 250, &[]));
    let first = pass(&mut session);
    run_pass(&mut session, &first);
    tokens(&mut session);
    assert_eq!(session.poll(), Some(CloudOutput::Hold(Duration::from_millis(25))));
    assert_eq!(session.poll(), None, "it is said once");
    // What comes ends it.
    session.handle_frame(&guesses(2, 2, 250, &[6]));
    let second = pass(&mut session);
    assert_eq!(second.round.drafts.ids(), [6]);
    run_pass(&mut session, &second);
    tokens(&mut session);
    assert!(matches!(session.poll(), Some(CloudOutput::Hold(_))));
    session.end_hold();
    let third = pass(&mut session);
    assert_eq!(third.round.drafts.len(), 0);
    run_pass(&mut session, &third);
    tokens(&mut session);
    // Without patience there is no hold.
    session.handle_frame(&guesses(3, 5, 0, &[]));
    pass(&mut session);
    let mut session = begun();
    session.handle_frame(&guesses(1, 1, u32::MAX, &[]));
    let first = pass(&mut session);
    run_pass(&mut session, &first);
    tokens(&mut session);
    assert_eq!(session.poll(), Some(CloudOutput::Hold(MAX_PATIENCE)));
}

#[test]
fn what_no_edge_could_guess_ends_the_connection() {
    for (frame, code) in [
        (guesses(1, 2, 0, &[1]), ErrorCode::OutOfOrder),
        (guesses(1, 1, 0, &[1, 2, 3, 4, 5, 6, 0, 1, 2]), ErrorCode::InvalidDraft),
        (
            Frame::Guesses(Guesses { generation: 2, chain: 1, position: 1, ..Guesses::default() }).encode(),
            ErrorCode::OutOfOrder,
        ),
        (
            Frame::Guesses(Guesses { generation: 1, chain: 1, position: 1, count: 1, ..Guesses::default() }).encode(),
            ErrorCode::Malformed,
        ),
    ] {
        let mut session = begun();
        session.handle_frame(&frame);
        assert_eq!(error(&mut session), (0, code, true), "{frame:?}");
    }
    // Rounds have no guesses, nor has a target with draws of its own; and what is over is over.
    let mut session = greeted();
    session.handle_frame(&prompt(1, &[PROMPT]));
    session.handle_frame(&guesses(1, 1, 0, &[3]));
    assert!(matches!(session.poll(), Some(CloudOutput::Send(_))));
    let mut session = CloudSession::new(limited(Limits { max_guesses: 0, ..LIMITS }), ADMISSION);
    session.handle_frame(&hello());
    sent(&mut session);
    session.handle_frame(&Frame::Generate(request(1, &[PROMPT])).encode());
    assert_eq!(pass(&mut session).round.scheme, None, "draws of its own");
    session.handle_frame(&guesses(1, 1, 0, &[3]));
    assert_eq!(error(&mut session).1, ErrorCode::OutOfOrder);
    let mut session = begun();
    session.handle_frame(&Frame::Cancel { generation: 1 }.encode());
    session.handle_frame(&guesses(1, 1, 0, &[3]));
    assert_eq!(session.poll(), None);
}

#[test]
fn the_server_drafts_where_nobody_has_guessed_and_drafts_are_worth_their_price() {
    let mut session = begun();
    session.set_prices(Prices { rows: RowCosts::each(0.1), own_draft: Some(0.2), ..Prices::default() });
    // The first pass reads the prompt.
    let first = pass(&mut session);
    run_pass(&mut session, &first);
    tokens(&mut session);
    // α is taken to be 0.7: 0.7³ > 0.3 > 0.7⁴.
    let Some(CloudOutput::Draft(wanted)) = session.poll() else { panic!("it is worth it") };
    assert_eq!((wanted.text, wanted.count), (vec![PROMPT, TEXT[0]], 3));
    assert_eq!(session.poll(), None, "one thing at a time");
    // The second is wrong.
    session.handle_drafts([TEXT[1], 0, 0].map(OwnDraft::from).into());
    let second = pass(&mut session);
    assert_eq!(second.round.drafts.ids(), [TEXT[1], 0, 0]);
    run_pass(&mut session, &second);
    assert_eq!(session.events(), [CloudEvent::Wrote { tokens: 2, judged: 3, accepted: 1, branched: 0, own: true }]);
    let expected = Tokens { ids: vec![TEXT[1], TEXT[2]], accepted: 1, own: true, ..Tokens::one(1, 2, 0, None) };
    assert_eq!(tokens(&mut session), expected);
    // Where the edge has guessed it saves the server the drafting; where drafts cost too much none are made.
    session.handle_frame(&guesses(1, 4, 0, &[TEXT[3]]));
    let third = pass(&mut session);
    assert_eq!(third.round.drafts.ids(), [TEXT[3]]);
    session.set_prices(Prices { rows: RowCosts::each(0.1), own_draft: Some(0.9), ..Prices::default() });
    run_pass(&mut session, &third);
    assert!(!tokens(&mut session).own);
    assert_eq!(pass(&mut session).round.drafts.len(), 0);
    // What comes for a text that was cancelled meanwhile, or has no tokens, is nothing.
    let mut session = begun();
    session.set_prices(Prices { rows: RowCosts::each(0.1), own_draft: Some(0.2), ..Prices::default() });
    let first = pass(&mut session);
    run_pass(&mut session, &first);
    tokens(&mut session);
    assert!(matches!(session.poll(), Some(CloudOutput::Draft(_))));
    session.handle_frame(&Frame::Cancel { generation: 1 }.encode());
    session.handle_frame(&Frame::Generate(request(2, &[PROMPT])).encode());
    session.handle_drafts([V, 1].map(OwnDraft::from).into());
    assert_eq!(pass(&mut session).forward.tokens, [PROMPT]);
}

/// Two tokens alike are found at every turn; a pass that waits for an edge goes on waiting.
#[test]
fn a_pass_is_held_in_spite_of_a_doubtful_lookup() {
    for (matched, holds) in [(2, true), (16, false)] {
        let mut session = begun();
        session.set_prices(Prices { rows: RowCosts::each(0.5), looks_up: true, ..Prices::default() });
        let first = pass(&mut session);
        run_pass(&mut session, &first);
        tokens(&mut session);
        session.handle_frame(&guesses(1, 2, 250, &[TEXT[1]]));
        let second = pass(&mut session);
        run_pass(&mut session, &second);
        tokens(&mut session);
        let Some(CloudOutput::Draft(_)) = session.poll() else { panic!("lookups cost nothing") };
        session.handle_drafts(vec![OwnDraft { matched, ..OwnDraft::from(TEXT[3]) }]);
        assert_eq!(matches!(session.poll(), Some(CloudOutput::Hold(_))), holds, "{matched} tokens alike");
    }
}

/// Prices and acceptance would else stay what they were once measured, however wrong.
#[test]
fn the_server_drafts_now_and_then_whatever_it_costs() {
    let mut queue = crate::session::cloud::guesses::GuessQueue::new(V, Known::default()).unwrap();
    let dear = Prices { rows: RowCosts::each(1.0), own_draft: Some(1.0), ..Prices::default() };
    for round in 0..3 {
        for pass in 0..64 {
            assert_eq!(queue.begin_drafting(dear, 4), 0, "round {round}, pass {pass}");
            assert!(queue.choose(dear, 4).line.is_empty());
            queue.written(1, &[1], 0);
        }
        assert_eq!((queue.begin_drafting(dear, 4), queue.begin_drafting(dear, 0)), (1, 0));
        queue.drafted(vec![1.into()]);
        assert_eq!(queue.choose(dear, 4).line, [1]);
        queue.written(1, &[1, 2], 1);
    }
    assert!(queue.known().rates.first.get() > Known::default().rates.first.get());
}

fn begun_with_own_draws() -> CloudSession {
    let mut session = CloudSession::new(limited(Limits { own_draws: true, ..LIMITS }), ADMISSION);
    session.handle_frame(&hello());
    sent(&mut session);
    session.handle_frame(&Frame::Generate(request(1, &[PROMPT])).encode());
    session
}

#[test]
fn a_target_with_draws_of_its_own_is_offered_guesses_when_they_come() {
    let mut session = begun_with_own_draws();
    let first = pass(&mut session);
    assert_eq!(first.left, 6);
    let offer = |position, tail: &[u32], ids: &[u32]| {
        Some(CloudOutput::Offer(Offer { position, tail: tail.to_vec(), ids: ids.to_vec() }))
    };
    session.handle_frame(&guesses(1, 1, 250, &TEXT[..2]));
    assert_eq!(session.poll(), offer(1, &[0], &[3, 6]));
    session.handle_frame(&guesses(1, 3, 250, &[2]));
    assert_eq!(session.poll(), offer(3, &[0, 3, 6], &[2]));
    session.handle_frame(&branch(2, 1, 2, 250, &[4]));
    assert_eq!(session.poll(), offer(2, &[0, 3], &[4]));
    run_pass(&mut session, &first);
    assert_eq!(tokens(&mut session).ids, TEXT[..1]);
    // Guesses count if they are neither late nor after a wrong one. Nothing is held.
    let second = pass(&mut session);
    assert_eq!((second.round.line(0), second.left), (vec![6, 2], 5));
    session.handle_frame(&guesses(3, 1, 0, &TEXT[..2]));
    assert_eq!(session.poll(), offer(2, &[0, 3], &[6]));
    session.handle_frame(&guesses(4, 1, 0, &[5, 6]));
    assert_eq!(session.poll(), None);
    // A tail has sixteen tokens at most; the text before the edge's guesses has more.
    let mut session = CloudSession::new(limited(Limits { own_draws: true, context_length: 99, ..LIMITS }), ADMISSION);
    session.handle_frame(&hello());
    sent(&mut session);
    let long: Vec<u32> = (0..20).map(|id| id % 7).collect();
    session.handle_frame(&Frame::Generate(request(1, &long)).encode());
    pass(&mut session);
    session.handle_frame(&guesses(1, 20, 0, &[1, 2]));
    session.handle_frame(&guesses(1, 22, 0, &[3]));
    assert_eq!(session.poll(), offer(20, &long[4..], &[1, 2]));
    assert_eq!(session.poll(), offer(22, &[&long[6..], &[1, 2]].concat(), &[3]));
}

/// Guesses judged in part are counted once, and the next pass judges the rest.
#[test]
fn guesses_that_the_text_has_not_reached_wait_for_the_next_pass() {
    let mut session = begun_with_own_draws();
    session.handle_frame(&guesses(1, 1, 0, &TEXT[..3]));
    assert!(matches!(session.poll(), Some(CloudOutput::Offer(_))));
    for (length, judged) in [(1, 1), (2, 1), (3, 1), (4, 0)] {
        let next = pass(&mut session);
        assert_eq!(next.round.line(0), TEXT[length - 1..3.max(length - 1)]);
        let next = NextToken::Token(TEXT[length - 1]);
        session.handle_judgement(Judgement { next, ..Judgement::default() });
        let wrote = CloudEvent::Wrote { tokens: 1, judged, accepted: 0, branched: 0, own: false };
        assert_eq!(session.events(), [wrote]);
        assert_eq!(tokens(&mut session).ids, TEXT[length - 1..length]);
    }
}

#[test]
fn a_pass_whose_text_is_cancelled_may_be_abandoned() {
    let mut session = begun();
    let first = pass(&mut session);
    assert!(!session.abandon_pass(), "it is wanted");
    session.handle_frame(&Frame::Cancel { generation: 1 }.encode());
    session.handle_frame(&Frame::Generate(request(2, &[PROMPT])).encode());
    assert_eq!(session.poll(), None, "one at a time");
    assert!(session.abandon_pass() && !session.abandon_pass());
    assert_eq!(pass(&mut session).forward, first.forward);
}

proptest! {
    /// Whatever is guessed, whenever it comes and however often: the text is the target's, and nothing is judged twice.
    #[test]
    fn the_text_does_not_depend_on_what_is_guessed(
        frames in prop::collection::vec(
            (0u32..4, 0u32..4, 0u32..8, 0u32..3, prop::collection::vec(0..V, 0..5), any::<bool>()),
            0..60,
        ),
    ) {
        let mut session = begun();
        let (mut text, mut under_way, mut chain) = (vec![PROMPT], None, 0);
        let mut frames = frames.into_iter();
        loop {
            match session.poll() {
                Some(CloudOutput::Send(bytes)) => match Frame::decode(&bytes).unwrap() {
                    Frame::Tokens(tokens) => {
                        prop_assert_eq!(tokens.position as usize, text.len());
                        text.extend(&tokens.ids);
                        if tokens.finish.is_some() {
                            break;
                        }
                    }
                    // Only what no edge could have sent, and then the session is over.
                    Frame::Error(error) => {
                        prop_assert!(matches!(error.code, ErrorCode::OutOfOrder | ErrorCode::InvalidDraft));
                        prop_assert_eq!(session.poll(), Some(CloudOutput::Close));
                        break;
                    }
                    other => panic!("{other:?}"),
                },
                Some(CloudOutput::Verify(pass)) => under_way = Some(pass),
                Some(CloudOutput::Hold(_) | CloudOutput::Draft(_) | CloudOutput::Offer(_)) => {}
                Some(CloudOutput::Close | CloudOutput::Shape(_)) => panic!("it closed"),
                None => session.end_hold(),
            }
            if let Some((step, back, position, patience, ids, is_right)) = frames.next() {
                chain += step;
                // At times a chain that an edge could have made.
                let position = if is_right { position.min(text.len() as u32) } else { position };
                let known: Vec<u32> = TEXT[(position as usize).saturating_sub(1).min(TEXT.len())..].to_vec();
                let ids = if is_right && position > 0 { known } else { ids };
                let chain = chain.max(1);
                let parent = if back > 0 { chain.saturating_sub(back) } else { 0 };
                session.handle_frame(&branch(chain, parent, position, patience, &ids));
            }
            if let Some(pass) = under_way.take().filter(|_| session.in_flight.is_some()) {
                run_pass(&mut session, &pass);
            }
        }
        prop_assert!(text[1..] == TEXT[..text.len() - 1], "{text:?}");
    }
}
