//! Which plan an edge follows: what plans promise, and what stretches of the text measured.
//!
//! What is measured of the ends may miss the point: a browser on the server's own machine takes its processor away, and
//! no link shows that. A stretch of a few tokens says little, too: luck with guesses moves it by a third. So what is
//! learned of a [way](Way) to write is by how much it is off what it promises with the rates of that time, and what
//! is thought of it is a mean: its promise counts as so many tokens, and what was measured as its own, which is
//! forgotten while other ways are followed. The fastest is followed; or, where that is the goal, the one with the
//! fewest passes of those that are no slower than the target alone.

mod record;

use core::time::Duration;

use super::{
    Conditions, Goal, Outcome, Plan,
    measured::{
        ASSUMED_ROW, Answer, Answers, CAUTIOUS, DraftTimes, PRIOR, SKIPPED, Shortest, SteadyRate, Stretch, Way,
    },
};
use crate::policy::{
    goodput::{CandidateRates, RowCosts},
    pass_times::PassTimes,
};

/// What a plan has to promise of the best promise to be followed, and more than the target alone.
const PROMISING: f64 = 0.8;
/// What guesses that nobody waits for have to promise to be worth their drafting.
const WORTH_DRAFTING: f64 = 1.02;
/// What guesses may cost in speed: less is a measurement's own error, and they save passes.
const NOT_SLOWER: f64 = 0.99;
/// Forward passes a token, × the target's alone, above which guesses save too few to be made for an engine that waits
/// for none: they come too late, or are wrong, and cost drafting, bytes and its time.
const SAVES_PASSES: f64 = 0.98;
/// What guesses promise at most beside the target's own drafts: these are judged where no guess is at hand, so that a
/// guess in time spares a draft, and a pass that waits for one gains nothing.
const SPARED: f64 = 1.05;
/// Seconds that a pass takes at least, whatever the target says: speeds are told in passes.
const SOME_TIME: f64 = 1e-6;
/// Tokens of other ways after which most of what was measured of one is forgotten.
const FORGET: f64 = 2048.0;
/// Tokens of a stretch, of the first ones of a way, of one without guesses, whose speed is no matter of luck, and of
/// the very first one, which times drafts and the link.
const PLANNED: usize = 24;
const LOOK: usize = 8;
const LOOK_ALONE: usize = 4;
const FIRST: usize = 3;
/// Tokens with guesses after which the target is timed alone, at first and again; and by what power of what they gain
/// it is later: the more they gain, the more that time would have to be wrong. A look in the first text is dear: with
/// passes of 40 ms over near links it took a tenth of what guesses gain in 64 tokens.
const TIME_ALONE_FIRST: f64 = 48.0;
const TIME_ALONE: f64 = 384.0;
const LATER: i32 = 3;
/// Tokens without guesses after which they are tried all the same: else nothing of them would be measured again.
const TRY_AGAIN: usize = 768;
/// A round trip that is so many times another, and so many seconds off, is another link's.
const OTHER_LINK: (f64, f64) = (2.0, 0.005);
/// Answers of a text that say so before a stretch is over.
const ANSWERS: usize = 3;
/// What a first token may come late by, in passes, without a long link: others may have had the target.
const HIDDEN: f64 = 1.25;
/// The part of a pass that a draft may take where second candidates are guessed, too. Simulated, best first and with
/// the built-in pair's rates: at a twentieth of a pass they add 6 to 15 % over every link that gives anything, at a
/// tenth 5 to 8 %, at a seventh 0 to 4 %, at a fifth they cost 2 %.
const BRANCHES_BELOW: f64 = 0.1;
/// The part of a pass that may go by with the frames of a tree of so many guesses, as far as the edge sees it: on one
/// core a browser's other processes take as long again, and second candidates make first ones late. With passes of 9 ms
/// they cost 5 % there, with passes of 57 ms they lose nothing and gain up to 5 %.
const BESIDE_DRAFTS: f64 = 0.1;
const TREE: f64 = 30.0;

/// The weight of the last reaction in the mean.
const WEIGHT: f64 = 0.1;

