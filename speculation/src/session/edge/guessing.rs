//! Guesses at a text that the target writes: drafted ahead of it, sent as they come, and compared with what is written.
//!
//! Nobody waits for a verdict. The edge drafts what the shared noise makes of its own distribution, as under coupled
//! drafting. Where the target wrote otherwise it drops what it guessed behind that, and goes on from there.

use core::time::Duration;
use std::collections::VecDeque;

use outrider_codec::{
    error::ParameterError,
    frame::{Frame, Guesses, SamplingParameters, Tokens},
    scheme::{Drafts, Scheme, SchemeParameters},
};

use super::{
    error::EdgeError,
    event::{Committed, Origin},
    ledger::Books,
    reaction::{LogitsRow, Reaction, Received, Step},
    settings::{Ahead, Ends, Settings},
    text::Text,
};
use crate::{
    Forward,
    draft::DraftError,
    policy::ahead::Pace,
    sample::{Distribution, SharedNoise},
    study::evidence::TokenEvidence,
};

/// What an edge guesses of one generation.
#[derive(Debug)]
pub(super) struct Guessing {
    generation: u32,
    /// S(·) of the draft model.
    sampling: SamplingParameters,
    noise: SharedNoise,
    /// How ids are coded.
    scheme: Scheme,
    /// The most guesses that the server lets lie ahead of the text.
    most: usize,
    /// The most tokens that the draft model reads.
    context: usize,
    pace: Pace,
    /// Guesses at the tokens behind the end of the text.
    ahead: VecDeque<u32>,
    /// What they were drawn from, where that is told.
    evidence: Option<VecDeque<TokenEvidence>>,
    /// How many of them were sent.
    sent: usize,
    /// Number of the last chain.
    chain: u32,
    /// Position behind the last guess that was sent of it; `None` if it is broken.
    end: Option<usize>,
    /// The patience that the server was told of last.
    told_patience: u32,
    /// Tokens of text and guesses that the draft model's cache holds.
    cached: usize,
    /// The forward pass under way.
    draft: Option<DraftUnderWay>,
    frames: FramesUnheard,
}

/// A forward pass of the draft model.
#[derive(Debug)]
struct DraftUnderWay {
    began: Duration,
    /// Whether the text has gone another way meanwhile.
    is_stale: bool,
}

/// When frames were sent that the server has not yet said to have.
#[derive(Debug, Default)]
struct FramesUnheard {
    sent: VecDeque<Duration>,
    /// How many the server had when it spoke last, modulo 256; `None` if that has to be learned anew.
    heard: Option<u8>,
}

impl Guessing {
    /// Before the first guess.
    pub(super) fn new(
        generation: u32,
        ahead: Ahead,
        settings: &Settings,
        ends: Ends<'_>,
        pace: Option<Pace>,
    ) -> Result<Self, ParameterError> {
        let mut pace = pace.unwrap_or_else(|| Pace::new(ahead.fixed));
        pace.next_generation(ahead.fixed, ahead.goal);
        Ok(Self {
            generation,
            sampling: settings.draft_sampling(),
            noise: SharedNoise::new(settings.seed),
            scheme: Scheme::new(SchemeParameters::Coupled, ends.draft.vocab_size)?,
            most: ends.server.max_guesses.min(ends.server.max_draft_tokens).into(),
            context: ends.draft.context_length as usize,
            pace,
            ahead: VecDeque::new(),
            evidence: ahead.evidence.then(VecDeque::new),
            sent: 0,
            chain: 0,
            end: None,
            told_patience: 0,
            cached: 0,
            draft: None,
            frames: FramesUnheard { heard: Some(0), ..FramesUnheard::default() },
        })
    }

    /// What has been measured, for the next generation.
    pub(super) fn into_pace(self) -> Pace {
        self.pace
    }

    /// The connection is another: what was under way may be lost.
    pub(super) fn resumed(&mut self) {
        (self.sent, self.end) = (0, None);
        self.frames = FramesUnheard::default();
    }

    /// Whether there is something to draft.
    pub(super) fn is_ahead(&self, text: &Text) -> bool {
        self.draft.is_none() && self.wants_another(text)
    }

    /// What is to be done next, if anything.
    pub(super) fn next_step(&mut self, text: &Text, now: Duration) -> Option<Step> {
        let drafts = self.wants_another(text);
        let unsent = self.ahead.len() - self.sent;
        if unsent >= self.pace.plan().group || unsent > 0 && !drafts {
            return Some(Step::Tell(self.send(text, now)));
        }
        // It is to wait for the first guesses, too.
        let patience = self.pace.plan().patience_on_the_wire();
        if drafts && self.chain == 0 && patience > 0 {
            return Some(Step::Tell(self.tell(text, patience, 0, now)));
        }
        // The server must not wait for what will not come.
        if !drafts && self.sent == 0 && self.told_patience > 0 {
            return Some(Step::Tell(self.tell(text, 0, 0, now)));
        }
        if !drafts || self.draft.is_some() {
            return None;
        }
        let length = text.len() + self.ahead.len();
        let tokens: Vec<u32> = text.ids().iter().copied().chain(self.ahead.iter().copied()).skip(self.cached).collect();
        let forward = Forward { keep: self.cached, tokens, rows: 1 };
        self.cached = length;
        self.draft = Some(DraftUnderWay { began: now, is_stale: false });
        Some(Step::Forward(forward))
    }

