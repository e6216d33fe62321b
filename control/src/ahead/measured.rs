//! Measurements of a text by mode: times, and segments whose speed is taken.

use core::time::Duration;

use super::goal::Outcome;
use crate::{
    measure::{Mean, Recent},
    plan::Schedule,
};

/// Tokens that a promise counts for where modes are compared: a token's time has a standard error of about itself, a
/// promise one of a seventh. Fewer where a mode is compared with the target alone: to be slower costs more than to rest
/// for a while. And the most that what was measured counts for.
pub(super) const PRIOR: f64 = 48.0;
pub(super) const CAUTIOUS: f64 = 16.0;
const MEMORY: f64 = 192.0;
/// Number of standard errors that a mode is hoped to be faster, times that of a token.
const HOPE: f64 = 0.55;
/// Guesses that [`steady_rate`] goes by, and how many of them the prior counts for.
const STEADY: f64 = 100.0;
const ASSUMED: f64 = 20.0;
/// Tokens that are skipped after a change of modes: the one before still shapes them.
pub(super) const SKIPPED: usize = 2;
/// The assumed cost of a row before it was measured, as a share of a pass: as on one core. Groups that are too
/// large cost more than ones that are too small.
pub(super) const ASSUMED_ROW: f64 = 0.1;
/// The least time of a further draft of a group, as a share of the group's mean.
const LEAST_SHARE: f64 = 0.25;

/// The promise of a mode and its measured speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModeScore {
    /// The schedule to follow; `None` if it does not promise enough.
    pub(super) schedule: Option<Schedule>,
    /// Outcome that its schedule promises; `None` until conditions are measured.
    pub promised: Option<Outcome>,
    /// Seconds and passes per token; and each of them over the promise of that time. Texts differ by how many guesses
    /// are right, and promises with them: errors of promises can be compared, speeds cannot.
    seconds: Mean,
    passes: Mean,
    seconds_off: Mean,
    passes_off: Mean,
}

/// A segment of the text whose speed is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Segment {
    /// Tokens before the measured ones; then when they were written.
    skipped: usize,
    since: Option<Duration>,
    /// Tokens that were measured, of `length`, and the number of their passes.
    pub(super) tokens: usize,
    length: usize,
    pub(super) passes: usize,
}

/// The time of single drafts, and of groups of them that are made together.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct DraftTimes {
    single: Recent<f64>,
    /// Seconds and number of drafts.
    groups: Recent<(f64, usize)>,
}

/// The share of guesses that are right, over about the last [`STEADY`]. Promises grow faster than it does: by a rate
/// that follows a dozen guesses they promise too much on the whole, and guesses rest after unlucky ones.
pub(super) const fn steady_rate(prior: f64) -> Mean {
    Mean::new(prior, ASSUMED, STEADY)
}

impl DraftTimes {
    /// Counts drafts that were made together.
    pub(super) fn observe(&mut self, seconds: f64, count: usize) {
        if count <= 1 {
            self.single.observe(seconds);
        } else {
            self.groups.observe((seconds, count));
        }
    }

    /// Number of recent groups with a time.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Seconds of a single draft, and of each further one that is made with it. Before a group is timed that is the
    /// same; before a single one is, both are a group's share.
    pub(super) fn get(&self) -> Option<(f64, f64)> {
        let share = self.share()?;
        let Some(single) = self.single.lowest() else { return Some((share, share)) };
        // What a single one took when the target was busy is no reason to think that others are for nothing.
        let further = |&(seconds, count): &(f64, usize)| {
            ((seconds - single) / (count - 1) as f64).max(LEAST_SHARE * seconds / count as f64)
        };
        Some((single, self.groups.iter().map(further).reduce(f64::min).unwrap_or(single)))
    }

    /// Least seconds of a draft, single or in a group.
    pub(super) fn share(&self) -> Option<f64> {
        let shares = self.groups.iter().map(|&(seconds, count)| seconds / count as f64);
        shares.chain(self.single.lowest()).reduce(f64::min)
    }
}

impl ModeScore {
    pub(super) const fn new(schedule: Option<Schedule>) -> Self {
        let mean = Mean::new(0.0, 0.0, MEMORY);
        Self { schedule, promised: None, seconds: mean, passes: mean, seconds_off: mean, passes_off: mean }
    }

    /// Counts tokens at their mean seconds and passes, while a pass that judges nothing took `pass` seconds.
    pub(super) fn observe(&mut self, seconds: f64, passes: f64, tokens: f64, pass: f64) {
        let promised = self.promised.unwrap_or(Outcome::ALONE);
        self.seconds.observe_weighted(seconds, tokens);
        self.passes.observe_weighted(passes, tokens);
        self.seconds_off.observe_weighted(seconds * promised.speed / pass, tokens);
        self.passes_off.observe_weighted(passes / promised.passes, tokens);
    }

    /// Forgets a part of what was measured.
    pub(super) fn fade(&mut self, memory: f64) {
        for mean in [&mut self.seconds, &mut self.passes, &mut self.seconds_off, &mut self.passes_off] {
            mean.fade(memory);
        }
    }

