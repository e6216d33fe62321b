//! Costs of a generation: the one place where statistics and records of rounds are made.

use core::time::Duration;

use super::{event::Origin, flight::SentRound, reaction::Received, settings::Mode, text::Text, verdict::Settlement};
use crate::{
    control::{observation::RoundTimes, rounds::Estimates},
    draft::conformal::Conformal,
    judge::rules::Rule,
    study::{
        explanation::Explanation,
        statistics::{AheadRecord, Guarantee, RoundRecord, Statistics, milliseconds},
    },
    theory,
};

/// The places that a generation writes to: its text, and its costs.
#[derive(Debug)]
pub(super) struct Books<'a> {
    pub(super) text: &'a mut Text,
    pub(super) ledger: &'a mut Ledger,
}

/// The statistics of a generation as it goes.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    statistics: Statistics,
    /// Time at which the generation began.
    started: Duration,
}

impl Ledger {
    /// A ledger at the start of a generation.
    pub(super) fn new(mode: &Mode, now: Duration) -> Self {
        let statistics = match mode {
            Mode::Auto(_) | Mode::CloudOnly => Statistics::default(),
            Mode::Ahead(_) => {
                let guarantee = Guarantee { rule: Rule::EXACT, lossy: false };
                Statistics { guarantee: Some(guarantee), ..Statistics::default() }
            }
            Mode::Speculative(speculation) => Statistics {
                guarantee: Some(speculation.guarantee()),
                explanation: speculation.explain.then(Explanation::default),
                ..Statistics::default()
            },
        };
        Self { statistics, started: now }
    }

    pub(super) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Counts frames of `bits` bits that were sent.
    pub(super) fn sent(&mut self, bits: usize) {
        self.statistics.uplink_bits += bits;
    }

    /// Time since the generation began, if nothing has been written yet.
    pub(super) fn awaited(&self, now: Duration) -> Option<Duration> {
        (self.statistics.tokens == 0).then(|| now.saturating_sub(self.started))
    }

    /// Counts a frame of guesses of `bits` bits that was sent, `payload` of them for ids, and the guesses that were
    /// looked up for it.
    pub(super) fn told(&mut self, bits: usize, payload: usize, found: usize) {
        self.sent(bits);
        self.statistics.draft_frame_bits += bits;
        self.statistics.payload_bits += payload;
        self.statistics.drafted += found;
    }

    /// Counts a frame of `bits` bits that came.
    pub(super) fn received(&mut self, bits: usize) {
        self.statistics.downlink_bits += bits;
    }

    /// Counts a pass of the draft model.
    pub(super) fn drafts(&mut self) {
        self.statistics.draft_passes += 1;
    }

    /// Counts tokens that were committed without asking.
    pub(super) fn passed(&mut self, tokens: usize, now: Duration) {
        self.statistics.passed += tokens;
        self.committed(tokens, now);
    }

    /// Counts a guess that was made.
    pub(super) fn guessed(&mut self, drafting: Duration) {
        self.statistics.drafted += 1;
        self.statistics.drafting += drafting;
    }

    /// Counts the comparison of guesses with a token: `right` is the rank of the right one, if one was; `in_time` if a
    /// pass judged it.
    pub(super) fn compared(&mut self, right: Option<usize>, in_time: bool) {
        self.statistics.judged += 1;
        self.statistics.accepted += usize::from(right.is_some());
        self.statistics.in_time += usize::from(in_time);
        self.statistics.branched += usize::from(in_time && right.is_some_and(|which| which > 0));
    }

    /// Records the plan that the edge drafts ahead by.
    pub(super) fn paced(&mut self, record: AheadRecord) {
        self.statistics.ahead = Some(record);
    }

    /// Counts a pass of the target that added `tokens` tokens.
    pub(super) fn wrote(&mut self, tokens: usize, now: Duration) {
        self.statistics.server_passes += 1;
        self.committed(tokens, now);
    }

    /// The target wrote a token alone in a generation that the edge drafts for.
    pub(super) fn streamed(&mut self, estimates: Estimates) {
        self.statistics.streamed += 1;
        self.statistics.estimates = estimates;
    }

    /// Counts a round of which no sample survived, so that the target's distribution is asked for.
    pub(super) fn followed_up(&mut self) {
        self.statistics.follow_ups += 1;
    }

