//! The cloud's side of a session, without a socket, a model or a clock.
//!
//! Order of calls:
//!
//! 1. [`CloudSession::new`].
//! 2. Whenever bytes arrive: [`handle_frame`](CloudSession::handle_frame).
//! 3. After every call: [`poll`](CloudSession::poll) until it gives `None`, doing what it says:
//!    - `Send`: send these bytes.
//!    - `Forward`: run the pass and call [`handle_logits`](CloudSession::handle_logits) with the rows it asks for, or
//!      [`handle_failure`](CloudSession::handle_failure). One pass is under way at a time; frames may arrive meanwhile.
//!      A driver that cannot run passes, but can decide what becomes of a round, asks for the [`round`](CloudSession::round)
//!      and hands in rows that leave no other outcome.
//!    - `Close`: send nothing more, close the connection, free the cache.
//! 4. When the connection is gone, do not poll any more. If the session [is worth keeping](CloudSession::is_worth_keeping) keep it, and its
//!    cache, for a while; results of the pass under way are still handed in. When an edge with the session's ticket asks for it over
//!    another connection, call [`resume`](CloudSession::resume) and go on at 2.
//!
//! What was sent and may not have arrived is kept for that: the frames of a round until a Draft shows that the edge has them. What comes
//! twice changes nothing, nor does what was drafted in vain: an edge may have several rounds in flight, each as if those before
//! it all stood.
//!
//! The session owns the committed tokens. The cache holds the first `cached` of them after every verdict, so the prefix is
//! fed once and a round feeds the last committed token and its drafts.

use std::collections::VecDeque;

use outrider_codec::{
    error::DecodeError,
    frame::{Draft, ErrorCode, ErrorFrame, Frame, Hello, Request, Resume, Ticket, Welcome},
};

use crate::Forward;

mod events;
mod flight;
mod generation;

pub use events::CloudEvent;
pub use generation::Round;
use generation::{Generation, Work};

/// The target model, as a session needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetInfo {
    /// V.
    pub vocab_size: u32,
    /// SHA-256 of the vocabulary; FORMAT.md says of what exactly.
    pub tokenizer_hash: [u8; 32],
    /// The most tokens a generation may have, prompt included.
    pub context_length: u32,
    /// The most drafts a round may carry.
    pub max_draft_tokens: u8,
    /// The most rounds of a session that may await their verdict at a time, at least 1. Each may be as long as a frame.
    pub max_in_flight: u8,
    /// Tokens that end a text.
    pub eos_ids: Vec<u32>,
}

/// What a session can be resumed with, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Admission {
    /// Its name and secret, from the server's source of randomness.
    pub ticket: Ticket,
    /// How long it is kept without a connection, in seconds; what the edge is told.
    pub detached_seconds: u32,
}

/// The most bytes that are kept of what may not have arrived. A round's evidence may be more; the session cannot be resumed then.
pub const MAX_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum CloudOutput {
    /// Send these bytes as one binary message.
    Send(Vec<u8>),
    /// Run this pass.
    Forward(Forward),
    /// Close the connection.
    Close,
}

/// A frame that may not have arrived.
#[derive(Debug)]
struct Kept {
    /// The round that it answers; [`NO_ROUND`] if no Draft shows that it has arrived.
    round: u32,
    /// An edge whose text is longer than this has it.
    length: usize,
    bytes: Vec<u8>,
}

/// Of frames that answer no round: above all.
const NO_ROUND: u32 = u32::MAX;

/// One session, over one connection after another.
#[derive(Debug)]
pub struct CloudSession {
    target: TargetInfo,
    /// Whether generations may ask for evidence.
    evidence: bool,
    admission: Admission,
    kept: Vec<Kept>,
    kept_bytes: usize,
    /// The last round of which a frame was too much to be kept.
    lost: Option<u32>,
    /// Number of the last Resume.
    attempt: u32,
    greeted: bool,
    closed: bool,
    outputs: VecDeque<CloudOutput>,
    events: Vec<CloudEvent>,
    /// Largest generation number seen.
    last_generation: u32,
    generation: Option<Generation>,
    /// The generation that the pass under way belongs to.
    in_flight: Option<u32>,
}

