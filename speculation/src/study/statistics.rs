//! Costs of a generation, as the edge sees them.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::{control::rounds::Estimates, judge::rules::Rule, study::explanation::Explanation};

/// One round: what was sent, what was accepted, what it cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct RoundRecord {
    /// Its number within the generation, from 0 on.
    pub round: u32,
    /// The ids that were drafted.
    pub drafted: Vec<u32>,
    /// Number of drafts that were accepted.
    pub accepted: usize,
    /// The token that followed them: resampled or bonus; not there if the round ended without.
    pub token: Option<u32>,
    /// Bits of the scheme's payload, without the frame's header and filling.
    pub payload_bits: usize,
    /// Bits of the Draft frame.
    pub uplink_bits: usize,
    /// Bits of the Verdict frame.
    pub downlink_bits: usize,
    /// Time from asking for the round's first forward pass to sending the frame, in milliseconds.
    pub draft_ms: f64,
    /// Time from sending the frame to the verdict, in milliseconds; the target's pass is part of it.
    pub round_trip_ms: f64,
    /// C-SQS's threshold β after the round; not there for other schemes.
    pub threshold: Option<f64>,
    /// Payload bits of the same drafts under each scheme; empty unless that is compared.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "Partial<Record<ComparedScheme, number>>"))]
    pub other_bits: BTreeMap<&'static str, usize>,
}

/// Guarantee under which a text was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guarantee {
    /// The acceptance rule.
    pub rule: Rule,
    /// True if the text may be distributed otherwise than the target's own: by the rule, or because tokens passed
    /// unverified.
    pub lossy: bool,
}

/// Plan and measurements of an edge that drafts ahead of a text. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct AheadRecord {
    /// The way in which the text is written now.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "AheadWay"))]
    pub way: &'static str,
    /// Number of guesses in a frame.
    pub group: usize,
    /// Longest wait of a pass of the target for guesses.
    pub patience_ms: f64,
    /// Largest number of guesses ahead of the text that are worth their time.
    pub lead: usize,
    /// The time of a pass of the target that judges nothing; not there until it is measured, as with the next ones.
    pub pass_ms: Option<f64>,
    /// The time of a draft.
    pub draft_ms: Option<f64>,
    /// The link's round trip.
    pub round_trip_ms: Option<f64>,
    /// The share of right guesses among those after right ones, lately.
    pub acceptance_rate: f64,
    /// True if second candidates are guessed, too.
    pub branches: bool,
    /// The share of second candidates that is right.
    pub second_rate: f64,
    /// All ways, of which the fastest is kept; none where `groupSize` is given.
    pub ways: Vec<WayRecord>,
}

/// A way to write a text that the target writes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct WayRecord {
    /// The name of the way.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "AheadWay"))]
    pub name: &'static str,
    /// Speed that its plan promises, as a multiple of the target alone; not there until that is known.
    pub promised: Option<f64>,
    /// Speed that it had lately; not there before it was tried.
    pub tokens_per_second: Option<f64>,
    /// Tokens over which that was measured.
    pub measured: usize,
}

/// Totals of a generation; every derived number is finite, zero where there is nothing to divide by.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// Guarantee under which the text was made; `None` if the target wrote it alone from the start.
    pub guarantee: Option<Guarantee>,
    /// Tokens committed after the prompt.
    pub tokens: usize,
    /// Tokens among these that the edge committed without asking.
    pub passed: usize,
    /// Tokens among these that the target wrote alone in a generation that the edge drafts for.
    pub streamed: usize,
    /// Rounds with a verdict.
    pub rounds: usize,
    /// Tokens drafted in those rounds.
    pub drafted: usize,
    /// Drafts among these that were judged: the accepted ones and the first rejected one of each round.
    pub judged: usize,
    /// Drafts among these that were accepted.
    pub accepted: usize,
    /// Guesses that a pass judged and found right, ahead of a text that the target writes.
    pub in_time: usize,
    /// Guesses among these that were second candidates for their position.
    pub branched: usize,
    /// Tokens drafted in rounds that were in flight when one before them was rejected: sent, and never judged.
    pub wasted: usize,
    /// Rounds in which a draft was rejected and a token put in its place.
    pub resampled: usize,
    /// Rounds among these in which no sample of the cloud survived and its distribution had to be asked for (DSSD).
    pub follow_ups: usize,
    /// Bits received for what the edge resampled (DSSD): verdicts of rejections and what followed them.
    pub rejection_downlink_bits: usize,
    /// Mean mass that the supports of the committed tokens dropped, of all generations that the threshold has been
    /// through in this session (C-SQS).
    pub mean_dropped_mass: Option<f64>,
    /// Theorem 2's bound of this mean (C-SQS); `None` where that is 1 or more and says nothing.
    pub dropped_mass_bound: Option<f64>,
    /// Bits of all frames sent since the generation began, the prompt included.
    pub uplink_bits: usize,
    /// Bits of the Draft frames among them.
    pub draft_frame_bits: usize,
    /// Bits of the payloads in those.
    pub payload_bits: usize,
    /// Bits of all frames received since.
    pub downlink_bits: usize,
    /// Passes of the target that gave a token or a verdict; reading the prompt is not counted.
    pub server_passes: usize,
    /// Passes of the draft model that gave logits, also where a gate or a stop rule made no draft of them.
    pub draft_passes: usize,
    /// Time from the start to the first committed token.
    pub first_token: Duration,
    /// Time from the start to the last committed token.
    pub elapsed: Duration,
    /// The part of this time that was spent drafting, discarded drafts included.
    pub drafting: Duration,
    /// The last round trip.
    pub round_trip: Duration,
    /// The controller's estimates of the session.
    pub estimates: Estimates,
    /// Plan and results of drafting ahead; `None` in rounds.
    pub ahead: Option<AheadRecord>,
    /// Predictions of the closed forms, if they were asked for.
    pub explanation: Option<Explanation>,
}

