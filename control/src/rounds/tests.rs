//! The controller rule by rule, and under any calls.

use core::time::Duration;

use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::*;

mod simulation;

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

const LONGEST: u32 = 16;

const PARAMETERS: ControlParameters = ControlParameters {
    stop: StopRule::Fixed,
    draft_length: 4,
    longest: LONGEST,
    adaptive_mode: false,
    bonus: Bonus::Target,
};

fn controller(stop: StopRule) -> RoundController {
    RoundController::new(ControlParameters { stop, ..PARAMETERS })
}

/// A round by its numbers of drafted, judged, accepted and committed tokens.
fn times([drafted, judged, accepted, committed]: [usize; 4], drafting: Duration, round_trip: Duration) -> RoundTimes {
    RoundTimes { drafted, judged, accepted, committed, passed: 0, drafting, round_trip }
}

fn outlook(peak: f64, entropy: f64) -> Outlook {
    Outlook { peak, entropy, stop_score: None }
}

#[test]
fn a_fixed_round_has_gamma_drafts() {
    let mut controller = controller(StopRule::Fixed);
    assert!(controller.wants(3) && !controller.wants(4) && !controller.needs_outlook());
    assert_eq!(controller.consider(3, &outlook(0.0, 9.0)), Advice::Draft);
    assert_eq!(controller.next_move(), Move::Draft);
}

/// The first fit may say that drafts are free and all are accepted. γ* then doubles, and does not leap to the longest.
#[test]
fn odld_lengthens_rounds_step_by_step() {
    let mut controller = controller(StopRule::Odld);
    let mut lengths = vec![controller.length()];
    while controller.length() < LONGEST {
        let drafted = controller.planned as usize;
        controller.round_done(&times([drafted, drafted, drafted, drafted + 1], ms(drafted as f64), ms(200.0)));
        lengths.push(controller.length());
    }
    lengths.dedup();
    assert_eq!(lengths, [4, 8, 16]);
}

/// Without a bonus token a round of one draft gives one token, at the cost of a forward pass and a draft: it never
/// pays.
#[test]
fn without_a_bonus_token_rounds_are_longer_or_not_worth_it() {
    let settled = |bonus, stop, rate: f64| {
        let parameters = ControlParameters { stop, adaptive_mode: true, draft_length: 1, bonus, ..PARAMETERS };
        let mut controller = RoundController::new(parameters);
        let mut sum = 0.0;
        for round in 0..400 {
            if let Move::Stream { tokens } = controller.next_move() {
                (0..tokens)
                    .for_each(|token| controller.observe(Observation::Streamed((token > 0).then_some(ms(10.0)))));
                continue;
            }
            let mut drafted = 0;
            while controller.wants(drafted) {
                drafted += 1;
            }
            // Now and then another length, so that the cost of a draft is known; one judged draft a round.
            drafted += usize::from(round % 5 == 0);
            sum += rate;
            let accepted = usize::from(sum >= 1.0);
            sum -= accepted as f64;
            let committed =
                if accepted < drafted { accepted + 1 } else { accepted + usize::from(bonus == Bonus::Target) };
            let (drafting, round_trip) = (ms(4.0 * drafted as f64), ms(10.0));
            controller.round_done(&times([drafted, 1, accepted, committed], drafting, round_trip));
        }
        controller.estimates()
    };
    // α = 0.6, L = 0.4: the paper's γ* is 1; without a bonus token it is 3.
    assert_eq!(settled(Bonus::Target, StopRule::Odld, 0.6).draft_length, Some(1));
    let odld = settled(Bonus::Nothing, StopRule::Odld, 0.6);
    assert_eq!(odld.draft_length, Some(3));
    let expected = (1.0 + 0.6 + 0.36) / (1.0 + 3.0 * 0.4);
    assert!((odld.speedup.unwrap() - expected).abs() < 0.05, "{odld:?} and {expected}");
    let fixed = settled(Bonus::Nothing, StopRule::Fixed, 0.9);
    assert!(fixed.speedup.unwrap() < 1.0, "{fixed:?}");
    assert!(settled(Bonus::Target, StopRule::Fixed, 0.9).speedup.unwrap() > 1.0);
}

