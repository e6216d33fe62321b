//! Choice of a mode by promises of schedules and measured segments of the text.
//!
//! Measurements of the ends may be misleading: a browser on the server's own machine takes its processor away, and no
//! link shows that. A segment of a few tokens says little, too: luck with guesses moves it by a third. So each mode is
//! scored by measured over promised time per token, with the rates of that time. Its expected outcome is a mean: the
//! promise counts as a number of tokens, and measured ones as themselves, which is forgotten while other modes are
//! followed. The fastest is followed; or, where that is the goal, the one with the fewest passes of those that are no
//! slower than the target alone.

use core::time::Duration;

use super::{
    Conditions,
    goal::{Goal, Outcome},
    measured::{ASSUMED_ROW, CAUTIOUS, DraftTimes, ModeScore, PRIOR, SKIPPED, Segment, steady_rate},
    trip::RoundTrip,
};
use crate::{
    goodput::{ACCEPTANCE_PRIOR, CandidateRates, RowCosts},
    measure::{Mean, Recent},
    observation::{Answer, Observation},
    pass_times::PassTimes,
    plan::{Mode, Plan, Schedule},
};

/// Least share of the best promise that a plan is followed for; it also has to beat the target alone.
const PROMISING: f64 = 0.8;
/// Least promise of guesses in mode "at once" that is worth their drafting.
const WORTH_DRAFTING: f64 = 1.02;
/// Speed that guesses may cost: less is a measurement's own error, and they save passes.
const NOT_SLOWER: f64 = 0.99;
/// Forward passes a token, × the target's alone, above which guesses save too few to be made for an engine that waits
/// for none: they come too late, or are wrong, and cost drafting, bytes and its time.
const SAVES_PASSES: f64 = 0.98;
/// The most that guesses promise beside the target's own drafts: these are judged where no guess is at hand, so that a
/// guess in time spares a draft, and a pass that waits for one gains nothing.
const SPARED: f64 = 1.05;
/// Round trip in seconds, over which text comes at once: guesses show nothing earlier there. Beside the target's own
/// drafts they gain nothing either, and on one machine they take its processor: twelve races of the page gave 0.93 of
/// the target's own drafts.
const NEAR: f64 = 0.02;
/// Seconds that a pass takes at least, whatever the target says: speeds are in passes.
const SOME_TIME: f64 = 1e-6;
/// Passes that a time which the target measured before the session counts for.
const TIMED: usize = 8;
/// Tokens of other modes after which most of what was measured of one is forgotten.
const FORGET: f64 = 2048.0;
/// Tokens of a segment, of a probe of a mode, of a probe without guesses, whose speed is no matter of luck, and of the
/// very first segment, which times drafts and the link.
const PLANNED: usize = 24;
const PROBE: usize = 8;
const PROBE_ALONE: usize = 4;
const FIRST: usize = 3;
/// Tokens with guesses after which the target is timed alone, at first and again; and by what power of what they gain
/// it is later: the more they gain, the more that time would have to be wrong. An early probe is expensive: with
/// passes of 40 ms over near links it took a tenth of what guesses gain in 64 tokens.
const TIME_ALONE_FIRST: f64 = 48.0;
const TIME_ALONE: f64 = 384.0;
const LATER: i32 = 3;
/// Tokens without guesses after which they are tried all the same: else nothing of them would be measured again.
const TRY_AGAIN: usize = 768;
/// The part of a pass that a draft may take where second candidates are guessed, too. Simulated, best first and with
/// the built-in pair's rates: at a twentieth of a pass they add 6 to 15 % over every link that gives anything, at a
/// tenth 5 to 8 %, at a seventh 0 to 4 %, at a fifth they cost 2 %.
const BRANCHES_BELOW: f64 = 0.1;
/// The part of a pass that may go by with the frames of a tree of [`TREE`] guesses, as far as the edge sees it: on one
/// core a browser's other processes take as long again, and second candidates make first ones late. With passes of 9 ms
/// they cost 5 % there, with passes of 57 ms they lose nothing and gain up to 5 %.
const BESIDE_DRAFTS: f64 = 0.1;
const TREE: f64 = 30.0;

