//! How an edge drafts ahead of a text that the target writes: how long it has the target wait, and for how many
//! guesses.
//!
//! With *patience* 0 nobody waits: guesses that come in time are judged, others are not. With much patience, and
//! guesses sent in groups of γ, the target waits after each wrong guess for the next group, which is a round. In
//! between lies what a link of some round trip wants. There is no closed form; so the edge
//! [simulates](Conditions::speed) some choices with what it has measured, and takes the fastest.

use core::time::Duration;
use std::collections::VecDeque;

use super::goodput::{AcceptanceRate, ROW_COST};

/// Guesses of a chain in the simulation.
const LONGEST_CHAIN: usize = 64;
/// Tokens of a simulated text.
const SIMULATED: usize = 256;
/// What a plan has to promise over drafting without patience to be taken, and drafting over none.
const WORTH_WAITING: f64 = 1.03;
const WORTH_DRAFTING: f64 = 1.02;
/// Below this share of the speed of the target alone guesses slow it down; what is above is the measurement's own.
const NOT_SLOWER: f64 = 0.98;
/// Tokens of a stretch with guesses, after which plans are made anew.
const PLANNED: usize = 24;
/// Tokens of a stretch without: of a look at how fast the target is, after so many with guesses; and of a rest, at
/// first and at most.
const LOOK: usize = 8;
const LOOK_AFTER: usize = 16;
const REST: usize = 96;
const LONGEST_REST: usize = 768;
/// Round trips that are kept, of which the shortest counts.
const TRIPS: usize = 8;
/// Weight of the last observation of a time.
const WEIGHT: f64 = 0.2;

/// How the edge sends guesses, and what the target does where none has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Guesses in a frame.
    pub group: usize,
    /// How long a pass is held for them, in seconds.
    pub patience: f64,
}

/// Times in seconds, as they decide what a plan is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Of a pass of the target that judges nothing.
    pub pass: f64,
    /// Of a draft.
    pub draft: f64,
    /// From an end to the other and back.
    pub round_trip: f64,
    /// α: the probability that a guess behind right ones is right.
    pub acceptance: AcceptanceRate,
}

/// A chain of guesses in the simulation.
struct Chain {
    /// When its first draft began.
    began: f64,
    /// Position of its first guess.
    first: usize,
    /// Its first guess that is wrong.
    wrong: usize,
}

impl Conditions {
    /// Tokens that are written while the target alone would write one.
    ///
    /// A text of `length` tokens is simulated; whether a guess is right depends on its position alone, so that plans
    /// are compared on the same text.
    pub fn speed(&self, plan: Plan, length: usize) -> f64 {
        let Self { pass, draft, round_trip, acceptance } = *self;
        let half = round_trip / 2.0;
        let (mut now, mut written) = (0.0, 1);
        let mut chain = self.chain(half, written);
        while written < length {
            // The position behind the last guess that has come.
            let come_by = |time: f64| {
                let groups = ((time - chain.began - half) / (plan.group as f64 * draft)).floor();
                chain.first + groups.clamp(0.0, LONGEST_CHAIN as f64) as usize * plan.group
            };
            if come_by(now) <= written && plan.patience > 0.0 {
                let groups = (written + 1 - chain.first).div_ceil(plan.group);
                let arrival = chain.began + (groups * plan.group) as f64 * draft + half;
                now = arrival.clamp(now, now + plan.patience);
            }
            let at_hand = come_by(now + 1e-9).saturating_sub(written);
            let judged = acceptance.drafts_worth(ROW_COST, at_hand.min(LONGEST_CHAIN));
            now += pass * (1.0 + ROW_COST * judged as f64);
            written += judged.min(chain.wrong - written) + 1;
            if written > chain.wrong {
                // The edge reads what was written in place of its wrong guess, and guesses on from there.
                chain = self.chain(now + half, written);
            }
        }
        written as f64 * pass / now
    }

    fn chain(&self, began: f64, first: usize) -> Chain {
        // A fixed sequence of numbers that look random.
        let is_right = |position: &usize| {
            let mixed = (*position as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((mixed ^ mixed >> 32) >> 11) as f64 / (1u64 << 53) as f64 <= self.acceptance.get()
        };
        let wrong = first + (first..first + LONGEST_CHAIN).take_while(is_right).count();
        Chain { began, first, wrong }
    }

    /// The fastest plan of those worth trying; `None` if the target is as fast alone.
    pub fn plan(&self) -> Option<Plan> {
        let at_once = Plan::AT_ONCE;
        let alone = self.speed(at_once, SIMULATED);
        let mut best = (at_once, alone);
        for group in [1, 2, 3, 4, 6, 8, 12, 16] {
            // So long takes the first group behind a wrong guess, with room for a link that is not even.
            let patience = 1.25 * self.round_trip + 1.5 * group as f64 * self.draft;
            let plan = Plan { group, patience };
            let speed = self.speed(plan, SIMULATED);
            if speed > best.1.max(alone * WORTH_WAITING) {
                best = (plan, speed);
            }
        }
        (best.1 > WORTH_DRAFTING).then_some(best.0)
    }
}

impl Plan {
    /// Nobody waits.
    pub const AT_ONCE: Self = Self { group: 1, patience: 0.0 };

