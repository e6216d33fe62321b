//! Connections need not hold: whatever is cut, repeated, late or forgotten, the text is the one it would have been.

use outrider_codec::scheme::{Code, Downlink, SchemeParameters};
use outrider_speculation::{
    control::plan::Schedule,
    draft::{Confidence, Gate},
    session::edge::{Ahead, Mode, Settings, Speculation},
};
use outrider_tests::{
    cuts::{Counts, Cuts, Odds},
    goodness::{Fit, histogram},
    samplings::at,
    schemes,
    texts::{PROMPT, Texts},
    toy::ToyModel,
};

const ROUGH: Odds = Odds { bytes: Some(400), restarts: 4, repeats: 5, verdict_with: None, new_draws: false };
const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 3, lattice_resolution: 20, code: Code::Enumerative };

fn settings(mode: Mode, temperature: f32, seed: u64, max_new_tokens: u32) -> Settings {
    Settings { mode, sampling: at(temperature), seed, max_new_tokens }
}

/// Modes of drafting ahead: by measurements, and with guesses that form a tree, waited for or not.
fn ahead() -> [Mode; 3] {
    let plans = [None, Some(Schedule::AT_ONCE), Some(Schedule { group: 3, patience: 1.0, lead: 64 })];
    plans.map(|fixed| Mode::Ahead(Ahead { fixed, branches: fixed.map(|_| true), ..Ahead::default() }))
}

/// Every scheme, with evidence and without, with tokens that the target writes alone, rounds in flight, and the target
/// alone: at temperature 0 the text is the target's own, over more than ten thousand cuts.
#[test]
fn no_token_is_lost_doubled_or_changed() {
    let target = ToyModel::target(23, 7);
    let draft = target.draft(1.0);
    let mut modes = vec![Mode::CloudOnly];
    modes.extend(ahead());
    for scheme in schemes::every(3, 20) {
        for explain in [false, true] {
            let alone = Speculation { explain, adaptive_mode: explain, ..Speculation::new(scheme, 3) };
            let in_flight = Speculation { explain, max_in_flight: 3, ..Speculation::new(scheme, 2) };
            modes.extend([alone, in_flight].map(Mode::Speculative));
        }
    }
    let mut counts = Counts::default();
    for seed in 0.. {
        for mode in &modes {
            // Where what was judged by travels as well, a connection has to bear more.
            let explains = matches!(mode, Mode::Speculative(speculation) if speculation.explain);
            let odds = Odds { bytes: Some(if explains { 1500 } else { 250 }), ..ROUGH };
            let mut pair = Cuts::new(draft.clone(), target.clone(), 128, &[], odds, seed);
            for start in 0..2 {
                let prompt = [start, (seed % 23) as u32];
                let tokens = pair.generate(&prompt, &settings(mode.clone(), 0.0, seed, 40));
                assert_eq!(tokens, target.greedy(&prompt, 40, &[]), "{mode:?}, seed {seed}, {:?}", pair.counts);
                assert_eq!(pair.edge.statistics().tokens, 40);
            }
            counts += pair.counts;
        }
        if counts.cuts > 10_000 {
            break;
        }
    }
    println!("{counts:?}");
    let Counts { restarts, repeated, late, resumed, anew, .. } = counts;
    assert!([restarts, repeated, late, resumed, anew].iter().all(|&count| count > 1000), "{counts:?}");
}

/// At any temperature: where nothing but the text decides of a round, it is the same round again.
#[test]
fn with_the_same_draws_the_text_is_the_same() {
    let target = ToyModel::target(23, 3);
    let draft = target.draft(1.0);
    let dssd = SchemeParameters::Dssd { downlink: Downlink::Sampled(1) };
    let mut modes = vec![Mode::CloudOnly];
    modes.extend(ahead());
    for (scheme, draft_length) in [(K_SQS, 3), (SchemeParameters::Coupled, 4), (dssd, 3)] {
        let speculation = Speculation::new(scheme, draft_length);
        modes.push(Mode::Speculative(Speculation { max_in_flight: 3, ..speculation.clone() }));
        modes.push(Mode::Speculative(speculation));
    }
    let mut counts = Counts::default();
    for (seed, mode) in (0..100).flat_map(|seed| modes.iter().map(move |mode| (seed, mode))) {
        let settings = settings(mode.clone(), 1.0, seed, 40);
        let whole = Cuts::new(draft.clone(), target.clone(), 64, &[5], Odds::SMOOTH, 1).generate(&[1], &settings);
        let mut pair = Cuts::new(draft.clone(), target.clone(), 64, &[5], ROUGH, seed);
        assert_eq!(pair.generate(&[1], &settings), whole, "{mode:?}, seed {seed}");
        counts += pair.counts;
    }
    assert!(counts.restarts > 30 && counts.resumed > 100, "{counts:?}");
}

/// Tokens that a sequence cascade has written and not shown are no part of the text that is resumed.
#[test]
fn what_is_held_back_is_written_again() {
    let target = ToyModel::target(23, 3);
    let draft = target.draft(1.0);
    // Never in doubt, so that the text depends on the edge's random draws alone.
    let gate = Gate::SequenceCascade { alpha: 1.0, confidence: Confidence::Mean };
    let mode = Mode::Speculative(Speculation { gate, ..Speculation::new(K_SQS, 3) });
    let odds = Odds { bytes: Some(100), restarts: 2, ..ROUGH };
    let mut counts = Counts::default();
    for seed in 0..400 {
        let settings = settings(mode.clone(), 1.0, seed, 40);
        let whole = Cuts::new(draft.clone(), target.clone(), 64, &[], Odds::SMOOTH, 1).generate(&[1], &settings);
        let mut pair = Cuts::new(draft.clone(), target.clone(), 64, &[], odds, seed);
        assert_eq!(pair.generate(&[1], &settings), whole, "seed {seed}");
        counts += pair.counts;
    }
    assert!(counts.anew > 50, "{counts:?}");
}

/// Counts of the texts when every verdict with token 0 is lost, and the server with it.
fn written(texts: &Texts, new_draws: bool) -> (Vec<u32>, Counts) {
    let odds = Odds { verdict_with: Some(0), new_draws, ..Odds::SMOOTH };
    let mut pair = Cuts::new(texts.draft.clone(), texts.target.clone(), 64, &[], odds, 3);
    let mode = Mode::Speculative(texts.speculation());
    let counts = histogram(texts.target.vocab_size(), texts.length, |seed| {
        pair.generate(&PROMPT, &settings(mode.clone(), 1.0, seed, texts.length as u32))
    });
    (counts, pair.counts)
}

/// The loss of a verdict depends on its content, and the distribution is the target's all the same. A verdict that is
/// drawn again with new draws is not of that distribution, and the same test sees it.
#[test]
fn the_distribution_does_not_depend_on_what_is_lost() {
    let scheme = SchemeParameters::KSqs { support_size: 2, lattice_resolution: 10, code: Code::Enumerative };
    let texts = Texts::of_four(scheme, at(1.0));
    let distribution = texts.of_target();
    for new_draws in [false, true] {
        let (written, counts) = written(&texts, new_draws);
        let fit = Fit::new(&written, &distribution);
        assert_eq!(fit.is_good(), !new_draws, "new random draws: {new_draws}, {fit}, {counts:?}");
        assert!(counts.anew > 1000);
    }
}
