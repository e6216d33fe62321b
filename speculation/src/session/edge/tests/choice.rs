//! Guesses that the draft model's engine chooses by itself.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use outrider_codec::scheme::{Drafts, Scheme};

use super::*;
use crate::{
    Choice, Chosen,
    policy::ahead::Plan,
    sample::{Distribution, SharedNoise},
};

const GROUPS_OF_THREE: Plan = Plan { group: 3, patience: 0.0, lead: 4 };
const ROW: [f32; V as usize] = [0.3, 0.0, 1.0, 2.0, -1.0, 1.5, 0.2, 0.1];

fn begun(plan: Plan, sampling: SamplingParameters, branches: bool) -> EdgeSession {
    let mut session = connected(16);
    let mode = Mode::Ahead(Ahead { fixed: Some(plan), branches: Some(branches), ..Ahead::default() });
    session.start(vec![0, 1], &Settings { mode, sampling, ..settings(9) }, NOW).unwrap();
    session
}

fn sampled(temperature: f32) -> SamplingParameters {
    SamplingParameters { temperature, top_k: 0, top_p: 1.0 }
}

/// What an engine does whose draft model says the same of every position: what it chooses behind `length` tokens.
fn chosen(choice: Choice, length: usize) -> Vec<Chosen> {
    let q = Distribution::new(&ROW, &choice.sampling).unwrap();
    let one = |position| match choice.seed.map(SharedNoise::new) {
        Some(noise) => {
            let first = noise.choose_from(position, &q);
            Chosen { first, second: noise.second(position, &q, first) }
        }
        None => Chosen { first: q.likeliest(), second: q.second_likeliest(q.likeliest()) },
    };
    (length..length + choice.most).map(one).collect()
}

/// Frames of guesses until there is nothing to do, and the passes for them.
fn told(session: &mut EdgeSession, chooses: bool) -> (Vec<(u32, Vec<u32>)>, Vec<Forward>) {
    let scheme = Scheme::new(SchemeParameters::Coupled, V).unwrap();
    let (mut told, mut forwards) = (Vec::new(), Vec::new());
    while let Some(output) = session.poll(NOW).unwrap() {
        match output {
            EdgeOutput::Send(bytes) => {
                if let Frame::Guesses(guesses) = Frame::decode(&bytes).unwrap() {
                    let ids = scheme.decode_round(&guesses.payload, guesses.count).unwrap();
                    let Drafts::Ids(ids) = ids else { panic!("no ids") };
                    told.push((guesses.position, ids));
                }
            }
            EdgeOutput::Event(_) => {}
            EdgeOutput::Forward(forward) => {
                let choice = session.choice().filter(|_| chooses);
                let length = forward.keep + forward.tokens.len();
                forwards.push(forward);
                match choice {
                    Some(choice) => session.handle_chosen(&chosen(choice, length), NOW).unwrap(),
                    None => session.handle_logits(&ROW, &[], NOW).unwrap(),
                }
            }
        }
    }
    (told, forwards)
}

#[test]
fn an_engine_that_chooses_by_itself_guesses_the_same_in_fewer_passes() {
    for (temperature, branches) in [(0.0, false), (0.0, true), (1.0, false), (1.0, true)] {
        let begin = || begun(GROUPS_OF_THREE, sampled(temperature), branches);
        let (expected, rows) = told(&mut begin(), false);
        let mut session = begin();
        let (found, passes) = told(&mut session, true);
        assert_eq!(found, expected, "T = {temperature}, branches: {branches}");
        assert!(passes.len() < rows.len(), "{} and {} passes", passes.len(), rows.len());
        if !branches && temperature == 0.0 {
            // A lead of four in groups of three.
            let lengths: Vec<usize> = found.iter().map(|(_, ids)| ids.len()).collect();
            assert_eq!((lengths, passes.len(), rows.len()), (vec![3, 1], 2, 4));
            // What it chose and read is in its cache.
            let ids = &found[0].1;
            assert_eq!(passes[1], Forward { keep: 4, tokens: vec![ids[2]], rows: 1 });
        }
        assert_eq!(session.statistics().drafted, rows.len());
    }
}

#[test]
fn what_is_cut_leaves_the_cache_of_who_chose_it() {
    let mut session = begun(GROUPS_OF_THREE, sampled(0.0), false);
    let (_, passes) = told(&mut session, true);
    assert_eq!(passes.len(), 2);
    // Two of the guesses, which are all 3, and another token.
    let frame = Tokens { ids: vec![3, 3, 5], accepted: 2, ..Tokens::one(1, 2, 0, None) };
    session.handle_frame(&Frame::Tokens(frame).encode(), NOW).unwrap();
    let (_, passes) = told(&mut session, true);
    assert_eq!(passes[0], Forward { keep: 4, tokens: vec![5], rows: 1 });
}

/// Rounds send distributions, and evidence is of them.
#[test]
fn rows_come_where_they_are_needed() {
    let choice = |session: &mut EdgeSession| {
        while !matches!(session.poll(NOW).unwrap(), Some(EdgeOutput::Forward(_))) {}
        session.choice()
    };
    let asked = |sampling| choice(&mut begun(GROUPS_OF_THREE, sampling, false));
    let greedy = sampled(0.0);
    assert_eq!(asked(greedy), Some(Choice { seed: None, sampling: greedy, most: 3 }));
    let sampling = SamplingParameters { temperature: 0.5, top_k: 4, top_p: 0.9 };
    assert_eq!(asked(sampling), Some(Choice { seed: Some(settings(9).seed), sampling, most: 3 }));
    let mut session = connected(16);
    let ahead = Ahead { fixed: Some(GROUPS_OF_THREE), evidence: true, ..Ahead::default() };
    session.start(vec![0, 1], &Settings { mode: Mode::Ahead(ahead), ..settings(9) }, NOW).unwrap();
    assert_eq!(choice(&mut session), None);
    let mut session = connected(16);
    let mode = Mode::Speculative(Speculation::new(K_SQS, 4));
    session.start(vec![0, 1], &Settings { mode, ..settings(9) }, NOW).unwrap();
    assert_eq!(choice(&mut session), None);
}

#[test]
fn what_is_no_token_is_refused() {
    let none = |first, second| vec![Chosen { first, second }];
    for chosen in [vec![], none(V, None), none(1, Some(V)), [none(1, None), none(V, None)].concat()] {
        let mut session = begun(GROUPS_OF_THREE, sampled(0.0), true);
        while !matches!(session.poll(NOW).unwrap(), Some(EdgeOutput::Forward(_))) {}
        let error = session.handle_chosen(&chosen, NOW).unwrap_err();
        assert_eq!(error, EdgeError::Draft(DraftError::Choice { vocab_size: V }));
    }
}
