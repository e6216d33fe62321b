//! Control of rounds: their end, and the choice whether to draft at all.
//!
//! A round of n drafts takes n·t_d to draft and F + n·t_n for its round trip, and gives 1 + α + … + α^n tokens in the
//! mean. F is what a round costs however short it is: propagation and the target's forward pass. t_n is a further
//! draft's part of the link and of that forward pass. With L = (t_d + t_n)/F and F as the unit of time, this is Zheng &
//! Yang's eq. 7; without propagation L is their b + c. So what [`round_length`](crate::round_length) says of α and L
//! holds of estimates of them, which are kept as rounds go by:
//!
//! - **ODLD**: the next round drafts γ*(α, L) tokens. Where rounds were all of one length, F and t_n cannot be
//!   separated; so a round now and then, and more of them while times drift, is a quarter longer or shorter, by one
//!   draft at least. From one round to the next γ* at most doubles, so that a bad guess costs little.
//! - **AS²**: the target alone takes T_alone for a token. Where a round's tokens times T_alone is no more than the
//!   round's time, the target writes alone for a while, and drafting is tried again later.
//!
//! Other rules look at each token's distribution and end the round where a rejection is likely.
//!
//! Nothing here sees a draw before it is made. A rule that did would favour some tokens over others, and what is
//! drafted would no longer follow the distribution that is sent.

mod estimate;
mod selection;
#[cfg(test)]
mod tests;

use estimate::{Acceptance, DraftTime, RoundTrips};
use selection::{Move, Prospect, Selection};

use crate::{
    goodput::ACCEPTANCE_PRIOR,
    observation::{Observation, RoundTimes},
    plan::{Mode, Plan},
    round_length::{optimal_draft_length, speculates, tokens_per_round},
    stop::{self, StopRule, Survival, Threshold, acceptance_bound},
};

/// Settings of a session's rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ControlParameters {
    /// The rule that ends a round.
    pub stop: StopRule,
    /// Draft length γ, at least 1, without a drafted bonus token; the rule says what it is for.
    pub draft_length: u32,
    /// The most drafts of any round, at least 1.
    pub longest: u32,
    /// True to leave the text to the target where that is faster (AS²).
    pub adaptive_mode: bool,
    /// The token that follows a round whose drafts are all accepted.
    pub bonus: Bonus,
}

/// The token after a round whose drafts are all accepted (Narasimhan et al., Algorithm 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bonus {
    /// The target's own, drawn from p.
    Target,
    /// A draft more than γ or the stop rule says: accepted or replaced, it is distributed as the rule's π, and it takes
    /// the row of the target's logits that a token from p would take.
    Drafted,
    /// No token: the next round is in flight.
    Nothing,
}

/// Facts about a position that are known before its token is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// Largest probability max q of the draft model's own distribution, before S(·).
    pub peak: f64,
    /// Entropy H(S(q)) of the distribution that drafts are drawn from, in nats.
    pub entropy: f64,
    /// The probability that the draft is accepted, where a trained head gives it.
    pub stop_score: Option<f64>,
}

/// Decision on the next position of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Draft it, and go on with the round.
    Draft,
    /// Draft it, and no more in this round.
    DraftAndStop,
    /// Leave it to the target: send what there is, even if that is nothing.
    Decline,
}

/// Estimates of a session's rates and costs; each is `None` until it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimates {
    /// Acceptance rate α: accepted per judged draft.
    pub acceptance_rate: Option<f64>,
    /// Cost ratio L: the cost of a further draft, as a multiple of a round's cost without any.
    pub cost_ratio: Option<f64>,
    /// Best draft length γ*; under ODLD the length of the next round, except in trials.
    pub draft_length: Option<u32>,
    /// Tokens per unit of time, as a multiple of the target alone; only under AS².
    pub speedup: Option<f64>,
}

/// Decides for one generation, or for those of a session one after the other.
///
/// For each round: [`next_plan`](Self::next_plan). In mode [`Rounds`](Mode::Rounds), as long as [`wants`](Self::wants):
/// a forward pass, [`consider`](Self::consider), and the draw if so advised; then the observation
/// [`Round`](Observation::Round). In mode [`Alone`](Mode::Alone), [`Streamed`](Observation::Streamed) for each token.
#[derive(Debug, Clone)]
pub struct RoundController {
    parameters: ControlParameters,
    acceptance: Acceptance,
    draft_time: DraftTime,
    round_trips: RoundTrips,
    selection: Selection,
    /// AdaEDL's threshold λ.
    threshold: Threshold,
    /// SpecDec++'s running probability that no draft of the round is rejected.
    survival: Survival,
    /// True if the next draft is the round's last in any case: the drafted bonus token.
    closes: bool,
    /// ODLD's γ*; `None` until there are estimates.
    chosen: Option<u32>,
    /// The next round's length under ODLD: γ*, or a trial near it.
    planned: u32,
    /// Reading that the times of the next round include besides the round itself.
    reading: Reading,
}

/// Additional text that a model reads in a round, unlike in other rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Nothing,
    /// The draft model reads what the target wrote alone.
    Stream,
    /// Both models read the prompt.
    Prompt,
}

