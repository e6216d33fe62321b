//! The drafting half of a generation: what a round has so far, what it still takes, and what the edge waits for.

use core::time::Duration;

use outrider_codec::{
    error::ParameterError,
    frame::{Draft, Evidence, Frame, MAX_DRAFT_TOKENS, SamplingParameters, Welcome},
    scheme::SchemeParameters,
};

use super::{
    DraftInfo,
    drafter::Drafter,
    settings::{Settings, Speculation},
};
use crate::{
    Forward,
    control::{ControlParameters, Controller},
    passing::{Held, Passing},
    rules::Rule,
};

/// What a generation has learned of the link and the models, and where.
#[derive(Debug)]
pub(super) struct Learned {
    circumstances: Circumstances,
    pub(super) controller: Controller,
}

/// What acceptance and times depend on: other ones have to be learned anew.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Circumstances {
    control: ControlParameters,
    scheme: SchemeParameters,
    rule: Rule,
    passing: Passing,
    sampling: SamplingParameters,
}

/// What a speculative generation has besides.
#[derive(Debug)]
pub(super) struct Drafting {
    pub(super) drafter: Drafter,
    pub(super) learned: Learned,
    pub(super) rule: Rule,
    pub(super) passing: Passing,
    /// The most drafts that the server takes.
    pub(super) longest: usize,
    pub(super) draft_context: usize,
    /// How many of `committed` followed by the drafts the draft model's cache holds. What it holds beyond a verdict
    /// is cut by the next pass.
    pub(super) cached: usize,
    pub(super) round: u32,
    pub(super) phase: Phase,
    /// The token that the edge put in place of the last round's rejected draft; the cloud does not know it yet.
    pub(super) resampled: Option<u32>,
    /// Tokens committed without asking since the last round; the cloud does not know them yet.
    pub(super) passed: Vec<u32>,
    /// What a sequence cascade has committed here and told nobody.
    pub(super) held: Option<Held>,
    /// What the round's drafts were judged by.
    pub(super) evidence: Vec<Evidence>,
    /// When the last streamed token came.
    pub(super) streamed_at: Option<Duration>,
    /// When the round began.
    pub(super) round_started: Duration,
    pub(super) sent: Sent,
}

/// The frame that awaits its verdict.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) at: Duration,
    pub(super) frame_bits: usize,
    pub(super) payload_bits: usize,
    /// Tokens that passed before the round's drafts.
    pub(super) passed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// A round is about to begin.
    Fresh,
    /// Drafts are being made.
    Open,
    /// A pass is under way that gives so many rows.
    AwaitLogits(usize),
    /// The frame is under way.
    AwaitVerdict,
    /// The target writes so many tokens alone.
    AwaitTokens(u32),
    /// The verdict has come: so many drafts stand, at a cost of so many bits down. The target's distribution at the next
    /// has been asked for.
    AwaitDistribution { accepted: usize, downlink_bits: usize },
}

impl Drafting {
    /// Before the first round.
    pub(super) fn new(
        speculation: &Speculation,
        prompt: &[u32],
        settings: &Settings,
        draft: &DraftInfo,
        server: &Welcome,
        learned: &mut Option<Learned>,
        now: Duration,
    ) -> Result<Self, ParameterError> {
        let Settings { sampling, seed, .. } = *settings;
        let heads = draft.heads.clone();
        let drafter = Drafter::new(speculation, draft.vocab_size, prompt, sampling, seed, heads)?;
        Ok(Self {
            drafter,
            // From here on nothing fails: what was learned is not lost.
            learned: Learned::new(Circumstances::new(speculation, sampling, server), learned.take()),
            rule: speculation.rule,
            passing: speculation.passing,
            longest: server.max_draft_tokens.min(MAX_DRAFT_TOKENS).into(),
            draft_context: draft.context_length as usize,
            cached: 0,
            round: 0,
            phase: Phase::Fresh,
            resampled: None,
            passed: Vec::new(),
            held: matches!(speculation.passing, Passing::SequenceCascade { .. }).then(Held::default),
            evidence: Vec::new(),
            streamed_at: None,
            round_started: now,
            sent: Sent { at: now, frame_bits: 0, payload_bits: 0, passed: 0 },
        })
    }

