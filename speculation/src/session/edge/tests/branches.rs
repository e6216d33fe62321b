//! Second candidates ahead of a text that the target writes.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use outrider_codec::{
    frame::Guesses,
    scheme::{Drafts, Scheme},
};

use super::*;
use crate::control::plan::Schedule;

/// Two at a time on a line, as far as they are sent at once.
const PLAN: Schedule = Schedule { group: 1, patience: 0.0, lead: 2 };

/// Chain, the chain that it leaves, position and ids of a frame of guesses.
type Told = (u32, u32, u32, Vec<u32>);

/// A generation after 0 1 at temperature 0, whose draft model always thinks of 3, then of 5.
fn begun(branches: Option<bool>) -> EdgeSession {
    let mut session = connected(16);
    let mode = Mode::Ahead(Ahead { fixed: Some(PLAN), branches, ..Ahead::default() });
    session.start(vec![0, 1], &Settings { mode, ..settings(9) }, NOW).unwrap();
    session
}

/// Guesses that are sent until there is nothing to do, and the passes that were run for them.
fn told(session: &mut EdgeSession) -> (Vec<Told>, Vec<Forward>) {
    let scheme = Scheme::new(SchemeParameters::Coupled, V).unwrap();
    let (mut told, mut forwards) = (Vec::new(), Vec::new());
    while let Some(output) = session.poll(NOW).unwrap() {
        match output {
            EdgeOutput::Send(bytes) => {
                let Frame::Guesses(Guesses { chain, parent, position, count, payload, .. }) =
                    Frame::decode(&bytes).unwrap()
                else {
                    continue;
                };
                let Drafts::Ids(ids) = scheme.decode_round(&payload, count).unwrap() else { panic!("no ids") };
                told.push((chain, parent, position, ids));
            }
            EdgeOutput::Event(_) => {}
            EdgeOutput::Forward(forward) => {
                session.handle_logits(&[0.0, 0.0, 0.0, 9.0, 0.0, 5.0, 0.0, 0.0], &[], NOW).unwrap();
                forwards.push(forward.rows_alone());
            }
        }
    }
    (told, forwards)
}

fn tokens(position: u32, ids: &[u32], accepted: u8) -> Vec<u8> {
    Frame::Tokens(Tokens { ids: ids.to_vec(), accepted, ..Tokens::one(1, position, 0, None) }).encode()
}

fn forward(keep: usize, tokens: &[u32]) -> Forward {
    Forward::new(keep, tokens.to_vec(), 1)
}

/// The most probable first: 0.7, 0.49, 0.15 and 0.105. The server takes four, of which the line has two.
#[test]
fn second_candidates_leave_the_line_where_they_are_probable() {
    let mut session = begun(Some(true));
    let (told_first, forwards) = told(&mut session);
    assert_eq!(told_first, [(1, 0, 2, vec![3]), (1, 0, 3, vec![3]), (2, 1, 2, vec![5]), (3, 1, 3, vec![5])]);
    assert_eq!(forwards, [forward(0, &[0, 1]), forward(2, &[3])]);
    // The branch is the text's line from now on, and drafting goes on in it: what it left is cut from the cache.
    session.handle_frame(&tokens(2, &[5, 3], 1), NOW).unwrap();
    let (told_next, forwards) = told(&mut session);
    // Chain 2 ended at 3, where nothing was guessed: another begins after the target's own token.
    assert_eq!(told_next[..3], [(4, 0, 4, vec![3]), (4, 0, 5, vec![3]), (5, 4, 4, vec![5])]);
    assert_eq!(forwards[0], forward(2, &[5, 3]));
    assert_eq!((session.statistics().in_time, session.statistics().branched), (1, 1));
}

/// Nothing is drafted again where a branch goes on, and its chain does.
#[test]
fn a_branch_that_is_right_goes_on() {
    let mut session = begun(Some(true));
    told(&mut session);
    // Written before the guesses came.
    session.handle_frame(&tokens(2, &[5], 0), NOW).unwrap();
    let (told_next, forwards) = told(&mut session);
    assert_eq!(told_next[..3], [(2, 0, 3, vec![3]), (2, 0, 4, vec![3]), (4, 2, 3, vec![5])]);
    assert_eq!(forwards[..2], [forward(2, &[5]), forward(3, &[3])]);
    session.handle_frame(&tokens(3, &[3, 3, 1], 2), NOW).unwrap();
    assert_eq!(session.statistics().in_time, 2);
}

/// The second candidate after the text, 0.15, is more probable than the sixth of the line, 0.12, and is still sent
/// after it: the fifth waits for that, and a target that waits is to have the line's groups.
#[test]
fn the_lines_groups_come_first() {
    for patience in [0.0, 1.0] {
        let mut session = connected_to(granted(Limits { max_guesses: 16, max_draft_tokens: 16, ..LIMITS }));
        let plan = Schedule { group: 2, patience, lead: 6 };
        let mode = Mode::Ahead(Ahead { fixed: Some(plan), branches: Some(true), ..Ahead::default() });
        session.start(vec![0, 1], &Settings { mode, ..settings(9) }, NOW).unwrap();
        let guesses: Vec<_> = told(&mut session).0.into_iter().filter(|told| !told.3.is_empty()).collect();
        let line = [2, 4, 6].map(|position| (1, 0, position, vec![3, 3]));
        assert_eq!((&guesses[..3], &guesses[3]), (&line[..], &(2, 1, 2, vec![5])));
    }
}

