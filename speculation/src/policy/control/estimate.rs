//! What rounds cost and how many drafts are accepted, from what was seen, the recent before the old.
//!
//! | quantity | from | memory |
//! |---|---|---|
//! | [`Acceptance`] | accepted of judged drafts | about 33 rounds |
//! | [`Pace`] | time spent drafting | about 10 rounds |
//! | [`RoundTrips`] | round trips against numbers of drafts, by least squares | level: about 7 rounds; slope: about 7 changes of length |
//!
//! Times can be wrong without anything having changed: a tab in the background stalls, a packet is lost. So times pass
//! a [`Watch`] first. It compares each with what was expected, as a ratio. One that is far off is put aside and does
//! not count. If the next is far off in the same direction, the world has changed: all before is forgotten, and the new
//! one begins the estimate. So one outlier decides nothing, and a leap of the link is known after two rounds. What is
//! not far off counts fully, and drifts are followed by forgetting.
//!
//! "Far off" is four times the mean deviation seen, and 5 % at least. A time that was put aside widens this a little,
//! so that on a link that leaps often its leaps become what is expected. Where times lie to one side of what was
//! expected, though not far off, they drift; then rounds vary more in length, to learn which of the two parts drifts.

use core::time::Duration;

/// What a round leaves of the weight of those before it: in [`Acceptance`], [`Pace`], and in the slope and level of
/// [`RoundTrips`].
const ACCEPTANCE_MEMORY: f64 = 0.97;
const PACE_MEMORY: f64 = 0.9;
const SLOPE_MEMORY: f64 = 0.85;
const LEVEL_MEMORY: f64 = 0.85;

/// The part of the mean deviation that each new one makes up.
const DEVIATION_STEP: f64 = 0.2;
/// The mean deviation before any is known, as the logarithm of a ratio.
const FIRST_DEVIATION: f64 = 0.15;
/// Far off: so many mean deviations.
const FAR: f64 = 4.0;
/// What is never far off, as the logarithm of a ratio.
const NEVER_FAR: f64 = 0.05;

/// Σ Δn² from which on the slope of a [`RoundTrips`] is known.
const SPREAD_FOR_SLOPE: f64 = 1.0;
/// A line wants rounds to vary after so many of one length.
const EQUAL_ROUNDS: u32 = 8;

/// A drift: the mean deviation with its sign is so much of that without, and more than what never is one.
const ONE_SIDED: f64 = 0.8;
const NEVER_DRIFT: f64 = 0.005;

/// A duration in seconds, from a microsecond to an hour: so that logarithms and squares stay finite.
pub(super) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64().clamp(1e-6, 3600.0)
}

/// How an observation compares with what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sighting {
    /// It counts.
    InLine,
    /// It is put aside.
    Suspect,
    /// It is the second in a row that is far off to the same side: what came before no longer holds.
    Change,
}

/// Tells outliers from changes.
#[derive(Debug, Clone)]
struct Watch {
    /// Mean |ln(observed/expected)|.
    deviation: f64,
    /// Mean ln(observed/expected): off zero where what is expected lags behind.
    drift: f64,
    /// The last observation was put aside; whether it was above what was expected.
    suspect: Option<bool>,
}

impl Watch {
    fn new() -> Self {
        Self { deviation: FIRST_DEVIATION, drift: 0.0, suspect: None }
    }

    /// Compares an observation with the range that it was expected in; all above zero.
    fn sight(&mut self, observed: f64, low: f64, high: f64) -> Sighting {
        let off = if observed > high { (observed / high).ln() } else { (observed / low).ln().min(0.0) };
        let limit = (FAR * self.deviation).max(NEVER_FAR);
        // A range says nothing of how far off its observations are.
        if low == high || off.abs() > limit {
            self.deviation += DEVIATION_STEP * (off.abs().min(limit) - self.deviation);
            self.drift += DEVIATION_STEP * (off.clamp(-limit, limit) - self.drift);
        }
        let above = off > 0.0;
        if off.abs() <= limit {
            self.suspect = None;
            Sighting::InLine
        } else if self.suspect == Some(above) {
            self.suspect = None;
            Sighting::Change
        } else {
            self.suspect = Some(above);
            Sighting::Suspect
        }
    }

    /// Whether observations lie to one side of what was expected.
    fn drifts(&self) -> bool {
        self.drift.abs() > (ONE_SIDED * self.deviation).max(NEVER_DRIFT)
    }
}

/// α, the rate at which drafts are accepted, and what rounds give.
#[derive(Debug, Clone, Default)]
pub(super) struct Acceptance {
    rounds: f64,
    judged: f64,
    accepted: f64,
    committed: f64,
    passed: f64,
}