/// The weight of the last reaction in the mean.
const WEIGHT: f64 = 0.1;

/// Chooses how an edge sends guesses ahead of a text that the target writes.
///
/// For each generation: [`next_generation`](Self::next_generation); then [`observe`](Self::observe) whatever is
/// measured, and follow [`plan`](Self::plan).
#[derive(Debug, Clone, PartialEq)]
pub struct AheadController {
    /// The schedule chosen by the user; `None`: by what is measured.
    fixed: Option<Schedule>,
    goal: Goal,
    /// The target holds passes for guesses when asked to.
    holds: bool,
    /// Scores in the order of [`Mode::ALL`].
    modes: [ModeScore; 4],
    current: Mode,
    segment: Segment,
    /// The target has drafts of its own.
    is_helped: bool,
    /// Tokens since the target was alone, and since it was not.
    guided: usize,
    rested: usize,
    trip: RoundTrip,
    passes: Recent<f64>,
    /// Passes by the number of guesses at hand, of which the target judges those that it finds worth their rows.
    pass_times: PassTimes,
    drafts: DraftTimes,
    /// Seconds of a frame beside drafts.
    frames: Recent<f64>,
    /// Seconds from tokens that proved guesses wrong to the next guesses, beside their drafting.
    reaction: Mean,
    rates: CandidateRates,
    /// The rate of first candidates over a longer time: a dozen guesses say little of a plan.
    steady_rate: Mean,
}

/// Modes in which guesses are made.
const GUIDED: [Mode; 3] = [Mode::AtOnce, Mode::Patient, Mode::Rounds];
/// Modes in which the target waits.
const HOLDING: [Mode; 2] = [Mode::Patient, Mode::Rounds];

impl AheadController {
    /// A controller without measurements.
    pub fn new(fixed: Option<Schedule>) -> Self {
        let [none, at_once] = [None, Some(Schedule::AT_ONCE)].map(ModeScore::new);
        Self {
            fixed,
            goal: Goal::Speed,
            holds: true,
            modes: [none, at_once, none, none],
            current: Mode::AtOnce,
            segment: Segment::new(0, FIRST),
            is_helped: false,
            guided: 0,
            rested: 0,
            trip: RoundTrip::default(),
            passes: Recent::default(),
            pass_times: PassTimes::new(ASSUMED_ROW),
            drafts: DraftTimes::default(),
            frames: Recent::default(),
            reaction: Mean::exponential(0.0, WEIGHT),
            rates: CandidateRates::default(),
            steady_rate: steady_rate(ACCEPTANCE_PRIOR),
        }
    }

    /// Begins with the acceptance that an earlier controller had in place of a usual draft's.
    pub fn expect(&mut self, [first, second]: [f64; 2]) {
        self.steady_rate = steady_rate(first);
        self.rates = CandidateRates::new([first, second]);
    }

    /// Begins another generation; measurements of the ends and the link stay. A target that does not hold its passes is
    /// never asked to.
    pub fn next_generation(&mut self, fixed: Option<Schedule>, goal: Goal, holds: bool) {
        (self.fixed, self.goal, self.holds) = (fixed, goal, holds);
        if !holds {
            // Another target may have held them before.
            HOLDING.into_iter().for_each(|mode| *self.score_mut(mode) = ModeScore::new(None));
            self.current = if self.current == Mode::AtOnce { Mode::AtOnce } else { Mode::Alone };
        }
        self.segment.pause();
        self.trip.next_generation();
    }

