//! Guesses that are shown before they are confirmed, with a connection and without: the confirmed text stays what it
//! is.

use std::sync::Arc;

use outrider_speculation::{
    control::plan::Schedule,
    draft::Passages,
    session::edge::{Ahead, Mode, Settings},
};
use outrider_tests::{
    cuts::{Counts, Cuts, Odds},
    samplings::at,
    toy::ToyModel,
};

const ODDS: Odds = Odds { bytes: Some(300), restarts: 4, repeats: 5, verdict_with: None, new_draws: false };

/// 300 texts, most of them cut: by plans and temperatures, with and without tokens that are guessed offline. The text
/// is the target's own. The planted error, a text of the tokens that were visible first, is caught.
#[test]
fn guesses_that_are_shown_change_no_confirmed_token() {
    let target = ToyModel::target(23, 7);
    let draft = target.draft(1.0);
    let plans = [None, Some(Schedule::AT_ONCE), Some(Schedule { group: 3, patience: 1.0, lead: 64 })];
    let (mut counts, mut shown, mut unlike) = (Counts::default(), [0; 3], 0);
    for (seed, temperature) in (0..300).zip([0.0, 0.5, 1.0].into_iter().cycle()) {
        let fixed = plans[seed as usize / 3 % plans.len()];
        let ahead = Mode::Ahead(Ahead { fixed, branches: fixed.map(|_| true), ..Ahead::default() });
        let settings = |mode| Settings { mode, sampling: at(temperature), seed, max_new_tokens: 60 };
        let mut smooth = Cuts::new(draft.clone(), target.clone(), 128, &[5], Odds::SMOOTH, 1);
        let expected = smooth.generate(&[1, 2], &settings(Mode::CloudOnly));
        let mut pair = Cuts::new(draft.clone(), target.clone(), 128, &[5], ODDS, seed);
        // More than the server lets lie ahead of a text.
        pair.offline_tokens = [0, 4, 64][seed as usize % 7 % 3];
        assert_eq!(pair.generate(&[1, 2], &settings(ahead)), expected, "seed {seed}, {:?}", pair.counts);
        counts += pair.counts;
        unlike += usize::from(pair.first_shown != expected);
        for (sum, count) in shown.iter_mut().zip(pair.shown) {
            *sum += count;
        }
    }
    println!("{counts:?}, {shown:?} shown, offline and withdrawn, {unlike} texts seen otherwise first");
    assert!(counts.resumed > 100 && counts.anew > 50, "{counts:?}");
    assert!(shown.iter().all(|count| *count > 500), "{shown:?}");
    assert!(unlike > 30, "a text of unverified guesses would pass: {unlike}");
}

/// A draft that is always right offline: after the cut its guesses are proposed like others and are kept.
#[test]
fn right_guesses_made_offline_are_kept() {
    let target = ToyModel::target(23, 7);
    let odds = Odds { restarts: u32::MAX, ..ODDS };
    let mut pair = Cuts::new(target.clone(), target.clone(), 128, &[], odds, 3);
    pair.offline_tokens = 64;
    let mode = Mode::Ahead(Ahead::default());
    let settings = Settings { mode, sampling: at(0.7), seed: 3, max_new_tokens: 100 };
    let text = pair.generate(&[1, 2], &settings);
    assert_eq!(pair.first_shown, text);
    assert!(pair.counts.cuts > 0 && pair.shown[1] > 20, "{:?}, {:?}", pair.counts, pair.shown);
    assert!(pair.edge.statistics().accepted > 20, "{:?}", pair.edge.statistics().accepted);
}

/// Texts beside passages: their own continuation, that of another seed, and one that turns wrong after each five
/// tokens. The text is the target's own; the right passage saves passes; the planted error, a text of the tokens that
/// were visible first, is caught.
#[test]
fn passages_beside_a_text_change_no_confirmed_token_and_save_passes() {
    let target = ToyModel::target(23, 7);
    let draft = target.draft(1.0);
    let (mut counts, mut passes, mut unlike) = (Counts::default(), [0; 3], 0);
    for (seed, temperature) in (0..150).zip([0.0, 0.5, 1.0].into_iter().cycle()) {
        let settings = |mode, seed| Settings { mode, sampling: at(temperature), seed, max_new_tokens: 60 };
        let alone = |seed| {
            let mut smooth = Cuts::new(draft.clone(), target.clone(), 128, &[5], Odds::SMOOTH, 1);
            smooth.generate(&[1, 2], &settings(Mode::CloudOnly, seed))
        };
        let (expected, other) = (alone(seed), alone(seed + 1000));
        let wrong: Vec<u32> =
            (0..).zip(&expected).map(|(at, &id)| if at % 5 == 4 { (id + 1) % 23 } else { id }).collect();
        // Without a draft model guesses are looked up, and nothing else is done.
        for (with, odds, has_model) in [
            (false, Odds::SMOOTH, true),
            (true, Odds::SMOOTH, true),
            (true, ODDS, true),
            (true, Odds::SMOOTH, false),
            (true, ODDS, false),
        ] {
            let mut pair = match has_model {
                true => Cuts::new(draft.clone(), target.clone(), 128, &[5], odds, seed),
                false => Cuts::looking_up(target.clone(), 128, &[5], odds, seed),
            };
            let mut passages = Passages::default();
            for (name, passage) in [("own", &expected), ("other", &other), ("wrong", &wrong)] {
                if with && (name != "own" || seed % 2 == 0) {
                    passages.add(name, passage.clone());
                }
            }
            pair.edge.set_passages(Arc::new(passages));
            let text = pair.generate(&[1, 2], &settings(Mode::Ahead(Ahead::default()), seed));
            assert_eq!(text, expected, "seed {seed}, {:?}", pair.counts);
            counts += pair.counts;
            unlike += usize::from(pair.first_shown != expected);
            if odds.bytes.is_none() && seed % 2 == 0 {
                passes[usize::from(with) + usize::from(!has_model)] += pair.edge.statistics().server_passes;
            }
            assert!(has_model || pair.forwards == 0, "no pass is asked for");
        }
    }
    println!("{counts:?}, passes without, with and by them alone {passes:?}, {unlike} texts seen otherwise first");
    assert!(passes[1] < passes[0] && passes[2] < passes[0], "{passes:?}");
    assert!(unlike > 30 && counts.resumed > 30, "{unlike}, {counts:?}");
}