    /// Number of tokens over which the mode was measured.
    pub fn measured(&self) -> f64 {
        self.seconds.weight()
    }

    /// Measured speed; `None` before the mode was tried.
    pub fn tokens_per_second(&self) -> Option<f64> {
        self.seconds().map(|seconds| 1.0 / seconds)
    }

    /// Measured seconds per token; `None` before the mode was tried.
    pub(super) fn seconds(&self) -> Option<f64> {
        (self.measured() > 0.0).then(|| self.seconds.get())
    }

    /// Measured passes per token.
    pub(super) fn passes(&self) -> f64 {
        self.passes.get()
    }

    /// Margin by which it may be faster than estimated: the less was measured of it, the larger. A few unlucky tokens
    /// of a mode would else be the last ones.
    pub(super) fn hope(&self) -> f64 {
        1.0 / (1.0 - HOPE / (PRIOR + self.measured()).sqrt())
    }

    /// Expected outcome, where the target alone takes `alone` seconds per token, a pass that judges nothing
    /// `pass`, and a promise counts for `prior` tokens.
    pub(super) fn expected(&self, alone: f64, pass: f64, prior: f64) -> Outcome {
        let Outcome { speed, passes } = self.promised.unwrap_or(Outcome::ALONE);
        let mean =
            |promised: f64, measured: f64| (prior * promised + self.measured() * measured) / (prior + self.measured());
        Outcome {
            speed: alone / mean(alone / speed, self.seconds_off.get() * pass / speed),
            passes: passes * mean(1.0, self.passes_off.get()),
        }
    }
}

impl Segment {
    pub(super) fn new(skipped: usize, length: usize) -> Self {
        Self { skipped, since: None, tokens: 0, length, passes: 0 }
    }

    /// A text ends: the segment goes on in the next one.
    pub(super) fn pause(&mut self) {
        *self = Self::new(SKIPPED, self.length.saturating_sub(self.tokens).max(1));
    }

    /// A pass has written tokens. Gives seconds per token once the segment is over.
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

    /// A mode's expected outcome is its promise at first: luck with a few guesses does not end it.
    #[test]
    fn a_promise_outlives_an_unlucky_stretch() {
        let promised = Outcome { speed: 1.6, passes: 0.5 };
        let mut mode = ModeScore { promised: Some(promised), ..ModeScore::new(Some(Schedule::AT_ONCE)) };
        assert!(
            (mode.expected(0.1, 0.1, 16.0).speed - 1.6).abs() < 1e-12 && mode.expected(0.1, 0.1, 16.0).passes == 0.5
        );
        mode.observe(0.1, 1.0, 8.0, 0.1);
        assert!((mode.expected(0.1, 0.1, 16.0).speed - 24.0 / (16.0 / 1.6 + 8.0)).abs() < 1e-12);
        (0..20).for_each(|_| mode.observe(0.1, 1.0, 24.0, 0.1));
        let Outcome { speed, passes } = mode.expected(0.1, 0.1, 16.0);
        assert!(speed < 1.07 && passes > 0.92, "it has been measured");
    }

    /// Seven tokens came slowly while code was being compiled, of a way that promises more than one of which much is
    /// known: it is tried again. Of twice as many it is not.
    #[test]
    fn a_few_unlucky_tokens_are_not_the_last() {
        let way = |speed, tokens: f64, off: f64| {
            let mut mode =
                ModeScore { promised: Some(Outcome { speed, passes: 0.4 }), ..ModeScore::new(Some(Schedule::AT_ONCE)) };
            mode.observe(0.1 * off / speed, 0.4, tokens, 0.1);
            mode
        };
        let hoped = |mode: &ModeScore| mode.expected(0.1, 0.1, PRIOR).speed * mode.hope();
        let known = way(1.88, 96.0, 1.0);
        assert!(hoped(&way(2.02, 7.0, 1.8)) > hoped(&known) && hoped(&way(2.02, 14.0, 1.8)) < hoped(&known));
        let [few, much] = [way(2.0, 8.0, 1.0), way(2.0, 96.0, 1.0)];
        assert!(few.hope() > much.hope() && much.hope() > 1.0 && few.hope() < 1.09);
    }

    /// Guesses were right seldom, and the way was as fast as it promised then; it is thought to be as fast as it
    /// promises where they are right again. One that was slower than its promise is slower by as much.
    #[test]
    fn a_text_that_is_hard_to_guess_is_not_held_against_a_way() {
        let promise = |speed, passes| Some(Outcome { speed, passes });
        for (off, seconds) in [(1.0, 0.1 / 1.2), (1.5, 0.1 / 0.8)] {
            let mut mode = ModeScore { promised: promise(1.2, 0.8), ..ModeScore::new(Some(Schedule::AT_ONCE)) };
            (0..4).for_each(|_| mode.observe(seconds, 0.8, 24.0, 0.1));
            mode.promised = promise(2.4, 0.4);
            let Outcome { speed, passes } = mode.expected(0.1, 0.1, 16.0);
            let counted = (16.0 + 96.0 * off) / 112.0;
            assert!((speed - 2.4 / counted).abs() < 1e-9 && (passes - 0.4).abs() < 1e-9, "{speed}, {passes}");
        }
    }
}
