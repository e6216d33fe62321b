//! One generation on the edge: its text, and the end that writes it.

use core::time::Duration;

use outrider_codec::{
    frame::{Finish, Frame, Prompt, Request, Tokens},
    rule::RuleParameters,
};

use super::{
    candidates::Candidates,
    drafter::Drafter,
    drafting::Drafting,
    error::{EdgeError, StartError},
    event::{Committed, Origin},
    guessing::Guessing,
    learned::{Learned, Lessons},
    ledger::{Books, Ledger},
    planner::Planner,
    reaction::{LogitsRow, Reaction, Received, Step},
    settings::{self, Ends, Mode, Settings},
    text::Text,
};
use crate::{
    Choice, Chosen, Forward, TopK,
    control::{ahead::AheadController, observation::Observation},
    judge::Verification,
};

/// A generation under way.
#[derive(Debug)]
pub(super) struct Generation {
    number: u32,
    text: Text,
    writer: Writer,
}

/// The end that writes the text.
#[derive(Debug)]
enum Writer {
    /// Both ends, in rounds.
    Rounds(Box<Drafting>),
    /// The target, and the edge drafts ahead of it.
    Ahead(Box<Guessing>),
    /// The target, without drafts.
    Target(Stream),
}

/// Times of a text that comes from the target alone.
#[derive(Debug, Default)]
struct Stream {
    /// Times of the first tokens and of the last.
    came: Option<(Duration, Duration)>,
    /// Tokens after the first ones, and the frames that they came in.
    tokens: usize,
    frames: usize,
}

/// The rest of a generation whose server has forgotten it.
#[derive(Debug)]
pub(super) struct Rest {
    /// The text as far as it was reported, its prompt included.
    pub(super) text: Vec<u32>,
    /// Tokens that may still follow, and the reason why no more.
    pub(super) left: usize,
    pub(super) limit: Finish,
    /// Guesses at the text that follows.
    pub(super) guesses: Option<Candidates>,
    /// Tokens at its end that have passed since the target's last pass.
    pub(super) passed: usize,
}

impl Generation {
    /// Begins a generation after a prompt, with the frame that asks for it. What was learned is taken only if nothing
    /// fails.
    pub(super) fn new(
        number: u32,
        prompt: Vec<u32>,
        settings: &Settings,
        ends: Ends<'_>,
        lessons: &mut Lessons,
    ) -> Result<(Self, Frame), StartError> {
        settings::check(&prompt, settings, ends)?;
        let Settings { sampling, seed, max_new_tokens, .. } = *settings;
        let request = Request { generation: number, sampling, seed, max_new_tokens, tokens: prompt.clone() };
        let text = Text::new(prompt, max_new_tokens, ends.server);
        let speculation = match &settings.mode {
            Mode::Speculative(speculation) => speculation,
            Mode::Ahead(ahead) => {
                let guessing = Guessing::new(number, *ahead, settings, ends, lessons)?;
                return Ok((
                    Self { number, text, writer: Writer::Ahead(Box::new(guessing)) },
                    Frame::Generate(request),
                ));
            }
            // It has been resolved.
            Mode::Auto(_) | Mode::CloudOnly => {
                return Ok((
                    Self { number, text, writer: Writer::Target(Stream::default()) },
                    Frame::Generate(request),
                ));
            }
        };
        let drafter = Drafter::new(speculation, settings, ends.draft.vocab_size, text.ids(), &lessons.thresholds)?;
        let learned = Learned::new(speculation, sampling, ends.server, lessons.rounds.take());
        let max_in_flight = speculation.max_in_flight.min(ends.server.limits.max_in_flight);
        let planner = Planner::new(speculation, ends, learned);
        let writer = Writer::Rounds(Box::new(Drafting::new(number, drafter, planner, max_in_flight)));
        let rule = RuleParameters { number: speculation.rule.number(), parameter: speculation.rule.parameter() as f32 };
        let (scheme, evidence) = (speculation.scheme, speculation.explain);
        let blocks = speculation.verification == Verification::Block;
        let prompt = Prompt { request, scheme, rule, evidence, blocks, max_in_flight };
        Ok((Self { number, text, writer }, Frame::Prompt(prompt)))
    }

    /// Passes on what has been learned of the link and the models, to the next generation.
    pub(super) fn teach(self, lessons: &mut Lessons) {
        self.writer.teach(lessons);
    }

