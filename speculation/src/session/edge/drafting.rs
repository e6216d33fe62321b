//! The drafting half of a generation: what a round has so far, what it still takes, and what the edge waits for.

use core::time::Duration;
use std::collections::VecDeque;

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
    judge::rules::Rule,
    policy::{
        control::{ControlParameters, Controller},
        passing::{Held, Passing},
    },
    study::statistics::Statistics,
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
    /// The continued rounds in flight, oldest first; all were drafted as if those before them stood.
    earlier: VecDeque<Round>,
    /// The round being drafted, or in flight without being continued.
    pub(super) current: Round,
    pub(super) learned: Learned,
    pub(super) rule: Rule,
    pub(super) passing: Passing,
    /// The most drafts that the server takes.
    pub(super) longest: usize,
    pub(super) draft_context: usize,
    /// The most rounds in flight.
    pub(super) window: u8,
    /// How many of `committed` followed by the drafts in flight and those of the round the draft model's cache holds. What it holds
    /// beyond a verdict is cut by the next pass.
    pub(super) cached: usize,
    /// How many continued rounds have fallen.
    pub(super) epoch: u32,
    pub(super) phase: Phase,
    /// Rows that are still to come of a pass that a verdict has made moot.
    pub(super) moot: usize,
    /// The token that the edge put in place of the last round's rejected draft; the cloud does not know it yet.
    pub(super) resampled: Option<u32>,
    /// Tokens committed without asking since the last round; the cloud does not know them yet.
    pub(super) passed: Vec<u32>,
    /// What a sequence cascade has committed here and told nobody.
    pub(super) held: Option<Held>,
    /// When the last streamed token came.
    pub(super) streamed_at: Option<Duration>,
    /// When the last verdict came.
    pub(super) judged_at: Duration,
}

