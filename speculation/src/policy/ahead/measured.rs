//! What is measured of a text that is written in one way or another: times, and stretches whose speed is taken.

use core::time::Duration;
use std::collections::VecDeque;

use super::{Outcome, Plan};
use crate::policy::goodput::AcceptanceRate;

/// Tokens that a promise counts for where ways are compared: a token's time has a standard error of about itself, a
/// promise one of a seventh. Fewer where a way is compared with the target alone: to be slower costs more than to rest
/// for a while. And the most that what was measured counts for.
pub(super) const PRIOR: f64 = 48.0;
pub(super) const CAUTIOUS: f64 = 16.0;
const MEMORY: f64 = 192.0;
/// How many standard errors faster a way is hoped to be, times that of a token.
const HOPE: f64 = 0.55;
/// Guesses that a steady rate goes by, and how many of them what is assumed at first counts for.
const STEADY: f64 = 100.0;
const ASSUMED: f64 = 20.0;
/// Tokens that are skipped after a change of ways: the one before still shapes them.
pub(super) const SKIPPED: usize = 2;
/// What a row is thought to cost before it was measured, as a share of a pass: as on one core. Groups that are too
/// large cost more than ones that are too small.
pub(super) const ASSUMED_ROW: f64 = 0.1;
/// Times that are kept, of which the shortest counts: what queues and other work add is not the link's or the model's.
const TIMES: usize = 8;
/// What a further draft of a group takes at least, of a group's mean.
const LEAST_SHARE: f64 = 0.25;

/// A way to write, and how fast it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Way {
    /// `None` if it does not promise enough to be followed.
    pub(super) plan: Option<Plan>,
    /// What it promises.
    pub(super) promised: Option<Outcome>,
    /// Seconds and passes per token, over so many; and what these were times those that it promised then. Texts differ
    /// by how many guesses are right, and promises with them: what ways are off by can be compared, speeds cannot.
    pub(super) seconds: f64,
    pub(super) passes: f64,
    off: Off,
    pub(super) measured: f64,
}

/// Seconds and passes, times those that were promised.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Off {
    seconds: f64,
    passes: f64,
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

/// The share of guesses that are right, over about the last [`STEADY`]. What plans promise grows faster than it does:
/// by a rate that follows a dozen guesses they promise too much on the whole, and guesses rest after unlucky ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SteadyRate {
    rate: f64,
    counted: f64,
}

/// What an answer to guesses says of the link's round trip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// It is at least so long: a pass began before the guesses came.
    pub least: Duration,
    /// And at most so long: another began when they had come.
    pub most: Duration,
    /// No pass was under way when they were sent, so that it is as long as that if the target waits for guesses.
    pub awaited: bool,
}

/// The last answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answers(VecDeque<Answer>);

/// The time of drafts by themselves, and of groups of them that are made together.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct DraftTimes {
    single: Shortest,
    /// Seconds, and of how many.
    groups: VecDeque<(f64, usize)>,
}

/// Keeps the last few.
fn push<T>(times: &mut VecDeque<T>, time: T) {
    if times.len() == TIMES {
        times.pop_front();
    }
    times.push_back(time);
}

impl Shortest {
    /// Gives the shortest.
    pub(super) fn observe(&mut self, seconds: f64) -> f64 {
        push(&mut self.0, seconds);
        self.0.iter().copied().fold(seconds, f64::min)
    }

    pub(super) fn get(&self) -> Option<f64> {
        self.0.iter().copied().reduce(f64::min)
    }
}

impl Default for SteadyRate {
    fn default() -> Self {
        Self { rate: AcceptanceRate::default().get(), counted: ASSUMED }
    }
}

impl SteadyRate {
    pub(super) fn observe(&mut self, is_right: bool) {
        self.counted = (self.counted + 1.0).min(STEADY);
        self.rate += (f64::from(u8::from(is_right)) - self.rate) / self.counted;
    }

    pub(super) fn get(self) -> AcceptanceRate {
        AcceptanceRate::of(self.rate)
    }
}

impl DraftTimes {
    /// So many drafts, made together, took so long.
    pub(super) fn observe(&mut self, seconds: f64, count: usize) {
        if count <= 1 {
            self.single.observe(seconds);
            return;
        }
        push(&mut self.groups, (seconds, count));
    }

    /// How many groups of late were timed.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Seconds of a draft by itself, and of each further one that is made with it. Before a group is timed that is the
    /// same; before a single one is, both are a group's share.
    pub(super) fn get(&self) -> Option<(f64, f64)> {
        let share = self.share()?;
        let Some(single) = self.single.get() else { return Some((share, share)) };
        // What a single one took when the target was busy is no reason to think that others are for nothing.
        let further = |&(seconds, count): &(f64, usize)| {
            ((seconds - single) / (count - 1) as f64).max(LEAST_SHARE * seconds / count as f64)
        };
        Some((single, self.groups.iter().map(further).reduce(f64::min).unwrap_or(single)))
    }

    /// Seconds of a draft at least, by itself or as one of a group.
    pub(super) fn share(&self) -> Option<f64> {
        let shares = self.groups.iter().map(|&(seconds, count)| seconds / count as f64);
        shares.chain(self.single.get()).reduce(f64::min)
    }
}

impl Answers {
    pub(super) fn observe(&mut self, answer: Answer) {
        push(&mut self.0, answer);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the next one puts the oldest out.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() == TIMES
    }

    /// Whether any was awaited.
    pub(super) fn any_awaited(&self) -> bool {
        self.0.iter().any(|answer| answer.awaited)
    }

