//! Several rounds in flight: whatever is under way when a verdict comes, the text is the target's; of the same
//! distribution, and at a seed the same text. `identity.rs` has temperature 0, `resume.rs` connections that break.

use core::time::Duration;

use outrider_codec::{
    frame::Frame,
    scheme::{Code, Downlink, SchemeParameters},
};
use outrider_speculation::{
    draft::ThresholdParameters,
    judge::Rule,
    sample::{End, Randomness},
    session::edge::{Mode, Settings, Speculation},
};
use outrider_tests::{
    goodness::assert_follows,
    in_process::{InProcess, Run},
    samplings::{NEUTRAL, at},
    schemes,
    texts::Texts,
    toy::ToyModel,
};

const DSSD: SchemeParameters = SchemeParameters::Dssd { downlink: Downlink::Sampled(2) };

fn k_sqs(support_size: u32, code: Code) -> SchemeParameters {
    SchemeParameters::KSqs { support_size, lattice_resolution: 20, code }
}

fn settings(speculation: &Speculation, temperature: f32, seed: u64, max_new_tokens: u32) -> Settings {
    Settings { mode: Mode::Speculative(speculation.clone()), sampling: at(temperature), seed, max_new_tokens }
}

/// Delays from nothing to some drafts' time, each way and at both models.
fn delay(pair: &mut InProcess, chance: &mut Randomness) {
    let mut ms = |bound| Duration::from_millis(chance.below(bound).into());
    let (up, down) = (ms(6), ms(6));
    (pair.draft_time, pair.pass_time) = (ms(3), ms(3));
    pair.uplink.configure(None, up);
    pair.downlink.configure(None, down);
}

/// Texts of four tokens over three, drafted one or two a round and three rounds in flight: the distribution is the
/// closed form's, whatever is under way when a draft is rejected.
fn assert_closed_form(scheme: SchemeParameters, rule: Rule, draft_length: usize) {
    let texts = Texts { rule, draft_length, length: 4, ..Texts::of_three(scheme, NEUTRAL) };
    let distribution = if rule == Rule::EXACT { texts.of_target() } else { texts.ungated() };
    let speculation = Speculation { max_in_flight: 3, ..texts.speculation() };
    let mut pair = texts.connect();
    let mut chance = Randomness::new(1, End::Edge);
    let (mut written, mut wasted) = (0, 0);
    let counts = texts.of_sessions(Mode::Speculative(speculation), &mut pair, |pair| {
        delay(pair, &mut chance);
        written += 1;
        wasted += pair.edge.statistics().wasted;
    });
    assert_follows(&counts, &distribution, scheme);
    assert!(wasted > written / 10, "rounds were in flight together: {wasted}");
}

#[test]
fn k_sqs_is_exact_with_rounds_in_flight() {
    assert_closed_form(k_sqs(2, Code::Adaptive), Rule::EXACT, 1);
}

#[test]
fn dssd_is_exact_with_rounds_in_flight() {
    assert_closed_form(DSSD, Rule::EXACT, 1);
}

#[test]
fn coupled_drafting_is_exact_with_rounds_in_flight() {
    assert_closed_form(SchemeParameters::Coupled, Rule::EXACT, 1);
}

#[test]
fn a_lossy_rule_has_its_own_distribution_with_rounds_in_flight() {
    assert_closed_form(k_sqs(2, Code::Enumerative), Rule::new("lossy", 0.5).unwrap(), 2);
}

/// At a seed neither the text nor what is sent of it depends on the window or on what arrives when.
#[test]
fn the_text_does_not_depend_on_what_is_under_way() {
    let target = ToyModel::target(23, 3);
    let mut chance = Randomness::new(3, End::Edge);
    let lossy = Rule::new("lossy", 0.4).unwrap();
    let cases = schemes::every(3, 20).into_iter().map(|scheme| Speculation::new(scheme, 2)).chain([
        Speculation { bit_budget: Some(40), ..Speculation::new(k_sqs(3, Code::Adaptive), 4) },
        Speculation { rule: lossy, ..Speculation::new(k_sqs(3, Code::Enumerative), 3) },
    ]);
    for speculation in cases {
        for seed in 0..20 {
            let mut run = |max_in_flight| -> (Run, Vec<usize>) {
                let mut pair = InProcess::connect(target.draft(0.8), target.clone(), 80, &[5]);
                delay(&mut pair, &mut chance);
                let speculation = Speculation { max_in_flight, ..speculation.clone() };
                let run = pair.generate(&[1, seed], &settings(&speculation, 1.0, seed.into(), 60));
                let records = run.committed.iter().filter_map(|committed| committed.round.as_ref());
                let bits = records.map(|round| round.payload_bits).collect();
                (run, bits)
            };
            let (first, bits) = run(2);
            for max_in_flight in [2, 3, 8, 8] {
                let (other, other_bits) = run(max_in_flight);
                assert_eq!((other.tokens, other_bits), (first.tokens.clone(), bits.clone()), "{speculation:?}, {seed}");
            }
        }
    }
}