    /// Whether another token is to be drafted, or to pass, before the frame is sent.
    pub(super) fn wants_another(&self, committed: &[u32], eos_ids: &[u32], length_limit: usize) -> bool {
        let ids = self.drafter.ids();
        let length = committed.len() + ids.len();
        (self.may_pass(length, length_limit) || self.may_draft(length, length_limit))
            && length <= self.draft_context
            && !ids.last().is_some_and(|id| eos_ids.contains(id))
    }

    /// Whether a token may pass, `length` tokens into the text. It takes nothing of the round, and may be the last.
    fn may_pass(&self, length: usize, length_limit: usize) -> bool {
        let at_start = self.drafter.ids().is_empty() && !self.drafter.is_full();
        self.passing != Passing::Never && at_start && length < length_limit
    }

    /// Whether the round has room for a draft, `length` tokens into the text.
    pub(super) fn may_draft(&self, length: usize, length_limit: usize) -> bool {
        let drafted = self.drafter.ids().len();
        // One place is the cloud's own token's, where it has one.
        let places = length_limit - usize::from(self.rule.has_bonus());
        drafted < self.longest && self.learned.controller.wants(drafted) && self.drafter.has_room() && length < places
    }

    /// Asks the target to write so many tokens alone.
    pub(super) fn stream(&mut self, generation: u32, tokens: u32, now: Duration) -> Vec<u8> {
        let frame = Frame::Draft(Draft {
            generation,
            round: self.round,
            resampled: self.resampled.take(),
            passed: std::mem::take(&mut self.passed),
            stream: tokens,
            ..Draft::default()
        });
        let bytes = frame.encode();
        self.phase = Phase::AwaitTokens(tokens);
        self.streamed_at = None;
        self.sent = Sent { at: now, frame_bits: bytes.len() * 8, payload_bits: 0, passed: 0 };
        bytes
    }

    /// A token came that the target wrote alone.
    pub(super) fn streamed(&mut self, token: u32, now: Duration) {
        self.drafter.streamed(token);
        self.learned.controller.token_streamed(self.streamed_at.map(|last| now.saturating_sub(last)));
        self.streamed_at = Some(now);
        if let Phase::AwaitTokens(left) = self.phase {
            self.phase = if left > 1 { Phase::AwaitTokens(left - 1) } else { Phase::Fresh };
            self.round += u32::from(left == 1);
        }
    }

    /// The pass that gives the next draft's distribution: feeds what the cache lacks.
    pub(super) fn forward(&self, committed: &[u32]) -> Forward {
        let tokens: Vec<u32> = committed.iter().chain(self.drafter.ids()).copied().skip(self.cached).collect();
        // The row of the last bonus token is there to be had where the token before it has not been read yet.
        let rows = 1 + usize::from(self.drafter.wants_bonus_row() && tokens.len() > 1);
        Forward { keep: self.cached, tokens, rows }
    }
}

impl Learned {
    /// Goes on from what an earlier generation learned, if its circumstances were the same.
    fn new(circumstances: Circumstances, earlier: Option<Self>) -> Self {
        let earlier = earlier.filter(|earlier| earlier.circumstances == circumstances);
        let mut learned =
            earlier.unwrap_or_else(|| Self { controller: Controller::new(circumstances.control), circumstances });
        learned.controller.next_generation();
        learned
    }
}

impl Circumstances {
    fn new(speculation: &Speculation, sampling: SamplingParameters, server: &Welcome) -> Self {
        let control = ControlParameters {
            stop: speculation.stop,
            draft_length: speculation.draft_length,
            longest: server.max_draft_tokens.min(MAX_DRAFT_TOKENS).into(),
            adaptive_mode: speculation.adaptive_mode,
            has_bonus: speculation.rule.has_bonus(),
        };
        let Speculation { scheme, rule, passing, .. } = *speculation;
        Self { control, scheme, rule, passing, sampling }
    }
}