/// What the edge measures while it drafts ahead, and the plan that it follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    /// Chosen by the user; `None`: by what is measured.
    fixed: Option<Plan>,
    /// What it is chosen for then.
    goal: Goal,
    /// Whether the target holds passes for guesses when asked to.
    holds: bool,
    /// Those of [`ALONE`] and so on.
    ways: [Way; 4],
    current: usize,
    stretch: Stretch,
    /// Whether the target has drafts of its own.
    is_helped: bool,
    /// Tokens since the target was alone, and since it was not.
    guided: usize,
    rested: usize,
    /// The round trip of the link on which the ways were tried.
    link: Option<f64>,
    passes: Shortest,
    /// Of passes by how many guesses were at hand, of which the target judges what it thinks worth it.
    pass_times: PassTimes,
    drafts: DraftTimes,
    /// What a frame takes beside drafts, and what has to be done with it.
    frames: Shortest,
    /// Seconds from words by which guesses were wrong to the next guesses, beside their drafting.
    reaction: f64,
    /// The link's round trip by the first token of this text, and by answers to guesses.
    first_trip: Option<f64>,
    answers: Answers,
    rates: CandidateRates,
    /// That of the first over a longer time: how often guesses are right in a dozen says little of a plan.
    steady_rate: SteadyRate,
}

/// Between what the link's round trip is, in seconds. A guess that nobody waits for is answered by the pass after the
/// one under way, whose rest it waits for as well: a trip shorter than a pass may look as long as one, and may be none.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Trip {
    least: f64,
    most: f64,
}

/// Nothing is guessed; nobody waits; the target waits for the first guesses behind a wrong one; both take turns.
const ALONE: usize = 0;
const AT_ONCE: usize = 1;
const PATIENT: usize = 2;
const ROUNDS: usize = 3;
const NAMES: [&str; 4] = ["alone", "at once", "patient", "in turn"];

impl Pace {
    /// Nothing measured yet.
    pub fn new(fixed: Option<Plan>) -> Self {
        Self {
            fixed,
            goal: Goal::Speed,
            holds: true,
            ways: [Way::new(None), Way::new(Some(Plan::AT_ONCE)), Way::new(None), Way::new(None)],
            current: AT_ONCE,
            stretch: Stretch::new(0, FIRST),
            is_helped: false,
            guided: 0,
            rested: 0,
            link: None,
            passes: Shortest::default(),
            pass_times: PassTimes::new(ASSUMED_ROW),
            drafts: DraftTimes::default(),
            frames: Shortest::default(),
            reaction: 0.0,
            first_trip: None,
            answers: Answers::default(),
            rates: CandidateRates::default(),
            steady_rate: SteadyRate::default(),
        }
    }

    /// Another generation begins: what is measured of the ends and the link is kept. A target that does not hold its
    /// passes is never asked to.
    pub fn next_generation(&mut self, fixed: Option<Plan>, goal: Goal, holds: bool) {
        (self.fixed, self.goal, self.holds) = (fixed, goal, holds);
        if !holds {
            // Another target may have held them before.
            (self.ways[PATIENT], self.ways[ROUNDS]) = (Way::new(None), Way::new(None));
            self.current = if self.current == AT_ONCE { AT_ONCE } else { ALONE };
        }
        self.stretch.pause();
        (self.first_trip, self.answers) = (None, Answers::default());
    }

    /// The handshake of a connection took so long. Nobody computes for it, so that it shows a link that passes hide.
    pub fn connected(&mut self, after: Duration) {
        let trip = after.as_secs_f64();
        if self.link.is_some_and(|link| is_longer(trip, link) || is_longer(link, trip)) {
            self.forget_ways();
        }
        self.link = Some(trip);
    }

    /// The first token came so long after it was asked for, of a pass that took so long.
    pub fn began(&mut self, after: Duration, pass: Duration) {
        self.first_trip = Some(after.saturating_sub(pass).as_secs_f64());
        if self.fixed.is_none() && self.is_other_link() {
            self.forget_ways();
            self.choose();
        }
    }

    /// How guesses are sent now, if any are.
    pub fn plan(&self) -> Plan {
        self.fixed.or(self.ways[self.current].plan).unwrap_or(Plan::AT_ONCE)
    }

    /// Whether nothing is guessed for now.
    pub fn rests(&self) -> bool {
        self.fixed.is_none() && self.current == ALONE
    }

