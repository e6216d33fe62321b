//! Guesses that form a tree.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::{
    guesses::{TEXT, begun, branch, guesses, pass, run_pass, tokens},
    *,
};
use crate::{control::goodput::RowCosts, judge::Branch};

fn leaves(parent: usize, from: usize, ids: &[u32]) -> Branch {
    Branch { parent, from, ids: ids.to_vec() }
}

/// A session whose prompt is read, and whose guesses cost nothing.
fn reading() -> CloudSession {
    let mut session = begun();
    session.set_prices(Prices { rows: RowCosts::each(0.0), own_draft: None, ..Prices::default() });
    let first = pass(&mut session);
    run_pass(&mut session, &first);
    assert_eq!(tokens(&mut session).ids, TEXT[..1]);
    session
}

/// The text is 0 3, and goes on with 6 2 1 5 4.
#[test]
fn a_pass_judges_branches_and_goes_on_behind_the_one_that_is_right() {
    let mut session = reading();
    session.handle_frame(&guesses(1, 2, 0, &[5, 4]));
    session.handle_frame(&branch(2, 1, 2, 0, &[6]));
    session.handle_frame(&guesses(2, 3, 0, &[2]));
    let second = pass(&mut session);
    // The line as far as it is worth it: 0.7, 0.49, 0.15, 0.15 · 0.7.
    assert_eq!(second.forward, Forward::new(1, vec![3, 5, 4], 3));
    assert_eq!(second.round.branches, [leaves(0, 0, &[6, 2])]);
    run_pass(&mut session, &second);
    let wrote = CloudEvent::Wrote { tokens: 3, judged: 4, accepted: 2, branched: 1, own: false };
    assert_eq!(session.events(), [wrote]);
    let expected = Tokens { ids: vec![6, 2, 1], accepted: 2, heard: 3, ..Tokens::one(1, 2, 0, None) };
    assert_eq!(tokens(&mut session), expected);
    // The branch goes on; of the line that it left nothing is in the cache. Chain 2 is broken by 1 in place of 0.
    session.handle_frame(&guesses(2, 4, 0, &[0]));
    session.handle_frame(&guesses(3, 5, 0, &[5]));
    let third = pass(&mut session);
    assert_eq!(third.forward, Forward::new(2, vec![6, 2, 1, 5], 2));
    run_pass(&mut session, &third);
    assert_eq!(tokens(&mut session).ids, [5, 4]);
}

#[test]
fn branches_of_branches_and_within_what_was_written() {
    let mut session = reading();
    session.handle_frame(&guesses(1, 2, 0, &[6, 4]));
    session.handle_frame(&branch(2, 1, 3, 0, &[2, 0]));
    session.handle_frame(&branch(3, 2, 4, 0, &[1]));
    let second = pass(&mut session);
    assert_eq!(second.round.drafts.ids(), [6, 4]);
    assert_eq!(second.round.branches, [leaves(0, 1, &[2, 0])], "four are the most; what is least probable is left out");
    run_pass(&mut session, &second);
    assert_eq!(tokens(&mut session).ids, [6, 2, 1], "the target's own in place of 0");
    // A branch that leaves a broken chain before it was wrong comes late, and is right as far as the text is.
    session.handle_frame(&branch(4, 2, 4, 0, &[1, 5]));
    assert_eq!(session.events(), [CloudEvent::Guessed { came: 2, late: 1 }]);
    // A branch that leaves the chain after that guess is as broken.
    session.handle_frame(&branch(5, 1, 4, 0, &[1, 5]));
    assert_eq!(session.events(), [CloudEvent::Guessed { came: 2, late: 1 }]);
    let third = pass(&mut session);
    assert_eq!((third.round.drafts.ids(), &third.round.branches[..]), (vec![5], &[][..]));
    run_pass(&mut session, &third);
    assert_eq!(tokens(&mut session).ids, [5, 4]);
}

