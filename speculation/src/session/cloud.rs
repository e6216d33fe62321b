//! The cloud's side of a session, without a socket, a model or a clock.
//!
//! [`CloudSession`] says in which order to call it.
//!
//! Frames that may not have arrived are kept: those of a round until a Draft shows that the edge has them. Frames that
//! come twice change nothing, nor do those that are discarded: an edge may have several rounds in flight, each as if
//! all drafts before it were accepted.
//!
//! The session owns the committed tokens. The cache holds the first `cached` of them after every verdict, so the prefix
//! is fed once and a round feeds the last committed token and its drafts. After an accepted branch of guesses the next
//! pass feeds its tokens too, unless the engine has kept them.

use core::time::Duration;
use std::{collections::VecDeque, sync::Arc};

use outrider_codec::frame::{
    Draft, ErrorCode, ErrorFrame, Frame, Guesses, Hello, PASS_ROWS, Request, Resume, Shape, Ticket, Welcome,
};

use crate::{
    control::goodput::Prices,
    judge::{Judgement, JudgementError},
};

mod chains;
mod events;
mod failure;
mod flight;
mod generation;
mod guesses;
mod in_process;
mod kept;
mod outcomes;
mod shaping;
mod target;

pub use events::CloudEvent;
use failure::Failure;
use generation::{Generation, Writer};
use guesses::Known;
pub use guesses::MAX_PATIENCE;
use kept::{KeptFrames, NO_ROUND};
pub use shaping::{PassShaping, Shaping, ShapingOptions};
use target::InFlight;
pub use target::{OFFER_TAIL, Offer, OwnDraft, OwnDrafts, Pass, TargetInfo};

/// Terms of a session: the ticket with which it can be resumed, for how long, and what it may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Admission {
    /// Name and secret of the session, from the server's source of randomness.
    pub ticket: Ticket,
    /// Time that it is kept without a connection, in seconds; sent to the edge.
    pub detached_seconds: u32,
    /// True to refuse generations that ask for evidence, which shows the target's whole distribution.
    pub refuses_evidence: bool,
    /// Microseconds of passes of [`PASS_ROWS`] rows; all 0 if not known. Sent to the edge.
    pub pass_micros: [u32; PASS_ROWS.len()],
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum CloudOutput {
    /// Send these bytes as one binary message.
    Send(Vec<u8>),
    /// Run this pass and judge its round.
    Verify(Pass),
    /// Wait this long for guesses before the next pass.
    Hold(Duration),
    /// Guess this before the next pass.
    Draft(OwnDrafts),
    /// Hand these guesses to the target, whose draws are its own.
    Offer(Offer),
    /// Make the change of logits that these options name.
    Shape(ShapingOptions),
    /// Close the connection.
    Close,
}

/// The cloud's end of a session, over one connection after another.
///
/// # Order of calls
///
/// 1. [`new`](Self::new).
/// 2. Whenever bytes arrive: [`handle_frame`](Self::handle_frame).
/// 3. After every call: [`poll`](Self::poll) until it gives `None`, doing what it says:
///    - [`Send`](CloudOutput::Send): send these bytes as one message.
///    - [`Verify`](CloudOutput::Verify): run the forward pass, judge its round, and call
///      [`handle_judgement`](Self::handle_judgement); or [`handle_failure`](Self::handle_failure). One pass is under
///      way at a time; frames may arrive meanwhile. [`Pass::judge`] judges rows of logits. A target without logits may
///      judge otherwise: the session checks each judgement.
///    - [`Hold`](CloudOutput::Hold): guesses are on their way that spare the target work. Unless another output comes
///      before, call [`end_hold`](Self::end_hold) after this time.
///    - [`Offer`](CloudOutput::Offer): guesses have come that a target with draws of its own may use at once.
///    - [`Draft`](CloudOutput::Draft): have the server's own draft model guess, and call
///      [`handle_drafts`](Self::handle_drafts). [`set_prices`](Self::set_prices) says whether there is one.
///    - [`Shape`](CloudOutput::Shape): make the change and call [`handle_shaping`](Self::handle_shaping).
///    - [`Close`](CloudOutput::Close): send nothing more, close the connection, free the cache.
/// 4. When the connection is gone, do not poll any more. If the session [is worth keeping](Self::is_worth_keeping),
///    keep it and its cache for a while, and hand in the judgement of the pass under way. When an edge with the
///    session's ticket asks for it over another connection, call [`resume`](Self::resume) and go on at 2.
#[derive(Debug)]
pub struct CloudSession {
    target: TargetInfo,
    admission: Admission,
    kept: KeptFrames,
    /// Frames for a caller in the same process; `None` if the edge is reached over a connection.
    frames: Option<VecDeque<Frame>>,
    /// Number of the last Resume.
    attempt: u32,
    greeted: bool,
    closed: bool,
    outputs: VecDeque<CloudOutput>,
    events: Vec<CloudEvent>,
    /// Largest generation number seen.
    last_generation: u32,
    generation: Option<Generation>,
    in_flight: Option<InFlight>,
    /// The generation that the server itself is guessing for.
    drafting: Option<u32>,
    /// The change of logits of the next generation.
    shape: Option<Shape>,
    /// The generation whose change of logits is being made.
    shaping: Option<u32>,
    prices: Prices,
    /// Rates of right guesses at the last text.
    known: Known,
    /// Time of the pass whose judgement comes next.
    pass_time: Duration,
}

