//! Modes of writing a text, tried in virtual time.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Places in counts by mode.
const ALONE: usize = Mode::Alone as usize;
const AT_ONCE: usize = Mode::AtOnce as usize;
const PATIENT: usize = Mode::Patient as usize;
const ROUNDS: usize = Mode::Rounds as usize;

impl AheadController {
    fn drafted(&mut self, took: Duration, count: usize) {
        self.observe(Observation::Drafted { took, count });
    }

    fn compared(&mut self, candidates: usize, right: Option<usize>) {
        self.observe(Observation::Compared { candidates, right });
    }

    fn answered(&mut self, answer: Answer) {
        self.observe(Observation::Answered(answer));
    }
}

/// Tokens of a text, the link's round trip, and what each takes by the way that it is written.
type Part = (usize, Duration, [Duration; 4]);

/// A text in one part; how many tokens were written in each way.
fn text(pace: &mut AheadController, tokens: usize, round_trip: Duration, takes: [Duration; 4]) -> [usize; 4] {
    text_of([(tokens, round_trip, takes)], pace)[0]
}

/// A text whose link and costs become others; for each part how many tokens were written in each way.
fn text_of<const PARTS: usize>(parts: [Part; PARTS], pace: &mut AheadController) -> [[usize; 4]; PARTS] {
    let mut now = Duration::ZERO;
    pace.next_generation(None, pace.goal, pace.holds);
    pace.observe(Observation::FirstToken { after: parts[0].1 + 10 * MS, pass: 10 * MS });
    parts.map(|(tokens, round_trip, takes)| {
        let mut counts = [0; 4];
        for _ in 0..tokens {
            now += takes[pace.current as usize];
            counts[pace.current as usize] += 1;
            pace.drafted(MS, 1);
            pace.passed(10 * MS, 0, None);
            answered(pace, round_trip + 10 * MS, 10 * MS);
            pace.written(1, now);
        }
        counts
    })
}

/// Tokens came this time after guesses were sent, of a pass that took `pass`: one that was held for them if the
/// patience is long enough, else one after another that began before they came.
fn answered(pace: &mut AheadController, after: Duration, pass: Duration) {
    let (trip, patience) = (after.saturating_sub(pass), Duration::from_secs_f64(pace.plan().patience));
    let awaited = patience > trip;
    let least = if awaited { Duration::ZERO } else { trip.saturating_sub(pass).max(patience) };
    pace.answered(Answer { least, most: trip, awaited });
}

/// Guesses that slow the target down, though link and times promise much.
#[test]
fn what_is_slower_rests_and_is_tried_again() {
    let mut pace = AheadController::new(None);
    let counts = text(&mut pace, 4000, MS, [10, 14, 15, 14].map(|ms| ms * MS));
    assert!(counts[ALONE] > 3600 && counts[1..].iter().sum::<usize>() >= 60, "{counts:?}");
}

/// The target wrote a text alone before, faster than the passes that it makes beside an edge on its own machine:
/// guesses that slow it down rest sooner than where that has to be found out.
#[test]
fn a_text_that_was_written_alone_is_remembered() {
    let takes = [6, 9, 9, 9].map(|ms| ms * MS);
    let unknown = text(&mut AheadController::new(None), 160, MS, takes);
    let mut pace = AheadController::new(None);
    pace.observe(Observation::WrittenAlone { tokens: 128, passes: 128, took: 128 * 6 * MS });
    let known = text(&mut pace, 160, MS, takes);
    assert!(known[ALONE] > unknown[ALONE] + 30, "{known:?} {unknown:?}");
    pace.observe(Observation::WrittenAlone { tokens: 0, passes: 0, took: MS });
    assert!(pace.alone().is_finite());
}

/// Whichever is the fastest, and whatever the others promise.
#[test]
fn the_fastest_way_is_found_and_kept() {
    for fastest in 0..4 {
        let mut takes = [14 * MS; 4];
        (takes[ALONE], takes[fastest]) = (13 * MS, 7 * MS);
        let mut pace = AheadController::new(None);
        let counts = text(&mut pace, 400, MS, takes);
        assert!(counts[fastest] > 200, "{counts:?} of 400, {fastest}");
        let counts = text(&mut pace, 4000, MS, takes);
        assert!(counts[fastest] > 3600, "{counts:?} of 4000, {fastest}");
    }
}

