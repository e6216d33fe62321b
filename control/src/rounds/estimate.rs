//! Estimates of what rounds cost and how many drafts are accepted. Recent rounds count more than old ones.
//!
//! | quantity | from | memory |
//! |---|---|---|
//! | [`Acceptance`] | accepted of judged drafts | about 33 rounds |
//! | [`DraftTime`] | time spent drafting | about 10 rounds |
//! | [`RoundTrips`] | round trips against numbers of drafts, by least squares | level: about 7 rounds; slope: about 7 changes of length |
//!
//! Times pass a [`Watch`] first. One that it suspects does not count; where it sees a change, all before is forgotten
//! and the new one begins the estimate. So one outlier decides nothing, and a leap of the link is known after two
//! rounds. What is not far off counts fully, and drifts are followed by forgetting; while times drift, rounds vary more
//! in length, to learn which of the two parts drifts.

use core::time::Duration;

use crate::measure::{Ratio, Sighting, Watch, seconds};

/// Weight that a round leaves to those before it: in [`Acceptance`], [`DraftTime`], and in the slope and level
/// of [`RoundTrips`].
const ACCEPTANCE_MEMORY: f64 = 0.97;
const DRAFT_MEMORY: f64 = 0.9;
const SLOPE_MEMORY: f64 = 0.85;
const LEVEL_MEMORY: f64 = 0.85;

/// Σ Δn² from which on the slope of a [`RoundTrips`] is known.
const SPREAD_FOR_SLOPE: f64 = 1.0;
/// Number of rounds of one length after which the line needs a round of another length.
const EQUAL_ROUNDS: u32 = 8;

/// α, the rate at which drafts are accepted, and the tokens that rounds give.
#[derive(Debug, Clone, Default)]
pub(super) struct Acceptance {
    /// Accepted of judged drafts.
    rate: Ratio,
    /// Committed and passed tokens a round.
    committed: Ratio,
    passed: Ratio,
}

impl Acceptance {
    /// Counts a judged round. Each judged draft is one observation; those after a rejected one were not judged.
    ///
    /// Weights fall from round to round and are equal within one. Were they to fall from draft to draft, a round's
    /// rejection, which is always its last, would weigh more than what was accepted before it.
    pub(super) fn observe(&mut self, judged: usize, accepted: usize, committed: usize, passed: usize) {
        self.rate.observe(ACCEPTANCE_MEMORY, accepted as f64, judged as f64);
        self.committed.observe(ACCEPTANCE_MEMORY, committed as f64, 1.0);
        self.passed.observe(ACCEPTANCE_MEMORY, passed as f64, 1.0);
    }

    /// Acceptance rate α, from 0 to 1; `None` before any draft was judged.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.get().map(|rate| rate.min(1.0))
    }

    /// Mean number of tokens that a verdict commits; zero before any.
    pub(super) fn committed_per_round(&self) -> f64 {
        self.committed.get().unwrap_or(0.0)
    }

    /// Mean number of tokens that pass before a round's drafts; zero before any.
    pub(super) fn passed_per_round(&self) -> f64 {
        self.passed.get().unwrap_or(0.0)
    }
}

/// The time that drafting takes, in seconds.
#[derive(Debug, Clone)]
pub(super) struct DraftTime {
    watch: Watch,
    by_token: Ratio,
    by_round: Ratio,
}

impl DraftTime {
    pub(super) fn new() -> Self {
        Self { watch: Watch::new(), by_token: Ratio::default(), by_round: Ratio::default() }
    }

    /// Counts a round's drafts and their time. A forward pass whose token was declined is part of the time.
    pub(super) fn observe(&mut self, drafted: usize, drafting: Duration) {
        let drafted = drafted as f64;
        let seconds = seconds(drafting);
        if let Some(per_round) = self.by_round.get() {
            let passes = self.by_token.whole.max(self.by_round.whole) / self.by_round.whole;
            let expected = per_round / passes;
            match self.watch.sight(seconds / drafted.max(1.0), expected, expected) {
                Sighting::InLine => {}
                Sighting::Suspect => return,
                Sighting::Change => (self.by_token, self.by_round) = Default::default(),
            }
        }
        self.by_token.observe(DRAFT_MEMORY, seconds, drafted);
        self.by_round.observe(DRAFT_MEMORY, seconds, 1.0);
    }

    /// Seconds per drafted token; `None` before any.
    pub(super) fn per_token(&self) -> Option<f64> {
        // What is left of a token after a hundred rounds without one is no basis.
        self.by_token.get().filter(|_| self.by_token.whole > 1e-4)
    }