    /// The patience as frames say it, in tenths of a millisecond.
    pub fn patience_on_the_wire(&self) -> u32 {
        (self.patience * 1e4).round() as u32
    }
}

/// What the edge measures while it drafts ahead, and the plan that it makes of it.
///
/// What it measures may miss the point: a browser on the server's own machine takes its processor away, and no link
/// shows that. So stretches of the text are written without guesses, to see how fast the target is alone; where guesses
/// are not faster they rest, longer each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    /// Chosen by the user; `None`: by what is measured.
    fixed: Option<Plan>,
    plan: Plan,
    stretch: Stretch,
    /// Whether nothing is guessed in this stretch.
    rests: bool,
    /// Tokens of the next rest, and stretches since the last one.
    rest: usize,
    since_rest: usize,
    /// Tokens per second of the target alone, lately.
    alone: Option<f64>,
    pass: Option<f64>,
    draft: Option<f64>,
    /// The link's round trip by the first token of this text, and by guesses: these include what a guess waited for the
    /// pass under way.
    first_trip: Option<f64>,
    trips: VecDeque<f64>,
    acceptance: AcceptanceRate,
}

/// A stretch of the text whose speed is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    /// Tokens before the measured ones, which the stretch before still shapes; then when they were written.
    skipped: usize,
    since: Option<Duration>,
    /// Tokens that were measured, of so many.
    tokens: usize,
    length: usize,
}

impl Stretch {
    fn new(length: usize) -> Self {
        Self { skipped: length / 3, since: None, tokens: 0, length }
    }

    /// A text ends: the stretch goes on in the next one, whose first tokens it skips.
    fn pause(&mut self) {
        let length = self.length.saturating_sub(self.tokens).max(1);
        *self = Self { skipped: LOOK / 3, since: None, tokens: 0, length };
    }

    /// Tokens were written. Gives tokens per second once the stretch is over.
    fn written(&mut self, tokens: usize, now: Duration) -> Option<f64> {
        let Some(since) = self.since else {
            self.skipped = self.skipped.saturating_sub(tokens);
            self.since = (self.skipped == 0).then_some(now);
            return None;
        };
        self.tokens += tokens;
        (self.tokens >= self.length).then(|| self.tokens as f64 / now.saturating_sub(since).as_secs_f64().max(1e-6))
    }
}

impl Pace {
    /// Nothing measured yet.
    pub fn new(fixed: Option<Plan>) -> Self {
        let rests = fixed.is_none();
        Self {
            fixed,
            plan: fixed.unwrap_or(Plan::AT_ONCE),
            stretch: Stretch::new(if rests { LOOK } else { PLANNED }),
            rests,
            rest: REST,
            since_rest: 0,
            alone: None,
            pass: None,
            draft: None,
            first_trip: None,
            trips: VecDeque::new(),
            acceptance: AcceptanceRate::default(),
        }
    }

    /// Another generation begins: what is measured of the ends and the link is kept.
    pub fn next_generation(&mut self, fixed: Option<Plan>) {
        if self.fixed != fixed {
            *self = Self { fixed, plan: fixed.unwrap_or(Plan::AT_ONCE), rests: false, ..self.clone() };
        }
        self.stretch.pause();
        self.first_trip = None;
    }

    /// The first token came so long after it was asked for, of a pass that took so long.
    pub fn began(&mut self, after: Duration, pass: Duration) {
        self.first_trip = Some(after.saturating_sub(pass).as_secs_f64());
    }

    /// How guesses are sent now.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Whether guessing is worth nothing for now.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// How far ahead of the text guesses are worth their drafting.
    pub fn lead(&self) -> usize {
        // What is right with a probability of a twentieth.
        let alpha = self.acceptance.get().clamp(0.05, 0.95);
        ((0.05f64.ln() / alpha.ln()).ceil() as usize).max(2 * self.plan.group)
    }

    /// A draft took so long.
    pub fn drafted(&mut self, time: Duration) {
        follow(&mut self.draft, time.as_secs_f64());
    }

    /// A pass of the target that judged so many guesses took so long.
    pub fn passed(&mut self, time: Duration, judged: usize) {
        follow(&mut self.pass, time.as_secs_f64() / (1.0 + ROW_COST * judged as f64));
    }

    /// So long after guesses were sent, tokens came of a pass that began when the target had them, and took so long.
    pub fn answered(&mut self, after: Duration, pass: Duration) {
        if self.trips.len() == TRIPS {
            self.trips.pop_front();
        }
        self.trips.push_back(after.saturating_sub(pass).as_secs_f64());
    }

    /// What was guessed at a position, and what was written there.
    pub fn compared(&mut self, right: bool) {
        self.acceptance.observe(usize::from(right), !right);
    }