    /// Takes an observation. Returns true if it ended a segment, so that a mode was chosen for the next.
    pub fn observe(&mut self, observation: Observation) -> bool {
        match observation {
            Observation::Handshake(took) => {
                if self.trip.connected(took) {
                    self.forget_modes();
                }
            }
            Observation::FirstToken { after, pass } => {
                self.trip.began(after.saturating_sub(pass));
                if self.fixed.is_none() && self.is_other_link() {
                    self.forget_modes();
                    self.choose();
                }
            }
            Observation::Timed { rows, took } => {
                (0..TIMED).for_each(|_| self.pass_times.observe(rows, took.as_secs_f64()));
            }
            Observation::Drafted { took, count } => self.drafts.observe(took.as_secs_f64(), count),
            Observation::Framed { took, drafts } => {
                if let Some(share) = self.drafts.share() {
                    self.frames.observe((took.as_secs_f64() - share * drafts as f64).max(0.0));
                }
            }
            Observation::Corrected { after, drafts } => {
                if let Some((draft, further)) = self.drafts.get() {
                    let beside = after.as_secs_f64() - draft - further * (drafts - 1) as f64;
                    self.reaction.observe(beside.max(0.0));
                }
            }
            Observation::Passed { took, accepted, at_hand } => self.passed(took, accepted, at_hand),
            Observation::PassedAlone(took) => {
                self.is_helped = true;
                self.passes.observe(took.as_secs_f64().max(SOME_TIME));
            }
            // What came while the target made drafts of its own waited for the rest of that.
            Observation::Answered(answer) => {
                self.trip.answered(Answer { awaited: answer.awaited && !self.is_helped, ..answer });
            }
            Observation::Compared { candidates, right } => {
                if candidates > 0 {
                    self.steady_rate.observe(f64::from(u8::from(right == Some(0))));
                }
                self.rates.observe(candidates, right);
            }
            Observation::Written { tokens, now } => return self.written(tokens, now),
            Observation::WrittenAlone { tokens, passes, took } if tokens > 0 => {
                let (seconds, tokens) = (took.as_secs_f64() / tokens as f64, tokens as f64);
                let pass = self.pass().unwrap_or(seconds);
                self.score_mut(Mode::Alone).observe(seconds, passes as f64 / tokens, tokens, pass);
            }
            Observation::WrittenAlone { .. } | Observation::Round(_) | Observation::Streamed(_) => {}
        }
        false
    }

    /// The plan to follow until the next observation.
    pub fn plan(&self) -> Plan {
        let Schedule { group, patience, .. } = self.schedule();
        Plan {
            mode: self.fixed.map_or(self.current, |fixed| fixed.mode()),
            group,
            patience,
            lead: self.lead(),
            stream: 0,
            branches: self.branches(),
            rates: self.rates.get(),
            // One time is not enough: the first drafts may compile what makes them.
            tries_group: self.fixed.is_none() && self.drafts.groups() < 2,
        }
    }

    /// The scores of all modes; empty under a fixed schedule.
    pub fn scores(&self) -> impl Iterator<Item = (Mode, &ModeScore)> {
        Mode::ALL.into_iter().zip(&self.modes).filter(|_| self.fixed.is_none())
    }

    /// Seconds of a pass that judges nothing; `None` before any was timed.
    pub fn pass(&self) -> Option<f64> {
        self.passes.lowest()
    }

    /// Seconds of a single draft and of each further one that is made with it; `None` before any was timed.
    pub fn draft(&self) -> Option<(f64, f64)> {
        self.drafts.get()
    }

    /// Acceptance to [`expect`](Self::expect) of the same models: shares of first candidates that were right, over a
    /// longer time, and of second ones.
    pub fn acceptance(&self) -> [f64; 2] {
        [self.steady_rate.get(), self.rates.second.get()]
    }

    /// Recent shares of first and second candidates that were right.
    pub fn shares(&self) -> [f64; 2] {
        [self.rates.first.get(), self.rates.second.get()]
    }

    fn score(&self, mode: Mode) -> &ModeScore {
        &self.modes[mode as usize]
    }

    fn score_mut(&mut self, mode: Mode) -> &mut ModeScore {
        &mut self.modes[mode as usize]
    }

    /// The schedule of guesses now, if there are any.
    fn schedule(&self) -> Schedule {
        self.fixed.or(self.score(self.current).schedule).unwrap_or(Schedule::AT_ONCE)
    }

    /// The number of guesses ahead of the text that are worth their drafting.
    fn lead(&self) -> usize {
        // What is right with a probability of a twentieth.
        let alpha = self.rates.first.get().clamp(0.05, 0.95);
        let plan = self.schedule();
        let least = if plan.patience > 0.0 { plan.group } else { 1 };
        ((0.05f64.ln() / alpha.ln()).ceil() as usize).max(least).min(plan.lead)
    }