impl Acceptance {
    /// Each judged draft is one observation; those behind a rejected one were not judged and say nothing.
    ///
    /// Weights fall from round to round and are equal within one. Were they to fall from draft to draft, a round's
    /// rejection, which is always its last, would weigh more than what was accepted before it.
    pub(super) fn observe(&mut self, judged: usize, accepted: usize, committed: usize, passed: usize) {
        self.committed = ACCEPTANCE_MEMORY * self.committed + committed as f64;
        self.passed = ACCEPTANCE_MEMORY * self.passed + passed as f64;
        self.rounds = ACCEPTANCE_MEMORY * self.rounds + 1.0;
        self.judged = ACCEPTANCE_MEMORY * self.judged + judged as f64;
        self.accepted = ACCEPTANCE_MEMORY * self.accepted + accepted as f64;
    }

    /// α, from 0 to 1; `None` before any draft was judged.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.judged > 0.0).then(|| (self.accepted / self.judged).min(1.0))
    }

    /// Mean number of tokens that a verdict commits; zero before any.
    pub(super) fn committed_per_round(&self) -> f64 {
        if self.rounds > 0.0 { self.committed / self.rounds } else { 0.0 }
    }

    /// Mean number of tokens that pass before a round's drafts; zero before any.
    pub(super) fn passed_per_round(&self) -> f64 {
        if self.rounds > 0.0 { self.passed / self.rounds } else { 0.0 }
    }
}

/// The time that drafting takes.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    watch: Watch,
    rounds: f64,
    drafted: f64,
    seconds: f64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { watch: Watch::new(), rounds: 0.0, drafted: 0.0, seconds: 0.0 }
    }

    /// A round's drafts and the time they took. A forward pass whose token was declined is part of the time.
    pub(super) fn observe(&mut self, drafted: usize, drafting: Duration) {
        let drafted = drafted as f64;
        let seconds = seconds(drafting);
        if self.rounds > 0.0 {
            let forward_passes = |drafted: f64, rounds: f64| drafted.max(rounds);
            let expected = self.seconds / forward_passes(self.drafted, self.rounds);
            match self.watch.sight(seconds / forward_passes(drafted, 1.0), expected, expected) {
                Sighting::InLine => {}
                Sighting::Suspect => return,
                Sighting::Change => (self.rounds, self.drafted, self.seconds) = (0.0, 0.0, 0.0),
            }
        }
        self.rounds = PACE_MEMORY * self.rounds + 1.0;
        self.drafted = PACE_MEMORY * self.drafted + drafted;
        self.seconds = PACE_MEMORY * self.seconds + seconds;
    }

    /// Seconds per drafted token; `None` before any.
    pub(super) fn per_token(&self) -> Option<f64> {
        // What is left of a token after a hundred rounds without one is no basis.
        (self.drafted > 1e-4).then(|| self.seconds / self.drafted)
    }

    /// Seconds per round; `None` before any.
    pub(super) fn per_round(&self) -> Option<f64> {
        (self.rounds > 0.0).then(|| self.seconds / self.rounds)
    }
}

/// What a round trip costs, in seconds: F, and t_n for each draft.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    /// F: propagation, and the target's forward pass; above zero.
    pub(super) fixed: f64,
    /// t_n: a further draft on the link and in that pass; not negative.
    pub(super) per_draft: f64,
}

/// Round trips against numbers of drafts, F + n·t_n, with exponential forgetting.
///
/// t_n is the least squares slope of the differences from each round to the next: Σ Δn·Δy / Σ Δn². Of the rounds
/// themselves it would be more exact where nothing changes. But where a link grows slower, round trips rise while ODLD
/// shortens the rounds; the line through both then falls, t_n seems to be nothing, and rounds grow without end. From
/// one round to the next little changes but n. F then follows from the means of the last rounds.
#[derive(Debug, Clone)]
pub(super) struct RoundTrips {
    watch: Watch,
    /// The last round that counted: its drafts and seconds.
    last: Option<(f64, f64)>,
    /// Rounds since the last of another length.
    equal_rounds: u32,
    /// Σ Δn² and Σ Δn·Δy over changes of length, weighted.
    squares: f64,
    products: f64,
    /// Weighted sums over rounds: of one, n, and y.
    weight: f64,
    drafted: f64,
    seconds: f64,
}

impl RoundTrips {
    pub(super) fn new() -> Self {
        Self::watched_by(Watch::new())
    }

    fn watched_by(watch: Watch) -> Self {
        Self {
            watch,
            last: None,
            equal_rounds: 0,
            squares: 0.0,
            products: 0.0,
            weight: 0.0,
            drafted: 0.0,
            seconds: 0.0,
        }
    }