    /// Counts a token that the edge resampled, after `bits` bits had come for it.
    pub(super) fn resampled(&mut self, bits: usize) {
        self.statistics.rejection_downlink_bits += bits;
    }

    /// A round in flight was discarded.
    pub(super) fn discarded(&mut self, round: &SentRound) {
        self.statistics.wasted += round.drafter.ids().len();
        self.drafted_for_nothing(round.drafting);
    }

    /// Counts the drafting time of a round that was never sent.
    pub(super) fn drafted_for_nothing(&mut self, drafting: Duration) {
        self.statistics.drafting += drafting;
    }

    /// Records the controller's estimates.
    pub(super) fn estimated(&mut self, estimates: Estimates) {
        self.statistics.estimates = estimates;
    }

    /// Counts a settled round, and settles its drafter. `alone` is its own part of the time that rounds were in flight.
    pub(super) fn round(
        &mut self,
        round: &mut SentRound,
        settlement: &Settlement,
        received: Received,
        alone: Duration,
    ) -> (RoundRecord, RoundTimes) {
        let Settlement { accepted, token, .. } = *settlement;
        let drafted = round.drafter.ids().to_vec();
        // A round that an accepted end-of-text token ended has no rejected draft.
        let rejected = accepted < drafted.len() && token.is_some();
        let judged = accepted + usize::from(rejected);
        self.explain(round, judged);
        let other_bits = round.drafter.settle(accepted, token);
        let threshold = round.drafter.threshold();
        if let Some(threshold) = threshold {
            self.threshold(threshold);
        }
        let round_trip = received.at.saturating_sub(round.at);
        let times = RoundTimes {
            drafted: drafted.len(),
            judged,
            accepted,
            committed: accepted + usize::from(token.is_some()),
            passed: round.passed,
            drafting: round.drafting,
            round_trip: alone,
        };
        let statistics = &mut self.statistics;
        statistics.rounds += 1;
        statistics.drafted += drafted.len();
        statistics.judged += judged;
        statistics.accepted += accepted;
        statistics.resampled += usize::from(rejected);
        statistics.payload_bits += round.payload_bits;
        statistics.draft_frame_bits += round.frame_bits;
        statistics.drafting += round.drafting;
        statistics.round_trip = round_trip;
        statistics.server_passes += 1;
        self.committed(times.committed, received.at);
        let record = RoundRecord {
            round: round.number,
            accepted,
            token,
            payload_bits: round.payload_bits,
            uplink_bits: round.frame_bits,
            downlink_bits: received.bits,
            draft_ms: milliseconds(round.drafting),
            round_trip_ms: milliseconds(round_trip),
            threshold: threshold.map(Conformal::threshold),
            other_bits: other_bits.into_iter().collect(),
            drafted,
        };
        (record, times)
    }

    fn explain(&mut self, round: &SentRound, judged: usize) {
        let Some(explanation) = &mut self.statistics.explanation else { return };
        for (drawn, evidence) in round.drafter.drawn().iter().zip(&round.evidence).take(judged) {
            explanation.add(drawn, evidence);
        }
    }

    fn threshold(&mut self, threshold: &Conformal) {
        self.statistics.mean_dropped_mass = threshold.mean_dropped_mass();
        let bound = theory::dropped_mass_bound(threshold.parameters(), threshold.updates());
        self.statistics.dropped_mass_bound = Some(bound).filter(|&bound| bound < 1.0);
    }

    fn committed(&mut self, tokens: usize, now: Duration) {
        let statistics = &mut self.statistics;
        statistics.elapsed = now.saturating_sub(self.started);
        if statistics.tokens == 0 {
            statistics.first_token = statistics.elapsed;
        }
        statistics.tokens += tokens;
    }
}

/// The tokens of a settled round, with where each came from.
pub(super) fn origins(record: &RoundRecord) -> Vec<(u32, Origin)> {
    let after = if record.accepted < record.drafted.len() { Origin::Resampled } else { Origin::Bonus };
    let accepted = record.drafted[..record.accepted].iter().map(|&id| (id, Origin::Accepted));
    accepted.chain(record.token.map(|id| (id, after))).collect()
}