    /// So many tokens were written: makes another plan now and then.
    pub fn written(&mut self, tokens: usize, now: Duration) {
        let Some(speed) = self.stretch.written(tokens, now) else { return };
        if self.fixed.is_some() {
            self.stretch = Stretch::new(PLANNED);
            return;
        }
        let plan = self.conditions().map_or(Some(Plan::AT_ONCE), |conditions| conditions.plan());
        if self.rests {
            follow(&mut self.alone, speed);
            (self.rests, self.since_rest) = (false, 0);
            // What does not promise anything is tried all the same, shortly: it is how conditions are measured.
            let length = if plan.is_some() { PLANNED } else { LOOK };
            (self.plan, self.stretch) = (plan.unwrap_or(Plan::AT_ONCE), Stretch::new(length));
            return;
        }
        self.since_rest += 1;
        let is_slower = self.alone.is_some_and(|alone| speed < NOT_SLOWER * alone);
        if is_slower || plan.is_none() {
            (self.rests, self.stretch) = (true, Stretch::new(self.rest));
            self.rest = (2 * self.rest).min(LONGEST_REST);
        } else if self.since_rest >= LOOK_AFTER {
            (self.rests, self.stretch) = (true, Stretch::new(LOOK));
        } else {
            self.rest = REST;
            (self.plan, self.stretch) = (plan.unwrap_or(self.plan), Stretch::new(PLANNED));
        }
    }

    /// All that is measured, once all is.
    pub fn conditions(&self) -> Option<Conditions> {
        let round_trip = self.trips.iter().copied().chain(self.first_trip).reduce(f64::min)?;
        Some(Conditions { pass: self.pass?, draft: self.draft?, round_trip, acceptance: self.acceptance })
    }
}

/// Moves a running mean on.
fn follow(mean: &mut Option<f64>, value: f64) {
    let before = mean.unwrap_or(value);
    *mean = Some(before + WEIGHT * (value - before));
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn link(pass: f64, draft: f64, round_trip: f64, alpha: f64) -> Conditions {
        let mut acceptance = AcceptanceRate::default();
        // Long enough for the running mean to be there, in the right shares.
        for i in 0..20_000u32 {
            acceptance.observe(0, false);
            let right = f64::from(i.wrapping_mul(2_654_435_769)) / f64::from(u32::MAX) < alpha;
            acceptance.observe(usize::from(right), !right);
        }
        Conditions { pass, draft, round_trip, acceptance }
    }

    #[test]
    fn never_waiting_is_never_slower_than_the_target_alone() {
        for (pass, draft) in [(0.041, 0.001), (0.041, 0.01), (0.0073, 0.0003), (0.01, 0.02)] {
            for round_trip in [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4] {
                let link = link(pass, draft, round_trip, 0.7);
                let speed = link.speed(Plan::AT_ONCE, SIMULATED);
                assert!(speed > 0.99, "{speed} at {link:?}");
                if let Some(plan) = link.plan() {
                    assert!(link.speed(plan, SIMULATED) >= speed, "{plan:?} at {link:?}");
                }
            }
        }
    }

    /// By hand: a draft that takes no time over no link is a round of the best length; over a long link, with a target
    /// that is faster than the link, nothing comes in time.
    #[test]
    fn the_ends_of_the_scale_are_as_they_should_be() {
        let near = link(0.04, 1e-6, 0.0, 0.8);
        let best = (0..16).map(|n| {
            let alpha = near.acceptance.get();
            (0..=n).map(|i| f64::powi(alpha, i)).sum::<f64>() / (1.0 + ROW_COST * f64::from(n))
        });
        let best = best.fold(0.0, f64::max);
        let found = near.plan().map_or(1.0, |plan| near.speed(plan, 4096));
        assert!((found / best - 1.0).abs() < 0.1, "{found} in place of {best}");
        let far = link(0.001, 0.0001, 0.4, 0.7);
        assert!(far.speed(Plan::AT_ONCE, SIMULATED) < 1.01 && far.plan().is_none());
    }

    /// Guesses that slow the target down, though link and times promise much.
    #[test]
    fn what_is_slower_rests_and_is_tried_again() {
        let ms = Duration::from_millis;
        let guessed = |time_with_guesses| {
            let (mut pace, mut now, mut guessed) = (Pace::new(None), Duration::ZERO, 0);
            for _ in 0..4000 {
                now += if pace.rests() { ms(10) } else { time_with_guesses };
                guessed += usize::from(!pace.rests());
                pace.drafted(ms(1));
                pace.passed(ms(10), 0);
                pace.answered(ms(15), ms(10));
                pace.written(1, now);
            }
            guessed
        };
        let slower = guessed(ms(12));
        assert!((100..400).contains(&slower), "{slower} of 4000 tokens were written slowly");
        // What is faster goes on, but for looks at how fast the target is alone.
        let faster = guessed(ms(8));
        assert!(faster > 3800, "{faster} of 4000");
    }
}
