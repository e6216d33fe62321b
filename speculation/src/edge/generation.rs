//! One generation on the edge: draft until something says stop, send, take the verdict, roll back, go on.

use core::time::Duration;

use outrider_codec::{
    frame::{
        Distribution, Draft, Finish, Frame, MAX_DRAFT_TOKENS, Next, Prompt, Request, SamplingParameters, TargetDist,
        Token, Verdict, Welcome,
    },
    scheme::SchemeParameters,
};

use super::{Committed, DraftInfo, EdgeError, Origin, StartError, drafter::Drafter};
use crate::{
    Forward,
    comparison::ComparisonParameters,
    conformal::{Conformal, ThresholdParameters},
    draft::DraftError,
    statistics::{RoundRecord, Statistics, milliseconds},
};

/// What a generation is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Who drafts.
    pub mode: Mode,
    /// S(·), for both ends.
    pub sampling: SamplingParameters,
    /// Seeds both ends' choices, each its own.
    pub seed: u64,
    /// The most tokens to commit, at least 1.
    pub max_new_tokens: u32,
}

/// Who drafts.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// The edge.
    Speculative(Speculation),
    /// Nobody: the target generates alone.
    CloudOnly,
}

/// How the edge drafts.
#[derive(Debug, Clone, PartialEq)]
pub struct Speculation {
    /// What is sent of a draft.
    pub scheme: SchemeParameters,
    /// C-SQS's threshold; other schemes have none.
    pub threshold: ThresholdParameters,
    /// γ: drafts per round, at least 1. Fewer where context, length or the server's limit leave less room.
    pub draft_length: u32,
    /// B: the most payload bits a round may cost; `None` for no budget but the frame's. A token that could exceed it is
    /// not drafted (Bhattacharjee et al., §4).
    pub bit_budget: Option<u32>,
    /// Works out what the drafts would have cost under other schemes, too.
    pub compare: Option<ComparisonParameters>,
}

impl Speculation {
    /// A scheme with γ = `draft_length`, no budget and no comparison.
    pub fn new(scheme: SchemeParameters, draft_length: u32) -> Self {
        Self { scheme, threshold: ThresholdParameters::default(), draft_length, bit_budget: None, compare: None }
    }

    /// The same with a budget of so many bits a round.
    pub fn with_budget(self, bits: u32) -> Self {
        Self { bit_budget: Some(bits), ..self }
    }
}

/// What the generation wants done.
pub(super) enum Step {
    Forward(Forward),
    Send(Vec<u8>),
}

/// What follows from a frame of the cloud's.
pub(super) enum Reaction {
    /// Something has to be asked first.
    Ask(Frame),
    /// Tokens are committed, and the generation may be over; `tell` the cloud if it cannot know that itself.
    Commit { committed: Committed, finish: Option<Finish>, tell: bool },
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

/// What a speculative generation has besides.
#[derive(Debug)]
struct Drafting {
    drafter: Drafter,
    /// γ, already cut to what the server allows.
    draft_length: usize,
    draft_context: usize,
    /// How many of `committed` followed by the drafts the draft model's cache holds. What it holds beyond a verdict
    /// is cut by the next pass.
    cached: usize,
    round: u32,
    phase: Phase,
    /// The token that the edge put in place of the last round's rejected draft; the cloud does not know it yet.
    resampled: Option<u32>,
    /// When the round began.
    round_started: Duration,
    sent: Sent,
}

/// The frame that awaits its verdict.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Duration,
    frame_bits: usize,
    payload_bits: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A round is about to begin.
    Fresh,
    /// Drafts are being made.
    Open,
    /// A pass is under way that gives so many rows.
    AwaitLogits(usize),
    /// The frame is under way.
    AwaitVerdict,
    /// The verdict has come: so many drafts stand, at a cost of so many bits down. The target's distribution at the next
    /// has been asked for.
    AwaitDistribution { accepted: usize, downlink_bits: usize },
}