    /// How far ahead of the text guesses are worth their drafting.
    pub fn lead(&self) -> usize {
        // What is right with a probability of a twentieth.
        let alpha = self.rates.first.get().clamp(0.05, 0.95);
        let plan = self.plan();
        let least = if plan.patience > 0.0 { plan.group } else { 1 };
        ((0.05f64.ln() / alpha.ln()).ceil() as usize).max(least).min(plan.lead)
    }

    /// How often candidates for a position are right, the first and the second.
    pub fn rates(&self) -> [f64; 2] {
        self.rates.get()
    }

    /// Whether second candidates are worth guessing: where drafts and frames are fast beside passes, and nobody takes
    /// turns.
    pub fn branches(&self) -> bool {
        let (Some((draft, _)), Some(pass)) = (self.drafts.get(), self.passes.get()) else { return false };
        let beside = self.frames.get().unwrap_or(0.0);
        !self.plan().is_rounds() && draft <= BRANCHES_BELOW * pass && TREE * beside <= BESIDE_DRAFTS * pass
    }

    /// So many drafts, made together, took so long.
    pub fn drafted(&mut self, time: Duration, count: usize) {
        self.drafts.observe(time.as_secs_f64(), count);
    }

    /// Whether it is not known yet what drafts take that are made together, and plans depend on it. One time is not
    /// enough: the first ones may compile what makes them.
    pub fn wants_a_group(&self) -> bool {
        self.fixed.is_none() && self.drafts.groups() < 2
    }

    /// So many drafts and a frame took so long, with no time lost.
    pub fn told(&mut self, time: Duration, drafts: usize) {
        let Some(share) = self.drafts.share() else { return };
        self.frames.observe((time.as_secs_f64() - share * drafts as f64).max(0.0));
    }

    /// So many guesses were sent so long after words by which others were wrong.
    pub fn reacted(&mut self, time: Duration, count: usize) {
        let Some((draft, further)) = self.drafts.get() else { return };
        let beside = time.as_secs_f64() - draft - further * (count - 1) as f64;
        self.reaction += WEIGHT * (beside.max(0.0) - self.reaction);
    }

    /// A pass of the target that accepted so many guesses took so long; `at_hand` are those that it had, if that is
    /// known.
    pub fn passed(&mut self, time: Duration, accepted: usize, at_hand: Option<usize>) {
        let seconds = time.as_secs_f64().max(SOME_TIME);
        if let Some(guesses) = at_hand {
            self.pass_times.observe(1 + guesses.max(accepted), seconds);
        }
        self.passes.observe(seconds / (1.0 + self.rows().all(accepted)));
    }

    /// What judged guesses add to a pass, as a share of one that judges nothing.
    fn rows(&self) -> RowCosts {
        let (one, added) = (self.pass_times.one(), self.pass_times.added());
        RowCosts::of(|guesses| if one > 0.0 { added(guesses) / one } else { ASSUMED_ROW * guesses as f64 })
    }

    /// A pass of the target that judged its own drafts took so long.
    pub fn passed_by_itself(&mut self, time: Duration) {
        self.is_helped = true;
        self.passes.observe(time.as_secs_f64().max(SOME_TIME));
    }

    /// Tokens came of a pass that began when the target had guesses that it had not before.
    pub fn answered(&mut self, answer: Answer) {
        if self.answers.is_full() {
            // The link was another perhaps.
            self.first_trip = None;
        }
        // What came while the target made drafts of its own waited for the rest of that.
        self.answers.observe(Answer { awaited: answer.awaited && !self.is_helped, ..answer });
    }

    /// So many candidates are known for a position, and which of them was written there, if one was.
    pub fn compared(&mut self, candidates: usize, right: Option<usize>) {
        if candidates > 0 {
            self.steady_rate.observe(right == Some(0));
        }
        self.rates.observe(candidates, right);
    }

    /// A pass has written so many tokens. Gives whether a stretch is over, and with it perhaps the way to write the
    /// next; on another link everything is tried anew.
    pub fn written(&mut self, tokens: usize, now: Duration) -> bool {
        if self.fixed.is_some() {
            return false;
        }
        let over = self.stretch.written(tokens, now);
        let may_say = over.is_some() || self.answers.len() >= ANSWERS;
        if may_say && self.is_other_link() {
            self.forget_ways();
        } else if let Some(seconds) = over {
            self.measured(seconds);
        } else {
            return false;
        }
        self.choose();
        true
    }