    /// True if second candidates are worth guessing: drafts and frames are fast beside passes, and the ends do not take
    /// turns.
    fn branches(&self) -> bool {
        let (Some((draft, _)), Some(pass)) = (self.drafts.get(), self.pass()) else { return false };
        let beside = self.frames.lowest().unwrap_or(0.0);
        self.schedule().mode() != Mode::Rounds
            && draft <= BRANCHES_BELOW * pass
            && TREE * beside <= BESIDE_DRAFTS * pass
    }

    fn passed(&mut self, time: Duration, accepted: usize, at_hand: Option<usize>) {
        let seconds = time.as_secs_f64().max(SOME_TIME);
        if let Some(guesses) = at_hand {
            self.pass_times.observe(1 + guesses.max(accepted), seconds);
        }
        self.passes.observe(seconds / (1.0 + self.rows().all(accepted)));
    }

    /// Time that judged guesses add to a pass, as a share of one that judges nothing.
    fn rows(&self) -> RowCosts {
        let (one, added) = (self.pass_times.one(), self.pass_times.added());
        RowCosts::of(|guesses| if one > 0.0 { added(guesses) / one } else { ASSUMED_ROW * guesses as f64 })
    }

    /// Chooses the mode of the next segment where one is over; on another link everything is tried again.
    fn written(&mut self, tokens: usize, now: Duration) -> bool {
        if self.fixed.is_some() {
            return false;
        }
        let over = self.segment.written(tokens, now);
        if (over.is_some() || self.trip.may_say()) && self.is_other_link() {
            self.forget_modes();
        } else if let Some(seconds) = over {
            self.measured(seconds);
        } else {
            return false;
        }
        self.choose();
        true
    }

    /// Chooses the mode of the next segment.
    fn choose(&mut self) {
        self.reconsider();
        let next = self.next_mode();
        let skipped = if next == self.current { 0 } else { SKIPPED };
        let is_probe = next != self.best() || self.score(next).measured() < PLANNED as f64;
        let probe = if next == Mode::Alone { PROBE_ALONE } else { PROBE };
        self.segment = Segment::new(skipped, if is_probe { probe } else { PLANNED });
        self.current = next;
    }

    /// Forgets the scores of modes. The target alone waits for no link.
    fn forget_modes(&mut self) {
        for score in &mut self.modes[Mode::AtOnce as usize..] {
            *score = ModeScore::new(score.schedule);
        }
    }

    /// Counts the segment, which took this long a token.
    fn measured(&mut self, seconds: f64) {
        // By what is measured now.
        self.reconsider();
        let pass = self.pass().unwrap_or(seconds);
        let length = self.segment.tokens as f64;
        let passes = self.segment.passes as f64 / length;
        for (mode, score) in Mode::ALL.into_iter().zip(&mut self.modes) {
            if mode == self.current {
                score.observe(seconds, passes, length, pass);
            } else if mode != Mode::Alone {
                score.fade((-length / FORGET).exp());
            }
        }
        let counted = self.segment.tokens;
        (self.guided, self.rested) =
            if self.current == Mode::Alone { (0, self.rested + counted) } else { (self.guided + counted, 0) };
    }

    /// Sets the promises of all modes by the conditions now.
    fn reconsider(&mut self) {
        let Some(conditions) = self.conditions() else { return };
        let (plan, mut at_once) = conditions.at_once();
        if self.is_helped {
            let gain = if conditions.round_trip < NEAR && self.goal == Goal::Speed { 1.0 } else { SPARED };
            at_once.speed = at_once.speed.min(gain);
        }
        self.score_mut(Mode::Alone).promised = Some(Outcome::ALONE);
        let score = self.score_mut(Mode::AtOnce);
        (score.promised, score.schedule) = (Some(at_once), (at_once.speed > WORTH_DRAFTING).then_some(plan));
        let proposals = [(Mode::Patient, conditions.patient(self.goal)), (Mode::Rounds, conditions.rounds(self.goal))];
        let best = proposals.iter().map(|(_, (_, given))| given.speed).fold(at_once.speed.max(1.0), f64::max);
        let promising = if self.goal == Goal::Speed { (PROMISING * best).max(1.0) } else { 1.0 };
        let may_hold = self.holds && !(self.is_helped && self.goal == Goal::Speed);
        for (mode, (schedule, given)) in proposals {
            let is_current = mode == self.current;
            let score = self.score_mut(mode);
            score.promised = Some(given);
            if may_hold && given.speed > promising {
                score.schedule = Some(schedule);
            } else if !is_current {
                score.schedule = None;
            }
        }
    }