    /// Seconds per round; `None` before any.
    pub(super) fn per_round(&self) -> Option<f64> {
        self.by_round.get()
    }
}

/// Cost of a round trip, in seconds: F, and t_n for each draft.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    /// Fixed part F: propagation, and the target's forward pass; above zero.
    pub(super) fixed: f64,
    /// Part per draft t_n: a further draft on the link and in that pass; not negative.
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
    /// Σ Δn·Δy / Σ Δn² over changes of length.
    slope: Ratio,
    /// Means of n and y over rounds.
    drafted: Ratio,
    seconds: Ratio,
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
            slope: Ratio::default(),
            drafted: Ratio::default(),
            seconds: Ratio::default(),
        }
    }

    /// Counts a round trip with `drafted` drafts.
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
                self.slope.observe(SLOPE_MEMORY, step * (seconds - last_seconds), step * step);
            }
        }
        self.drafted.observe(LEVEL_MEMORY, drafted, 1.0);
        self.seconds.observe(LEVEL_MEMORY, seconds, 1.0);
    }

    /// The range, in seconds, in which a round trip with `drafted` drafts is expected; `None` before any. Where the
    /// slope is not known it may be anything from a fixed cost alone to a cost per draft alone.
    fn expected(&self, drafted: f64) -> Option<(f64, f64)> {
        if let Some(fit) = self.fit() {
            let expected = fit.fixed + drafted * fit.per_draft;
            return Some((expected, expected));
        }
        let (mean_drafted, mean_seconds) = self.mean()?;
        let in_proportion = mean_seconds * (drafted.max(0.1) / mean_drafted.max(0.1));
        Some((mean_seconds.min(in_proportion), mean_seconds.max(in_proportion)))
    }

    /// True if a round of another length would say much: the slope is not known, is old, or the times drift and the
    /// slope may be the cause.
    pub(super) fn wants_another_length(&self) -> bool {
        self.slope.whole < SPREAD_FOR_SLOPE || self.equal_rounds >= EQUAL_ROUNDS || self.watch.drifts()
    }

    /// The drafts of the last round that counted.
    pub(super) fn last_drafted(&self) -> Option<f64> {
        self.last.map(|(drafted, _)| drafted)
    }

    /// Mean number of drafts and mean seconds; `None` before any round.
    pub(super) fn mean(&self) -> Option<(f64, f64)> {
        self.drafted.get().zip(self.seconds.get())
    }

    /// F and t_n; `None` while the number of drafts has varied too little to tell them apart.
    ///
    /// The line goes through the mean. Its slope is kept where t_n ≥ 0 and F is at least a hundredth of the mean.
    pub(super) fn fit(&self) -> Option<Fit> {
        let (mean_drafted, mean_seconds) = self.mean()?;
        let slope = self.slope.get().filter(|_| self.slope.whole >= SPREAD_FOR_SLOPE)?;
        let per_draft = slope.min(0.99 * mean_seconds / mean_drafted).max(0.0);
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

    /// A line after `rounds` rounds of 3, 4, 5, 3, … drafts at 100 ms + 10 ms a draft.
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
    fn a_draft_time_counts_declined_forward_passes_and_survives_a_stall() {
        let mut time = DraftTime::new();
        for drafted in [3, 0, 1].into_iter().cycle().take(300) {
            time.observe(drafted, ms(20.0 * (drafted + 1) as f64));
        }
        // 7 forward passes in 3 rounds for 4 tokens.
        let before = (time.per_token().unwrap(), time.per_round().unwrap());
        assert!((before.0 * 1e3 / 35.0 - 1.0).abs() < 0.15 && (before.1 * 1e3 / 46.7 - 1.0).abs() < 0.15, "{before:?}");
        time.observe(2, Duration::from_secs(30));
        assert_eq!((time.per_token().unwrap(), time.per_round().unwrap()), before);
    }

    #[test]
    fn an_old_draft_time_is_forgotten_without_an_outlier() {
        let mut time = DraftTime::new();
        for round in 0..350 {
            let slower = if round < 300 { 1.0 } else { 1.2 };
            let noise = if round % 2 == 0 { 0.8 } else { 1.2 };
            time.observe(4, ms(40.0 * slower * noise));
        }
        assert!((time.per_token().unwrap() * 1e3 / 12.0 - 1.0).abs() < 0.03, "{time:?}");
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