impl Bonus {
    /// Number of drafts in a round that stand for the bonus token.
    fn drafts(self) -> u32 {
        u32::from(self == Self::Drafted)
    }
}

impl RoundController {
    /// A controller at the start of a session. Lengths below 1 count as 1, and γ is at most the longest.
    pub fn new(parameters: ControlParameters) -> Self {
        let longest = parameters.longest.max(1);
        let draft_length = parameters.draft_length.max(1).saturating_add(parameters.bonus.drafts()).min(longest);
        let threshold = if let StopRule::AdaEdl { threshold, .. } = parameters.stop { threshold } else { 0.0 };
        Self {
            parameters: ControlParameters { draft_length, longest, ..parameters },
            acceptance: Acceptance::default(),
            draft_time: DraftTime::new(),
            round_trips: RoundTrips::new(),
            selection: Selection::new(),
            threshold: Threshold::new(threshold),
            survival: Survival::new(),
            closes: false,
            chosen: None,
            planned: draft_length,
            reading: Reading::Prompt,
        }
    }

    /// The generation has ended, and another of the same session follows. Estimates stay.
    pub fn next_generation(&mut self) {
        self.selection.next_generation();
        self.reading = Reading::Prompt;
    }

    /// True if the round may have a further token after `drafted` drafts; the first always. Asked before its forward
    /// pass.
    pub fn wants(&self, drafted: usize) -> bool {
        drafted < self.most()
    }

    /// The most drafts of a round.
    fn most(&self) -> usize {
        let ControlParameters { stop, draft_length, longest, bonus, .. } = self.parameters;
        let most = match stop {
            StopRule::Fixed => draft_length,
            StopRule::Odld => self.planned,
            StopRule::AdaEdl { .. } | StopRule::SpecDec { .. } => longest,
            StopRule::Bild { .. } => longest.min(stop::LONGEST_BILD + bonus.drafts()),
        };
        most as usize
    }

    /// True if [`consider`](Self::consider) looks at the outlook. Computing one takes a pass over the logits; where it
    /// is not needed, any value will do.
    pub fn needs_outlook(&self) -> bool {
        !matches!(self.parameters.stop, StopRule::Fixed | StopRule::Odld)
    }

    /// True if [`consider`](Self::consider) goes by the stop head's score alone, so that it never declines. Then it may
    /// be asked after the draw, with a head that sees the token, since the draft is sent in any case.
    pub fn stops_by_score(&self) -> bool {
        matches!(self.parameters.stop, StopRule::SpecDec { .. })
    }

    /// Decides on the token after `drafted` drafts of the round. Asked once for each, before the draw; after it only
    /// where it [stops by a score](Self::stops_by_score).
    pub fn consider(&mut self, drafted: usize, outlook: &Outlook) -> Advice {
        let stops = match self.parameters.stop {
            StopRule::Fixed | StopRule::Odld => false,
            StopRule::AdaEdl { scale, .. } => acceptance_bound(scale, outlook.entropy) < self.threshold.value(),
            StopRule::SpecDec { threshold } => {
                if drafted == 0 {
                    self.survival = Survival::new();
                }
                self.survival.add(outlook.stop_score);
                self.survival.any_rejected() > threshold
            }
            StopRule::Bild { fallback } if stop::falls_back(outlook.peak, fallback) => return Advice::Decline,
            StopRule::Bild { .. } => false,
        };
        // The draft that ends the round is followed by the one in the bonus token's place.
        let closes = std::mem::replace(&mut self.closes, stops) && drafted > 0;
        let ends = if self.parameters.bonus == Bonus::Drafted { closes } else { stops };
        if ends { Advice::DraftAndStop } else { Advice::Draft }
    }

    /// The plan of the next round or stream. Asked once at the start of each round and after each stream.
    pub fn next_plan(&mut self) -> Plan {
        let (mode, stream) = match self.next_move() {
            Move::Draft => (Mode::Rounds, 0),
            Move::Stream { tokens } => (Mode::Alone, tokens),
        };
        let group = self.most();
        let rates = [self.acceptance.rate().unwrap_or(ACCEPTANCE_PRIOR), 0.0];
        Plan { mode, group, patience: f64::INFINITY, lead: group, stream, branches: false, rates, tries_group: false }
    }