/// Costs of a generation so far. Bits are per what the name says; ratios are zero while there is nothing to divide by.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS), ts(rename = "Statistics"))]
pub struct Report {
    /// The acceptance rule; null where the server writes alone from the start.
    pub rule: Option<&'static str>,
    /// Its number; null where it has none.
    pub rule_parameter: Option<f64>,
    /// True if the text may be distributed otherwise than the server's model would have it: by the rule or by a gate.
    pub lossy: bool,
    /// Number of committed tokens.
    pub tokens: usize,
    /// Tokens among these that were written here and never verified, because a gate let them pass.
    pub passed: usize,
    /// Tokens among these that the server wrote alone, where that is faster: `adaptiveMode`.
    pub streamed: usize,
    /// From the start to the last token, in milliseconds.
    pub elapsed_ms: f64,
    /// From the start to the first token, in milliseconds.
    pub first_token_ms: f64,
    /// Tokens committed a second.
    pub tokens_per_second: f64,
    /// Rounds with a verdict.
    pub rounds: usize,
    /// Drafts made, or guesses.
    pub drafted: usize,
    /// Drafts that were accepted; ahead of the server, guesses that were right, in time or not.
    pub accepted: usize,
    /// Drafts that the server decided on, or guesses at what it wrote; those after a wrong one do not count.
    pub judged: usize,
    /// `accepted / judged`: the papers' α.
    pub acceptance_rate: f64,
    /// `accepted / drafted`.
    pub accepted_per_drafted: f64,
    /// Guesses among these that the server had in time and found right, where drafts are made ahead of its text.
    pub in_time: usize,
    /// Guesses among these that were not the first at their position.
    pub branched: usize,
    /// Drafts of rounds in flight after a rejected one: sent, and never verified.
    pub wasted: usize,
    /// Tokens that were resampled in place of a rejected draft.
    pub resampled: usize,
    /// `dssd`, `sampled`: how often the page could keep no sample and asked for all probabilities.
    pub follow_ups: usize,
    /// `dssd`: what a rejection brings down, follow-ups included; null while there was none.
    pub downlink_bytes_per_rejection: Option<f64>,
    /// The probability that the support left out, mean over the committed tokens of the session's generations with the
    /// same `droppedMassTarget`, `stepSize` and `initialThreshold`; null for schemes other than `c-sqs`.
    pub mean_dropped_mass: Option<f64>,
    /// Bound on `meanDroppedMass` by Theorem 2 of the SQS paper; null where that is 1 or more (with the
    /// defaults until the session has 1011 tokens), and for schemes other than `c-sqs`.
    pub dropped_mass_bound: Option<f64>,
    /// Bits sent to the server.
    pub uplink_bits: usize,
    /// Bits received from the server.
    pub downlink_bits: usize,
    /// Bits of the scheme's payload alone, which the papers count; frames and prompt excluded.
    pub payload_bits_per_drafted_token: f64,
    /// Bits of the payload and the frames around it.
    pub uplink_bits_per_drafted_token: f64,
    /// All bits that were sent.
    pub uplink_bits_per_token: f64,
    /// All bits that were received.
    pub downlink_bits_per_token: f64,
    /// Forward passes of the target model.
    pub server_passes: usize,
    /// Without drafts it is 1.
    pub server_passes_per_token: f64,
    /// Time of the last round, from the draft's first byte to the verdict's last.
    pub round_trip_ms: f64,
    /// Time spent drafting.
    pub draft_ms: f64,
    /// Tokens that a round commits: the accepted drafts and the one after them.
    pub tokens_per_round: f64,
    /// L: what a further draft costs, as a multiple of a round without any; null until rounds of different lengths
    /// tell.
    pub cost_ratio: Option<f64>,
    /// γ*: the best draft length for what was measured; null until that is known.
    pub optimal_draft_length: Option<u32>,
    /// Tokens per unit of time, as a multiple of the server alone, by the closed form; null without `adaptiveMode`.
    pub predicted_speedup: Option<f64>,
    /// α by the closed form; null unless the server explains its verdicts.
    pub predicted_acceptance_rate: Option<f64>,
    /// Distance of the text's distribution from that of the server's model, in total variation; null unless the server
    /// explains its verdicts.
    pub divergence: Option<f64>,
    /// Plan and measurements of drafting ahead of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional))]
    pub ahead: Option<AheadRecord>,
}