/// One round at the edge.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: u32,
    pub(super) drafter: Drafter,
    /// Whether others may follow it before its verdict.
    pub(super) continued: bool,
    /// What its drafts were judged by.
    pub(super) evidence: Vec<Evidence>,
    /// When its first pass was asked for.
    pub(super) started: Duration,
    /// How long it was drafted, once it is drafted.
    pub(super) drafting: Option<Duration>,
    /// Its frame, once it is in flight.
    pub(super) sent: Option<Sent>,
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
    /// Drafts are being made, or wait for a place among the rounds in flight.
    Open,
    /// A pass is under way that gives so many rows.
    AwaitLogits(usize),
    /// Nothing more is drafted before the verdict.
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
            earlier: VecDeque::new(),
            current: Round::new(0, drafter, now),
            // From here on nothing fails: what was learned is not lost.
            learned: Learned::new(Circumstances::new(speculation, sampling, server), learned.take()),
            rule: speculation.rule,
            passing: speculation.passing,
            longest: server.max_draft_tokens.min(MAX_DRAFT_TOKENS).into(),
            draft_context: draft.context_length as usize,
            window: speculation.max_in_flight.min(server.max_in_flight),
            cached: 0,
            epoch: 0,
            phase: Phase::Fresh,
            moot: 0,
            resampled: None,
            passed: Vec::new(),
            held: matches!(speculation.passing, Passing::SequenceCascade { .. }).then(Held::default),
            streamed_at: None,
            judged_at: now,
        })
    }

    /// The round whose verdict comes next, if it is in flight.
    pub(super) fn oldest(&self) -> &Round {
        self.earlier.front().unwrap_or(&self.current)
    }

    pub(super) fn oldest_mut(&mut self) -> &mut Round {
        self.earlier.front_mut().unwrap_or(&mut self.current)
    }

    /// Rounds that await their verdict.
    pub(super) fn in_flight(&self) -> usize {
        self.earlier.len() + usize::from(self.current.sent.is_some())
    }

    /// Whether there is no place for another round in flight.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight() >= self.window.into()
    }

    /// Whether a round awaits its verdict.
    pub(super) fn awaits(&self, round: u32) -> bool {
        let mut rounds = self.earlier.iter().chain([&self.current]);
        rounds.any(|other| other.number == round && other.sent.is_some())
    }

    /// How long the text is where the round being drafted begins.
    pub(super) fn base(&self, committed: usize) -> usize {
        committed + self.earlier.iter().map(|round| round.drafter.ids().len()).sum::<usize>()
    }

    /// Whether another token is to be drafted, or to pass, before the frame is sent.
    pub(super) fn wants_another(&self, committed: usize, eos_ids: &[u32], length_limit: usize) -> bool {
        let ids = self.current.drafter.ids();
        let length = self.base(committed) + ids.len();
        (self.may_pass(length, length_limit) || self.may_draft(length, length_limit))
            && length <= self.draft_context
            && !ids.last().is_some_and(|id| eos_ids.contains(id))
    }

    /// Whether a token may pass, `length` tokens into the text. It takes nothing of the round, and may be the last.
    fn may_pass(&self, length: usize, length_limit: usize) -> bool {
        let drafter = &self.current.drafter;
        let at_start = drafter.ids().is_empty() && !drafter.is_full();
        self.passing != Passing::Never && at_start && length < length_limit
    }

    /// Whether the round has room for a draft, `length` tokens into the text.
    pub(super) fn may_draft(&self, length: usize, length_limit: usize) -> bool {
        let drafter = &self.current.drafter;
        let drafted = drafter.ids().len();
        drafted < self.longest
            && self.learned.controller.wants(drafted)
            && drafter.has_room()
            && length < self.places(length_limit)
    }

    /// Where drafts have to end.
    fn places(&self, length_limit: usize) -> usize {
        // One place is the cloud's own token's, where it has one.
        length_limit - usize::from(self.rule.has_bonus())
    }

    /// Whether the round, as it is, is continued: a draft may follow its last. It hangs on what is drafted and on nothing else, not
    /// on what has arrived meanwhile, so that the text does not either.
    fn continues(&self, committed: usize, eos_ids: &[u32], length_limit: usize) -> bool {
        let drafter = &self.current.drafter;
        let length = self.base(committed) + drafter.ids().len();
        self.window > 1
            && drafter.ids().last().is_some_and(|id| !eos_ids.contains(id))
            && !drafter.defers()
            && length < self.places(length_limit)
            && length <= self.draft_context
    }

    /// Seals the round and sends it.
    pub(super) fn send(
        &mut self,
        generation: u32,
        committed: usize,
        eos_ids: &[u32],
        length_limit: usize,
        now: Duration,
    ) -> Vec<u8> {
        let continued = self.continues(committed, eos_ids, length_limit);
        let (payload, payload_bits) = self.current.drafter.payload();
        let passed = self.passed.len();
        let frame = Frame::Draft(Draft {
            generation,
            round: self.current.number,
            epoch: self.epoch,
            continued,
            resampled: self.resampled.take(),
            passed: std::mem::take(&mut self.passed),
            stream: 0,
            count: self.current.drafter.ids().len() as u8,
            payload,
        });
        let bytes = frame.encode();
        self.current.continued = continued;
        self.current.sent = Some(Sent { at: now, frame_bits: bytes.len() * 8, payload_bits, passed });
        self.phase = Phase::AwaitVerdict;
        if continued {
            let mut drafter = self.current.drafter.clone();
            drafter.settle(drafter.ids().len(), None);
            let next = Round::new(self.current.number + 1, drafter, now);
            self.earlier.push_back(std::mem::replace(&mut self.current, next));
            self.begin_next(committed);
        }
        bytes
    }

    /// The next round is about to begin, after this text and the drafts in flight.
    fn begin_next(&mut self, committed: usize) {
        // The last token is read for the row after it, and read again where that row was declined and no token came.
        self.cached = self.cached.min(self.base(committed) - 1);
        self.phase = Phase::Fresh;
    }

    /// The oldest round stands whole and others follow it.
    pub(super) fn advance(&mut self) -> Option<Round> {
        self.earlier.pop_front()
    }

    /// The rounds after the oldest go on from a text that is not: they are dropped.
    pub(super) fn drop_later(&mut self, statistics: &mut Statistics, now: Duration) {
        if let Phase::AwaitLogits(rows) = self.phase {
            self.moot = rows;
        }
        let Some(oldest) = self.earlier.pop_front() else { return };
        let last = std::mem::replace(&mut self.current, oldest);
        for round in self.earlier.drain(..).chain([last]) {
            statistics.wasted += round.sent.map_or(0, |_| round.drafter.ids().len());
            let is_begun = self.phase != Phase::Fresh;
            statistics.drafting +=
                round.drafting.unwrap_or(if is_begun { now.saturating_sub(round.started) } else { Duration::ZERO });
        }
        self.phase = Phase::AwaitVerdict;
    }

    /// The current round is settled: the next begins, after this text.
    pub(super) fn end_round(&mut self, committed: usize) {
        let Round { number, continued, .. } = self.current;
        self.epoch += u32::from(continued);
        self.current.number = number + 1;
        (self.current.continued, self.current.drafting, self.current.sent) = (false, None, None);
        self.begin_next(committed);
    }

    /// What was sent is sent again.
    pub(super) fn resent(&mut self, now: Duration) {
        for round in self.earlier.iter_mut().chain([&mut self.current]) {
            if let Some(sent) = &mut round.sent {
                sent.at = now;
            }
        }
        self.streamed_at = None;
    }

    /// Asks the target to write so many tokens alone.
    pub(super) fn stream(&mut self, generation: u32, tokens: u32) -> Vec<u8> {
        let frame = Frame::Draft(Draft {
            generation,
            round: self.current.number,
            epoch: self.epoch,
            resampled: self.resampled.take(),
            passed: std::mem::take(&mut self.passed),
            stream: tokens,
            ..Draft::default()
        });
        self.phase = Phase::AwaitTokens(tokens);
        self.streamed_at = None;
        frame.encode()
    }

    /// A token came that the target wrote alone.
    pub(super) fn streamed(&mut self, token: u32, now: Duration) {
        self.current.drafter.streamed(token);
        self.learned.controller.token_streamed(self.streamed_at.map(|last| now.saturating_sub(last)));
        self.streamed_at = Some(now);
        if let Phase::AwaitTokens(left) = self.phase {
            self.phase = if left > 1 { Phase::AwaitTokens(left - 1) } else { Phase::Fresh };
            self.current.number += u32::from(left == 1);
        }
    }

    /// The pass that gives the next draft's distribution: feeds what the cache lacks.
    pub(super) fn forward(&self, committed: &[u32]) -> Forward {
        let in_flight = self.earlier.iter().flat_map(|round| round.drafter.ids());
        let drafts = in_flight.chain(self.current.drafter.ids());
        let tokens: Vec<u32> = committed.iter().chain(drafts).copied().skip(self.cached).collect();
        // The row of the last bonus token is there to be had where the token before it has not been read yet.
        let rows = 1 + usize::from(self.current.drafter.wants_bonus_row() && tokens.len() > 1);
        Forward { keep: self.cached, tokens, rows }
    }
}

impl Round {
    /// A round of nothing yet.
    fn new(number: u32, drafter: Drafter, now: Duration) -> Self {
        Self { number, drafter, continued: false, evidence: Vec::new(), started: now, drafting: None, sent: None }
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
            has_bonus: speculation.rule.has_bonus() && speculation.max_in_flight == 1,
        };
        let Speculation { scheme, rule, passing, .. } = *speculation;
        Self { control, scheme, rule, passing, sampling }
    }
}