    fn is_other_link(&mut self) -> bool {
        self.trip.is_other_link(self.pass().unwrap_or(0.0))
    }

    /// The mode of the next segment: the best, once times of the link and drafts are known.
    fn next_mode(&self) -> Mode {
        let best = if self.conditions().is_some() { self.best() } else { Mode::AtOnce };
        let gain = self.expected(best, PRIOR).speed.max(1.0);
        if self.guided as f64 >= self.lasts() * gain.powi(LATER) {
            Mode::Alone
        } else if self.rested >= TRY_AGAIN {
            Mode::AtOnce
        } else {
            best
        }
    }

    /// Tokens with guesses that gain nothing after which the target alone is timed again.
    fn lasts(&self) -> f64 {
        let is_a_pass = self.holds && !self.is_helped && self.goal == Goal::Speed;
        match self.score(Mode::Alone).measured() > 0.0 {
            true => TIME_ALONE,
            false if is_a_pass => TIME_ALONE_FIRST,
            false => 0.0,
        }
    }

    /// Seconds a token of the target alone: until that is measured those of the shortest pass. It takes no less, so
    /// that no mode seems faster and is not, unless guesses slow passes down, as on a machine that both ends share.
    fn alone(&self) -> f64 {
        self.score(Mode::Alone).seconds().or(self.pass()).unwrap_or(0.0)
    }

    /// Expected outcome of a mode, where its promise counts for `prior` tokens.
    fn expected(&self, mode: Mode, prior: f64) -> Outcome {
        let alone = self.alone();
        self.score(mode).expected(alone, self.pass().unwrap_or(alone), prior)
    }

    /// The mode that is expected to serve the goal best.
    fn best(&self) -> Mode {
        let alone = self.score(Mode::Alone).passes();
        let expected = |mode: Mode| {
            let Outcome { speed, passes } = self.expected(mode, CAUTIOUS);
            Outcome { speed: speed / NOT_SLOWER, passes }
        };
        let saves_passes = |mode: Mode| expected(mode).passes < SAVES_PASSES * alone;
        let is_faster = |mode: Mode| self.expected(mode, CAUTIOUS).speed > WORTH_DRAFTING;
        let saves = |mode: Mode| match self.goal {
            Goal::Speed => self.holds || is_faster(mode) || saves_passes(mode),
            Goal::Passes => expected(mode).passes < alone,
        };
        let guided = GUIDED.into_iter().filter(|&mode| self.score(mode).schedule.is_some());
        let merit = |mode: &Mode| {
            let Outcome { speed, passes } = self.expected(*mode, PRIOR);
            self.goal.merit(Outcome { speed: speed * self.score(*mode).hope(), passes })
        };
        let good = guided.filter(|&mode| expected(mode).speed >= 1.0 && saves(mode));
        good.max_by(|a, b| merit(a).total_cmp(&merit(b))).unwrap_or(Mode::Alone)
    }

    /// Estimated round-trip time of the link, in seconds; `None` before anything shows it.
    pub fn round_trip(&self) -> Option<f64> {
        self.trip.get(self.pass().unwrap_or(0.0))
    }

    /// All measured conditions; `None` while one is missing.
    pub fn conditions(&self) -> Option<Conditions> {
        let (pass, (draft, further), round_trip) = (self.pass()?, self.drafts.get()?, self.round_trip()?);
        let acceptance = self.steady_rate.get();
        let (reaction, rows) = (self.reaction.get(), self.rows());
        Some(Conditions { pass, draft, further, reaction, round_trip, acceptance, rows })
    }
}

#[cfg(test)]
mod tests;