impl CloudSession {
    /// A session of a target, waiting for Hello.
    pub fn new(target: TargetInfo, admission: Admission) -> Self {
        Self {
            target,
            evidence: true,
            admission,
            kept: Vec::new(),
            kept_bytes: 0,
            lost: None,
            attempt: 0,
            greeted: false,
            closed: false,
            outputs: VecDeque::new(),
            events: Vec::new(),
            last_generation: 0,
            generation: None,
            in_flight: None,
        }
    }

    /// Refuses generations that ask for evidence from now on: it shows the target's whole distribution.
    pub fn refuse_evidence(&mut self) {
        self.evidence = false;
    }

    /// Whether a generation is under way.
    pub fn is_generating(&self) -> bool {
        self.generation.is_some()
    }

    /// What the last call of a `handle_` method or of [`close`](Self::close) led to.
    pub fn events(&self) -> &[CloudEvent] {
        &self.events
    }

    /// Whether an edge that has lost the connection has something to come back for.
    pub fn is_worth_keeping(&self) -> bool {
        self.greeted && !self.closed && self.last_generation > 0 && self.lost.is_none()
    }

    /// Goes on over another connection, whose edge has shown the ticket. `false`: this comes late, what this edge says of itself
    /// does not fit the session, or it is over; nothing has changed.
    pub fn resume(&mut self, resume: &Resume) -> bool {
        if !self.is_worth_keeping() || resume.attempt <= self.attempt || resume.generation < self.last_generation {
            return false;
        }
        self.attempt = resume.attempt;
        self.outputs.clear();
        self.welcome();
        let is_current = resume.generation == self.last_generation;
        let lacks = |kept: &&Kept| is_current && kept.length >= resume.length as usize;
        self.outputs.extend(self.kept.iter().filter(lacks).map(|kept| CloudOutput::Send(kept.bytes.clone())));
        true
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<CloudOutput> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if self.closed || self.in_flight.is_some() {
            return None;
        }
        let generation = self.generation.as_mut()?;
        let forward = generation.next_pass()?;
        self.in_flight = Some(generation.number());
        Some(CloudOutput::Forward(forward))
    }

    /// Bytes from the edge. Whatever is wrong with them becomes an Error frame; nothing panics.
    pub fn handle_frame(&mut self, bytes: &[u8]) {
        self.events.clear();
        if self.closed {
            return;
        }
        if let Err(error) = self.try_frame(bytes) {
            self.fail(error);
        }
    }

    /// The rows that the pass under way was asked for.
    ///
    /// Results of a pass whose generation has been cancelled meanwhile are dropped.
    pub fn handle_logits(&mut self, rows: &[&[f32]]) {
        self.events.clear();
        let number = self.in_flight.take();
        let Some(generation) = self.generation.as_mut().filter(|g| Some(g.number()) == number) else {
            return;
        };
        let (proposed, length, round) = (generation.proposed(), generation.length(), generation.round_number());
        match generation.advance(rows, &self.target) {
            Ok((frames, finished)) => {
                for frame in &frames {
                    self.events.extend(events::of(frame, proposed).into_iter().chain(events::finish(frame)));
                }
                if finished {
                    self.generation = None;
                }
                for frame in frames {
                    self.say(&frame, round, length);
                }
                if let Err(failure) = self.begin_round() {
                    self.fail(failure);
                }
            }
            Err(error) => {
                let number = generation.number();
                self.fail(Failure::generation(
                    number,
                    ErrorCode::Internal,
                    format!("The target model failed: {error}."),
                ));
            }
        }
    }

    /// What the pass under way is for; `None` if none is, or its generation has been cancelled.
    pub fn round(&self) -> Option<Round> {
        let generation = self.generation.as_ref()?;
        (Some(generation.number()) == self.in_flight).then(|| generation.round())
    }

    /// The pass under way could not be run. The generation ends; the connection goes on.
    pub fn handle_failure(&mut self, text: &str) {
        self.fail_pass(ErrorCode::Internal, text);
    }

    /// The pass under way will not be run, because this target cannot serve what the generation asks for. It ends; the
    /// connection goes on.
    pub fn handle_refusal(&mut self, text: &str) {
        self.fail_pass(ErrorCode::InvalidParameters, text);
    }