impl Generation {
    pub(super) fn new(
        number: u32,
        prompt: Vec<u32>,
        settings: &Settings,
        draft: &DraftInfo,
        server: &Welcome,
        now: Duration,
    ) -> Result<(Self, Frame), StartError> {
        check(&prompt, settings, server)?;
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
        let drafter = Drafter::new(speculation, draft.vocab_size, prompt, settings.sampling, settings.seed)?;
        generation.drafting = Some(Drafting {
            drafter,
            draft_length: speculation.draft_length.min(server.max_draft_tokens.min(MAX_DRAFT_TOKENS).into()) as usize,
            draft_context: draft.context_length as usize,
            cached: 0,
            round: 0,
            phase: Phase::Fresh,
            resampled: None,
            round_started: now,
            sent: Sent { at: now, frame_bits: 0, payload_bits: 0 },
        });
        Ok((generation, Frame::Prompt(Prompt { request, scheme: speculation.scheme })))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn next_step(&mut self, now: Duration) -> Result<Option<Step>, EdgeError> {
        let Some(drafting) = &mut self.drafting else { return Ok(None) };
        if drafting.phase == Phase::Fresh {
            drafting.phase = Phase::Open;
            drafting.round_started = now;
        }
        if drafting.phase != Phase::Open {
            return Ok(None);
        }
        if drafting.wants_another(&self.committed, &self.eos_ids, self.length_limit) {
            let forward = drafting.forward(&self.committed);
            drafting.phase = Phase::AwaitLogits(forward.rows);
            return Ok(Some(Step::Forward(forward)));
        }
        let (payload, payload_bits) = drafting.drafter.payload();
        let frame = Frame::Draft(Draft {
            generation: self.number,
            round: drafting.round,
            resampled: drafting.resampled.take(),
            count: drafting.drafter.ids().len() as u8,
            payload,
        });
        let bytes = frame.encode();
        drafting.phase = Phase::AwaitVerdict;
        drafting.sent = Sent { at: now, frame_bits: bytes.len() * 8, payload_bits };
        Ok(Some(Step::Send(bytes)))
    }

    pub(super) fn handle_logits(&mut self, row: &[f32]) -> Result<(), EdgeError> {
        let Some(drafting) = &mut self.drafting else { return Ok(()) };
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
                drafting.drafter.draft(row, position)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn handle_verdict(
        &mut self,
        verdict: Verdict,
        downlink_bits: usize,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let Some(drafting) = self.drafting.as_mut().filter(|d| d.phase == Phase::AwaitVerdict) else {
            return Err(EdgeError::Unexpected { frame: "Verdict" });
        };
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
            Next::Nothing => None,
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
        let finish = if self.eos_ids.contains(&token) {
            Some(Finish::Eos)
        } else if self.committed.len() + accepted + 1 >= self.length_limit {
            Some(self.limit)
        } else {
            None
        };
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
        drafting.cached = drafting.cached.min(prefix + accepted);
        self.committed.extend(&drafted[..accepted]);
        self.committed.extend(token);
        if finish.is_none() && self.committed.len() >= self.length_limit {
            return impossible("it goes on past the end");
        }
        let other_bits = drafting.drafter.settle(accepted, token);
        let record = RoundRecord {
            round: drafting.round,
            accepted,
            token,
            payload_bits: drafting.sent.payload_bits,
            uplink_bits: drafting.sent.frame_bits,
            downlink_bits,
            draft_ms: milliseconds(drafting.sent.at.saturating_sub(drafting.round_started)),
            round_trip_ms: milliseconds(now.saturating_sub(drafting.sent.at)),
            threshold: drafting.drafter.threshold().map(Conformal::threshold),
            other_bits: other_bits.into_iter().collect(),
            drafted,
        };
        drafting.phase = Phase::Fresh;
        drafting.round += 1;

        let rejected = accepted < record.drafted.len() && token.is_some();
        let origin = if rejected { Origin::Resampled } else { Origin::Bonus };
        let tokens: Vec<(u32, Origin)> = record.drafted[..accepted]
            .iter()
            .map(|&id| (id, Origin::Accepted))
            .chain(token.map(|id| (id, origin)))
            .collect();
        statistics.rounds += 1;
        statistics.drafted += record.drafted.len();
        // A round that an accepted end-of-text token ended has no rejected draft.
        statistics.judged += accepted + usize::from(rejected);
        statistics.accepted += accepted;
        statistics.resampled += usize::from(rejected);
        statistics.payload_bits += record.payload_bits;
        statistics.draft_frame_bits += record.uplink_bits;
        statistics.drafting += drafting.sent.at.saturating_sub(drafting.round_started);
        statistics.round_trip = now.saturating_sub(drafting.sent.at);
        if let Some(threshold) = drafting.drafter.threshold() {
            statistics.mean_dropped_mass = threshold.mean_dropped_mass();
            statistics.dropped_mass_bound = threshold.bound();
        }
        self.count(tokens.len(), statistics, now);
        Ok(Reaction::Commit { committed: Committed { tokens, round: Some(record) }, finish, tell: false })
    }

    pub(super) fn handle_token(
        &mut self,
        token: &Token,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        if self.drafting.is_some() {
            return Err(EdgeError::Unexpected { frame: "Token" });
        }
        if token.token >= self.vocab_size {
            return Err(EdgeError::ImpossibleVerdict { what: "its token is outside the vocabulary" });
        }
        self.committed.push(token.token);
        if token.finish.is_none() && self.committed.len() >= self.length_limit {
            return Err(EdgeError::ImpossibleVerdict { what: "it goes on past the end" });
        }
        self.count(1, statistics, now);
        let committed = Committed { tokens: vec![(token.token, Origin::Cloud)], round: None };
        Ok(Reaction::Commit { committed, finish: token.finish, tell: false })
    }

    fn count(&self, tokens: usize, statistics: &mut Statistics, now: Duration) {
        statistics.server_passes += 1;
        statistics.elapsed = now.saturating_sub(self.started);
        if statistics.tokens == 0 {
            statistics.first_token = statistics.elapsed;
        }
        statistics.tokens += tokens;
    }
}

impl Drafting {
    /// Whether another token is to be drafted before the frame is sent.
    fn wants_another(&self, committed: &[u32], eos_ids: &[u32], length_limit: usize) -> bool {
        let ids = self.drafter.ids();
        let length = committed.len() + ids.len();
        ids.len() < self.draft_length
            && self.drafter.has_room()
            // One place is the cloud's own token's.
            && length + 1 < length_limit
            && length <= self.draft_context
            && !ids.last().is_some_and(|id| eos_ids.contains(id))
    }

    /// The pass that gives the next draft's distribution: feeds what the cache lacks.
    fn forward(&self, committed: &[u32]) -> Forward {
        let tokens: Vec<u32> = committed.iter().chain(self.drafter.ids()).copied().skip(self.cached).collect();
        // The row of the last bonus token is there to be had where the token before it has not been read yet.
        let rows = 1 + usize::from(self.drafter.wants_bonus_row() && tokens.len() > 1);
        Forward { keep: self.cached, tokens, rows }
    }
}

fn check(prompt: &[u32], settings: &Settings, server: &Welcome) -> Result<(), StartError> {
    let setting = |name, range| Err(StartError::Setting { name, range });
    if prompt.is_empty() {
        return Err(StartError::EmptyPrompt);
    }
    let limit = (server.context_length as usize).saturating_sub(1);
    if prompt.len() > limit {
        return Err(StartError::PromptTooLong { tokens: prompt.len(), limit });
    }
    if let Some(&token) = prompt.iter().find(|&&id| id >= server.vocab_size) {
        return Err(StartError::PromptToken { token, vocab_size: server.vocab_size });
    }
    let SamplingParameters { temperature, top_p, .. } = settings.sampling;
    if !(temperature.is_finite() && temperature.is_sign_positive()) {
        return setting("temperature", "0 or more");
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        return setting("top-p", "above 0 and at most 1");
    }
    if settings.max_new_tokens == 0 {
        return setting("the number of new tokens", "at least 1");
    }
    if let Mode::Speculative(Speculation { draft_length, threshold, .. }) = &settings.mode {
        if *draft_length == 0 {
            return setting("the draft length", "at least 1");
        }
        let ThresholdParameters { target, step, initial } = threshold;
        if !(0.0..1.0).contains(target) {
            return setting("the target of the dropped mass", "at least 0 and below 1");
        }
        if !(*step > 0.0 && step.is_finite()) {
            return setting("the step size", "above 0");
        }
        if !(0.0..=1.0).contains(initial) {
            return setting("the initial threshold", "from 0 to 1");
        }
    }
    Ok(())
}
