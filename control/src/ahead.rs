//! Guesses ahead of a text that the target writes: their groups, and how long the target waits for them.
//!
//! With *patience* 0 neither end waits: guesses that come in time are judged, others are not. With much patience, and
//! guesses sent in groups of γ, the target waits after each wrong guess for the next group, which is a round. The best
//! plan for a link of some round trip lies in between. There is no closed form; so the edge
//! [simulates](Conditions::outcome) some plans with its measurements. Those that promise much are
//! [tried](AheadController), and the fastest is kept.

mod controller;
mod goal;
mod measured;
mod trip;

pub use controller::AheadController;
pub use goal::{Goal, Outcome};
pub use measured::ModeScore;

use crate::{
    goodput::RowCosts,
    plan::{Mode, Schedule},
};

/// Guesses of a chain in the simulation.
const LONGEST_CHAIN: usize = 64;
/// Tokens of a simulated text.
const SIMULATED: usize = 256;
/// Allowance for late timers in a browser, in seconds.
const TIMER: f64 = 0.002;
/// The least patience over a link that is shorter than this, in seconds: as on the target's own machine. Drafts, timed
/// while the target rests, take longer there while it computes, and a hold ends with the first guess that comes.
const LATE: f64 = 0.02;
const SHORT: f64 = 0.01;
/// Share of the fastest group's speed at which another group counts as nearly as fast. Where the target waits for
/// groups, the smallest of these is taken: rates change from text to text, and small groups lose less when fewer
/// guesses are right than estimated. Where neither end waits, the largest is taken, because frames have a cost too.
const NEARLY_AS_FAST: f64 = 0.98;
/// Longest time that guesses may wait for the rest of their group when the target does not wait for them, as a share of
/// a pass.
const PROMPT: f64 = 0.1;
/// Candidate group sizes, ascending.
const GROUPS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// Times of both ends and of the link, in seconds, from which the outcome of a plan is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Time of a forward pass of the target that judges no guesses.
    pub pass: f64,
    /// Time of a draft made alone, the first of a group.
    pub draft: f64,
    /// Time that each further draft of a group adds: as long as `draft` on a processor, less on a GPU, whose results
    /// take a fixed time to arrive.
    pub further: f64,
    /// Time from the message that guesses are wrong to the start of the next draft: the other work of that end.
    pub reaction: f64,
    /// Round-trip time of the link between the two ends.
    pub round_trip: f64,
    /// Probability α that a guess after right ones is right.
    pub acceptance: f64,
    /// Time that judged guesses add to a pass, as a share of a pass that judges none.
    pub rows: RowCosts,
}

/// A chain of guesses in the simulation.
struct Chain {
    /// Time at which its first draft began.
    began: f64,
    /// Position of its first guess.
    first: usize,
    /// Position of its first wrong guess.
    wrong: usize,
}

impl Conditions {
    /// Simulates a plan: tokens that are written while the target alone would write one, and passes per token.
    ///
    /// A text of `length` tokens is simulated; whether a guess is right depends on its position alone, so that plans
    /// are compared on the same text.
    pub fn outcome(&self, plan: Schedule, length: usize) -> Outcome {
        if plan.mode() == Mode::Rounds {
            return self.outcome_of_rounds(plan.group);
        }
        let Self { pass, round_trip, acceptance, rows, .. } = *self;
        let (half, group_time) = (round_trip / 2.0, self.drafts(plan.group));
        let (mut now, mut written, mut passes) = (0.0, 1, 1);
        let mut chain = self.chain(half + self.reaction, written);
        while written < length {
            // The position after the last guess that has arrived by then.
            let come_by = |time: f64| {
                let groups = ((time - chain.began - half) / group_time).floor();
                chain.first + groups.clamp(0.0, LONGEST_CHAIN as f64) as usize * plan.group
            };
            if come_by(now) <= written && plan.patience > 0.0 {
                let groups = (written + 1 - chain.first).div_ceil(plan.group);
                let arrival = chain.began + groups as f64 * group_time + half;
                now = arrival.clamp(now, now + plan.patience);
            }
            let at_hand = come_by(now + 1e-9).saturating_sub(written);
            let judged = rows.fastest(acceptance, at_hand.min(LONGEST_CHAIN));
            now += pass * (1.0 + rows.all(judged));
            passes += 1;
            written += judged.min(chain.wrong - written) + 1;
            if written > chain.wrong {
                // The edge reads what was written in place of its wrong guess, and guesses on from there.
                chain = self.chain(now + half + self.reaction, written);
            }
        }
        Outcome { speed: written as f64 * pass / now, passes: f64::from(passes) / written as f64 }
    }

    /// Seconds that a group of `count` drafts takes, `count` ≥ 1.
    fn drafts(&self, count: usize) -> f64 {
        self.draft + self.further * (count - 1) as f64
    }