    fn fail_pass(&mut self, code: ErrorCode, text: &str) {
        self.events.clear();
        if let Some(number) = self.in_flight.take()
            && self.generation.as_ref().is_some_and(|g| g.number() == number)
        {
            self.fail(Failure::generation(number, code, text.to_owned()));
        }
    }

    /// Ends the connection for a reason of the driver's (idle, stopping, full, …).
    pub fn close(&mut self, code: ErrorCode, text: &str) {
        self.events.clear();
        if !self.closed {
            self.fail(Failure::connection(code, text.to_owned()));
        }
    }

    fn try_frame(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let frame = Frame::decode(bytes)?;
        match (frame, self.greeted) {
            (Frame::Hello(hello), false) => self.greet(&hello),
            (Frame::Bye, _) => {
                self.closed = true;
                self.events.extend(self.generation.take().map(|_| CloudEvent::Cancelled));
                self.outputs.push_back(CloudOutput::Close);
                Ok(())
            }
            (Frame::Prompt(prompt), true) => {
                let work = if prompt.evidence && !self.evidence {
                    let text = "This server shows nobody here what it judges by: generate without evidence.".to_owned();
                    Err(Failure::generation(prompt.request.generation, ErrorCode::InvalidParameters, text))
                } else {
                    Work::speculative(&prompt, &self.target)
                };
                self.start(prompt.request, work)
            }
            (Frame::Generate(request), true) => self.start(request, Ok(Work::CloudOnly)),
            (Frame::Draft(draft), true) => self.draft(draft),
            (Frame::Resample { generation, round }, true) => self.resample(generation, round),
            (Frame::Cancel { generation }, true) => {
                self.cancel(generation);
                Ok(())
            }
            (Frame::Resume(_), false) => Err(Failure::connection(
                ErrorCode::UnknownSession,
                "There is no such session: it waited too long, or the server was restarted.".to_owned(),
            )),
            (frame, false) => Err(Failure::out_of_order(&format!("{} came before Hello", frame.name()))),
            (frame, true) => Err(Failure::out_of_order(&format!("{} does not belong here", frame.name()))),
        }
    }

    fn greet(&mut self, hello: &Hello) -> Result<(), Failure> {
        if hello.vocab_size != self.target.vocab_size {
            return Err(Failure::connection(
                ErrorCode::Tokenizer,
                format!(
                    "The draft has a vocabulary of {} tokens, the target of {}.",
                    hello.vocab_size, self.target.vocab_size
                ),
            ));
        }
        if hello.tokenizer_hash != self.target.tokenizer_hash {
            return Err(Failure::connection(
                ErrorCode::Tokenizer,
                "The draft's tokenizer is not the target's: the same ids mean different text.".to_owned(),
            ));
        }
        self.greeted = true;
        self.welcome();
        Ok(())
    }

    fn welcome(&mut self) {
        let Admission { ticket, detached_seconds } = self.admission;
        let welcome = Welcome {
            vocab_size: self.target.vocab_size,
            context_length: self.target.context_length,
            max_draft_tokens: self.target.max_draft_tokens,
            max_in_flight: self.target.max_in_flight,
            eos_ids: self.target.eos_ids.clone(),
            ticket,
            detached_seconds,
        };
        self.outputs.push_back(CloudOutput::Send(Frame::Welcome(welcome).encode()));
    }

    /// Ends a generation and those before it. One that has not begun never will: its request may have been lost, and this not.
    fn cancel(&mut self, number: u32) {
        if self.generation.as_ref().is_some_and(|generation| generation.number() <= number) {
            self.generation = None;
            self.events.push(CloudEvent::Cancelled);
        }
        if number >= self.last_generation {
            self.forget_kept();
        }
        self.last_generation = self.last_generation.max(number);
    }

    /// Sends a frame, and keeps it until the edge shows that it has come. `length`: of the text that it is about.
    fn say(&mut self, frame: &Frame, round: u32, length: usize) {
        let bytes = frame.encode();
        if self.kept_bytes + bytes.len() <= MAX_KEPT_BYTES {
            self.kept_bytes += bytes.len();
            self.kept.push(Kept { round, length, bytes: bytes.clone() });
        } else {
            self.lost = Some(round);
        }
        self.outputs.push_back(CloudOutput::Send(bytes));
    }