impl CloudSession {
    /// A session of a target, waiting for Hello.
    pub fn new(target: TargetInfo, admission: Admission) -> Self {
        Self {
            target,
            admission,
            kept: KeptFrames::default(),
            frames: None,
            attempt: 0,
            greeted: false,
            closed: false,
            outputs: VecDeque::new(),
            events: Vec::new(),
            last_generation: 0,
            generation: None,
            in_flight: None,
            drafting: None,
            shape: None,
            shaping: None,
            prices: Prices::default(),
            known: Known::default(),
            pass_time: Duration::ZERO,
        }
    }

    /// Sets the prices that guesses cost the other sessions from now on.
    pub fn set_prices(&mut self, prices: Prices) {
        self.prices = prices;
    }

    /// True if a text is being written for which drafts of the server's own pay.
    pub fn may_draft(&self) -> bool {
        self.generation.as_ref().is_some_and(|generation| generation.may_draft(self.prices))
    }

    /// True while a generation is under way.
    pub fn is_generating(&self) -> bool {
        self.generation.is_some()
    }

    /// Events of the last call of a `handle_` method or of [`close`](Self::close).
    pub fn events(&self) -> &[CloudEvent] {
        &self.events
    }

    /// True if an edge that has lost the connection has something to come back for.
    pub fn is_worth_keeping(&self) -> bool {
        self.greeted && !self.closed && self.last_generation > 0 && self.kept.is_complete()
    }

    /// Goes on over another connection, whose edge has shown the ticket. Returns `false`, and changes nothing, if the
    /// request comes late, does not fit the session, or the session is over.
    pub fn resume(&mut self, resume: &Resume) -> bool {
        if !self.is_worth_keeping() || resume.attempt <= self.attempt || resume.generation < self.last_generation {
            return false;
        }
        self.attempt = resume.attempt;
        self.outputs.clear();
        self.welcome();
        if resume.generation == self.last_generation {
            let lacking = self.kept.lacking(resume.length as usize);
            self.outputs.extend(lacking.map(|bytes| CloudOutput::Send(bytes.to_vec())));
        }
        true
    }