impl Statistics {
    /// Accepted per judged draft: the papers' α, which does not depend on the number drafted a round.
    pub(crate) fn acceptance_rate(&self) -> f64 {
        ratio(self.accepted as f64, self.judged as f64)
    }

    /// Accepted per drafted token: the useful share of drafting. Falls as more are drafted a round.
    pub(crate) fn accepted_per_drafted(&self) -> f64 {
        ratio(self.accepted as f64, self.drafted as f64)
    }

    /// Bytes received per rejection that the edge resampled for; `None` where the cloud resamples.
    pub(crate) fn downlink_bytes_per_rejection(&self) -> Option<f64> {
        (self.rejection_downlink_bits > 0).then(|| self.rejection_downlink_bits as f64 / 8.0 / self.resampled as f64)
    }

    /// Committed tokens per second since the start.
    pub(crate) fn tokens_per_second(&self) -> f64 {
        ratio(self.tokens as f64, self.elapsed.as_secs_f64())
    }

    /// Tokens that a round commits, the accepted ones and the one after them.
    pub(crate) fn tokens_per_round(&self) -> f64 {
        ratio((self.tokens - self.passed - self.streamed) as f64, self.rounds as f64)
    }

    /// Passes of the target per committed token: the server's cost. 1 without speculation.
    pub(crate) fn server_passes_per_token(&self) -> f64 {
        ratio(self.server_passes as f64, self.tokens as f64)
    }

    /// The report of these statistics, ready to be shown.
    pub fn report(&self) -> Report {
        Report {
            rule: self.guarantee.map(|guarantee| guarantee.rule.info().name),
            rule_parameter: self
                .guarantee
                .filter(|guarantee| guarantee.rule != Rule::EXACT)
                .map(|guarantee| guarantee.rule.parameter()),
            lossy: self.guarantee.is_some_and(|guarantee| guarantee.lossy),
            tokens: self.tokens,
            passed: self.passed,
            streamed: self.streamed,
            elapsed_ms: milliseconds(self.elapsed),
            first_token_ms: milliseconds(self.first_token),
            tokens_per_second: self.tokens_per_second(),
            rounds: self.rounds,
            drafted: self.drafted,
            accepted: self.accepted,
            judged: self.judged,
            acceptance_rate: self.acceptance_rate(),
            accepted_per_drafted: self.accepted_per_drafted(),
            in_time: self.in_time,
            branched: self.branched,
            wasted: self.wasted,
            resampled: self.resampled,
            follow_ups: self.follow_ups,
            downlink_bytes_per_rejection: self.downlink_bytes_per_rejection(),
            mean_dropped_mass: self.mean_dropped_mass,
            dropped_mass_bound: self.dropped_mass_bound,
            uplink_bits: self.uplink_bits,
            downlink_bits: self.downlink_bits,
            payload_bits_per_drafted_token: ratio(self.payload_bits as f64, self.drafted as f64),
            uplink_bits_per_drafted_token: ratio(self.draft_frame_bits as f64, self.drafted as f64),
            uplink_bits_per_token: ratio(self.uplink_bits as f64, self.tokens as f64),
            downlink_bits_per_token: ratio(self.downlink_bits as f64, self.tokens as f64),
            server_passes: self.server_passes,
            server_passes_per_token: self.server_passes_per_token(),
            round_trip_ms: milliseconds(self.round_trip),
            draft_ms: milliseconds(self.drafting),
            tokens_per_round: self.tokens_per_round(),
            cost_ratio: self.estimates.cost_ratio,
            optimal_draft_length: self.estimates.draft_length,
            predicted_speedup: self.estimates.speedup,
            predicted_acceptance_rate: self.explanation.as_ref().and_then(Explanation::acceptance_rate),
            divergence: self.explanation.as_ref().and_then(Explanation::mean_divergence),
            ahead: self.ahead.clone(),
        }
    }
}

/// A duration as a number for people.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_divided_by_nothing_is_zero() {
        let report = Statistics::default().report();
        assert_eq!((report.acceptance_rate, report.tokens_per_second, report.server_passes_per_token), (0.0, 0.0, 0.0));
        let some = Statistics {
            tokens: 9,
            rounds: 3,
            drafted: 12,
            judged: 8,
            accepted: 6,
            server_passes: 3,
            elapsed: Duration::from_secs(3),
            ..Default::default()
        };
        assert_eq!(
            (some.acceptance_rate(), some.tokens_per_second(), some.server_passes_per_token()),
            (0.75, 3.0, 1.0 / 3.0)
        );
    }
}