    /// The way of the next stretch, by what is measured now.
    fn choose(&mut self) {
        self.reconsider();
        let next = self.next_way();
        let skipped = if next == self.current { 0 } else { SKIPPED };
        let is_look = next != self.best() || self.ways[next].measured < PLANNED as f64;
        let look = if next == ALONE { LOOK_ALONE } else { LOOK };
        self.stretch = Stretch::new(skipped, if is_look { look } else { PLANNED });
        self.current = next;
    }

    /// Ways are to be tried anew. The target alone waits for no link.
    fn forget_ways(&mut self) {
        for way in &mut self.ways[AT_ONCE..] {
            *way = Way::new(way.plan);
        }
    }

    /// The stretch took so long a token.
    fn measured(&mut self, seconds: f64) {
        // By what is measured now.
        self.reconsider();
        let pass = self.pass(seconds);
        let length = self.stretch.tokens as f64;
        let passes = self.stretch.passes as f64 / length;
        for (index, way) in self.ways.iter_mut().enumerate() {
            if index == self.current {
                way.observe(seconds, passes, length, pass);
            } else if index != ALONE {
                way.measured *= (-length / FORGET).exp();
            }
        }
        let counted = self.stretch.tokens;
        (self.guided, self.rested) =
            if self.current == ALONE { (0, self.rested + counted) } else { (self.guided + counted, 0) };
    }

    /// What is promising, by what is measured now.
    fn reconsider(&mut self) {
        let Some(conditions) = self.conditions() else { return };
        let (plan, mut at_once) = conditions.at_once();
        if self.is_helped {
            at_once.speed = at_once.speed.min(SPARED);
        }
        (self.ways[ALONE].promised, self.ways[AT_ONCE].promised) = (Some(Outcome::ALONE), Some(at_once));
        self.ways[AT_ONCE].plan = (at_once.speed > WORTH_DRAFTING).then_some(plan);
        let proposals = [(PATIENT, conditions.patient(self.goal)), (ROUNDS, conditions.rounds(self.goal))];
        let best = proposals.iter().map(|(_, (_, given))| given.speed).fold(at_once.speed.max(1.0), f64::max);
        let promising = if self.goal == Goal::Speed { (PROMISING * best).max(1.0) } else { 1.0 };
        for (way, (plan, given)) in proposals {
            self.ways[way].promised = Some(given);
            if self.holds && given.speed > promising && !(self.is_helped && self.goal == Goal::Speed) {
                self.ways[way].plan = Some(plan);
            } else if way != self.current {
                self.ways[way].plan = None;
            }
        }
    }

    /// Whether the ways were tried on another link than this. Keeps this one's round trip, as far as it is known.
    fn is_other_link(&mut self) -> bool {
        let Some(trip) = self.trip() else { return false };
        let Some(link) = self.link else {
            self.link = self.seen();
            return false;
        };
        let is_other = is_longer(trip.least, link) || is_longer(link, trip.most);
        if is_other {
            self.answers.keep(ANSWERS);
            self.first_trip = self.first_trip.filter(|first| *first >= trip.least);
            // What the other was says nothing of this one.
            self.link = None;
            self.link = self.seen();
        }
        is_other
    }

    /// The way of the next stretch: the fastest, once times of the link and drafts are known.
    fn next_way(&self) -> usize {
        let best = if self.conditions().is_some() { self.best() } else { AT_ONCE };
        let gain = self.expected(best, PRIOR).speed.max(1.0);
        if self.guided as f64 >= self.lasts() * gain.powi(LATER) {
            ALONE
        } else if self.rested >= TRY_AGAIN {
            AT_ONCE
        } else {
            best
        }
    }

    /// So many tokens with guesses that gain nothing is it good for, what the target alone is thought to take.
    fn lasts(&self) -> f64 {
        let is_a_pass = self.holds && !self.is_helped && self.goal == Goal::Speed;
        match self.ways[ALONE].measured > 0.0 {
            true => TIME_ALONE,
            false if is_a_pass => TIME_ALONE_FIRST,
            false => 0.0,
        }
    }