/// The draft that takes the place of the bonus token comes after the one that ends the round by γ or by a rule that
/// looks at each token. A rule that ends a round before a token ends it there.
#[test]
fn a_drafted_bonus_token_is_one_draft_more() {
    let lengths = |stop, bonus| {
        let mut controller = RoundController::new(ControlParameters { stop, bonus, ..PARAMETERS });
        // Twice: nothing of the first round is left in the second.
        [0, 1].map(|_| {
            let mut drafted = 0;
            while controller.wants(drafted) {
                // From the third token on the models are unsure.
                let unsure = drafted >= 2;
                let outlook = Outlook {
                    peak: if unsure { 0.1 } else { 1.0 },
                    entropy: if unsure { 4.9 } else { 0.0 },
                    stop_score: Some(if unsure { 0.0 } else { 1.0 }),
                };
                match controller.consider(drafted, &outlook) {
                    Advice::Draft => drafted += 1,
                    Advice::DraftAndStop => return drafted + 1,
                    Advice::Decline => return drafted,
                }
            }
            drafted
        })
    };
    for (stop, own) in [
        (StopRule::Fixed, 4),
        (StopRule::Odld, 4),
        (StopRule::AdaEdl { scale: 0.2, threshold: 0.2 }, 3),
        (StopRule::SpecDec { threshold: 0.5 }, 3),
    ] {
        assert_eq!(lengths(stop, Bonus::Target), [own; 2], "{stop:?}");
        assert_eq!(lengths(stop, Bonus::Nothing), [own; 2], "{stop:?}");
        assert_eq!(lengths(stop, Bonus::Drafted), [own + 1; 2], "{stop:?}");
    }
    assert_eq!(lengths(StopRule::Bild { fallback: 0.8 }, Bonus::Drafted), [2; 2]);
    assert_eq!(lengths(StopRule::Bild { fallback: 1.0 }, Bonus::Target), [10; 2]);
    assert_eq!(lengths(StopRule::Bild { fallback: 1.0 }, Bonus::Drafted), [11; 2]);
}

/// Tokens that pass take the draft model's time and are part of what a round gives.
#[test]
fn passed_tokens_count_for_their_time_and_their_worth() {
    let mut controller = RoundController::new(ControlParameters { adaptive_mode: true, ..PARAMETERS });
    for _ in 0..100 {
        if let Move::Stream { tokens } = controller.next_move() {
            (0..tokens).for_each(|token| controller.observe(Observation::Streamed((token > 0).then_some(ms(10.0)))));
            continue;
        }
        controller.round_done(&RoundTimes { passed: 8, ..times([4, 4, 3, 4], ms(12.0), ms(10.0)) });
    }
    // 12 tokens in 22 ms, against one in 10 ms.
    let speedup = controller.estimates().speedup.unwrap();
    assert!((speedup - 12.0 * 10.0 / 22.0).abs() < 0.1, "{speedup}");
    assert!((controller.draft_time.per_token().unwrap() - 0.001).abs() < 1e-5);
}

#[test]
fn adaedl_stops_after_a_draft_that_is_too_uncertain() {
    let mut controller = controller(StopRule::AdaEdl { scale: 0.2, threshold: 0.5 });
    // The bound is 0.5 at H = 1.25.
    assert!(controller.needs_outlook() && controller.wants(15) && !controller.wants(16));
    assert_eq!(controller.consider(0, &outlook(0.5, 1.2)), Advice::Draft);
    assert_eq!(controller.consider(1, &outlook(0.5, 1.3)), Advice::DraftAndStop);
    // All of much is accepted, so it becomes more daring.
    let good = times([8, 8, 8, 9], ms(9.0), ms(9.0));
    (0..100).for_each(|_| controller.round_done(&good));
    assert_eq!(controller.consider(1, &outlook(0.5, 1.3)), Advice::Draft);
}

#[test]
fn specdec_stops_where_a_rejection_is_likely() {
    let mut controller = controller(StopRule::SpecDec { threshold: 0.5 });
    // The same in every round: 1 − 0.8³ = 0.488, 1 − 0.8⁴ = 0.59.
    for _ in 0..2 {
        let advice = [0, 1, 2, 3]
            .map(|drafted| controller.consider(drafted, &Outlook { stop_score: Some(0.8), ..outlook(0.0, 0.0) }));
        assert_eq!(advice, [Advice::Draft, Advice::Draft, Advice::Draft, Advice::DraftAndStop]);
    }
    assert_eq!(controller.consider(0, &outlook(0.0, 0.0)), Advice::Draft, "without a head nothing is known");
}

#[test]
fn bild_declines_and_drafts_ten_at_most() {
    let mut controller = controller(StopRule::Bild { fallback: 0.4 });
    assert!(controller.wants(9) && !controller.wants(10));
    assert_eq!(controller.consider(0, &outlook(0.59, 1.0)), Advice::Decline);
    assert_eq!(controller.consider(5, &outlook(0.61, 1.0)), Advice::Draft);
    let short = RoundController::new(ControlParameters { longest: 3, ..controller.parameters });
    assert!(short.wants(2) && !short.wants(3));
}