    /// Seconds that the round trip takes at least, by so many of them: one or two may be late by anything. What was
    /// awaited took all of its time.
    pub(super) fn least(&self, by: usize) -> f64 {
        let least = |answer: &Answer| if answer.awaited { answer.most } else { answer.least }.as_secs_f64();
        let mut all: Vec<f64> = self.0.iter().map(least).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        all.get(by - 1).copied().unwrap_or(0.0)
    }

    /// Seconds that it takes at most.
    pub(super) fn most(&self) -> Option<f64> {
        self.0.iter().map(|answer| answer.most.as_secs_f64()).reduce(f64::min)
    }

    /// All but the last few are another link's.
    pub(super) fn keep(&mut self, last: usize) {
        self.0.drain(..self.0.len().saturating_sub(last));
    }
}

impl Way {
    pub(super) fn new(plan: Option<Plan>) -> Self {
        let off = Off { seconds: 0.0, passes: 0.0 };
        Self { plan, promised: None, seconds: 0.0, passes: 0.0, off, measured: 0.0 }
    }

    /// So many tokens came, at so many seconds and passes each, while a pass that judges nothing took `pass` seconds.
    pub(super) fn observe(&mut self, seconds: f64, passes: f64, tokens: f64, pass: f64) {
        let promised = self.promised.unwrap_or(Outcome::ALONE);
        self.measured = (self.measured + tokens).min(MEMORY);
        let weight = tokens / self.measured;
        self.seconds += weight * (seconds - self.seconds);
        self.passes += weight * (passes - self.passes);
        self.off.seconds += weight * (seconds * promised.speed / pass - self.off.seconds);
        self.off.passes += weight * (passes / promised.passes - self.off.passes);
    }

    /// By how much it may be faster than is thought: the less was measured of it, the more. A few unlucky tokens of a
    /// way would else be the last ones.
    pub(super) fn hope(&self) -> f64 {
        1.0 / (1.0 - HOPE / (PRIOR + self.measured).sqrt())
    }

    /// What it is thought to give, where the target alone takes `alone` seconds per token, a pass that judges nothing
    /// `pass`, and a promise counts for so many tokens.
    pub(super) fn expected(&self, alone: f64, pass: f64, prior: f64) -> Outcome {
        let Outcome { speed, passes } = self.promised.unwrap_or(Outcome::ALONE);
        let mean =
            |promised: f64, measured: f64| (prior * promised + self.measured * measured) / (prior + self.measured);
        Outcome {
            speed: alone / mean(alone / speed, self.off.seconds * pass / speed),
            passes: passes * mean(1.0, self.off.passes),
        }
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

    /// What is thought of a way is its promise at first: luck with a few guesses does not end it.
    #[test]
    fn a_promise_outlives_an_unlucky_stretch() {
        let promised = Outcome { speed: 1.6, passes: 0.5 };
        let mut way = Way { promised: Some(promised), ..Way::new(Some(Plan::AT_ONCE)) };
        assert!((way.expected(0.1, 0.1, 16.0).speed - 1.6).abs() < 1e-12 && way.expected(0.1, 0.1, 16.0).passes == 0.5);
        way.observe(0.1, 1.0, 8.0, 0.1);
        assert!((way.expected(0.1, 0.1, 16.0).speed - 24.0 / (16.0 / 1.6 + 8.0)).abs() < 1e-12);
        (0..20).for_each(|_| way.observe(0.1, 1.0, 24.0, 0.1));
        let Outcome { speed, passes } = way.expected(0.1, 0.1, 16.0);
        assert!(speed < 1.07 && passes > 0.92, "it has been measured");
    }

    /// Seven tokens came slowly while code was being compiled, of a way that promises more than one of which much is
    /// known: it is tried again. Of twice as many it is not.
    #[test]
    fn a_few_unlucky_tokens_are_not_the_last() {
        let way = |speed, tokens: f64, off: f64| {
            let mut way = Way { promised: Some(Outcome { speed, passes: 0.4 }), ..Way::new(Some(Plan::AT_ONCE)) };
            way.observe(0.1 * off / speed, 0.4, tokens, 0.1);
            way
        };
        let hoped = |way: &Way| way.expected(0.1, 0.1, PRIOR).speed * way.hope();
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
            let mut way = Way { promised: promise(1.2, 0.8), ..Way::new(Some(Plan::AT_ONCE)) };
            (0..4).for_each(|_| way.observe(seconds, 0.8, 24.0, 0.1));
            way.promised = promise(2.4, 0.4);
            let Outcome { speed, passes } = way.expected(0.1, 0.1, 16.0);
            let counted = (16.0 + 96.0 * off) / 112.0;
            assert!((speed - 2.4 / counted).abs() < 1e-9 && (passes - 0.4).abs() < 1e-9, "{speed}, {passes}");
        }
    }

    /// What is assumed counts for twenty guesses, and what was seen for the last hundred or so.
    #[test]
    fn a_steady_rate_is_a_mean_over_many_guesses() {
        let mut rate = SteadyRate::default();
        (0..20).for_each(|_| rate.observe(true));
        assert!((rate.get().get() - (20.0 * 0.7 + 20.0) / 40.0).abs() < 0.01, "{rate:?}");
        for right in [0.9, 0.5] {
            (0..400).for_each(|n| rate.observe(f64::from(n % 10) < 10.0 * right));
            assert!((rate.get().get() - right).abs() < 0.03, "{rate:?}, {right}");
        }
        (0..12).for_each(|_| rate.observe(false));
        assert!(rate.get().get() > 0.43, "a dozen says little: {rate:?}");
    }
}