    /// Returns what another generation would go on from: the text without unreported tokens of a sequence cascade.
    pub(super) fn into_rest(mut self, lessons: &mut Lessons) -> Rest {
        let mut text = self.text;
        text.take_back(self.writer.rounds().map_or(0, Drafting::held));
        let (left, limit) = (text.left(), text.limit());
        let passed = self.writer.rounds().map_or(0, Drafting::passed);
        let guesses = match &mut self.writer {
            Writer::Ahead(guessing) => Some(guessing.take_candidates()),
            _ => None,
        };
        self.writer.teach(lessons);
        Rest { text: text.into_ids(), left, limit, guesses, passed }
    }

    /// Takes the guesses of the same text in a session that the server has forgotten, and the number of tokens that had
    /// passed since the target's last pass.
    pub(super) fn take_over(&mut self, guesses: Option<Candidates>, passed: usize) {
        match (&mut self.writer, guesses) {
            (Writer::Ahead(guessing), Some(guesses)) => guessing.take_over(guesses),
            (Writer::Rounds(drafting), _) => drafting.after_passed(passed),
            _ => {}
        }
    }

    /// The guesses after the text, and for each the chance that it and all before it are right.
    pub(super) fn line(&self) -> (Vec<u32>, Vec<f64>) {
        match &self.writer {
            Writer::Ahead(guessing) => guessing.line(),
            _ => Default::default(),
        }
    }

    /// True if there are guesses after the text.
    pub(super) fn is_guessing(&self) -> bool {
        matches!(&self.writer, Writer::Ahead(guessing) if guessing.has_guesses())
    }