    fn chain(&self, began: f64, first: usize) -> Chain {
        // A fixed sequence of numbers that look random.
        let is_right = |position: &usize| {
            let mixed = (*position as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((mixed ^ mixed >> 32) >> 11) as f64 / (1u64 << 53) as f64 <= self.acceptance
        };
        let wrong = first + (first..first + LONGEST_CHAIN).take_while(is_right).count();
        Chain { began, first, wrong }
    }

    /// The same of rounds of γ guesses, one after the other: (1 − αᵞ⁺¹)/(1 − α) tokens in the time of γ drafts, a round
    /// trip and a pass (Leviathan et al. 2023, Theorem 3.8, with a round trip).
    fn outcome_of_rounds(&self, gamma: usize) -> Outcome {
        let Self { pass, reaction, round_trip, acceptance, rows, .. } = *self;
        let tokens: f64 = (0..=gamma).map(|n| acceptance.powi(n as i32)).sum();
        let judged = pass * (1.0 + rows.all(gamma));
        Outcome { speed: tokens * pass / (reaction + self.drafts(gamma) + round_trip + judged), passes: 1.0 / tokens }
    }

    /// The best of some plans, or nearly.
    fn best(&self, goal: Goal, plan: impl Fn(usize, f64) -> Schedule) -> (Schedule, Outcome) {
        let plans = GROUPS.map(|group| {
            // The time of the first group after a wrong guess, with a margin for an uneven link.
            let patience = 1.25 * self.round_trip + 1.5 * self.drafts(group) + 2.0 * self.reaction + TIMER;
            let least = if self.round_trip < SHORT { LATE } else { 0.0 };
            let plan = plan(group, patience.max(least));
            (plan, self.outcome(plan, SIMULATED))
        });
        let merit = |(_, given): &(Schedule, Outcome)| goal.merit(*given);
        let best = plans.iter().map(merit).fold(0.0, f64::max);
        let enough = if goal == Goal::Speed { NEARLY_AS_FAST * best } else { best };
        plans.into_iter().find(|plan| merit(plan) >= enough).unwrap_or((Schedule::AT_ONCE, Outcome::ALONE))
    }

    /// The plan by which neither end waits, and its outcome: with the largest groups that are nearly as fast as the
    /// fastest, and soon drafted. A frame costs both ends more than a draft may, and a slow link its bits.
    pub fn at_once(&self) -> (Schedule, Outcome) {
        let plans = GROUPS.map(|group| {
            let plan = Schedule { group, ..Schedule::AT_ONCE };
            (plan, self.outcome(plan, SIMULATED))
        });
        let best = plans.iter().map(|(_, given)| given.speed).fold(0.0, f64::max);
        let is_prompt = |plan: &Schedule| plan.group == 1 || self.drafts(plan.group) <= PROMPT * self.pass;
        let is_enough = |(plan, given): &(Schedule, Outcome)| is_prompt(plan) && given.speed >= NEARLY_AS_FAST * best;
        plans.into_iter().rev().find(is_enough).unwrap_or((Schedule::AT_ONCE, Outcome::ALONE))
    }

    /// The best plan by which the target waits while the edge drafts on as far as pays, and what it gives.
    pub fn patient(&self, goal: Goal) -> (Schedule, Outcome) {
        self.best(goal, |group, patience| Schedule { group, patience, lead: usize::MAX })
    }

    /// The best plan by which both ends take turns, and what it gives.
    pub fn rounds(&self, goal: Goal) -> (Schedule, Outcome) {
        self.best(goal, |group, patience| Schedule { group, patience, lead: group })
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;
    use crate::goodput::ROW_COST;

    fn link(pass: f64, draft: f64, round_trip: f64, acceptance: f64) -> Conditions {
        let rows = RowCosts::each(ROW_COST);
        Conditions { pass, draft, further: draft, reaction: 0.0, round_trip, acceptance, rows }
    }

    #[test]
    fn never_waiting_is_never_slower_than_the_target_alone() {
        for (pass, draft) in [(0.041, 0.001), (0.041, 0.01), (0.0073, 0.0003), (0.01, 0.02)] {
            for round_trip in [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4] {
                let link = link(pass, draft, round_trip, 0.7);
                let speed = link.outcome(Schedule::AT_ONCE, SIMULATED).speed;
                assert!(speed > 0.99, "{speed} at {link:?}");
                let (patient, promised) = link.patient(Goal::Speed);
                assert_eq!(link.outcome(patient, SIMULATED), promised, "{patient:?} at {link:?}");
            }
        }
    }

    /// The cost of frames is not simulated: the fewest frames that make no guess late are taken. A draft that takes a
    /// quarter of a pass is sent when it is ready.
    #[test]
    fn who_does_not_wait_sends_no_more_frames_than_it_has_to() {
        let group = |pass, draft, round_trip| {
            let link = link(pass, draft, round_trip, 0.7);
            let ((plan, given), singly) = (link.at_once(), link.outcome(Schedule::AT_ONCE, SIMULATED));
            assert!(plan.patience == 0.0 && given.speed >= NEARLY_AS_FAST * singly.speed, "{plan:?} at {link:?}");
            plan.group
        };
        for round_trip in [0.0, 0.002, 0.02, 0.05] {
            let [fast, medium, slow] = [0.0001, 0.001, 0.01].map(|draft| group(0.04, draft, round_trip));
            assert!(fast >= 8 && fast >= medium && medium >= 3 && slow == 1, "{fast}, {medium}, {slow}");
        }
    }

    /// By hand: a draft that takes no time over no link is a round of the best length; over a long link, with a target
    /// that is faster than the link, nothing comes in time.
    #[test]
    fn the_ends_of_the_scale_are_as_they_should_be() {
        let near = link(0.04, 1e-6, 0.0, 0.8);
        let best = (0..16).map(|n| {
            let alpha = near.acceptance;
            (0..=n).map(|i| f64::powi(alpha, i)).sum::<f64>() / (1.0 + ROW_COST * f64::from(n))
        });
        let best = best.fold(0.0, f64::max);
        let found = near.outcome(near.patient(Goal::Speed).0, 4096).speed;
        assert!((found / best - 1.0).abs() < 0.1, "{found} in place of {best}");
        let rounds = near.rounds(Goal::Speed).1.speed;
        assert!(rounds > 0.95 * best && rounds <= best, "{rounds} in place of {best}");
        let far = link(0.001, 0.0001, 0.4, 0.7);
        let slow = [far.patient(Goal::Speed).1.speed, far.rounds(Goal::Speed).1.speed];
        assert!(
            far.outcome(Schedule::AT_ONCE, SIMULATED).speed < 1.01 && slow.iter().all(|speed| *speed < 0.1),
            "{slow:?}"
        );
    }

    /// A GPU's answer takes 9 ms, a further draft 1 ms: groups are worth having there, and single drafts are not.
    #[test]
    fn drafts_that_are_cheap_together_make_groups() {
        let apart = link(0.04, 0.01, 0.005, 0.8);
        let together = Conditions { further: 0.001, ..apart };
        assert_eq!(apart.outcome(Schedule::AT_ONCE, SIMULATED), together.outcome(Schedule::AT_ONCE, SIMULATED));
        let waiting = |link: Conditions| [link.patient(Goal::Speed), link.rounds(Goal::Speed)];
        for ((plan, given), (_, alone)) in waiting(together).into_iter().zip(waiting(apart)) {
            assert!(plan.group >= 3 && given.speed > 1.1 * alone.speed, "{plan:?} gives {given:?}, for {alone:?}");
        }
        let four = apart.outcome_of_rounds(4).speed / together.outcome_of_rounds(4).speed;
        let tokens = 0.04 * (1.0 + 4.0 * ROW_COST) + 0.005;
        assert!((four - (tokens + 0.013) / (tokens + 0.04)).abs() < 1e-9, "{four}");
    }

    /// Expensive rows make small groups in rounds, by the formula; the simulation declines rows that are not worth
    /// their cost.
    #[test]
    fn dear_rows_make_small_groups() {
        let groups = [0.01, 0.06, 0.12, 0.25].map(|row_cost| {
            let link = Conditions { rows: RowCosts::each(row_cost), ..link(0.05, 0.0005, 0.002, 0.8) };
            let (plan, given) = link.rounds(Goal::Speed);
            let best = GROUPS.map(|n| link.outcome_of_rounds(n).speed).into_iter().fold(0.0, f64::max);
            assert!(given.speed >= NEARLY_AS_FAST * best, "{given:?} with {row_cost}");
            plan.group
        });
        assert!(groups.is_sorted_by(|a, b| a > b), "{groups:?}");
    }

    /// By trying all rounds: of those that are no slower than the target alone, the ones with the fewest passes; and
    /// these are longer than the fastest ones.
    #[test]
    fn the_fewest_passes_cost_no_speed() {
        for (draft, round_trip) in [(0.001, 0.002), (0.001, 0.05), (0.01, 0.02)] {
            let link = link(0.041, draft, round_trip, 0.7);
            let alpha = link.acceptance;
            let rounds = GROUPS.map(|n| {
                let tokens: f64 = (0..=n).map(|i| f64::powi(alpha, i as i32)).sum();
                (tokens * 0.041 / (n as f64 * draft + round_trip + 0.041 * (1.0 + ROW_COST * n as f64)), 1.0 / tokens)
            });
            let fewest = rounds.iter().filter(|round| round.0 >= 1.0).map(|round| round.1).fold(1.0, f64::min);
            let (plan, found) = link.rounds(Goal::Passes);
            assert!((found.passes - fewest).abs() < 1e-9 && found.speed >= 1.0, "{plan:?} gives {found:?} at {link:?}");
            let (fastest, speed) = link.rounds(Goal::Speed);
            assert!(plan.group >= fastest.group && found.passes <= speed.passes, "{plan:?} beside {fastest:?}");
            let (_, patient) = link.patient(Goal::Passes);
            assert!(patient.speed >= 1.0 && patient.passes <= link.patient(Goal::Speed).1.passes, "{patient:?}");
        }
    }
}