#[test]
fn a_guess_that_was_not_made_is_not_accepted() {
    for (branches, ids, is_right) in [
        (Some(true), &[3u32, 3, 1][..], true),
        (Some(true), &[3, 5, 1], true),
        (Some(true), &[5, 1], true),
        // Of no branch; of a branch after which the first candidate was not guessed; after the last guess.
        (Some(true), &[4, 1], false),
        (Some(true), &[5, 3, 1], false),
        (Some(true), &[3, 3, 3, 1], false),
        (Some(false), &[5, 1], false),
        (Some(false), &[3, 3, 1], true),
        // Nothing is measured yet.
        (None, &[5, 1], false),
    ] {
        let mut session = begun(branches);
        told(&mut session);
        let handled = session.handle_frame(&tokens(2, ids, ids.len() as u8 - 1), NOW);
        assert_eq!(handled.is_ok(), is_right, "{branches:?}, {ids:?}");
    }
}

/// A guess that waits for its group is not yet the server's to accept.
#[test]
fn a_guess_that_was_not_sent_is_not_accepted() {
    for (guessed, is_right) in [(1, false), (2, true)] {
        let mut session = connected(16);
        let plan = Schedule { group: 2, lead: 4, ..PLAN };
        let mode = Mode::Ahead(Ahead { fixed: Some(plan), branches: Some(false), ..Ahead::default() });
        session.start(vec![0, 1], &Settings { mode, ..settings(9) }, NOW).unwrap();
        let mut drafts = 0;
        while let Some(output) = session.poll(NOW).unwrap() {
            if let EdgeOutput::Forward(_) = output {
                if drafts == guessed {
                    break;
                }
                session.handle_logits(&[0.0, 0.0, 0.0, 9.0, 0.0, 5.0, 0.0, 0.0], &[], NOW).unwrap();
                drafts += 1;
            }
        }
        assert_eq!(session.handle_frame(&tokens(2, &[3, 1], 1), NOW).is_ok(), is_right, "after {guessed} guesses");
    }
}

/// A server that takes no branches gets none, and so does one whose link or drafts do not want them.
#[test]
fn without_branches_it_is_one_chain() {
    for branches in [Some(false), None] {
        let (told, _) = told(&mut begun(branches));
        assert!(told.len() == 2 && told.iter().all(|told| told.0 == 1 && told.1 == 0), "{told:?}");
    }
    let mut session = connected_to(granted(Limits { max_branches: 0, ..LIMITS }));
    let mode = Mode::Ahead(Ahead { fixed: Some(PLAN), branches: Some(true), ..Ahead::default() });
    session.start(vec![0, 1], &Settings { mode, ..settings(9) }, NOW).unwrap();
    assert!(told(&mut session).0.iter().all(|told| told.1 == 0));
}

/// With draws of its own the target accepts a guess with the probability that it gives it, whatever the seed: only the
/// likeliest token is worth guessing.
#[test]
fn where_draws_are_the_targets_own_the_likeliest_is_guessed() {
    let first_two = |own_draws, seed, temperature| {
        let mut session = connected_to(granted(Limits { own_draws, ..LIMITS }));
        let mode = Mode::Ahead(Ahead { fixed: Some(PLAN), branches: Some(true), ..Ahead::default() });
        let sampling = SamplingParameters { temperature, top_k: 0, top_p: 1.0 };
        session.start(vec![0, 1], &Settings { mode, seed, sampling, ..settings(9) }, NOW).unwrap();
        let (told, _) = told(&mut session);
        // The line's two come first.
        [0, 2].map(|run| told[run].3[0])
    };
    for seed in 0..32 {
        for temperature in [0.0, 4.0] {
            assert_eq!(first_two(true, seed, temperature), [3, 5], "seed {seed}, T = {temperature}");
        }
    }
    assert!((0..32).any(|seed| first_two(false, seed, 4.0)[0] != 3), "the shared noise has a say");
}

/// Over another connection everything is sent again, as chains of their own; what was sent over the last may be
/// accepted.
#[test]
fn a_resumed_edge_tells_its_tree_again() {
    let mut session = begun(Some(true));
    let before = told(&mut session).0;
    assert!(session.disconnected());
    session.reconnected();
    assert!(told(&mut session).0.is_empty());
    session.handle_frame(&Frame::Welcome(welcome(16)).encode(), NOW).unwrap();
    let (again, forwards) = told(&mut session);
    assert_eq!(
        again,
        [(4, 0, 2, vec![3, 3])].into_iter().chain([(5, 4, 2, vec![5]), (6, 4, 3, vec![5])]).collect::<Vec<_>>()
    );
    assert!(forwards.is_empty() && before.len() == 4);
    session.handle_frame(&tokens(2, &[5, 1], 1), NOW).unwrap();
}