/// Passes hide a short trip from guesses that the target does not wait for: it looks as long as a pass, so waiting
/// promises little.
#[test]
fn a_trip_that_passes_hide_is_looked_for() {
    let mut pace = AheadController::new(None);
    let takes = [40, 36, 24, 24].map(|ms| ms * MS);
    let (mut now, mut waited) = (Duration::ZERO, 0);
    for token in 0..2000 {
        now += takes[pace.current as usize];
        pace.drafted(10 * MS, 1);
        pace.passed(40 * MS, 0, None);
        pace.compared(1, (token % 10 < 6).then_some(0));
        let trip = if pace.plan().patience > 0.0 { 2 * MS } else { 40 * MS };
        answered(&mut pace, trip + 40 * MS, 40 * MS);
        waited += usize::from(HOLDING.contains(&pace.current));
        pace.written(1, now);
    }
    assert!(waited > 1500, "{waited} of 2000");
}

/// Passes hide the link from guesses that the target does not wait for, but not from a handshake; the time shown by the
/// first token is the upper bound.
#[test]
fn a_handshake_shows_a_link_that_passes_hide() {
    for (handshake, shown) in [(9 * MS, 9.0), (12 * MS, 10.0)] {
        let mut pace = AheadController::new(None);
        pace.observe(Observation::Handshake(handshake));
        pace.next_generation(None, Goal::Speed, true);
        pace.drafted(MS, 1);
        pace.passed(40 * MS, 0, None);
        pace.observe(Observation::FirstToken { after: 50 * MS, pass: 40 * MS });
        assert_eq!(pace.round_trip().map(|trip| trip * 1e3), Some(shown));
    }
}

/// Fewer passes are chosen where they cost nothing: the way that saves most and is no slower than the target alone.
#[test]
fn the_fewest_passes_are_found_where_they_cost_no_speed() {
    // Tokens that a pass writes, and the time of a pass, by way.
    let cases = [
        ([1, 2, 3, 4], [10, 12, 20, 32], ROUNDS),
        ([1, 2, 3, 4], [10, 12, 20, 60], PATIENT),
        ([1, 2, 3, 4], [10, 24, 60, 80], ALONE),
        // The server's own drafts save more.
        ([5, 2, 3, 4], [50, 12, 20, 32], ALONE),
    ];
    for (tokens, takes, best) in cases {
        let (mut pace, mut now, mut counts) = (AheadController::new(None), Duration::ZERO, [0; 4]);
        pace.next_generation(None, Goal::Passes, true);
        for _ in 0..4000 {
            let way = pace.current as usize;
            now += takes[way] * MS;
            counts[way] += 1;
            pace.drafted(MS, 1);
            pace.passed(10 * MS, 0, None);
            answered(&mut pace, 11 * MS, 10 * MS);
            pace.written(tokens[way], now);
        }
        assert!(counts[best] > 3000, "{counts:?} with {tokens:?} in {takes:?}");
    }
}

/// An engine that writes without holding passes: however much waiting promises, it cannot be asked to wait.
#[test]
fn nobody_is_asked_to_hold_who_does_not() {
    let (mut pace, mut now, mut guided) = (AheadController::new(None), Duration::ZERO, 0);
    // A target before did hold them, and waiting was best.
    text(&mut pace, 2000, MS, [10, 9, 1, 1].map(|ms| ms * MS));
    assert!(HOLDING.contains(&pace.current));
    for goal in [Goal::Speed, Goal::Passes] {
        pace.next_generation(None, goal, false);
        for _ in 0..2000 {
            now += [10, 9, 1, 1].map(|ms| ms * MS)[pace.current as usize];
            assert!(!HOLDING.contains(&pace.current), "{}", pace.current.name());
            guided += usize::from(pace.current == Mode::AtOnce);
            pace.drafted(MS, 1);
            pace.passed(10 * MS, 0, None);
            answered(&mut pace, 11 * MS, 10 * MS);
            pace.written(1, now);
        }
    }
    assert!(guided > 500, "{guided} of 4000");
}

