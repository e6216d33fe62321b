//! One generation on the edge: draft until something says stop, send, take the verdict, roll back, go on.
//!
//! With several rounds in flight the next is drafted as if those before it stood. A verdict is the oldest's. Where that stands whole the
//! others go on; where not, they are dropped, and the next round is the one after it.

use core::time::Duration;

use outrider_codec::{
    frame::{Distribution, Evidence, Finish, Frame, Next, Prompt, Request, TargetDist, Token, Verdict, Welcome},
    rule::RuleParameters,
};

use super::{
    Committed, DraftInfo, EdgeError, Origin, StartError,
    drafter::Choice,
    drafting::{Drafting, Learned, Phase},
    settings::{Mode, Settings},
};
use crate::{
    Forward,
    draft::{DraftError, conformal::Conformal},
    policy::{
        control::{Move, RoundTimes},
        passing::Passing,
    },
    study::statistics::{RoundRecord, Statistics, milliseconds},
};

/// What the generation wants done.
pub(super) enum Step {
    Forward(Forward),
    Send(Outgoing),
}

/// A frame that the cloud answers.
pub(super) struct Outgoing {
    /// The round that the answer is about.
    pub(super) round: u32,
    pub(super) bytes: Vec<u8>,
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
    /// This is to be sent: something has to be asked first, or the target is to write.
    Send(Outgoing),
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
        let (scheme, evidence) = (speculation.scheme, speculation.explain);
        let max_in_flight = generation.drafting.as_ref().map_or(1, |drafting| drafting.window);
        let prompt = Prompt { request, scheme, rule, evidence, max_in_flight };
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
        if let Some(drafting) = &mut self.drafting {
            drafting.resent(now);
        }
    }

    /// Whether a round awaits its verdict.
    pub(super) fn awaits(&self, round: u32) -> bool {
        self.drafting.as_ref().is_some_and(|drafting| drafting.awaits(round))
    }

    /// Whether drafting goes on while rounds await their verdict.
    pub(super) fn is_ahead(&self) -> bool {
        let drafts_on = |drafting: &Drafting| matches!(drafting.phase, Phase::Fresh | Phase::Open);
        self.drafting.as_ref().is_some_and(|drafting| drafting.in_flight() > 0 && drafts_on(drafting))
    }

    pub(super) fn next_step(&mut self, now: Duration) -> Result<Option<Step>, EdgeError> {
        let length = self.committed.len();
        let Some(drafting) = self.drafting.as_mut().filter(|drafting| drafting.moot == 0) else { return Ok(None) };
        if drafting.phase == Phase::Fresh {
            drafting.phase = Phase::Open;
            drafting.current.started = now;
            let begin = drafting.base(length);
            drafting.current.drafter.begin(begin);
            // A cascade has its own way of choosing the target; and it writes on from nothing that is not committed.
            if !drafting.passing.is_cascade()
                && drafting.in_flight() == 0
                && let Move::Stream { tokens } = drafting.learned.controller.next_move()
            {
                let left = (self.length_limit - length).min(u32::MAX as usize) as u32;
                let round = drafting.current.number;
                let bytes = drafting.stream(self.number, tokens.clamp(1, left));
                return Ok(Some(Step::Send(Outgoing { round, bytes })));
            }
        }
        if drafting.phase != Phase::Open {
            return Ok(None);
        }
        if drafting.wants_another(length, &self.eos_ids, self.length_limit) {
            let forward = drafting.forward(&self.committed);
            drafting.phase = Phase::AwaitLogits(forward.rows);
            return Ok(Some(Step::Forward(forward)));
        }
        if drafting.held.is_some() && !drafting.passed.is_empty() {
            // The text goes on beyond what the draft model can read.
            return Ok(self.discard().map(Step::Send));
        }
        let started = drafting.current.started;
        drafting.current.drafting.get_or_insert(now.saturating_sub(started));
        if drafting.is_full() {
            return Ok(None);
        }
        let round = drafting.current.number;
        let bytes = drafting.send(self.number, length, &self.eos_ids, self.length_limit, now);
        Ok(Some(Step::Send(Outgoing { round, bytes })))
    }

    pub(super) fn handle_logits(
        &mut self,
        row: &[f32],
        hidden: &[f32],
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let Some(drafting) = &mut self.drafting else { return Ok(Reaction::Wait) };
        if drafting.moot > 0 {
            drafting.moot -= 1;
            return Ok(Reaction::Wait);
        }
        if matches!(drafting.phase, Phase::AwaitLogits(_)) && row.len() != self.vocab_size as usize {
            return Err(DraftError::Length { found: row.len(), vocab_size: self.vocab_size }.into());
        }
        match drafting.phase {
            Phase::AwaitLogits(2..) => {
                drafting.phase = Phase::AwaitLogits(1);
                drafting.current.drafter.bonus_row(row)?;
            }
            Phase::AwaitLogits(_) => {
                let position = drafting.base(self.committed.len()) + drafting.current.drafter.ids().len();
                drafting.cached = position;
                drafting.phase = Phase::Open;
                // At most five bytes an id, and a few more.
                let taken = 40 * (drafting.passed.len() + 2);
                let may_draft = drafting.may_draft(position, self.length_limit);
                let controller = &mut drafting.learned.controller;
                let choice = drafting.current.drafter.choose(row, hidden, position, taken, may_draft, controller)?;
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
                return self.discard().map_or(Reaction::Wait, Reaction::Send);
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
    fn discard(&mut self) -> Option<Outgoing> {
        let drafting = self.drafting.as_mut()?;
        let written = std::mem::take(&mut drafting.passed).len();
        self.committed.truncate(self.committed.len() - written);
        drafting.held = None;
        drafting.cached = drafting.cached.min(self.committed.len());
        let round = drafting.current.number;
        let bytes = drafting.stream(self.number, (self.length_limit - self.committed.len()) as u32);
        Some(Outgoing { round, bytes })
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
        let rule = drafting.rule;
        let oldest = drafting.oldest();
        let is_known = matches!(drafting.phase, Phase::AwaitDistribution { .. }) && verdict.round == oldest.number;
        if verdict.round < oldest.number || is_known {
            return Ok(Reaction::Stale);
        }
        if oldest.sent.is_none() {
            return unexpected;
        }
        let accepted = usize::from(verdict.accepted);
        let impossible = |what| Err(EdgeError::ImpossibleVerdict { what });
        if verdict.round != oldest.number {
            return impossible("it is for another round");
        }
        let drafted = oldest.drafter.ids().len();
        if accepted > drafted {
            return impossible("it accepts more than was drafted");
        }
        let has_bonus = drafted == 0 || rule.has_bonus() && !oldest.continued;
        let resamples = oldest.drafter.resamples() && accepted < drafted;
        let token = match verdict.next {
            Next::Nothing if accepted == 0 => return impossible("it commits nothing"),
            Next::Nothing if verdict.finish.is_none() && accepted < drafted => {
                return impossible("it rejects a draft and puts nothing in its place");
            }
            Next::Nothing if verdict.finish.is_none() && has_bonus => {
                return impossible("its bonus token is missing");
            }
            Next::Nothing => None,
            Next::Token(_) if !has_bonus && accepted == drafted => {
                return impossible("no bonus token follows the round");
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
                drafting.drop_later(statistics, now);
                let Some(token) = drafting.current.drafter.survivor(accepted, &samples) else {
                    drafting.phase = Phase::AwaitDistribution { accepted, downlink_bits };
                    statistics.follow_ups += 1;
                    let round = verdict.round;
                    let bytes = Frame::Resample { generation: self.number, round }.encode();
                    return Ok(Reaction::Send(Outgoing { round, bytes }));
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
            Some(Drafting { phase: Phase::AwaitDistribution { accepted, downlink_bits: before }, current, .. })
                if current.number == answer.round =>
            {
                self.handle_target(*accepted, &answer.target, before + downlink_bits, statistics, now)
            }
            Some(drafting) if answer.round < drafting.oldest().number => Ok(Reaction::Stale),
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
        drafting.drop_later(statistics, now);
        let token = drafting.current.drafter.resample(accepted, target);
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
        let prefix = self.committed.len();
        if prefix + accepted + usize::from(token.is_some()) > self.length_limit {
            return impossible("it commits more than was asked for");
        }
        let oldest = drafting.oldest();
        let goes_on = oldest.continued && accepted == oldest.drafter.ids().len() && finish.is_none();
        self.committed.extend(&oldest.drafter.ids()[..accepted]);
        self.committed.extend(token);
        if finish.is_none() && self.committed.len() >= self.length_limit {
            return impossible("it goes on past the end");
        }
        let mut stood;
        let round = if goes_on {
            stood = drafting.advance();
            stood.as_mut().unwrap_or(&mut drafting.current)
        } else {
            drafting.drop_later(statistics, now);
            &mut drafting.current
        };
        let drafted = round.drafter.ids().to_vec();
        let rejected = accepted < drafted.len() && token.is_some();
        let judged = accepted + usize::from(rejected);
        let evidence = std::mem::take(&mut round.evidence);
        if let Some(explanation) = &mut statistics.explanation {
            for (drawn, evidence) in round.drafter.drawn().iter().zip(&evidence).take(judged) {
                explanation.add(drawn, evidence);
            }
        }
        let other_bits = round.drafter.settle(accepted, token);
        let threshold = round.drafter.threshold();
        if let Some(threshold) = threshold {
            statistics.mean_dropped_mass = threshold.mean_dropped_mass();
            statistics.dropped_mass_bound = threshold.bound();
        }
        let Some(sent) = round.sent else { return Err(EdgeError::Unexpected { frame: "Verdict" }) };
        let drafting_time = round.drafting.unwrap_or_default();
        let round_trip = now.saturating_sub(sent.at);
        let times = RoundTimes {
            drafted: drafted.len(),
            judged,
            accepted,
            committed: accepted + usize::from(token.is_some()),
            passed: sent.passed,
            drafting: drafting_time,
            // Of the time that several rounds are in flight together each has its own part.
            round_trip: now.saturating_sub(sent.at.max(drafting.judged_at)),
        };
        let record = RoundRecord {
            round: round.number,
            accepted,
            token,
            payload_bits: sent.payload_bits,
            uplink_bits: sent.frame_bits,
            downlink_bits,
            draft_ms: milliseconds(drafting_time),
            round_trip_ms: milliseconds(round_trip),
            threshold: threshold.map(Conformal::threshold),
            other_bits: other_bits.into_iter().collect(),
            drafted,
        };
        drafting.learned.controller.round_done(&times);
        statistics.estimates = drafting.learned.controller.estimates();
        drafting.judged_at = now;
        if !goes_on {
            drafting.end_round(self.committed.len());
        }

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

    /// What a draft of the oldest round in flight is judged by.
    pub(super) fn handle_evidence(&mut self, evidence: Evidence) -> Result<Reaction, EdgeError> {
        let unexpected = Err(EdgeError::Unexpected { frame: "Evidence" });
        let Some(drafting) = &mut self.drafting else { return unexpected };
        let may_come = !matches!(drafting.phase, Phase::AwaitDistribution { .. });
        let round = drafting.oldest_mut();
        let (index, known) = (usize::from(evidence.index), round.evidence.len());
        if evidence.round < round.number || evidence.round == round.number && index < known {
            return Ok(Reaction::Stale);
        }
        let is_due = may_come && round.sent.is_some() && known < round.drafter.drawn().len();
        if evidence.round != round.number || index != known || !is_due {
            return unexpected;
        }
        if evidence.target.0.last().is_none_or(|last| last.0 >= self.vocab_size) {
            return Err(EdgeError::ImpossibleVerdict { what: "its distribution is outside the vocabulary" });
        }
        round.evidence.push(evidence);
        Ok(Reaction::Wait)
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