/// C-SQS's threshold and the learning code are at every round what they would be without the discarded rounds.
#[test]
fn what_is_rejected_leaves_no_trace() {
    let target = ToyModel::target(50, 3);
    let threshold = ThresholdParameters { target: 0.05, step: 0.02, initial: 0.1 };
    let scheme = SchemeParameters::CSqs { lattice_resolution: 100, code: Code::Adaptive };
    let speculation = Speculation { threshold, max_in_flight: 4, ..Speculation::new(scheme, 2) };
    let thresholds = |delay: u64| {
        let mut pair = InProcess::connect(target.draft(1.0), target.clone(), 512, &[]);
        (pair.draft_time, pair.pass_time) = (Duration::from_millis(1), Duration::from_millis(1));
        pair.downlink.configure(None, Duration::from_millis(delay));
        let run = pair.generate(&[7], &settings(&speculation, 1.0, 3, 300));
        let wasted = pair.edge.statistics().wasted;
        let dropped = (pair.edge.statistics().mean_dropped_mass, pair.edge.statistics().dropped_mass_bound);
        let rounds = run.committed.into_iter().filter_map(|committed| committed.round);
        let rounds: Vec<_> = rounds.map(|round| (round.threshold, round.payload_bits, round.drafted)).collect();
        (rounds, dropped, wasted)
    };
    // Over a link without delay nothing is ever under way when a verdict comes.
    let (rounds, dropped, wasted) = thresholds(0);
    let (others, other_dropped, other_wasted) = thresholds(20);
    assert_eq!((rounds, dropped), (others, other_dropped));
    assert!(wasted == 0 && other_wasted > 50, "{wasted}, {other_wasted}");
}

/// Several rounds in flight pay off: with a draft that is right the round trip is hidden, and with one that is wrong
/// nothing is gained but cost.
#[test]
fn rounds_in_flight_hide_the_round_trip() {
    let target = ToyModel::target(300, 1);
    let elapsed = |difference, max_in_flight| {
        let mut pair = InProcess::connect(target.draft(difference), target.clone(), 512, &[]);
        (pair.draft_time, pair.pass_time) = (Duration::from_millis(5), Duration::from_millis(10));
        pair.uplink.configure(None, Duration::from_millis(50));
        pair.downlink.configure(None, Duration::from_millis(50));
        let speculation = Speculation { max_in_flight, ..Speculation::new(k_sqs(1, Code::Enumerative), 4) };
        pair.generate(&[0], &settings(&speculation, 0.0, 1, 100));
        let statistics = pair.edge.statistics();
        (statistics.elapsed.as_secs_f64(), statistics.wasted, statistics.server_passes)
    };
    let (alone, none, passes) = elapsed(0.0, 1);
    let (together, wasted, more_passes) = elapsed(0.0, 8);
    assert!((none, wasted) == (0, 0) && more_passes > passes);
    // 20 rounds of 20 + 110 ms one by one; 25 of 20 ms, and one round trip.
    assert!((2.5..2.8).contains(&alone) && (0.5..0.7).contains(&together), "{alone} {together}");
    let (slow, _, _) = elapsed(3.0, 1);
    let (no_slower, wasted, _) = elapsed(3.0, 8);
    println!("right: {alone:.2} s and {together:.2} s; wrong: {slow:.2} s and {no_slower:.2} s, {wasted} discarded");
    assert!(wasted > 100 && no_slower < 1.1 * slow);
}

/// A frame's header grows by a byte or two where rounds are in flight, and by nothing where not.
#[test]
fn one_round_at_a_time_pays_nothing_for_it() {
    let target = ToyModel::target(23, 1);
    let kinds = |max_in_flight| {
        let mut pair = InProcess::connect(target.draft(0.5), target.clone(), 64, &[]);
        pair.keep_frames = true;
        let speculation = Speculation { max_in_flight, ..Speculation::new(SchemeParameters::Coupled, 2) };
        pair.generate(&[0], &settings(&speculation, 1.0, 1, 40));
        let drafts = pair.frames.iter().filter(|(_, frame)| matches!(frame, Frame::Draft(_)));
        drafts.map(|(_, frame)| frame.encode()[0]).collect::<std::collections::BTreeSet<u8>>()
    };
    assert_eq!(kinds(1), [0x04].into());
    assert!(kinds(3).contains(&0x14));
}