/// A tree is thirty guesses, and its frames have to be over in a tenth of a pass.
#[test]
fn second_candidates_are_for_who_has_time_for_them() {
    let mut pace = AheadController::new(Some(Schedule::AT_ONCE));
    assert!(!pace.plan().branches, "nothing is measured");
    pace.drafted(MS / 4, 1);
    pace.passed(20 * MS, 0, None);
    assert!(pace.plan().branches);
    pace.observe(Observation::Framed { took: MS / 4 + MS / 20, drafts: 1 });
    assert!(pace.plan().branches, "1.5 ms of 20");
    let mut pace = AheadController::new(Some(Schedule::AT_ONCE));
    pace.drafted(MS / 4, 1);
    pace.observe(Observation::Framed { took: MS / 4 * 3 + MS / 8, drafts: 3 });
    for (pass, has_time) in [(20, false), (37, false), (38, true), (110, true)] {
        (0..8).for_each(|_| pace.passed(pass * MS, 0, None));
        assert_eq!(pace.plan().branches, has_time, "{pass} ms");
    }
    // Drafts themselves are too slow.
    (0..8).for_each(|_| pace.drafted(12 * MS, 1));
    assert!(!pace.plan().branches);
}

/// A draft in a group costs less than a single draft, as on a GPU; until that is known a group is asked for.
#[test]
fn what_drafts_take_together_is_learned_apart() {
    let mut pace = AheadController::new(None);
    assert!(pace.plan().tries_group && pace.drafts.get().is_none());
    pace.drafted(400 * MS, 4);
    assert!(pace.plan().tries_group, "it may have compiled");
    pace.drafted(12 * MS, 4);
    assert!(!pace.plan().tries_group);
    assert_eq!(pace.drafts.get(), Some((0.003, 0.003)), "all in all");
    pace.drafted(9 * MS, 1);
    let (draft, further) = pace.drafts.get().unwrap();
    assert!((draft - 0.009).abs() < 1e-12 && (further - 0.001).abs() < 1e-12, "{draft}, {further}");
    // Singles that were timed while the target computes are no reason to think that further ones are for nothing.
    (0..8).for_each(|_| pace.drafted(30 * MS, 1));
    let (draft, further) = pace.drafts.get().unwrap();
    assert!(draft == 0.03 && (further - 0.003 / 4.0).abs() < 1e-12, "{draft}, {further}");
}

/// Modes that promise nothing are not tried: a round on a far link would be felt.
#[test]
fn nobody_waits_on_a_far_link() {
    let counts = text(&mut AheadController::new(None), 2000, 400 * MS, [10, 10, 400, 400].map(|ms| ms * MS));
    assert!(counts[PATIENT] + counts[ROUNDS] == 0, "{counts:?}");
}

/// Guesses for an engine with many sessions: they arrive too late for every pass, and cost no speed that shows.
#[test]
fn guesses_that_save_nothing_rest() {
    let mut pace = AheadController::new(None);
    pace.next_generation(None, Goal::Speed, false);
    let counts = text(&mut pace, 8000, 100 * MS, [10, 10, 200, 200].map(|ms| ms * MS));
    assert!(counts[AT_ONCE] > 0 && counts[AT_ONCE] < 1600, "{counts:?}");
}

/// A change of the link: all modes are tried again at once, however long they were to rest.
#[test]
fn another_link_is_another_race() {
    let mut pace = AheadController::new(None);
    text(&mut pace, 8000, 100 * MS, [10, 11, 200, 200].map(|ms| ms * MS));
    let counts = text(&mut pace, 1000, MS, [10, 11, 7, 7].map(|ms| ms * MS));
    assert!(counts[PATIENT] + counts[ROUNDS] > 700, "{counts:?}");
}