    /// The round trip of so many drafts.
    pub(super) fn observe(&mut self, drafted: usize, round_trip: Duration) {
        let drafted = drafted as f64;
        let seconds = seconds(round_trip);
        if let Some((low, high)) = self.expected(drafted) {
            match self.watch.sight(seconds, low, high) {
                Sighting::InLine => {}
                Sighting::Suspect => return,
                Sighting::Change => *self = Self::watched_by(self.watch.clone()),
            }
        }
        if let Some((last_drafted, last_seconds)) = self.last.replace((drafted, seconds)) {
            let step = drafted - last_drafted;
            if step == 0.0 {
                self.equal_rounds = self.equal_rounds.saturating_add(1);
            } else {
                self.equal_rounds = 0;
                self.squares = SLOPE_MEMORY * self.squares + step * step;
                self.products = SLOPE_MEMORY * self.products + step * (seconds - last_seconds);
            }
        }
        self.weight = LEVEL_MEMORY * self.weight + 1.0;
        self.drafted = LEVEL_MEMORY * self.drafted + drafted;
        self.seconds = LEVEL_MEMORY * self.seconds + seconds;
    }

    /// The range that a round trip of so many drafts is expected in; `None` before any. Where the slope is not known it
    /// may be anything from a fixed cost alone to a cost per draft alone.
    fn expected(&self, drafted: f64) -> Option<(f64, f64)> {
        if let Some(fit) = self.fit() {
            let expected = fit.fixed + drafted * fit.per_draft;
            return Some((expected, expected));
        }
        let (mean_drafted, mean_seconds) = self.mean()?;
        let in_proportion = mean_seconds * (drafted.max(0.1) / mean_drafted.max(0.1));
        Some((mean_seconds.min(in_proportion), mean_seconds.max(in_proportion)))
    }

    /// Whether a round of another length would tell much: the slope is not known, is old, or the times drift and it may
    /// be the cause.
    pub(super) fn wants_another_length(&self) -> bool {
        self.squares < SPREAD_FOR_SLOPE || self.equal_rounds >= EQUAL_ROUNDS || self.watch.drifts()
    }

    /// The drafts of the last round that counted.
    pub(super) fn last_drafted(&self) -> Option<f64> {
        self.last.map(|(drafted, _)| drafted)
    }

    /// Mean number of drafts and mean seconds; `None` before any round.
    pub(super) fn mean(&self) -> Option<(f64, f64)> {
        (self.weight > 0.0).then(|| (self.drafted / self.weight, self.seconds / self.weight))
    }

