//! One generation on the edge: draft until something says stop, send, take the verdict, roll back, go on.

use core::time::Duration;

use outrider_codec::{
    frame::{
        Draft, Finish, Frame, MAX_DRAFT_TOKENS, Prompt, Request, SamplingParameters, SchemeParameters, Token, Verdict,
        Welcome,
    },
    k_sqs::{DraftToken, KSqs},
};

use super::{Committed, DraftInfo, EdgeError, Origin, StartError};
use crate::{
    Forward,
    draft::{self, DraftError},
    random::{End, Randomness},
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
    Speculative {
        /// How drafts are coded.
        scheme: SchemeParameters,
        /// γ: drafts per round, at least 1. Fewer where context, length or the server's limit leave less room.
        draft_length: u32,
        /// B: the most payload bits a round may cost; `None` for no budget. A token that would exceed it is not
        /// drafted (Bhattacharjee et al., §4).
        bit_budget: Option<u32>,
    },
    /// Nobody: the target generates alone.
    CloudOnly,
}

/// What the generation wants done.
pub(super) enum Step {
    Forward(Forward),
    Send(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Generation {
    number: u32,
    /// When the generation began.
    started: Duration,
    committed: Vec<u32>,
    eos_ids: Vec<u32>,
    vocab_size: u32,
    /// `None`: cloud-only.
    drafting: Option<Drafting>,
}

/// What a speculative generation has besides.
#[derive(Debug)]
struct Drafting {
    sampling: SamplingParameters,
    scheme: KSqs,
    randomness: Randomness,
    /// γ, already cut to what the budget and the server allow.
    draft_length: usize,
    /// `committed` may grow to this length: the smaller of the request's and the target's context.
    length_limit: usize,
    draft_context: usize,
    /// How many of `committed` followed by `drafts` the draft model's cache holds. What it holds beyond a verdict
    /// is cut by the next pass.
    cached: usize,
    round: u32,
    drafts: Vec<DraftToken>,
    phase: Phase,
    /// When the round began.
    round_started: Duration,
    /// Bits of the frame that awaits its verdict, and when it was sent.
    sent: (usize, Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A round is about to begin.
    Fresh,
    /// Drafts are being made.
    Open,
    /// A pass is under way.
    AwaitLogits,
    /// The frame is under way.
    AwaitVerdict,
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
        let mut generation = Self {
            number,
            started: now,
            committed: prompt,
            eos_ids: server.eos_ids.clone(),
            vocab_size: server.vocab_size,
            drafting: None,
        };
        let Mode::Speculative { scheme: parameters, draft_length, bit_budget } = settings.mode else {
            return Ok((generation, Frame::Generate(request)));
        };
        let SchemeParameters::KSqs { support_size, lattice_resolution } = parameters;
        let scheme = KSqs::new(draft.vocab_size, support_size, lattice_resolution)?;
        // Every K-SQS token costs the same, so the budget is a number of tokens.
        let affordable = bit_budget.map_or(u32::MAX, |budget| budget / scheme.token_bits().max(1));
        let wanted = generation.committed.len().saturating_add(settings.max_new_tokens as usize);
        generation.drafting = Some(Drafting {
            sampling: settings.sampling,
            scheme,
            randomness: Randomness::new(settings.seed, End::Edge),
            draft_length: draft_length.min(affordable).min(server.max_draft_tokens.min(MAX_DRAFT_TOKENS).into())
                as usize,
            length_limit: wanted.min(server.context_length as usize),
            draft_context: draft.context_length as usize,
            cached: 0,
            round: 0,
            drafts: Vec::new(),
            phase: Phase::Fresh,
            round_started: now,
            sent: (0, now),
        });
        Ok((generation, Frame::Prompt(Prompt { request, scheme: parameters })))
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
        if drafting.wants_another(&self.committed, &self.eos_ids) {
            let forward = drafting.forward(&self.committed);
            drafting.phase = Phase::AwaitLogits;
            return Ok(Some(Step::Forward(forward)));
        }
        let frame = Frame::Draft(Draft {
            generation: self.number,
            round: drafting.round,
            count: drafting.drafts.len() as u8,
            payload: drafting.scheme.encode_round(&drafting.drafts).map_err(EdgeError::Encode)?,
        });
        let bytes = frame.encode();
        drafting.phase = Phase::AwaitVerdict;
        drafting.sent = (bytes.len() * 8, now);
        Ok(Some(Step::Send(bytes)))
    }

    pub(super) fn handle_logits(&mut self, row: &[f32]) -> Result<(), DraftError> {
        if let Some(drafting) = self.drafting.as_mut().filter(|drafting| drafting.phase == Phase::AwaitLogits) {
            let (k, resolution) = (drafting.scheme.support_size(), drafting.scheme.lattice_resolution());
            let dist = draft::k_sqs(row, &drafting.sampling, k, resolution)?;
            drafting.cached = self.committed.len() + drafting.drafts.len();
            drafting.drafts.push(draft::draw(dist, &mut drafting.randomness));
            drafting.phase = Phase::Open;
        }
        Ok(())
    }

    pub(super) fn handle_verdict(
        &mut self,
        verdict: &Verdict,
        downlink_bits: usize,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<(Committed, Option<Finish>), EdgeError> {
        let Some(drafting) = self.drafting.as_mut().filter(|d| d.phase == Phase::AwaitVerdict) else {
            return Err(EdgeError::Unexpected { frame: "Verdict" });
        };
        let accepted = usize::from(verdict.accepted);
        let drafted: Vec<u32> = drafting.drafts.drain(..).map(|draft| draft.id).collect();
        let impossible = |what| Err(EdgeError::ImpossibleVerdict { what });
        if verdict.round != drafting.round {
            return impossible("it is for another round");
        }
        if accepted > drafted.len() {
            return impossible("it accepts more than was drafted");
        }
        if verdict.token.is_some_and(|token| token >= self.vocab_size) {
            return impossible("its token is outside the vocabulary");
        }
        if verdict.token.is_none() && accepted == 0 {
            return impossible("it commits nothing");
        }
        let prefix = self.committed.len();
        if prefix + accepted + usize::from(verdict.token.is_some()) > drafting.length_limit {
            return impossible("it commits more than was asked for");
        }
        drafting.cached = drafting.cached.min(prefix + accepted);
        self.committed.extend(&drafted[..accepted]);
        self.committed.extend(verdict.token);
        drafting.phase = Phase::Fresh;
        drafting.round += 1;
        if verdict.finish.is_none() && self.committed.len() >= drafting.length_limit {
            return impossible("it goes on past the end");
        }

        let (uplink_bits, sent_at) = drafting.sent;
        let record = RoundRecord {
            round: verdict.round,
            accepted,
            token: verdict.token,
            payload_bits: drafted.len() * drafting.scheme.token_bits() as usize,
            uplink_bits,
            downlink_bits,
            draft_ms: milliseconds(sent_at.saturating_sub(drafting.round_started)),
            round_trip_ms: milliseconds(now.saturating_sub(sent_at)),
            drafted,
        };
        let origin = if accepted < record.drafted.len() { Origin::Resampled } else { Origin::Bonus };
        let tokens: Vec<(u32, Origin)> = record.drafted[..accepted]
            .iter()
            .map(|&id| (id, Origin::Accepted))
            .chain(verdict.token.map(|id| (id, origin)))
            .collect();
        statistics.rounds += 1;
        statistics.drafted += record.drafted.len();
        // A round that an accepted end-of-text token ended has no rejected draft.
        let rejected = accepted < record.drafted.len() && verdict.token.is_some();
        statistics.judged += accepted + usize::from(rejected);
        statistics.accepted += accepted;
        statistics.payload_bits += record.payload_bits;
        statistics.draft_frame_bits += uplink_bits;
        statistics.drafting += sent_at.saturating_sub(drafting.round_started);
        statistics.round_trip = now.saturating_sub(sent_at);
        self.count(tokens.len(), statistics, now);
        Ok((Committed { tokens, round: Some(record) }, verdict.finish))
    }

    pub(super) fn handle_token(
        &mut self,
        token: &Token,
        statistics: &mut Statistics,
        now: Duration,
    ) -> Result<(Committed, Option<Finish>), EdgeError> {
        if self.drafting.is_some() {
            return Err(EdgeError::Unexpected { frame: "Token" });
        }
        if token.token >= self.vocab_size {
            return Err(EdgeError::ImpossibleVerdict { what: "its token is outside the vocabulary" });
        }
        self.committed.push(token.token);
        self.count(1, statistics, now);
        Ok((Committed { tokens: vec![(token.token, Origin::Cloud)], round: None }, token.finish))
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
    fn wants_another(&self, committed: &[u32], eos_ids: &[u32]) -> bool {
        let length = committed.len() + self.drafts.len();
        self.drafts.len() < self.draft_length
            // One place is the cloud's own token's.
            && length + 1 < self.length_limit
            && length <= self.draft_context
            && !self.drafts.last().is_some_and(|draft| eos_ids.contains(&draft.id))
    }

    /// The pass that gives the next draft's distribution: feeds what the cache lacks.
    fn forward(&self, committed: &[u32]) -> Forward {
        let drafted = self.drafts.iter().map(|draft| draft.id);
        let tokens = committed.iter().copied().chain(drafted).skip(self.cached).collect();
        Forward { keep: self.cached, tokens, rows: 1 }
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
    if matches!(settings.mode, Mode::Speculative { draft_length: 0, .. }) {
        return setting("the draft length", "at least 1");
    }
    Ok(())
}