/// A link that has become longer is shown by the first token of the next text, and the target does not wait on it.
#[test]
fn a_link_that_became_long_is_noticed_by_the_first_token() {
    let mut pace = AheadController::new(None);
    let counts = text(&mut pace, 1000, MS, [10, 11, 7, 7].map(|ms| ms * MS));
    assert!(counts[PATIENT] + counts[ROUNDS] > 700, "{counts:?}");
    for (round_trip, takes) in [(20, [10, 8, 30, 30]), (400, [10, 10, 400, 400])] {
        let counts = text(&mut pace, 100, round_trip * MS, takes.map(|ms| ms * MS));
        assert_eq!(counts[PATIENT] + counts[ROUNDS], 0, "{counts:?}");
    }
}

/// A few answers show one that becomes long in the middle of a text, whose first token came soon.
#[test]
fn a_link_that_becomes_long_within_a_text_is_noticed() {
    let near = (1000, MS, [10, 11, 7, 7].map(|ms| ms * MS));
    let far = (200, 100 * MS, [10, 8, 100, 100].map(|ms| ms * MS));
    let mut pace = AheadController::new(None);
    let [before, after] = text_of([near, far], &mut pace);
    assert!(before[PATIENT] + before[ROUNDS] > 700, "{before:?}");
    assert!(after[PATIENT] + after[ROUNDS] <= 16, "{after:?}");
    assert_eq!(pace.round_trip(), Some(0.1));
}

/// An unchanged link on which the target does not wait: answers are late by the rest of a pass, and once by a slow
/// draft. No mode is tried again for that.
#[test]
fn what_is_left_of_a_pass_is_no_other_link() {
    let mut pace = AheadController::new(None);
    // And on, should another way be looked at just then.
    for length in [1000].into_iter().chain([8; 9]) {
        if pace.current != Mode::AtOnce || length > 8 {
            text(&mut pace, length, 2 * MS, [10, 7, 11, 11].map(|ms| ms * MS));
        }
    }
    let measured = pace.score(Mode::AtOnce).measured();
    pace.next_generation(None, Goal::Speed, true);
    for token in 0..6 {
        answered(&mut pace, if token < 3 { 23 * MS } else { 20 * MS }, 10 * MS);
        pace.written(1, token * 7 * MS);
    }
    assert!(pace.current == Mode::AtOnce && pace.score(Mode::AtOnce).measured() == measured, "{pace:?}");
}

/// Guesses that the target does not wait for may be sent late, on a browser's only core: that is not a longer link, as
/// long as it is not a different one.
#[test]
fn what_is_not_awaited_makes_the_link_no_longer() {
    let mut pace = AheadController::new(None);
    pace.drafted(MS, 1);
    pace.passed(10 * MS, 0, None);
    let mut trip = |least: u32, most: u32, awaited| {
        (0..4).for_each(|_| pace.answered(Answer { least: least * MS, most: most * MS, awaited }));
        pace.is_other_link();
        let trip = pace.conditions().unwrap().round_trip;
        pace.next_generation(None, Goal::Speed, true);
        trip
    };
    assert_eq!(trip(0, 3, true), 0.003);
    assert_eq!(trip(5, 12, false), 0.003, "it is thought to be the same");
    assert_eq!(trip(0, 2, false), 0.002, "it cannot be longer than that");
    assert_eq!(trip(20, 28, false), 0.028, "it is another, of that at most");
}