    /// The next action for the driver; `None` if there is none at the moment.
    pub fn poll(&mut self) -> Option<CloudOutput> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if self.closed || self.in_flight.is_some() || self.drafting.is_some() || self.shaping.is_some() {
            return None;
        }
        let generation = self.generation.as_mut()?;
        if let Some(options) = generation.take_options() {
            self.shaping = Some(generation.number());
            return Some(CloudOutput::Shape(options));
        }
        if let Some(drafts) = generation.begin_drafting(&self.target, self.prices) {
            self.drafting = Some(generation.number());
            return Some(CloudOutput::Draft(drafts));
        }
        if let Some(patience) = generation.begin_hold(&self.target) {
            return Some(CloudOutput::Hold(patience));
        }
        let pass = generation.next_pass(&self.target, self.prices)?;
        let Pass { forward, round, .. } = &pass;
        let reads = (forward.rows == 0).then_some(forward.keep + forward.tokens.len());
        self.in_flight = Some(InFlight { generation: generation.number(), reads, round: Arc::clone(round) });
        Some(CloudOutput::Verify(pass))
    }

    /// Handles bytes from the edge. Whatever is wrong with them becomes an Error frame; nothing panics.
    pub fn handle_frame(&mut self, bytes: &[u8]) {
        self.events.clear();
        if self.closed {
            return;
        }
        if let Err(error) = self.try_frame(bytes) {
            self.fail(error);
        }
    }

    /// Sets the time of the pass whose judgement comes next: a session has no clock, and edges plan by it.
    pub fn pass_took(&mut self, time: Duration) {
        self.pass_time = time;
    }

    /// Takes the judgement of the pass under way; the [default](Judgement::default) one of a pass that only reads the
    /// prompt. One that cannot be of its round ends the generation.
    ///
    /// It is dropped if the generation has been cancelled meanwhile.
    pub fn handle_judgement(&mut self, judgement: Judgement) {
        self.events.clear();
        let time = std::mem::take(&mut self.pass_time);
        let Some(InFlight { generation: number, reads, round }) = self.in_flight.take() else { return };
        let Some(generation) = self.generation.as_mut().filter(|generation| generation.number() == number) else {
            return;
        };
        let checked = match reads {
            None => round.check(&judgement, self.target.vocab_size),
            Some(_) if judgement == Judgement::default() => Ok(()),
            Some(_) => Err(JudgementError::Next { accepted: judgement.accepted, drafts: 0 }),
        };
        if let Err(error) = checked {
            let text = format!("The target model failed: {error}.");
            return self.fail(Failure::generation(number, ErrorCode::Internal, text));
        }
        if let Some(length) = reads {
            generation.read(length);
        } else {
            let (length, round_number) = (generation.length(), generation.round_number());
            let progress = generation.advance(&round, judgement, time, &self.target);
            self.events.extend(progress.event.into_iter().chain(progress.finish.map(CloudEvent::Finished)));
            if progress.finish.is_some() {
                self.known = generation.known().unwrap_or(self.known);
                self.generation = None;
            }
            for frame in progress.frames {
                self.say(frame, round_number, length);
            }
        }
        if let Err(failure) = self.begin_round() {
            self.fail(failure);
        }
    }

    /// The server's own draft model has guessed these, or nothing.
    pub fn handle_drafts(&mut self, drafts: Vec<OwnDraft>) {
        self.events.clear();
        let drafting = self.drafting.take();
        if let Some(generation) = self.generation.as_mut().filter(|generation| Some(generation.number()) == drafting) {
            // What is no token ends what can be judged.
            let is_token = |draft: &OwnDraft| draft.id < self.target.vocab_size;
            generation.drafted(drafts.into_iter().take_while(is_token).collect());
        }
    }

    /// The next pass has been held as long as it was to be.
    pub fn end_hold(&mut self) {
        self.events.clear();
        if let Some(generation) = &mut self.generation {
            generation.end_hold();
        }
    }

    /// Forgets the pass under way if its generation is over; returns true if it was. The driver may stop running it.
    pub fn abandon_pass(&mut self) -> bool {
        let current = self.generation.as_ref().map(Generation::number);
        self.in_flight.take_if(|pass| Some(pass.generation) != current).is_some()
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
            (Frame::Shape(shape), true) => {
                self.shape = Some(shape).filter(|shape| shape.generation > self.last_generation);
                Ok(())
            }
            (Frame::Prompt(prompt), true) => {
                let writer = if prompt.evidence && self.admission.refuses_evidence {
                    let text = "This server gives its probabilities to pages of its own only: generate without \
                                evidence or log-probabilities, or start it with --evidence always.";
                    let text = text.to_owned();
                    Err(Failure::generation(prompt.request.generation, ErrorCode::InvalidParameters, text))
                } else {
                    Writer::both(&prompt, &self.target)
                };
                self.start(prompt.request, writer)
            }
            (Frame::Generate(request), true) => self.start_alone(request),
            (Frame::Guesses(guesses), true) => self.guess(&guesses),
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
        let Admission { ticket, detached_seconds, pass_micros, .. } = self.admission;
        let welcome = Welcome {
            vocab_size: self.target.vocab_size,
            limits: self.target.limits,
            eos_ids: self.target.eos_ids.clone(),
            ticket,
            detached_seconds,
            pass_micros,
        };
        self.outputs.push_back(CloudOutput::Send(Frame::Welcome(welcome).encode()));
    }

    /// Ends a generation and those before it. One that has not begun never will: its request may have been lost, and
    /// this not.
    fn cancel(&mut self, number: u32) {
        if self.generation.as_ref().is_some_and(|generation| generation.number() <= number) {
            self.generation = None;
            self.events.push(CloudEvent::Cancelled);
        }
        if number >= self.last_generation {
            self.kept.clear();
        }
        self.last_generation = self.last_generation.max(number);
    }

    /// Sends a frame, and keeps it until the edge shows that it has come. `length`: of the text that it is about.
    fn say(&mut self, frame: Frame, round: u32, length: usize) {
        match &mut self.frames {
            Some(frames) => frames.push_back(frame),
            None => self.outputs.push_back(CloudOutput::Send(self.kept.keep(&frame, round, length))),
        }
    }

    fn start_alone(&mut self, request: Request) -> Result<(), Failure> {
        let writer = Writer::target(&request, &self.target, self.known);
        self.start(request, writer)
    }

    fn start(&mut self, request: Request, writer: Result<Writer, Failure>) -> Result<(), Failure> {
        let number = request.generation;
        if number <= self.last_generation {
            return Ok(());
        }
        if self.generation.is_some() {
            return Err(Failure::out_of_order("a generation is under way; cancel it first"));
        }
        self.last_generation = number;
        self.kept.clear();
        let writer = writer?;
        if let Some(&id) = request.tokens.iter().find(|&&id| id >= self.target.vocab_size) {
            return Err(Failure::generation(
                number,
                ErrorCode::InvalidParameters,
                format!("Prompt token {id} is outside the vocabulary of {}.", self.target.vocab_size),
            ));
        }
        let context = self.target.limits.context_length as usize;
        if request.tokens.len() + 1 > context {
            return Err(Failure::generation(
                number,
                ErrorCode::PromptTooLong,
                format!("The prompt has {} tokens; at most {} fit.", request.tokens.len(), context.saturating_sub(1)),
            ));
        }
        self.events.push(CloudEvent::Started { scheme: writer.scheme() });
        let shape = self.shape.take().filter(|shape| shape.generation == number);
        self.generation = Some(Generation::new(request, writer).with(shape));
        Ok(())
    }

    fn draft(&mut self, draft: Draft) -> Result<(), Failure> {
        let Some(generation) = self.generation.as_mut() else {
            return Failure::unless_late(draft.generation, self.last_generation);
        };
        if let Some(round) = generation.draft(draft)? {
            self.kept.forget_before(round);
        }
        self.begin_round()
    }

    fn guess(&mut self, guesses: &Guesses) -> Result<(), Failure> {
        let Some(generation) = self.generation.as_mut() else {
            return Failure::unless_late(guesses.generation, self.last_generation);
        };
        let Some(admitted) = generation.guess(guesses, &self.target)? else { return Ok(()) };
        self.events.push(admitted.event);
        let offer = admitted.offer.filter(|_| self.target.limits.own_draws);
        self.outputs.extend(offer.map(CloudOutput::Offer));
        Ok(())
    }

    fn begin_round(&mut self) -> Result<(), Failure> {
        self.generation.as_mut().map_or(Ok(()), |generation| generation.begin_round(&self.target))
    }

    fn resample(&mut self, number: u32, round: u32) -> Result<(), Failure> {
        let Some(generation) = &self.generation else { return Failure::unless_late(number, self.last_generation) };
        let length = generation.length();
        if let Some(frame) = generation.resample(number, round)? {
            self.kept.clear();
            self.say(frame, round, length);
        }
        Ok(())
    }

    fn fail(&mut self, failure: Failure) {
        self.generation = None;
        self.events.push(CloudEvent::Failed(failure.code));
        let frame = Frame::Error(ErrorFrame { generation: failure.generation, code: failure.code, text: failure.text });
        let ends = failure.generation == 0;
        self.closed |= ends;
        if ends && self.frames.is_none() {
            self.outputs.extend([CloudOutput::Send(frame.encode()), CloudOutput::Close]);
        } else {
            // However long the edge's text is, it does not know that it ends.
            self.say(frame, NO_ROUND, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests;