    /// F and t_n; `None` while the number of drafts has varied too little to tell them apart.
    ///
    /// The line goes through the mean. Its slope is kept where t_n ≥ 0 and F is at least a hundredth of the mean.
    pub(super) fn fit(&self) -> Option<Fit> {
        let (mean_drafted, mean_seconds) = self.mean()?;
        if self.squares < SPREAD_FOR_SLOPE {
            return None;
        }
        let per_draft = (self.products / self.squares).min(0.99 * mean_seconds / mean_drafted).max(0.0);
        Some(Fit { fixed: mean_seconds - per_draft * mean_drafted, per_draft })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    /// A line that has seen so many rounds of 3, 4, 5, 3, … drafts at 100 ms + 10 ms a draft.
    fn line(rounds: usize) -> RoundTrips {
        let mut line = RoundTrips::new();
        for round in 0..rounds {
            let drafted = 3 + round % 3;
            line.observe(drafted, ms(100.0 + 10.0 * drafted as f64));
        }
        line
    }

    fn assert_fits(line: &RoundTrips, fixed: f64, per_draft: f64) {
        let fit = line.fit().unwrap();
        assert!((fit.fixed * 1e3 - fixed).abs() < 1e-6, "{fit:?}");
        assert!((fit.per_draft * 1e3 - per_draft).abs() < 1e-6, "{fit:?}");
    }

    #[test]
    fn points_on_a_line_give_it() {
        assert!(line(1).fit().is_none());
        assert_fits(&line(4), 100.0, 10.0);
        assert_fits(&line(500), 100.0, 10.0);
    }

    #[test]
    fn forgotten_rounds_weigh_as_their_age_says() {
        let rounds = [(3.0, 120.0), (5.0, 150.0), (4.0, 130.0), (3.0, 115.0), (6.0, 165.0)];
        let mut line = RoundTrips::new();
        for (n, y) in rounds {
            line.observe(n as usize, ms(y));
        }
        // Each sum from its definition.
        let weigh = |memory: f64, index: usize| memory.powi(4 - index as i32);
        let (mut squares, mut products, mut weight, mut n, mut y) = (0.0, 0.0, 0.0, 0.0, 0.0);
        // All rounds differ from the one before.
        for (index, pair) in rounds.windows(2).enumerate() {
            let (step, rise) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            squares += weigh(SLOPE_MEMORY, index + 1) * step * step;
            products += weigh(SLOPE_MEMORY, index + 1) * step * rise;
        }
        for (index, round) in rounds.iter().enumerate() {
            weight += weigh(LEVEL_MEMORY, index);
            n += weigh(LEVEL_MEMORY, index) * round.0;
            y += weigh(LEVEL_MEMORY, index) * round.1;
        }
        assert_fits(&line, (y - products / squares * n) / weight, products / squares);
    }

    /// Rounds grow shorter and slower at once. The line through them falls; that through their steps does not.
    #[test]
    fn a_link_that_grows_slower_does_not_look_free() {
        let mut line = RoundTrips::new();
        for round in 0..40 {
            let drafted = 16 - round / 3 + round % 2;
            line.observe(drafted, ms((100.0 + 10.0 * drafted as f64) * 1.02f64.powi(round as i32)));
        }
        let fit = line.fit().unwrap();
        assert!(fit.per_draft * 1e3 > 10.0 && fit.per_draft * 1e3 < 30.0, "{fit:?}");
    }

    #[test]
    fn an_outlier_leaves_no_trace_and_a_change_forgets_the_past() {
        let mut line = line(30);
        for stalled in [20_000.0, 3.0] {
            line.observe(4, ms(stalled));
            assert_fits(&line, 100.0, 10.0);
            line.observe(5, ms(150.0));
        }
        for drafted in [4, 4, 5, 3] {
            line.observe(drafted, ms(100.0 + 100.0 * drafted as f64));
        }
        assert_fits(&line, 100.0, 100.0);
    }

    #[test]
    fn a_first_outlier_is_forgotten_too() {
        let mut line = RoundTrips::new();
        line.observe(4, ms(5000.0));
        for drafted in [4, 3, 5, 4] {
            line.observe(drafted, ms(100.0 + 10.0 * drafted as f64));
        }
        assert_fits(&line, 100.0, 10.0);
    }

    #[test]
    fn a_pace_counts_declined_forward_passes_and_survives_a_stall() {
        let mut pace = Pace::new();
        for drafted in [3, 0, 1].into_iter().cycle().take(300) {
            pace.observe(drafted, ms(20.0 * (drafted + 1) as f64));
        }
        // 7 forward passes in 3 rounds for 4 tokens.
        let before = (pace.per_token().unwrap(), pace.per_round().unwrap());
        assert!((before.0 * 1e3 / 35.0 - 1.0).abs() < 0.15 && (before.1 * 1e3 / 46.7 - 1.0).abs() < 0.15, "{before:?}");
        pace.observe(2, Duration::from_secs(30));
        assert_eq!((pace.per_token().unwrap(), pace.per_round().unwrap()), before);
    }

    #[test]
    fn an_old_pace_is_forgotten_without_an_outlier() {
        let mut pace = Pace::new();
        for round in 0..350 {
            let slower = if round < 300 { 1.0 } else { 1.2 };
            let noise = if round % 2 == 0 { 0.8 } else { 1.2 };
            pace.observe(4, ms(40.0 * slower * noise));
        }
        assert!((pace.per_token().unwrap() * 1e3 / 12.0 - 1.0).abs() < 0.03, "{pace:?}");
    }

    #[test]
    fn acceptance_is_of_judged_drafts() {
        let mut acceptance = Acceptance::default();
        assert_eq!((acceptance.rate(), acceptance.passed_per_round()), (None, 0.0));
        acceptance.observe(0, 0, 1, 0);
        assert_eq!(acceptance.rate(), None);
        for _ in 0..50 {
            acceptance.observe(3, 2, 3, 0);
            acceptance.observe(1, 0, 1, 0);
        }
        assert!((acceptance.rate().unwrap() - 0.5).abs() < 0.01);
        assert!((acceptance.committed_per_round() - 2.0).abs() < 0.04);
    }

    proptest! {
        #[test]
        fn fits_are_within_their_bounds(rounds in prop::collection::vec((0usize..40, 0.0f64..1e4), 0..60)) {
            let mut line = RoundTrips::new();
            for (drafted, took) in rounds {
                line.observe(drafted, ms(took));
                if let Some(fit) = line.fit() {
                    prop_assert!(fit.per_draft >= 0.0 && fit.per_draft.is_finite(), "{:?}", fit);
                    prop_assert!(fit.fixed > 0.0 && fit.fixed.is_finite(), "{:?}", fit);
                }
            }
        }
    }
}
