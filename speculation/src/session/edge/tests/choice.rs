//! Drafts and guesses that the draft model's engine chooses, and rows of which the largest logits are enough.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use outrider_codec::scheme::{Drafts, Scheme};

use super::*;
use crate::{
    Choice, Chosen, TopK,
    control::plan::Schedule,
    draft::{conformal::ThresholdParameters, propose},
    sample::{Distribution, SharedNoise},
    study::comparison::ComparisonParameters,
};

const GROUPS_OF_THREE: Schedule = Schedule { group: 3, patience: 0.0, lead: 4 };
const ROW: [f32; V as usize] = [0.3, 0.0, 1.0, 2.0, -1.0, 1.5, 0.2, 0.1];

fn begun(plan: Schedule, sampling: SamplingParameters, branches: bool) -> EdgeSession {
    let mut session = connected(16);
    let mode = Mode::Ahead(Ahead { fixed: Some(plan), branches: Some(branches), ..Ahead::default() });
    session.start(vec![0, 1], &Settings { mode, sampling, ..settings(9) }, NOW).unwrap();
    session
}

fn sampled(temperature: f32) -> SamplingParameters {
    SamplingParameters { temperature, top_k: 0, top_p: 1.0 }
}

/// The next pass that the session asks for.
fn next_pass(session: &mut EdgeSession) -> Forward {
    for _ in 0..100 {
        if let Some(EdgeOutput::Forward(forward)) = session.poll(NOW).unwrap() {
            return forward;
        }
    }
    panic!("no pass is asked for")
}