    /// Whether another guess is of use: a server with room for it, a text and a draft model that go on.
    fn wants_another(&self, text: &Text) -> bool {
        let length = text.len() + self.ahead.len();
        // The last token is the target's own in any case.
        let goes_on = length + 1 < text.length_limit() && length < self.context;
        let is_end = self.ahead.back().is_some_and(|&id| text.is_end(id));
        goes_on && !is_end && !self.pace.rests() && self.ahead.len() < self.pace.lead().min(self.most)
    }

    /// Sends the guesses that have not been.
    fn send(&mut self, text: &Text, now: Duration) -> Vec<u8> {
        let (patience, count) = (self.pace.plan().patience_on_the_wire(), self.ahead.len() - self.sent);
        self.tell(text, patience, count, now)
    }

    /// A frame of the next `count` guesses.
    fn tell(&mut self, text: &Text, patience: u32, count: usize, now: Duration) -> Vec<u8> {
        let position = text.len() + self.sent;
        if self.end != Some(position) {
            self.chain += 1;
        }
        self.end = Some(position + count);
        let ids = self.ahead.range(self.sent..self.sent + count).copied().collect();
        self.sent += count;
        self.told_patience = patience;
        self.frames.sent.push_back(now);
        // Every id is below V.
        let payload = self.scheme.encode_round(&Drafts::Ids(ids)).unwrap_or_default();
        Frame::Guesses(Guesses {
            generation: self.generation,
            chain: self.chain,
            position: position as u32,
            patience,
            count: count as u8,
            payload,
        })
        .encode()
    }

    /// A row of logits has come.
    pub(super) fn handle_logits(
        &mut self,
        row: LogitsRow<'_>,
        books: &mut Books<'_>,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let Some(DraftUnderWay { began, is_stale }) = self.draft.take() else { return Ok(Reaction::Wait) };
        row.check(books.text.vocab_size())?;
        let time = now.saturating_sub(began);
        self.pace.drafted(time);
        books.ledger.guessed(time);
        if !is_stale {
            let q = Distribution::new(row.logits, &self.sampling).map_err(DraftError::from)?;
            self.ahead.push_back(self.noise.choose_from(books.text.len() + self.ahead.len(), &q));
            if let Some(evidence) = &mut self.evidence {
                evidence.push_back(TokenEvidence::of_guess(&q.dense(), self.scheme.fixed_token_bits()));
            }
        }
        Ok(Reaction::Wait)
    }

    /// Tokens have come, which are committed. Gives where each came from.
    pub(super) fn handle_tokens(
        &mut self,
        tokens: &Tokens,
        received: Received,
        books: &mut Books<'_>,
    ) -> Result<Committed, EdgeError> {
        let mut committed = Vec::with_capacity(tokens.ids.len());
        let mut evidence = Vec::new();
        for (index, &id) in tokens.ids.iter().enumerate() {
            let judged = index < tokens.accepted.into() && !tokens.own;
            let guess = self.ahead.front().copied();
            // What was sent is not asked: over another connection come answers to what was sent over the last.
            if judged && guess != Some(id) {
                return Err(EdgeError::ImpossibleVerdict { what: "it accepts a guess that was not made" });
            }
            if let Some(guess) = guess {
                self.pace.compared(guess == id);
                books.ledger.compared(guess == id, judged);
            }
            if let Some(known) = &mut self.evidence {
                evidence.push(known.pop_front().unwrap_or_default());
            }
            self.follow(guess, id, books.text.len());
            let is_last = index + 1 == tokens.ids.len();
            books.text.write_streamed(id, tokens.finish.filter(|_| is_last))?;
            committed.push((
                id,
                match guess {
                    _ if judged => Origin::Accepted,
                    Some(guess) if guess == id => Origin::Late,
                    _ => Origin::Cloud,
                },
            ));
        }
        let pass = Duration::from_micros(100) * tokens.pass;
        if let Some(after) = books.ledger.awaited(received.at).filter(|_| !pass.is_zero()) {
            self.pace.began(after, pass);
        }
        if let Some(sent) = self.frames.hear(tokens.heard) {
            self.pace.answered(received.at.saturating_sub(sent), pass);
        }
        if !pass.is_zero() {
            self.pace.passed(pass, if tokens.own { 0 } else { tokens.accepted.into() });
        }
        let has_news = self.pace.written(tokens.ids.len(), received.at);
        if has_news || tokens.finish.is_some() {
            books.ledger.paced(self.pace.record());
        }
        books.ledger.wrote(tokens.ids.len(), received.at);
        Ok(Committed { tokens: committed, evidence, round: None })
    }

    /// Goes on behind a token of the text at a position, where something may have been guessed.
    fn follow(&mut self, guess: Option<u32>, token: u32, position: usize) {
        match guess {
            Some(guess) if guess == token => {
                self.ahead.pop_front();
                self.sent = self.sent.saturating_sub(1);
            }
            _ => {
                self.ahead.clear();
                self.evidence.iter_mut().for_each(VecDeque::clear);
                (self.sent, self.end) = (0, None);
                self.cached = self.cached.min(position);
                if let Some(draft) = &mut self.draft {
                    draft.is_stale = true;
                }
            }
        }
    }
}

impl FramesUnheard {
    /// The server had so many frames, modulo 256. Gives when the last of those was sent that it had not before.
    fn hear(&mut self, heard: u8) -> Option<Duration> {
        let Some(before) = self.heard.replace(heard) else {
            self.sent.clear();
            return None;
        };
        let new = usize::from(heard.wrapping_sub(before)).min(self.sent.len());
        self.sent.drain(..new).next_back()
    }
}