/// A target that waits for guesses does not where the guesses at hand were all right: the next ones wait for what is
/// left of its pass. However many such answers come in a row, the link is the same.
#[test]
fn guesses_that_were_all_right_are_no_other_link() {
    let (mut pace, mut now) = (AheadController::new(None), Duration::ZERO);
    pace.observe(Observation::Handshake(3 * MS));
    pace.next_generation(None, Goal::Speed, true);
    for pass in 0..400 {
        now += 70 * MS;
        let (awaited, rest) = (pace.plan().patience > 0.0 && pass % 40 > 20, 20 + 5 * (pass % 8));
        pace.drafted(MS, 1);
        pace.compared(1, (pass % 10 < 8).then_some(0));
        let most = (3 + if awaited { 0 } else { rest }) * MS;
        pace.answered(Answer { least: Duration::ZERO, most, awaited });
        pace.passed(60 * MS, 0, None);
        pace.written(if pace.plan().patience > 0.0 { 3 } else { 2 }, now);
        let waits = HOLDING.map(|mode| pace.score(mode).measured());
        assert!(pass < 40 || waits.iter().any(|measured| *measured > 40.0), "they are tried anew: {pace:?}");
    }
    // One or two are late by anything, whichever they are.
    for late_by in [[90, 0, 0], [0, 90, 70], [70, 0, 90]] {
        let mut late = pace.clone();
        late.next_generation(None, Goal::Speed, true);
        for (token, by) in (0..).zip(late_by) {
            late.answered(Answer { least: Duration::ZERO, most: (3 + by) * MS, awaited: true });
            late.written(1, now + token * MS);
        }
        assert_eq!(late.modes, pace.modes, "late by {late_by:?} ms");
    }
}

/// A link that becomes longer than the patience, and shorter than a pass: the target waits in every pass for guesses
/// that come too late, until that is noticed. Then it waits long enough, or not at all.
#[test]
fn a_link_that_outgrows_the_patience_is_noticed() {
    let mut pace = AheadController::new(None);
    pace.observe(Observation::Handshake(3 * MS));
    let mut now = Duration::ZERO;
    for (trip, passes) in [(3, 60), (40, 60)] {
        let mut wasted = 0;
        for pass in 0..passes {
            let patience = Duration::from_secs_f64(pace.plan().patience);
            let waits = patience > Duration::ZERO && patience <= trip * MS;
            wasted += u32::from(waits);
            now += 60 * MS + if pace.plan().mode == Mode::Alone { Duration::ZERO } else { patience.min(trip * MS) };
            pace.drafted(MS, 1);
            pace.passed(60 * MS, 0, None);
            for right in [true, true, true, pass % 2 > 0] {
                pace.compared(1, right.then_some(0));
            }
            answered(&mut pace, (60 + trip) * MS, 60 * MS);
            pace.written(if waits { 1 } else { 3 }, now);
        }
        assert!(wasted <= 12, "{wasted} passes waited for nothing over {trip} ms");
    }
    assert_eq!(pace.round_trip(), Some(0.04));
}

/// The price of a row depends on the target, and the best group depends on that price: with rows at a fifth of a pass
/// it is small.
#[test]
fn groups_are_as_large_as_rows_are_cheap() {
    let groups = [0.02, 0.2].map(|row_cost| {
        let (mut pace, mut now) = (AheadController::new(None), Duration::ZERO);
        for token in 0..600usize {
            let plan = pace.plan();
            let accepted = if plan.patience > 0.0 { (token % 4).min(plan.group) } else { 0 };
            let at_hand = if accepted > 0 { plan.group } else { 0 };
            let pass = (40 * MS).mul_f64(1.0 + row_cost * at_hand as f64);
            now += if pace.plan().mode == Mode::Alone { 40 * MS } else { 25 * MS };
            pace.drafted(MS, 1);
            pace.passed(pass, accepted, Some(at_hand));
            pace.compared(1, (token % 10 < 8).then_some(0));
            answered(&mut pace, 2 * MS + pass, pass);
            pace.written(1, now);
        }
        let conditions = pace.conditions().unwrap();
        let group = conditions.patient(Goal::Speed).0.group;
        let measured = conditions.rows.all(group) / group as f64;
        assert!((measured / row_cost - 1.0).abs() < 0.2, "{conditions:?}");
        group
    });
    assert!(groups[0] > groups[1], "{groups:?}");
}

/// The target has measured its passes before the session: rows have their price with the first text, and it outweighs
/// the assumed one. A pass that takes longer meanwhile is one of many.
#[test]
fn rows_are_priced_by_the_targets_own_times_at_first() {
    for row_cost in [0.01, 0.3] {
        let mut pace = AheadController::new(None);
        for rows in [1, 2, 4, 8, 16] {
            let took = (10 * MS).mul_f64(1.0 + row_cost * (rows - 1) as f64);
            pace.observe(Observation::Timed { rows, took });
        }
        let price = pace.rows().all(4) / 4.0;
        assert!((price / row_cost - 1.0).abs() < 0.15 && pace.pass().is_none(), "{price}");
        pace.passed(20 * MS, 0, Some(0));
        let later = pace.rows().all(4) / 4.0;
        assert!((later - price).abs() < 0.05, "{price}, {later}");
    }
}