    /// Takes an observation.
    pub fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Round(round) => self.round_done(&round),
            Observation::Streamed(since_last) => self.selection.token_streamed(since_last),
            _ => {}
        }
    }

    fn next_move(&mut self) -> Move {
        if !self.parameters.adaptive_mode {
            return Move::Draft;
        }
        self.selection.end_stream();
        let prospect = Prospect {
            speedup: self.speedup(),
            round: self.seconds_per_round(),
            unsettled: self.parameters.stop == StopRule::Odld && self.round_trips.fit().is_none(),
        };
        let next = self.selection.next_move(prospect);
        if next != Move::Draft && self.reading == Reading::Nothing {
            self.reading = Reading::Stream;
        }
        next
    }

    /// Counts a settled round. Impossible numbers (more judged than drafted, more accepted than judged) are cut to
    /// possible ones.
    fn round_done(&mut self, round: &RoundTimes) {
        let drafted = round.drafted.min(self.parameters.longest as usize);
        let judged = round.judged.min(drafted);
        let accepted = round.accepted.min(judged);
        self.acceptance.observe(judged, accepted, round.committed.min(drafted.saturating_add(1)), round.passed);
        if self.reading != Reading::Prompt {
            self.round_trips.observe(drafted, round.round_trip);
        }
        if self.reading == Reading::Nothing {
            self.draft_time.observe(drafted.saturating_add(round.passed), round.drafting);
        }
        self.reading = Reading::Nothing;
        // A drafted bonus token does not count for λ: the rule had ended the round before it.
        let beside = drafted.saturating_sub(self.parameters.bonus.drafts() as usize);
        self.threshold.round_done(beside, accepted.min(beside));
        self.selection.round_done();
        if let Some(length) = self.optimal_length() {
            self.chosen = Some(length.min(self.length().saturating_mul(2)));
        }
        self.planned = self.trial().unwrap_or(self.length());
    }

    /// Current estimates of the session's rates and costs.
    pub fn estimates(&self) -> Estimates {
        Estimates {
            acceptance_rate: self.acceptance.rate(),
            cost_ratio: self.cost_ratio(),
            draft_length: if self.parameters.stop == StopRule::Odld { self.chosen } else { self.optimal_length() },
            speedup: self.speedup(),
        }
    }

    /// γ*, or γ until that is known.
    fn length(&self) -> u32 {
        self.chosen.unwrap_or(self.parameters.draft_length)
    }

    /// L, the cost of a further draft as a multiple of a round without any.
    fn cost_ratio(&self) -> Option<f64> {
        let fit = self.round_trips.fit()?;
        Some((self.draft_time.per_token()? + fit.per_draft) / fit.fixed)
    }

    /// γ*, the best number of drafts in a round.
    ///
    /// A round of n drafts without a token from p gives the tokens of one of n − 1 drafts with it. It costs F + n·t,
    /// which is (F + t) + (n − 1)·t: the paper's round of n − 1 drafts at L/(1 + L). That has the best of the lengths
    /// from 1 on; n = 1 is its length 0.
    fn optimal_length(&self) -> Option<u32> {
        let (rate, cost) = (self.acceptance.rate()?, self.cost_ratio()?);
        let ControlParameters { longest, bonus, .. } = self.parameters;
        if bonus == Bonus::Target {
            return Some(optimal_draft_length(rate, cost, longest));
        }
        let cost = cost / (1.0 + cost);
        let more =
            if longest > 1 && speculates(rate, cost) { optimal_draft_length(rate, cost, longest - 1) } else { 0 };
        Some(1 + more)
    }

    /// A length near γ* that is far from the last round's, if rounds were too much alike.
    fn trial(&self) -> Option<u32> {
        if !self.round_trips.wants_another_length() {
            return None;
        }
        let last = self.round_trips.last_drafted()?;
        let chosen = self.length();
        let step = (chosen / 4).max(1);
        let lengths = [chosen.saturating_sub(step).max(1), chosen, chosen.saturating_add(step)];
        let off = |length: &u32| (f64::from(*length) - last).abs();
        lengths.into_iter().filter(|&length| length <= self.parameters.longest).max_by(|a, b| off(a).total_cmp(&off(b)))
    }

    /// Tokens of a round times T_alone, by the time of a round.
    ///
    /// Under ODLD both are those of γ*, once its costs are known. Otherwise they are as seen: rules that look at each
    /// token do better than α and their mean length would say.
    fn speedup(&self) -> Option<f64> {
        let alone = self.selection.seconds_alone()?;
        let tokens = match (self.parameters.stop, self.acceptance.rate()) {
            (StopRule::Odld, Some(rate)) => {
                let without_bonus = u32::from(self.parameters.bonus != Bonus::Target);
                tokens_per_round(rate, self.expected_length()?.saturating_sub(without_bonus))
            }
            _ => self.acceptance.committed_per_round(),
        };
        Some((tokens + self.acceptance.passed_per_round()) * alone / self.seconds_per_round()?)
    }

    /// The drafts of a round under ODLD: γ*, or as many as there were lately where its costs are not known.
    fn expected_length(&self) -> Option<u32> {
        match self.round_trips.fit() {
            Some(_) => Some(self.length()),
            None => self.round_trips.mean().map(|(drafted, _)| drafted.round() as u32),
        }
    }

    /// Seconds of a round as [`speedup`](Self::speedup) counts it.
    fn seconds_per_round(&self) -> Option<f64> {
        if let (StopRule::Odld, Some(fit)) = (self.parameters.stop, self.round_trips.fit()) {
            let per_token = self.draft_time.per_token()?;
            let unverified = self.acceptance.passed_per_round() * per_token;
            return Some(fit.fixed + f64::from(self.length()) * (per_token + fit.per_draft) + unverified);
        }
        let (_, round_trip) = self.round_trips.mean()?;
        Some(round_trip + self.draft_time.per_round()?)
    }
}