    /// Seconds a token of the target alone: until that is measured those of the shortest pass. It takes no less, so
    /// that no way seems faster and is not, unless guesses slow passes down, as on a machine that both ends share.
    fn alone(&self) -> f64 {
        let alone = &self.ways[ALONE];
        if alone.measured > 0.0 { alone.seconds } else { self.passes.get().unwrap_or(0.0) }
    }

    /// Seconds of a pass that judges nothing, if any was timed.
    fn pass(&self, otherwise: f64) -> f64 {
        self.passes.get().unwrap_or(otherwise)
    }

    /// What a way is thought to give, where its promise counts for so many tokens.
    fn expected(&self, way: usize, prior: f64) -> Outcome {
        let alone = self.alone();
        self.ways[way].expected(alone, self.pass(alone), prior)
    }

    /// The way that is thought to serve the goal best.
    fn best(&self) -> usize {
        let expected = |way: usize| {
            let Outcome { speed, passes } = self.expected(way, CAUTIOUS);
            Outcome { speed: speed / NOT_SLOWER, passes }
        };
        let saves_passes = |way: &usize| expected(*way).passes < SAVES_PASSES * self.ways[ALONE].passes;
        let is_faster = |way: &usize| self.expected(*way, CAUTIOUS).speed > WORTH_DRAFTING;
        let saves = |way: &usize| match self.goal {
            Goal::Speed => self.holds || is_faster(way) || saves_passes(way),
            Goal::Passes => expected(*way).passes < self.ways[ALONE].passes,
        };
        let guided = (AT_ONCE..self.ways.len()).filter(|&way| self.ways[way].plan.is_some());
        let merit = |way: &usize| {
            let Outcome { speed, passes } = self.expected(*way, PRIOR);
            self.goal.merit(Outcome { speed: speed * self.ways[*way].hope(), passes })
        };
        let good = guided.filter(|way| expected(*way).speed >= 1.0 && saves(way));
        good.max_by(|a, b| merit(a).total_cmp(&merit(b))).unwrap_or(ALONE)
    }

    fn trip(&self) -> Option<Trip> {
        let most = self.answers.most().into_iter().chain(self.first_trip).reduce(f64::min)?;
        let hidden = HIDDEN * self.passes.get().unwrap_or(0.0);
        // A first token that came that late waited for no pass, unless for those of others.
        let first = self.first_trip.filter(|first| *first > hidden && *first <= most);
        Some(Trip { least: self.answers.least(ANSWERS).max(first.unwrap_or(0.0)), most })
    }

    /// The link's round trip, where anything shows it.
    fn seen(&self) -> Option<f64> {
        let Trip { least, .. } = self.trip()?;
        if self.answers.any_awaited() || least > 0.0 { self.round_trip() } else { None }
    }

    /// What the link's round trip is thought to be: what is awaited shows it, and so does at first what comes late;
    /// else what it was when it was seen last, within what it can be now. Passes hide a short one from who does not
    /// wait.
    fn round_trip(&self) -> Option<f64> {
        let Trip { least, most } = self.trip()?;
        let is_seen = self.answers.any_awaited() || self.link.is_none() && least > 0.0;
        let known = if is_seen { most } else { self.link.unwrap_or(0.0) }.min(most);
        // What is not awaited may be late for other reasons than the link.
        Some(if self.link.is_none() || is_longer(least, known) { known.max(least) } else { known })
    }

    /// All that is measured, once all is.
    pub fn conditions(&self) -> Option<Conditions> {
        let (pass, (draft, further), round_trip) = (self.passes.get()?, self.drafts.get()?, self.round_trip()?);
        let acceptance = self.steady_rate.get();
        let (reaction, rows) = (self.reaction, self.rows());
        Some(Conditions { pass, draft, further, reaction, round_trip, acceptance, rows })
    }
}

/// Whether a round trip is another link's than one that took that long.
fn is_longer(trip: f64, than: f64) -> bool {
    trip > OTHER_LINK.0 * than && trip > than + OTHER_LINK.1
}

#[cfg(test)]
mod tests;