    /// A forward pass that continues the guesses without a connection, up to `most` of them.
    pub(super) fn offline_step(&mut self, most: usize, now: Duration) -> Option<Forward> {
        match &mut self.writer {
            Writer::Ahead(guessing) => guessing.offline_step(&self.text, most, now),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Prompt and committed tokens.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// Notes that everything was sent again: the time between was neither the link's nor the server's.
    pub(super) fn resent(&mut self, now: Duration) {
        match &mut self.writer {
            Writer::Rounds(drafting) => drafting.resent(now),
            Writer::Ahead(guessing) => guessing.resumed(),
            Writer::Target(stream) => *stream = Stream::default(),
        }
    }

    /// True if a round awaits its verdict.
    pub(super) fn awaits(&self, round: u32) -> bool {
        self.writer.rounds().is_some_and(|drafting| drafting.awaits(round))
    }

    /// True if drafting goes on while rounds await their verdict.
    pub(super) fn is_ahead(&self) -> bool {
        match &self.writer {
            Writer::Rounds(drafting) => drafting.is_ahead(),
            Writer::Ahead(guessing) => guessing.is_ahead(&self.text),
            Writer::Target(_) => false,
        }
    }

    /// True if the next draft is worth little.
    pub(super) fn has_time(&self) -> bool {
        matches!(&self.writer, Writer::Ahead(guessing) if guessing.has_time(&self.text))
    }

    /// The next step, if there is one.
    pub(super) fn next_step(&mut self, now: Duration) -> Option<Step> {
        match &mut self.writer {
            Writer::Rounds(drafting) => drafting.next_step(&mut self.text, now),
            Writer::Ahead(guessing) => guessing.next_step(&self.text, now),
            Writer::Target(_) => None,
        }
    }

    /// A row of logits has come.
    pub(super) fn handle_logits(
        &mut self,
        row: LogitsRow<'_>,
        ledger: &mut Ledger,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let books = &mut Books { text: &mut self.text, ledger };
        match &mut self.writer {
            Writer::Rounds(drafting) => drafting.handle_logits(row, books, now),
            Writer::Ahead(guessing) => guessing.handle_logits(row, books, now),
            Writer::Target(_) => Ok(Reaction::Wait),
        }
    }

    /// The choice by which the engine may choose the guesses of the pass under way.
    pub(super) fn choice(&self) -> Option<Choice> {
        match &self.writer {
            Writer::Rounds(drafting) => drafting.choice(&self.text),
            Writer::Ahead(guessing) => guessing.choice(&self.text),
            Writer::Target(_) => None,
        }
    }

    /// Number of logits of the rows to come that are enough, if not all are needed.
    pub(super) fn top_k(&self) -> Option<TopK> {
        self.writer.rounds()?.top_k()
    }

    /// Takes guesses that the draft model's engine has chosen.
    pub(super) fn handle_chosen(
        &mut self,
        chosen: &[Chosen],
        ledger: &mut Ledger,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let books = &mut Books { text: &mut self.text, ledger };
        match &mut self.writer {
            Writer::Rounds(drafting) => drafting.handle_chosen(chosen, books.text),
            Writer::Ahead(guessing) => guessing.handle_chosen(chosen, books, now),
            Writer::Target(_) => Ok(Reaction::Wait),
        }
    }

    /// A frame of this generation has come.
    pub(super) fn handle_frame(
        &mut self,
        frame: Frame,
        received: Received,
        ledger: &mut Ledger,
    ) -> Result<Reaction, EdgeError> {
        let unexpected = EdgeError::Unexpected { frame: frame.name() };
        if let Frame::Tokens(tokens) = frame {
            return self.handle_tokens(&tokens, ledger, received);
        }
        let Writer::Rounds(drafting) = &mut self.writer else { return Err(unexpected) };
        let books = &mut Books { text: &mut self.text, ledger };
        match frame {
            Frame::Verdict(verdict) => drafting.handle_verdict(verdict, received, books),
            Frame::Distribution(answer) => drafting.handle_distribution(&answer, received, books),
            Frame::Evidence(evidence) => drafting.handle_evidence(evidence, books.text),
            _ => Err(unexpected),
        }
    }

    /// Takes tokens that the target wrote.
    fn handle_tokens(
        &mut self,
        tokens: &Tokens,
        ledger: &mut Ledger,
        received: Received,
    ) -> Result<Reaction, EdgeError> {
        let Tokens { position, ref ids, finish, .. } = *tokens;
        if (position as usize) < self.text.len() {
            return Ok(Reaction::Stale);
        }
        if position as usize > self.text.len() {
            return Err(EdgeError::ImpossibleVerdict { what: "there is a token missing before it" });
        }
        let books = &mut Books { text: &mut self.text, ledger };
        let committed = match &mut self.writer {
            Writer::Ahead(guessing) => guessing.handle_tokens(tokens, received, books)?,
            writer => {
                if tokens.accepted > 0 && !tokens.own {
                    return Err(EdgeError::ImpossibleVerdict { what: "it accepts a guess that was not made" });
                }
                if writer.rounds().is_some_and(|drafting| !drafting.awaits_tokens()) {
                    return Err(EdgeError::Unexpected { frame: "Tokens" });
                }
                for (&id, left) in ids.iter().zip((0..ids.len()).rev()) {
                    books.text.write_streamed(id, finish.filter(|_| left == 0))?;
                    if let Writer::Rounds(drafting) = writer {
                        drafting.streamed(id, books.ledger, received.at);
                    }
                }
                if let Writer::Target(stream) = writer {
                    stream.wrote(ids.len(), received.at);
                }
                books.ledger.wrote(ids.len(), received.at);
                let tokens = ids.iter().map(|&id| (id, Origin::Cloud)).collect();
                Committed { tokens, evidence: Vec::new(), round: None }
            }
        };
        Ok(Reaction::Commit { committed, finish, tell: false })
    }
}

impl Stream {
    fn wrote(&mut self, tokens: usize, now: Duration) {
        if let Some((_, last)) = &mut self.came {
            *last = now;
            self.tokens += tokens;
            self.frames += 1;
        } else {
            self.came = Some((now, now));
        }
    }

    /// Passes on the target's speed without guesses: beside an edge on the same machine it shows in no other way.
    fn teach(self, lessons: &mut Lessons) {
        let Self { came: Some((first, last)), tokens, frames } = self else { return };
        let took = last.saturating_sub(first);
        if tokens > 0 && !took.is_zero() {
            let controller = lessons.ahead.get_or_insert_with(|| AheadController::new(None));
            controller.observe(Observation::WrittenAlone { tokens, passes: frames, took });
        }
    }
}

impl Writer {
    fn rounds(&self) -> Option<&Drafting> {
        if let Self::Rounds(drafting) = self { Some(drafting) } else { None }
    }

    fn teach(self, lessons: &mut Lessons) {
        match self {
            Self::Rounds(drafting) => drafting.teach(lessons),
            Self::Ahead(guessing) => guessing.teach(lessons),
            Self::Target(stream) => stream.teach(lessons),
        }
    }
}