    fn forget_kept(&mut self) {
        self.kept.clear();
        (self.kept_bytes, self.lost) = (0, None);
    }

    /// The edge has all frames of these.
    fn forget_rounds_before(&mut self, round: u32) {
        self.kept.retain(|kept| kept.round >= round);
        self.kept_bytes = self.kept.iter().map(|kept| kept.bytes.len()).sum();
        self.lost = self.lost.filter(|&lost| lost >= round);
    }

    fn start(&mut self, request: Request, work: Result<Work, Failure>) -> Result<(), Failure> {
        let number = request.generation;
        if number <= self.last_generation {
            return Ok(());
        }
        if self.generation.is_some() {
            return Err(Failure::out_of_order("a generation is under way; cancel it first"));
        }
        self.last_generation = number;
        self.forget_kept();
        let work = work?;
        if let Some(&id) = request.tokens.iter().find(|&&id| id >= self.target.vocab_size) {
            return Err(Failure::generation(
                number,
                ErrorCode::InvalidParameters,
                format!("Prompt token {id} is outside the vocabulary of {}.", self.target.vocab_size),
            ));
        }
        let context = self.target.context_length as usize;
        if request.tokens.len() + 1 > context {
            return Err(Failure::generation(
                number,
                ErrorCode::PromptTooLong,
                format!("The prompt has {} tokens; at most {} fit.", request.tokens.len(), context.saturating_sub(1)),
            ));
        }
        self.events.push(CloudEvent::Started { scheme: work.scheme() });
        self.generation = Some(Generation::new(request, work));
        Ok(())
    }

    fn draft(&mut self, draft: Draft) -> Result<(), Failure> {
        let Some(generation) = self.generation.as_mut() else { return late(draft.generation, self.last_generation) };
        if let Some(round) = generation.draft(draft)? {
            self.forget_rounds_before(round);
        }
        self.begin_round()
    }

    fn begin_round(&mut self) -> Result<(), Failure> {
        self.generation.as_mut().map_or(Ok(()), |generation| generation.begin_round(&self.target))
    }

    fn resample(&mut self, number: u32, round: u32) -> Result<(), Failure> {
        let Some(generation) = &self.generation else { return late(number, self.last_generation) };
        let length = generation.length();
        if let Some(frame) = generation.resample(number, round)? {
            self.forget_kept();
            self.say(&frame, round, length);
        }
        Ok(())
    }

    fn fail(&mut self, failure: Failure) {
        self.generation = None;
        self.events.push(CloudEvent::Failed(failure.code));
        let frame = Frame::Error(ErrorFrame { generation: failure.generation, code: failure.code, text: failure.text });
        if failure.generation == 0 {
            self.closed = true;
            self.outputs.extend([CloudOutput::Send(frame.encode()), CloudOutput::Close]);
        } else {
            // However long the edge's text is, it does not know that it ends.
            self.say(&frame, NO_ROUND, usize::MAX);
        }
    }
}

/// A frame about a generation that is over: it may have ended with an error that the edge had not read yet.
fn late(number: u32, last_generation: u32) -> Result<(), Failure> {
    if number <= last_generation { Ok(()) } else { Err(Failure::out_of_order("a round came before Prompt")) }
}

/// Something to tell the edge before going on without the generation, or the connection.
struct Failure {
    generation: u32,
    code: ErrorCode,
    text: String,
}

impl Failure {
    fn connection(code: ErrorCode, text: String) -> Self {
        Self { generation: 0, code, text }
    }

    fn generation(generation: u32, code: ErrorCode, text: String) -> Self {
        Self { generation, code, text }
    }

    fn out_of_order(what: &str) -> Self {
        Self::connection(ErrorCode::OutOfOrder, format!("Out of order: {what}."))
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::Version { .. } => ErrorCode::Version,
            DecodeError::TooLong { .. } => ErrorCode::FrameTooLong,
            _ => ErrorCode::Malformed,
        };
        Self::connection(code, format!("The frame cannot be read: {error}."))
    }
}

#[cfg(test)]
mod tests;