/// Choices, after `length` tokens, of an engine whose draft model says the same of every position.
fn chosen(choice: Choice, length: usize) -> Vec<Chosen> {
    let q = Distribution::new(&ROW, &choice.sampling).unwrap();
    let one = |position| match choice.seed.map(SharedNoise::new) {
        Some(noise) => {
            let first = noise.choose_from(position, &q);
            Chosen { first, second: noise.choose_two(position, &q).second }
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
                let choice = forward.chosen.filter(|_| chooses);
                let length = forward.keep + forward.tokens.len();
                forwards.push(forward.rows_alone());
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
            assert_eq!(passes[1], Forward::new(4, vec![ids[2]], 1));
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
    assert_eq!(passes[0], Forward::new(4, vec![5], 1));
}

/// Rounds of two, up to three in flight, and passes for them; each row is what `row` makes of the model's.
fn rounds(
    scheme: SchemeParameters,
    sampling: SamplingParameters,
    chooses: bool,
    row: impl Fn(Option<TopK>) -> Vec<f32>,
) -> (Vec<Vec<u8>>, Vec<Forward>) {
    let mut session = connected(16);
    let threshold = ThresholdParameters { initial: 0.19, ..ThresholdParameters::default() };
    let mode = Mode::Speculative(Speculation { max_in_flight: 3, threshold, ..Speculation::new(scheme, 2) });
    session.start(vec![0, 1], &Settings { mode, sampling, ..settings(9) }, NOW).unwrap();
    let (mut sent, mut forwards) = (Vec::new(), Vec::new());
    while let Some(output) = session.poll(NOW).unwrap() {
        match output {
            EdgeOutput::Send(bytes) => sent.push(bytes),
            EdgeOutput::Event(_) => {}
            EdgeOutput::Forward(forward) => {
                let length = forward.keep + forward.tokens.len();
                match forward.chosen.filter(|_| chooses) {
                    Some(choice) => session.handle_chosen(&chosen(choice, length), NOW).unwrap(),
                    None => session.handle_logits(&row(forward.top_k), &[], NOW).unwrap(),
                }
                forwards.push(forward.rows_alone());
            }
        }
    }
    (sent, forwards)
}

#[test]
fn an_engine_that_chooses_by_itself_drafts_the_same_rounds_in_fewer_passes() {
    for temperature in [0.0, 0.7, 1.0] {
        let drafted = |chooses| rounds(SchemeParameters::Coupled, sampled(temperature), chooses, |_| ROW.to_vec());
        let ((expected, rows), (found, passes)) = (drafted(false), drafted(true));
        assert_eq!(found, expected, "T = {temperature}");
        assert!(passes.len() < rows.len(), "{} and {} passes", passes.len(), rows.len());
        if temperature == 0.0 {
            // Three rounds of two in flight, and one that waits.
            assert_eq!((rows.len(), passes.len()), (8, 4));
            assert!((0..4).all(|round| passes[round] == rows[2 * round] || round > 0), "{passes:?}");
            assert_eq!(passes[1], Forward::new(3, vec![3], 1));
        }
    }
}

/// The round ends where a draft ends the text, whatever was chosen after it.
#[test]
fn what_is_chosen_behind_the_end_of_a_text_is_no_draft() {
    let mut session = connected(16);
    let mode = Mode::Speculative(Speculation::new(SchemeParameters::Coupled, 4));
    session.start(vec![0, 1], &Settings { mode, ..settings(9) }, NOW).unwrap();
    assert_eq!(next_pass(&mut session).chosen.map(|choice| choice.most), Some(4));
    let chosen: Vec<Chosen> = [3, 7, 2, 2].map(|first| Chosen { first, second: None }).into();
    session.handle_chosen(&chosen, NOW).unwrap();
    let draft = next_draft(&mut session);
    let scheme = Scheme::new(SchemeParameters::Coupled, V).unwrap();
    assert_eq!(scheme.decode_round(&draft.payload, draft.count).unwrap(), Drafts::Ids(vec![3, 7]));
    // 7, which ends it, is not the target's: it is cut, with what was read after it.
    give(&mut session, verdict(1, Next::Token(4), None)).unwrap();
    assert_eq!(next_pass(&mut session).rows_alone(), Forward::new(3, vec![4], 1));
}

#[test]
fn an_engine_that_chooses_fewer_is_asked_for_the_rest() {
    let mut session = connected(16);
    let mode = Mode::Speculative(Speculation::new(SchemeParameters::Coupled, 4));
    session.start(vec![0, 1], &Settings { mode, ..settings(9) }, NOW).unwrap();
    next_pass(&mut session);
    let chosen: Vec<Chosen> = [3, 5].map(|first| Chosen { first, second: None }).into();
    session.handle_chosen(&chosen, NOW).unwrap();
    let Some(EdgeOutput::Forward(rest)) = session.poll(NOW).unwrap() else { panic!("no pass") };
    assert_eq!(rest.chosen.map(|choice| choice.most), Some(2));
    assert_eq!(rest.rows_alone(), Forward::new(3, vec![5], 1));
}

/// An id takes as many bits whatever it is, so what a budget has no room for is not asked for.
#[test]
fn no_more_is_chosen_than_the_budget_has_room_for() {
    let bits = Scheme::new(SchemeParameters::Coupled, V).unwrap().fixed_token_bits().unwrap();
    for (budget, most) in [(2 * bits, 2), (4 * bits - 1, 3), (9 * bits, 4)] {
        let mut session = connected(16);
        let mode = Mode::Speculative(Speculation {
            bit_budget: Some(budget),
            ..Speculation::new(SchemeParameters::Coupled, 4)
        });
        session.start(vec![0, 1], &Settings { mode, ..settings(9) }, NOW).unwrap();
        assert_eq!(next_pass(&mut session).chosen.map(|choice| choice.most), Some(most));
        let chosen: Vec<Chosen> = (0..most as u32).map(|id| Chosen { first: 3 + id % 2, second: None }).collect();
        session.handle_chosen(&chosen, NOW).unwrap();
        assert_eq!(usize::from(next_draft(&mut session).count), most);
    }
}

/// The largest of [`ROW`], and the mass of the others shared among them.
fn cut(TopK { k, temperature }: TopK) -> Vec<f32> {
    let mut order: Vec<usize> = (0..ROW.len()).collect();
    order.sort_by(|&a, &b| ROW[b].total_cmp(&ROW[a]));
    let others = order.split_off(k as usize);
    let mass: f32 = others.iter().map(|&id| (ROW[id] / temperature).exp()).sum();
    let other = (mass / others.len() as f32).ln() * temperature;
    let is_largest = |id: &usize| order.contains(id);
    (0..ROW.len()).map(|id| if is_largest(&id) { ROW[id] } else { other }).collect()
}

#[test]
fn the_largest_logits_are_enough_where_the_scheme_sends_them() {
    let (code, lattice_resolution) = (Code::Enumerative, 2);
    let coarse = SamplingParameters { top_k: 5, top_p: 0.9, ..sampled(1.0) };
    for (scheme, sampling, k, is_least) in [
        (SchemeParameters::KSqs { support_size: 3, lattice_resolution: 50, code }, sampled(0.7), 3, true),
        (SchemeParameters::TkSlt { support_size: 2 }, sampled(1.0), 2, true),
        (SchemeParameters::Qs { lattice_resolution, code }, sampled(1.0), 4, false),
        (SchemeParameters::CSqs { lattice_resolution, code }, sampled(0.5), 5, false),
        // What top-p leaves is a part of what top-k leaves.
        (SchemeParameters::TkSlt { support_size: 2 }, coarse, 5, false),
    ] {
        let asked = core::cell::Cell::new(None);
        let whole = rounds(scheme, sampling, true, |top_k| {
            asked.set(top_k);
            ROW.to_vec()
        });
        let temperature = sampling.temperature;
        assert_eq!(asked.get(), Some(TopK { k, temperature }), "{scheme:?}");
        assert_eq!(rounds(scheme, sampling, true, |top_k| cut(top_k.unwrap())), whole, "{scheme:?}");
        let fewer = |top_k: Option<TopK>| cut(TopK { k: k - 1, ..top_k.unwrap() });
        assert!(!is_least || rounds(scheme, sampling, true, fewer).0 != whole.0, "{scheme:?}: fewer would do");
        // C-SQS's threshold follows the mass that is dropped.
        let dropped = |row: &[f32]| {
            let q = Distribution::new(row, &sampling).unwrap();
            propose(&q, scheme, &Scheme::new(scheme, V).unwrap(), 0.2).unwrap().dropped_mass
        };
        let row = cut(TopK { k, temperature });
        assert!((dropped(&row) - dropped(&ROW)).abs() < 1e-6, "{scheme:?}");
    }
    let greedy = core::cell::Cell::new(None);
    rounds(K_SQS, sampled(0.0), true, |top_k| {
        greedy.set(top_k);
        ROW.to_vec()
    });
    assert_eq!(greedy.get(), Some(TopK { k: 1, temperature: 0.0 }));
}

/// A gate draws from all of q, a stop rule asks for its entropy, evidence and comparisons are of all of it, and dense
/// schemes send it.
#[test]
fn all_logits_come_where_they_are_looked_at() {
    let top_k = |speculation: Speculation| {
        let mut session = connected(16);
        let settings = Settings { mode: Mode::Speculative(speculation), sampling: sampled(1.0), ..settings(9) };
        session.start(vec![0, 1], &settings, NOW).unwrap();
        let forward = next_pass(&mut session);
        (forward.top_k, forward.chosen)
    };
    let plain = Speculation::new(K_SQS, 2);
    assert_eq!(top_k(plain.clone()), (Some(TopK { k: 2, temperature: 1.0 }), None));
    // QS and C-SQS take probabilities as top-p leaves them; the most likely ones are renormalised.
    for (scheme, is_enough) in [
        (K_SQS, true),
        (SchemeParameters::Qs { lattice_resolution: 2, code: Code::Enumerative }, false),
        (SchemeParameters::CSqs { lattice_resolution: 2, code: Code::Enumerative }, false),
    ] {
        let mut session = connected(16);
        let sampling = SamplingParameters { top_p: 0.9, ..sampled(1.0) };
        let settings = Settings { mode: Mode::Speculative(Speculation::new(scheme, 2)), sampling, ..settings(9) };
        session.start(vec![0, 1], &settings, NOW).unwrap();
        assert_eq!(next_pass(&mut session).top_k.is_some(), is_enough, "{scheme:?}");
    }
    let gate = Gate::SequenceCascade { alpha: 0.5, confidence: Confidence::Mean };
    let stop = StopRule::AdaEdl { scale: 0.2, threshold: 0.2 };
    let threshold = plain.threshold;
    let compared = ComparisonParameters { support_size: 2, lattice_resolution: 10, threshold };
    for speculation in [
        Speculation { gate, ..plain.clone() },
        Speculation { stop, ..plain.clone() },
        Speculation { explain: true, ..plain.clone() },
        Speculation { compare: Some(compared), ..plain },
        Speculation::new(SchemeParameters::Dense, 2),
        Speculation::new(SchemeParameters::Dssd { downlink: Downlink::Sampled(2) }, 2),
        Speculation { stop, ..Speculation::new(SchemeParameters::Coupled, 2) },
        Speculation { explain: false, ..ruled("token-v1") },
    ] {
        assert_eq!(top_k(speculation.clone()), (None, None), "{speculation:?}");
    }
}

/// The row of a bonus token moves C-SQS's threshold before the next row is cut by it.
#[test]
fn all_logits_come_where_a_threshold_moves_between_two_rows() {
    let scheme = SchemeParameters::CSqs { lattice_resolution: 10, code: Code::Enumerative };
    let (mut session, _) = drafted(Speculation::new(scheme, 2), 9);
    give(&mut session, verdict(2, Next::Token(4), None)).unwrap();
    let forward = next_pass(&mut session);
    assert_eq!((forward.rows, forward.top_k), (2, None));
}

/// Rounds send distributions, and evidence is of them.
#[test]
fn rows_come_where_they_are_needed() {
    let choice = |session: &mut EdgeSession| next_pass(session).chosen;
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

/// Groups are tried to measure guesses that are made together, though the target does not wait for groups yet.
#[test]
fn groups_are_tried_at_first() {
    let mut session = connected(16);
    let mode = Mode::Ahead(Ahead::default());
    session.start(vec![0, 1], &Settings { mode, max_new_tokens: 64, ..settings(9) }, NOW).unwrap();
    assert_eq!(next_pass(&mut session).chosen.unwrap().most, 4);
}

#[test]
fn what_is_no_token_is_refused() {
    let none = |first, second| vec![Chosen { first, second }];
    for chosen in [vec![], none(V, None), none(1, Some(V)), [none(1, None), none(V, None)].concat()] {
        let mut session = begun(GROUPS_OF_THREE, sampled(0.0), true);
        next_pass(&mut session);
        let error = session.handle_chosen(&chosen, NOW).unwrap_err();
        assert_eq!(error, EdgeError::Draft(DraftError::Choice { vocab_size: V }));
    }
}
