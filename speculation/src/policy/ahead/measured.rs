//! What is measured of a text that is written in one way or another: times, and stretches whose speed is taken.

use core::time::Duration;
use std::collections::VecDeque;

use super::{Outcome, Plan};
use crate::policy::goodput::ROW_COST;

/// Tokens that a promise counts for, and the most that what was measured does.
const PRIOR: f64 = 16.0;
const MEMORY: f64 = 96.0;
/// Tokens that are skipped after a change of ways: the one before still shapes them.
pub(super) const SKIPPED: usize = 2;
/// The weight of a pass in what a row costs; the most that a row may cost; and what a pass that judges nothing takes at
/// most, times the shortest: longer ones read a prompt, or share the target.
const WEIGHT: f64 = 0.1;
const DEAREST: f64 = 0.5;
const USUAL: f64 = 1.5;
/// Times that are kept, of which the shortest counts: what queues and other work add is not the link's or the model's.
const TIMES: usize = 8;

/// A way to write, and how fast it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Way {
    /// `None` if it does not promise enough to be followed.
    pub(super) plan: Option<Plan>,
    /// What it promises.
    pub(super) promised: Option<Outcome>,
    /// Seconds and passes per token, over so many.
    pub(super) seconds: f64,
    pub(super) passes: f64,
    pub(super) measured: f64,
}

/// A stretch of the text whose speed is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretch {
    /// Tokens before the measured ones; then when they were written.
    skipped: usize,
    since: Option<Duration>,
    /// Tokens that were measured, of so many, and in how many passes they came.
    pub(super) tokens: usize,
    length: usize,
    pub(super) passes: usize,
}

/// The last times of something, in seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Shortest(VecDeque<f64>);

/// What a judged guess adds to a pass, as a share of one that judges nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RowCost {
    /// Seconds of a pass that judges nothing.
    idle: Option<f64>,
    share: f64,
}

impl Default for RowCost {
    fn default() -> Self {
        Self { idle: None, share: ROW_COST }
    }
}

impl RowCost {
    /// A pass that judged nothing took so long; the shortest of late took `least`.
    pub(super) fn rested(&mut self, seconds: f64, least: f64) {
        if seconds <= USUAL * least {
            let idle = self.idle.filter(|idle| *idle <= USUAL * least).unwrap_or(seconds);
            self.idle = Some(idle + WEIGHT * (seconds - idle));
        }
    }

    /// A pass that judged so many guesses took so long.
    pub(super) fn judged(&mut self, seconds: f64, guesses: usize) {
        if let Some(idle) = self.idle {
            let share = (seconds / idle - 1.0) / guesses.max(1) as f64;
            self.share += WEIGHT * (share.clamp(0.0, DEAREST) - self.share);
        }
    }

    pub(super) fn get(self) -> f64 {
        self.share
    }
}

impl Shortest {
    /// Gives the shortest.
    pub(super) fn observe(&mut self, seconds: f64) -> f64 {
        if self.is_full() {
            self.0.pop_front();
        }
        self.0.push_back(seconds);
        self.0.iter().copied().fold(seconds, f64::min)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the next one puts the oldest out.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() == TIMES
    }

    pub(super) fn get(&self) -> Option<f64> {
        self.0.iter().copied().reduce(f64::min)
    }
}

impl Way {
    pub(super) fn new(plan: Option<Plan>) -> Self {
        Self { plan, promised: None, seconds: 0.0, passes: 0.0, measured: 0.0 }
    }

    /// So many tokens came, at so many seconds and passes each.
    pub(super) fn observe(&mut self, seconds: f64, passes: f64, tokens: f64) {
        self.measured = (self.measured + tokens).min(MEMORY);
        self.seconds += tokens / self.measured * (seconds - self.seconds);
        self.passes += tokens / self.measured * (passes - self.passes);
    }

    /// What it is thought to give, where the target alone takes `alone` seconds per token.
    pub(super) fn expected(&self, alone: f64) -> Outcome {
        let Outcome { speed, passes } = self.promised.unwrap_or(Outcome::ALONE);
        let mean =
            |promised: f64, measured: f64| (PRIOR * promised + self.measured * measured) / (PRIOR + self.measured);
        Outcome { speed: alone / mean(alone / speed, self.seconds), passes: mean(passes, self.passes) }
    }
}

impl Stretch {
    pub(super) fn new(skipped: usize, length: usize) -> Self {
        Self { skipped, since: None, tokens: 0, length, passes: 0 }
    }

    /// A text ends: the stretch goes on in the next one.
    pub(super) fn pause(&mut self) {
        *self = Self::new(SKIPPED, self.length.saturating_sub(self.tokens).max(1));
    }

    /// A pass has written tokens. Gives seconds per token once the stretch is over.
    pub(super) fn written(&mut self, tokens: usize, now: Duration) -> Option<f64> {
        let Some(since) = self.since else {
            self.skipped = self.skipped.saturating_sub(tokens);
            self.since = (self.skipped == 0).then_some(now);
            return None;
        };
        self.tokens += tokens;
        self.passes += 1;
        (self.tokens >= self.length).then(|| now.saturating_sub(since).as_secs_f64().max(1e-9) / self.tokens as f64)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn what_a_row_costs_is_learned_from_usual_passes() {
        let mut cost = RowCost::default();
        (0..9).for_each(|_| cost.judged(9.0, 1));
        assert_eq!(cost.get(), ROW_COST, "nothing is known of a pass without rows");
        // A prompt is read at first; later passes share the target.
        for seconds in [0.9, 0.05, 0.05, 0.2, 0.05] {
            cost.rested(seconds, if seconds == 0.9 { 0.9 } else { 0.05 });
        }
        for _ in 0..60 {
            cost.judged(0.05 * (1.0 + 0.12 * 4.0), 4);
        }
        assert!((cost.get() - 0.12).abs() < 1e-3, "{cost:?}");
        cost.judged(1e9, 2);
        assert!(cost.get() < 0.16, "one pass that waited for something is one of many: {cost:?}");
    }

    /// What is thought of a way is its promise at first: luck with a few guesses does not end it.
    #[test]
    fn a_promise_outlives_an_unlucky_stretch() {
        let promised = Outcome { speed: 1.6, passes: 0.5 };
        let mut way = Way { promised: Some(promised), ..Way::new(Some(Plan::AT_ONCE)) };
        assert!((way.expected(0.1).speed - 1.6).abs() < 1e-12 && way.expected(0.1).passes == 0.5);
        way.observe(0.1, 1.0, 8.0);
        assert!((way.expected(0.1).speed - 24.0 / (16.0 / 1.6 + 8.0)).abs() < 1e-12);
        (0..20).for_each(|_| way.observe(0.1, 1.0, 24.0));
        let Outcome { speed, passes } = way.expected(0.1);
        assert!(speed < 1.07 && passes > 0.92, "it has been measured");
    }
}