/// Guesses after a wrong one arrive 4 ms later than drafts of 1 ms and the link take: waiting loses that time with
/// each, and not waiting is then as fast.
#[test]
fn what_the_edge_has_to_do_besides_is_waited_for_too() {
    let promised = [0, 4].map(|beside| {
        let mut pace = AheadController::new(None);
        pace.drafted(MS, 1);
        for _ in 0..80 {
            pace.observe(Observation::Corrected { after: (beside + 3) * MS, drafts: 3 });
        }
        pace.passed(10 * MS, 0, Some(0));
        answered(&mut pace, 12 * MS, 10 * MS);
        let conditions = pace.conditions().unwrap();
        assert!((conditions.reaction - f64::from(beside) * 1e-3).abs() < 1e-4, "{conditions:?}");
        let [patient, turns] = [conditions.patient(Goal::Speed), conditions.rounds(Goal::Speed)];
        [patient.1.speed, turns.1.speed, conditions.at_once().1.speed]
    });
    let lost = [0, 1, 2].map(|way| promised[1][way] / promised[0][way]);
    assert!(lost[0] < 0.93 && lost[1] < 0.9 && lost[2] > lost[0], "{lost:?}");
}

/// The more guesses gain, the rarer the target is timed alone.
#[test]
fn what_gains_much_is_seldom_interrupted() {
    let alone = [6, 9].map(|takes| {
        let mut pace = AheadController::new(None);
        text(&mut pace, 2000, MS, [10, 11, takes, takes].map(|ms| ms * MS));
        text(&mut pace, 4000, MS, [10, 11, takes, takes].map(|ms| ms * MS))[ALONE]
    });
    assert!(alone[0] <= 40 && alone[1] > alone[0], "{alone:?}");
}

/// Passes of 96 in which the target is alone, in three short texts where it drafts as well, on the processor that the
/// edge's drafts need.
fn passes_alone_beside_own_drafts(round_trip: u32) -> usize {
    let (mut pace, mut now, mut alone) = (AheadController::new(None), Duration::ZERO, 0);
    for _ in 0..3 {
        pace.next_generation(None, Goal::Speed, true);
        pace.observe(Observation::FirstToken { after: (40 + round_trip) * MS, pass: 40 * MS });
        for _ in 0..32 {
            // Two tokens a pass.
            now += [40, 54, 54, 54][pace.current as usize] * MS;
            alone += usize::from(pace.plan().mode == Mode::Alone);
            pace.drafted(MS, 1);
            pace.observe(Observation::PassedAlone(now.min(40 * MS)));
            answered(&mut pace, (40 + round_trip) * MS, 40 * MS);
            pace.written(2, now);
        }
    }
    alone
}

/// Over a far link three texts are enough to see that guesses cost; over a near one they are never tried.
#[test]
fn guesses_that_cost_the_targets_own_drafts_rest_soon() {
    let [near, far] = [2, 50].map(passes_alone_beside_own_drafts);
    assert!(near > 92 && far > 60, "{near} and {far} of 96 passes");
}

/// A target that says that its passes take no time: the scores of modes stay numbers.
#[test]
fn passes_that_take_no_time_are_no_way_out_of_numbers() {
    let (mut pace, mut now) = (AheadController::new(None), Duration::ZERO);
    for pass in [0; 200].into_iter().chain([10; 200]) {
        now += 10 * MS;
        pace.drafted(MS, 1);
        pace.passed(pass * MS, 0, None);
        answered(&mut pace, (pass + 1) * MS, pass * MS);
        pace.written(1, now);
        assert!(GUIDED.into_iter().all(|mode| pace.expected(mode, PRIOR).speed.is_finite()), "{pace:?}");
    }
}