/// A new chain that is no branch drops the rest; frames of what was dropped, and branches of it, are nothing.
#[test]
fn what_was_dropped_stays_dropped() {
    let mut session = reading();
    session.handle_frame(&guesses(1, 2, 0, &[5]));
    session.handle_frame(&branch(2, 1, 2, 0, &[6]));
    session.handle_frame(&guesses(3, 2, 0, &[4]));
    session.handle_frame(&guesses(2, 3, 0, &[2]));
    assert_eq!(session.events(), []);
    session.handle_frame(&branch(4, 2, 3, 0, &[2]));
    let second = pass(&mut session);
    assert_eq!((second.round.drafts.ids(), &second.round.branches[..]), (vec![4], &[][..]));
    // Again, and a second beginning of a chain that lives.
    session.handle_frame(&guesses(3, 2, 0, &[6]));
    session.handle_frame(&branch(3, 1, 3, 0, &[6]));
    assert_eq!(session.events(), []);
}

/// First and second candidates are learned apart: with second ones that are never right none is judged in the end.
#[test]
fn second_candidates_are_judged_while_they_are_worth_their_rows() {
    let mut queue = crate::session::cloud::guesses::GuessQueue::new(V, Known::default()).unwrap();
    let limits = chains::Limits { guesses: 8, branches: 4 };
    let prices = Prices { rows: RowCosts::each(0.1), own_draft: None, ..Prices::default() };
    let mut text = vec![0];
    let mut judged = Vec::new();
    for _ in 0..60 {
        let frame = |chain, parent, id| match Frame::decode(&branch(chain, parent, text.len() as u32, 0, &[id])) {
            Ok(Frame::Guesses(guesses)) => guesses,
            other => panic!("{other:?}"),
        };
        let chain = 2 * text.len() as u32;
        queue.admit(&frame(chain, 0, 5), &text, limits).ok().expect("it is well-formed");
        queue.admit(&frame(chain + 1, chain, 6), &text, limits).ok().expect("it is well-formed");
        judged.push(queue.choose(prices, 4).branches.len());
        queue.written(text.len(), &[5], 2);
        text.push(5);
    }
    assert_eq!((judged[0], judged[59]), (1, 0), "{judged:?}");
    let [first, second] = queue.known().rates.get();
    assert!(first > 0.95 && second < 0.05);
}

#[test]
fn what_no_edge_could_branch_ends_the_connection() {
    let many: Vec<Vec<u8>> = (2..7).map(|chain| branch(chain, 1, 2, 0, &[chain])).collect();
    let wide: Vec<Vec<u8>> = (2..5).map(|chain| branch(chain, 1, 2, 0, &[1, 2, 3])).collect();
    for (frames, code) in [
        // A branch of a chain that has not begun; one that begins after the end of the chain that it leaves.
        (vec![branch(4, 2, 2, 0, &[1])], ErrorCode::OutOfOrder),
        (vec![branch(2, 1, 4, 0, &[1])], ErrorCode::OutOfOrder),
        (many, ErrorCode::InvalidDraft),
        (wide, ErrorCode::InvalidDraft),
    ] {
        let mut session = reading();
        session.handle_frame(&guesses(1, 2, 0, &[5]));
        frames.iter().for_each(|frame| session.handle_frame(frame));
        assert_eq!(error(&mut session), (0, code, true), "{frames:?}");
    }
    let mut session = CloudSession::new(limited(Limits { max_branches: 0, ..LIMITS }), ADMISSION);
    session.handle_frame(&hello());
    let Frame::Welcome(Welcome { limits: Limits { max_branches: 0, .. }, .. }) = sent(&mut session) else {
        panic!("it says so")
    };
    session.handle_frame(&Frame::Generate(request(1, &[0])).encode());
    session.handle_frame(&guesses(1, 1, 0, &[3]));
    session.handle_frame(&branch(2, 1, 1, 0, &[4]));
    assert!(matches!(session.poll(), Some(CloudOutput::Send(_))), "an error");
}

/// However many chains a client begins and abandons: the state kept of them is bounded, and honest ones go on.
#[test]
fn a_flood_of_dead_chains_is_forgotten() {
    let mut session = reading();
    session.handle_frame(&guesses(1, 2, 0, &[6]));
    for chain in 2..5000 {
        // Late, and wrong: at the prompt's place.
        session.handle_frame(&branch(chain, 1, 0, 0, &[1]));
        assert_eq!(session.events(), [CloudEvent::Guessed { came: 1, late: 1 }]);
    }
    session.handle_frame(&branch(5000, 1, 3, 0, &[2]));
    let second = pass(&mut session);
    assert_eq!(second.round.drafts.ids(), [6, 2]);
}
