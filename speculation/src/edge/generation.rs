//! One generation on the edge: draft until something says stop, send, take the verdict, roll back, go on.

use core::time::Duration;

use outrider_codec::{
    frame::{Distribution, Draft, Evidence, Finish, Frame, Next, Prompt, Request, TargetDist, Token, Verdict, Welcome},
    rule::RuleParameters,
};

use super::{
    Committed, DraftInfo, EdgeError, Origin, StartError,
    drafter::Choice,
    drafting::{Drafting, Learned, Phase, Sent},
    settings::{Mode, Settings},
};
use crate::{
    Forward,
    conformal::Conformal,
    control::{Move, RoundTimes},
    draft::DraftError,
    passing::Passing,
    statistics::{RoundRecord, Statistics, milliseconds},
};

/// What the generation wants done.
pub(super) enum Step {
    Forward(Forward),
    Send(Vec<u8>),
}

/// What is left of a generation whose server has forgotten it.
pub(super) struct Rest {
    pub(super) text: Vec<u32>,
    pub(super) length_limit: usize,
    pub(super) limit: Finish,
    pub(super) started: Duration,
    pub(super) learned: Option<Learned>,
}

/// What follows from a frame of the cloud's.
pub(super) enum Reaction {
    /// Something has to be asked first.
    Ask(Frame),
    /// These bytes are to be sent.
    Send(Vec<u8>),
    /// Tokens are committed, and the generation may be over; `tell` the cloud if it cannot know that itself.
    Commit { committed: Committed, finish: Option<Finish>, tell: bool },
    /// Nothing yet.
    Wait,
    /// The frame came before: nothing, and it answers nothing.
    Stale,
}

#[derive(Debug)]
pub(super) struct Generation {
    number: u32,
    /// When the generation began.
    started: Duration,
    committed: Vec<u32>,
    eos_ids: Vec<u32>,
    vocab_size: u32,
    /// Where `committed` has to end, and why.
    length_limit: usize,
    limit: Finish,
    /// `None`: cloud-only.
    drafting: Option<Drafting>,
}

impl Generation {
    pub(super) fn new(
        number: u32,
        prompt: Vec<u32>,
        settings: &Settings,
        draft: &DraftInfo,
        server: &Welcome,
        learned: &mut Option<Learned>,
        now: Duration,
    ) -> Result<(Self, Frame), StartError> {
        let request = Request {
            generation: number,
            sampling: settings.sampling,
            seed: settings.seed,
            max_new_tokens: settings.max_new_tokens,
            tokens: prompt.clone(),
        };
        let wanted = prompt.len().saturating_add(settings.max_new_tokens as usize);
        let context = server.context_length as usize;
        let mut generation = Self {
            number,
            started: now,
            committed: prompt,
            eos_ids: server.eos_ids.clone(),
            vocab_size: server.vocab_size,
            length_limit: wanted.min(context),
            limit: if wanted <= context { Finish::Length } else { Finish::Context },
            drafting: None,
        };
        let Mode::Speculative(speculation) = &settings.mode else {
            return Ok((generation, Frame::Generate(request)));
        };
        let prompt = &generation.committed;
        let drafting = Drafting::new(speculation, prompt, settings, draft, server, learned, now)?;
        generation.drafting = Some(drafting);
        let rule = RuleParameters { number: speculation.rule.number(), parameter: speculation.rule.parameter() as f32 };
        let prompt = Prompt { request, scheme: speculation.scheme, rule, evidence: speculation.explain };
        Ok((generation, Frame::Prompt(prompt)))
    }