/// Without drafts there are only round trips, and the target alone is faster.
#[test]
fn as2_streams_where_every_token_is_declined() {
    let stop = StopRule::Bild { fallback: 0.1 };
    let mut controller = RoundController::new(ControlParameters { stop, adaptive_mode: true, ..PARAMETERS });
    let mut streamed = 0;
    for _ in 0..40 {
        match controller.next_move() {
            Move::Draft => {
                assert_eq!(controller.consider(0, &outlook(0.5, 1.0)), Advice::Decline);
                controller.round_done(&times([0, 0, 0, 1], ms(10.0), ms(100.0)));
            }
            Move::Stream { tokens } => {
                streamed += tokens;
                (0..tokens)
                    .for_each(|token| controller.observe(Observation::Streamed((token > 0).then_some(ms(50.0)))));
            }
        }
    }
    assert!(streamed > 300, "{streamed}");
    assert!((controller.estimates().speedup.unwrap() - 50.0 / 110.0).abs() < 1e-9);
}

fn any_rule() -> impl Strategy<Value = StopRule> {
    prop_oneof![
        Just(StopRule::Fixed),
        Just(StopRule::Odld),
        (0.0f64..3.0, -1.0f64..2.0).prop_map(|(scale, threshold)| StopRule::AdaEdl { scale, threshold }),
        (-1.0f64..2.0).prop_map(|threshold| StopRule::SpecDec { threshold }),
        (0.0f64..=1.0).prop_map(|fallback| StopRule::Bild { fallback }),
    ]
}

#[derive(Debug, Clone)]
enum Call {
    Consider(usize, Outlook),
    NextMove,
    RoundDone(RoundTimes),
    TokenStreamed(Option<Duration>),
    NextGeneration,
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), Just(Duration::MAX), (0u64..2_000_000).prop_map(Duration::from_micros)]
}

fn any_count() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..20, 1 => Just(usize::MAX)]
}

fn any_call() -> impl Strategy<Value = Call> {
    let number = || prop_oneof![8 => 0.0f64..=1.0, 1 => any::<f64>().prop_filter("finite", |x| x.is_finite())];
    prop_oneof![
        (any_count(), number(), number(), prop::option::of(number())).prop_map(
            |(drafted, peak, entropy, stop_score)| { Call::Consider(drafted, Outlook { peak, entropy, stop_score }) }
        ),
        Just(Call::NextMove),
        (any_count(), any_count(), any_count(), any_duration(), any_duration()).prop_map(
            |(drafted, judged, accepted, drafting, round_trip)| {
                Call::RoundDone(RoundTimes {
                    passed: accepted,
                    ..times([drafted, judged, accepted, judged], drafting, round_trip)
                })
            }
        ),
        prop::option::of(any_duration()).prop_map(Call::TokenStreamed),
        Just(Call::NextGeneration),
    ]
}

proptest! {
    #[test]
    fn any_calls_leave_estimates_finite_and_rounds_within_bounds(
        stop in any_rule(),
        draft_length in prop_oneof![0u32..20, Just(u32::MAX)],
        longest in prop_oneof![0u32..20, Just(u32::MAX)],
        adaptive_mode: bool,
        calls in prop::collection::vec(any_call(), 0..200),
    ) {
        let parameters = ControlParameters { stop, draft_length, longest, adaptive_mode, bonus: Bonus::Target };
        let mut controller = RoundController::new(parameters);
        for call in calls {
            match call {
                Call::Consider(drafted, outlook) => {
                    let advice = controller.consider(drafted, &outlook);
                    prop_assert!(advice != Advice::Decline || matches!(stop, StopRule::Bild { .. }), "declined");
                }
                Call::NextMove => {
                    let next = controller.next_move();
                    prop_assert!(next == Move::Draft || adaptive_mode);
                    prop_assert!(next != Move::Stream { tokens: 0 }, "nothing to stream");
                }
                Call::RoundDone(round) => controller.round_done(&round),
                Call::TokenStreamed(since_last) => controller.observe(Observation::Streamed(since_last)),
                Call::NextGeneration => controller.next_generation(),
            }
            prop_assert!(controller.wants(0));
            prop_assert!(!controller.wants(longest.max(1) as usize));
            let Estimates { acceptance_rate, cost_ratio, draft_length, speedup } = controller.estimates();
            prop_assert!(acceptance_rate.is_none_or(|rate| (0.0..=1.0).contains(&rate)));
            for estimate in [cost_ratio, speedup].into_iter().flatten() {
                prop_assert!(estimate.is_finite() && estimate >= 0.0, "{:?}", controller);
            }
            prop_assert!(draft_length.is_none_or(|length| (1..=longest.max(1)).contains(&length)));
        }
    }
}