    /// What has been learned of the link and the models, for the next generation.
    pub(super) fn into_learned(self) -> Option<Learned> {
        self.drafting.map(|drafting| drafting.learned)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Prompt and committed tokens.
    pub(super) fn length(&self) -> usize {
        self.committed.len()
    }

    /// What another generation would go on from: the text, without what a sequence cascade has written and told nobody; how many tokens
    /// it may have; and why it would end there.
    pub(super) fn into_rest(self) -> Rest {
        let mut text = self.committed;
        if let Some(Drafting { held: Some(_), passed, .. }) = &self.drafting {
            text.truncate(text.len() - passed.len());
        }
        let (length_limit, limit, started) = (self.length_limit, self.limit, self.started);
        Rest { text, length_limit, limit, started, learned: self.drafting.map(|drafting| drafting.learned) }
    }

    /// The generation goes on from another, which began earlier.
    pub(super) fn began(&mut self, started: Duration) {
        self.started = started;
    }

    /// What was sent is sent again: the time between was not the link's, nor the server's.
    pub(super) fn resent(&mut self, now: Duration) {
        if let Some(drafting) = &mut self.drafting
            && matches!(drafting.phase, Phase::AwaitVerdict | Phase::AwaitTokens(_))
        {
            drafting.round_started += now.saturating_sub(drafting.sent.at);
            drafting.sent.at = now;
            drafting.streamed_at = None;
        }
    }

    pub(super) fn next_step(&mut self, now: Duration) -> Result<Option<Step>, EdgeError> {
        let Some(drafting) = &mut self.drafting else { return Ok(None) };
        if drafting.phase == Phase::Fresh {
            drafting.phase = Phase::Open;
            drafting.round_started = now;
            drafting.drafter.begin(self.committed.len());
            // A cascade has its own way of choosing the target.
            if !drafting.passing.is_cascade()
                && let Move::Stream { tokens } = drafting.learned.controller.next_move()
            {
                let left = (self.length_limit - self.committed.len()).min(u32::MAX as usize) as u32;
                return Ok(Some(Step::Send(drafting.stream(self.number, tokens.clamp(1, left), now))));
            }
        }
        if drafting.phase != Phase::Open {
            return Ok(None);
        }
        if drafting.wants_another(&self.committed, &self.eos_ids, self.length_limit) {
            let forward = drafting.forward(&self.committed);
            drafting.phase = Phase::AwaitLogits(forward.rows);
            return Ok(Some(Step::Forward(forward)));
        }
        if drafting.held.is_some() && !drafting.passed.is_empty() {
            // The text goes on beyond what the draft model can read.
            return Ok(Some(Step::Send(self.discard(now))));
        }
        let (payload, payload_bits) = drafting.drafter.payload();
        let passed = drafting.passed.len();
        let frame = Frame::Draft(Draft {
            generation: self.number,
            round: drafting.round,
            resampled: drafting.resampled.take(),
            passed: std::mem::take(&mut drafting.passed),
            stream: 0,
            count: drafting.drafter.ids().len() as u8,
            payload,
        });
        let bytes = frame.encode();
        drafting.phase = Phase::AwaitVerdict;
        drafting.sent = Sent { at: now, frame_bits: bytes.len() * 8, payload_bits, passed };
        Ok(Some(Step::Send(bytes)))
    }

    pub(super) fn handle_logits(
        &mut self,
        row: &[f32],
        hidden: &[f32],
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let Some(drafting) = &mut self.drafting else { return Ok(Reaction::Wait) };
        if matches!(drafting.phase, Phase::AwaitLogits(_)) && row.len() != self.vocab_size as usize {
            return Err(DraftError::Length { found: row.len(), vocab_size: self.vocab_size }.into());
        }
        match drafting.phase {
            Phase::AwaitLogits(2..) => {
                drafting.phase = Phase::AwaitLogits(1);
                drafting.drafter.bonus_row(row)?;
            }
            Phase::AwaitLogits(_) => {
                let position = self.committed.len() + drafting.drafter.ids().len();
                drafting.cached = position;
                drafting.phase = Phase::Open;
                // At most five bytes an id, and a few more.
                let taken = 40 * (drafting.passed.len() + 2);
                let may_draft = drafting.may_draft(position, self.length_limit);
                let controller = &mut drafting.learned.controller;
                let choice = drafting.drafter.choose(row, hidden, position, taken, may_draft, controller)?;
                if let Choice::Passed { token, probability } = choice {
                    return Ok(self.pass(token, probability, statistics, now));
                }
            }
            _ => {}
        }
        Ok(Reaction::Wait)
    }

    /// Commits a token without asking.
    fn pass(&mut self, token: u32, probability: f64, statistics: &mut Statistics, now: Duration) -> Reaction {
        let Some(drafting) = &mut self.drafting else { return Reaction::Wait };
        self.committed.push(token);
        let finish = ending(token, self.committed.len(), &self.eos_ids, self.length_limit, self.limit);
        drafting.passed.push(token);
        let tokens = if let Some(held) = &mut drafting.held {
            held.add(probability);
            let Some(_) = finish else { return Reaction::Wait };
            let Passing::SequenceCascade { alpha } = drafting.passing else { return Reaction::Wait };
            if held.confidence() < 1.0 - alpha {
                return Reaction::Send(self.discard(now));
            }
            std::mem::take(&mut drafting.passed)
        } else {
            vec![token]
        };
        statistics.passed += tokens.len();
        self.count(tokens.len(), 0, statistics, now);
        let tokens = tokens.into_iter().map(|id| (id, Origin::Passed)).collect();
        Reaction::Commit { committed: Committed { tokens, round: None }, finish, tell: finish.is_some() }
    }

    /// A sequence cascade does not trust what it wrote: the target writes it anew.
    fn discard(&mut self, now: Duration) -> Vec<u8> {
        let Some(drafting) = &mut self.drafting else { return Vec::new() };
        let written = std::mem::take(&mut drafting.passed).len();
        self.committed.truncate(self.committed.len() - written);
        drafting.held = None;
        drafting.cached = drafting.cached.min(self.committed.len());
        drafting.stream(self.number, (self.length_limit - self.committed.len()) as u32, now)
    }

    pub(super) fn handle_verdict(
        &mut self,
        verdict: Verdict,
        downlink_bits: usize,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let unexpected = Err(EdgeError::Unexpected { frame: "Verdict" });
        let Some(drafting) = self.drafting.as_mut() else { return unexpected };
        let is_known = matches!(drafting.phase, Phase::AwaitDistribution { .. }) && verdict.round == drafting.round;
        if verdict.round < drafting.round || is_known {
            return Ok(Reaction::Stale);
        }
        if drafting.phase != Phase::AwaitVerdict {
            return unexpected;
        }
        let accepted = usize::from(verdict.accepted);
        let impossible = |what| Err(EdgeError::ImpossibleVerdict { what });
        if verdict.round != drafting.round {
            return impossible("it is for another round");
        }
        if accepted > drafting.drafter.ids().len() {
            return impossible("it accepts more than was drafted");
        }
        let resamples = drafting.drafter.resamples() && accepted < drafting.drafter.ids().len();
        let token = match verdict.next {
            Next::Nothing if accepted == 0 => return impossible("it commits nothing"),
            Next::Nothing if verdict.finish.is_none() && accepted < drafting.drafter.ids().len() => {
                return impossible("it rejects a draft and puts nothing in its place");
            }
            Next::Nothing if verdict.finish.is_none() && drafting.rule.has_bonus() => {
                return impossible("its bonus token is missing");
            }
            Next::Nothing => None,
            Next::Token(_)
                if !drafting.rule.has_bonus() && accepted > 0 && accepted == drafting.drafter.ids().len() =>
            {
                return impossible("its rule has no bonus token");
            }
            // Under DSSD a rejection is the edge's to resample from.
            Next::Token(_) if resamples => return impossible("it resamples in the edge's place"),
            Next::Token(token) => Some(token),
            Next::Samples(_) | Next::Distribution(_) if !resamples => {
                return impossible("there is nothing to resample");
            }
            Next::Samples(samples) => {
                if samples.iter().any(|sample| sample.0 >= self.vocab_size) {
                    return impossible("its sample is outside the vocabulary");
                }
                let Some(token) = drafting.drafter.survivor(accepted, &samples) else {
                    drafting.phase = Phase::AwaitDistribution { accepted, downlink_bits };
                    statistics.follow_ups += 1;
                    return Ok(Reaction::Ask(Frame::Resample { generation: self.number, round: verdict.round }));
                };
                return self.commit_resampled(accepted, token, downlink_bits, statistics, now);
            }
            Next::Distribution(target) => {
                return self.handle_target(accepted, &target, downlink_bits, statistics, now);
            }
        };
        self.commit(accepted, token, verdict.finish, downlink_bits, statistics, now)
    }

    pub(super) fn handle_distribution(
        &mut self,
        answer: &Distribution,
        downlink_bits: usize,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        match &self.drafting {
            Some(Drafting { phase: Phase::AwaitDistribution { accepted, downlink_bits: before }, round, .. })
                if *round == answer.round =>
            {
                self.handle_target(*accepted, &answer.target, before + downlink_bits, statistics, now)
            }
            Some(drafting) if answer.round < drafting.round => Ok(Reaction::Stale),
            _ => Err(EdgeError::Unexpected { frame: "Distribution" }),
        }
    }

    fn handle_target(
        &mut self,
        accepted: usize,
        target: &TargetDist,
        downlink_bits: usize,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        if target.0.last().is_none_or(|last| last.0 >= self.vocab_size) {
            return Err(EdgeError::ImpossibleVerdict { what: "its distribution is outside the vocabulary" });
        }
        let Some(drafting) = &mut self.drafting else { return Err(EdgeError::Unexpected { frame: "Verdict" }) };
        let token = drafting.drafter.resample(accepted, target);
        self.commit_resampled(accepted, token, downlink_bits, statistics, now)
    }

    /// Commits a token that the edge resampled: the edge, not the cloud, sees where the text ends.
    fn commit_resampled(
        &mut self,
        accepted: usize,
        token: u32,
        downlink_bits: usize,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        statistics.rejection_downlink_bits += downlink_bits;
        let Some(drafting) = &mut self.drafting else { return Err(EdgeError::Unexpected { frame: "Verdict" }) };
        let length = self.committed.len() + accepted + 1;
        let finish = ending(token, length, &self.eos_ids, self.length_limit, self.limit);
        drafting.resampled = Some(token);
        let mut reaction = self.commit(accepted, Some(token), finish, downlink_bits, statistics, now)?;
        if let Reaction::Commit { tell, .. } = &mut reaction {
            *tell = finish.is_some();
        }
        Ok(reaction)
    }

    /// Ends a round: the first `accepted` drafts stand, then comes `token`.
    fn commit(
        &mut self,
        accepted: usize,
        token: Option<u32>,
        finish: Option<Finish>,
        downlink_bits: usize,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let Some(drafting) = &mut self.drafting else { return Err(EdgeError::Unexpected { frame: "Verdict" }) };
        let impossible = |what| Err(EdgeError::ImpossibleVerdict { what });
        if token.is_some_and(|token| token >= self.vocab_size) {
            return impossible("its token is outside the vocabulary");
        }
        let drafted = drafting.drafter.ids().to_vec();
        let prefix = self.committed.len();
        if prefix + accepted + usize::from(token.is_some()) > self.length_limit {
            return impossible("it commits more than was asked for");
        }
        self.committed.extend(&drafted[..accepted]);
        self.committed.extend(token);
        // The last token is read for the row after it, and read again where that row was declined and no token came.
        drafting.cached = drafting.cached.min(prefix + accepted).min(self.committed.len() - 1);
        if finish.is_none() && self.committed.len() >= self.length_limit {
            return impossible("it goes on past the end");
        }
        let rejected = accepted < drafted.len() && token.is_some();
        let judged = accepted + usize::from(rejected);
        let evidence = std::mem::take(&mut drafting.evidence);
        if let Some(explanation) = &mut statistics.explanation {
            for (drawn, evidence) in drafting.drafter.drawn().iter().zip(&evidence).take(judged) {
                explanation.add(drawn, evidence);
            }
        }
        let other_bits = drafting.drafter.settle(accepted, token);
        let drafting_time = drafting.sent.at.saturating_sub(drafting.round_started);
        let round_trip = now.saturating_sub(drafting.sent.at);
        drafting.learned.controller.round_done(&RoundTimes {
            drafted: drafted.len(),
            judged,
            accepted,
            committed: accepted + usize::from(token.is_some()),
            passed: drafting.sent.passed,
            drafting: drafting_time,
            round_trip,
        });
        statistics.estimates = drafting.learned.controller.estimates();
        let record = RoundRecord {
            round: drafting.round,
            accepted,
            token,
            payload_bits: drafting.sent.payload_bits,
            uplink_bits: drafting.sent.frame_bits,
            downlink_bits,
            draft_ms: milliseconds(drafting_time),
            round_trip_ms: milliseconds(round_trip),
            threshold: drafting.drafter.threshold().map(Conformal::threshold),
            other_bits: other_bits.into_iter().collect(),
            drafted,
        };
        drafting.phase = Phase::Fresh;
        drafting.round += 1;

        let origin = if rejected { Origin::Resampled } else { Origin::Bonus };
        let tokens: Vec<(u32, Origin)> = record.drafted[..accepted]
            .iter()
            .map(|&id| (id, Origin::Accepted))
            .chain(token.map(|id| (id, origin)))
            .collect();
        statistics.rounds += 1;
        statistics.drafted += record.drafted.len();
        // A round that an accepted end-of-text token ended has no rejected draft.
        statistics.judged += judged;
        statistics.accepted += accepted;
        statistics.resampled += usize::from(rejected);
        statistics.payload_bits += record.payload_bits;
        statistics.draft_frame_bits += record.uplink_bits;
        statistics.drafting += drafting_time;
        statistics.round_trip = round_trip;
        if let Some(threshold) = drafting.drafter.threshold() {
            statistics.mean_dropped_mass = threshold.mean_dropped_mass();
            statistics.dropped_mass_bound = threshold.bound();
        }
        self.count(tokens.len(), 1, statistics, now);
        Ok(Reaction::Commit { committed: Committed { tokens, round: Some(record) }, finish, tell: false })
    }

    pub(super) fn handle_token(
        &mut self,
        token: &Token,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        if (token.position as usize) < self.committed.len() {
            return Ok(Reaction::Stale);
        }
        if token.position as usize > self.committed.len() {
            return Err(EdgeError::ImpossibleVerdict { what: "there is a token missing before it" });
        }
        if !matches!(&self.drafting, None | Some(Drafting { phase: Phase::AwaitTokens(_), .. })) {
            return Err(EdgeError::Unexpected { frame: "Token" });
        }
        if token.token >= self.vocab_size {
            return Err(EdgeError::ImpossibleVerdict { what: "its token is outside the vocabulary" });
        }
        self.committed.push(token.token);
        if token.finish.is_none() && self.committed.len() >= self.length_limit {
            return Err(EdgeError::ImpossibleVerdict { what: "it goes on past the end" });
        }
        if let Some(drafting) = &mut self.drafting {
            drafting.streamed(token.token, now);
            statistics.streamed += 1;
            statistics.estimates = drafting.learned.controller.estimates();
        }
        self.count(1, 1, statistics, now);
        let committed = Committed { tokens: vec![(token.token, Origin::Cloud)], round: None };
        Ok(Reaction::Commit { committed, finish: token.finish, tell: false })
    }

    /// What a draft of the round under way is judged by.
    pub(super) fn handle_evidence(&mut self, evidence: Evidence) -> Result<Reaction, EdgeError> {
        match &mut self.drafting {
            Some(drafting)
                if evidence.round < drafting.round
                    || evidence.round == drafting.round && usize::from(evidence.index) < drafting.evidence.len() =>
            {
                Ok(Reaction::Stale)
            }
            Some(drafting)
                if drafting.phase == Phase::AwaitVerdict
                    && evidence.round == drafting.round
                    && usize::from(evidence.index) == drafting.evidence.len()
                    && drafting.evidence.len() < drafting.drafter.drawn().len() =>
            {
                if evidence.target.0.last().is_none_or(|last| last.0 >= self.vocab_size) {
                    return Err(EdgeError::ImpossibleVerdict { what: "its distribution is outside the vocabulary" });
                }
                drafting.evidence.push(evidence);
                Ok(Reaction::Wait)
            }
            _ => Err(EdgeError::Unexpected { frame: "Evidence" }),
        }
    }

    fn count(&self, tokens: usize, passes: usize, statistics: &mut Statistics, now: Duration) {
        statistics.server_passes += passes;
        statistics.elapsed = now.saturating_sub(self.started);
        if statistics.tokens == 0 {
            statistics.first_token = statistics.elapsed;
        }
        statistics.tokens += tokens;
    }
}

/// Why the text is over after a token that the edge committed itself, `length` tokens long now.
fn ending(token: u32, length: usize, eos_ids: &[u32], length_limit: usize, limit: Finish) -> Option<Finish> {
    if eos_ids.contains(&token) { Some(Finish::Eos) } else { (length >= length_limit).then_some(limit) }
}
