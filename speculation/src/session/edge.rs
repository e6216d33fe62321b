//! The edge's side of a session, without a socket, a model or a clock.
//!
//! [`EdgeSession`] says in which order to call it.
//!
//! A session outlives its connections: frames that the server has not answered are sent again, and frames that it sends
//! twice count once. A server that has forgotten the session is asked for the rest of the text in a new one; nothing of
//! that needs the driver.
//!
//! | file | what it is |
//! |---|---|
//! | `begin` | the first state of a session: new, resumed, or without its server |
//! | `connection` | the handshake, and the frames that the server has yet to answer |
//! | `generation` | one generation: its text, and the end that writes it |
//! | `text` | prompt and committed tokens, and where they end |
//! | `drafting` | rounds one after another: draft, send, take the verdict, roll back |
//! | `guessing`, `candidates` | guesses ahead of a text that the target writes, and the tree that they form |
//! | `recall` | guesses that are looked up, in the text itself and in passages beside it |
//! | `preview` | guesses that a user sees before they are confirmed |
//! | `flight` | the rounds in flight |
//! | `planner`, `learned` | decisions on a position: gate, stop rule, budget; and what they have learned |
//! | `drafter`, `payload`, `observers` | the drafts of one round: drawn, coded, and followed by C-SQS's threshold |
//! | `verdict` | checks of a verdict on a round |
//! | `ledger` | statistics and records |

use core::time::Duration;
use std::sync::Arc;

use outrider_codec::frame::{ErrorCode, ErrorFrame, Frame, Hello, Shape, Welcome};

use crate::{Chosen, Forward, control::ahead::AheadController, draft::Passages, study::statistics::Statistics};

mod ahead_record;
mod begin;
mod candidates;
mod connection;
mod drafter;
mod drafting;
mod error;
mod event;
mod flight;
mod frames_unheard;
mod generation;
mod guessing;
mod learned;
mod ledger;
mod observers;
mod payload;
mod planner;
mod preview;
mod reaction;
mod recall;
mod settings;
mod text;
mod verdict;

pub use connection::SavedSession;
use connection::{Connection, Stage};
pub use error::{EdgeError, StartError};
pub use event::{Committed, EdgeOutput, EndReason, Event, Origin};
use generation::Generation;
use learned::Lessons;
use ledger::Ledger;
pub use preview::{GuessLine, Preview};
use reaction::{LogitsRow, Outgoing, Reaction, Received, Step, Told};
use settings::Ends;
pub use settings::{Ahead, DraftInfo, Mode, Settings, Speculation};

/// The edge's end of a session, over one connection after another.
///
/// # Order of calls
///
/// 1. [`new`](Self::new); the session has Hello to send. [`returning`](Self::returning) where it was
///    [saved](Self::saved), and [`absent`](Self::absent) where the server cannot be reached.
/// 2. [`poll`](Self::poll) until it gives `None`, doing what it says:
///    - [`Send`](EdgeOutput::Send): send these bytes as one message.
///    - [`Forward`](EdgeOutput::Forward): run the draft model and call [`handle_logits`](Self::handle_logits) with each
///      row; or [`handle_chosen`](Self::handle_chosen), where [`Forward::chosen`] lets the engine choose.
///    - [`Event`](EdgeOutput::Event): tell the user.
/// 3. When there is nothing to poll, wait for bytes and call [`handle_frame`](Self::handle_frame); or, when
///    [`is_idle`](Self::is_idle), [`start`](Self::start) a generation, which [`cancel`](Self::cancel) ends early. Then
///    poll again.
/// 4. When the connection is gone, call [`disconnected`](Self::disconnected). If it gives `true`, open another
///    connection, as often as it takes, call [`reconnected`](Self::reconnected), and go on at 2. Do not hand in bytes
///    of a connection that is gone.
/// 5. [`close`](Self::close) says goodbye; poll once more for its frame.
///
/// Every call takes `now`, the time since any fixed moment. After an `Err` the session is of no use: close the
/// connection and make a new one.
///
/// With several rounds in flight the draft model has work while verdicts are under way. A driver that hands in arrived
/// frames before each pass, as [`is_ahead`](Self::is_ahead) says, does not draft on from rejected tokens.
/// [`edge_driver`](super::edge_driver) does all this over any socket and clock.
#[derive(Debug)]
pub struct EdgeSession {
    draft: DraftInfo,
    server: Option<Welcome>,
    connection: Connection,
    closed: bool,
    last_generation: u32,
    generation: Option<Generation>,
    /// The settings of the last generation.
    settings: Option<Settings>,
    /// Options that change the target's logits, and the number of answered tokens in the prompt.
    shaping: Option<(String, usize)>,
    /// Number of tokens of the last prompt.
    prompt_length: usize,
    /// Lessons of earlier generations.
    lessons: Lessons,
    ledger: Ledger,
}

impl EdgeSession {
    /// True if a generation may start.
    pub fn is_idle(&self) -> bool {
        self.server.is_some() && self.generation.is_none() && !self.closed
    }

    /// True if the draft model goes on while rounds await their verdict, which may discard what it drafts.
    pub fn is_ahead(&self) -> bool {
        self.connection.stage() == Stage::Up && self.generation.as_ref().is_some_and(Generation::is_ahead)
    }

    /// True if the next draft is worth little: it follows a second candidate, and the line of first ones is there.
    /// Arrived frames should be handed in before it.
    pub(crate) fn has_time(&self) -> bool {
        self.is_ahead() && self.generation.as_ref().is_some_and(Generation::has_time)
    }

    /// Guesses at the tokens after the committed text, which nothing has confirmed; none but in the scheme `ahead`.
    pub fn guesses(&self) -> GuessLine {
        let offline = self.connection.stage() != Stage::Up;
        let (ids, chances) = self.generation.as_ref().map(Generation::line).unwrap_or_default();
        GuessLine { ids, chances, offline }
    }

    /// True while a generation under way has guesses.
    pub(crate) fn is_guessing(&self) -> bool {
        self.generation.as_ref().is_some_and(Generation::is_guessing)
    }

    /// A forward pass that guesses on while the connection is gone, up to `most` guesses after the committed text;
    /// `None` if there are that many, or no guess can follow.
    pub fn offline_step(&mut self, most: usize, now: Duration) -> Option<Forward> {
        if self.connection.stage() == Stage::Up {
            return None;
        }
        let forward = self.generation.as_mut()?.offline_step(most, now)?;
        Some(self.wanted(forward))
    }

    /// Sets the passages beside the text in which guesses are looked up from the next generation on. What is guessed of
    /// them reaches the server.
    pub fn set_passages(&mut self, passages: Arc<Passages>) {
        self.lessons.passages = passages;
    }

    /// Shares of the guesses ahead of texts that were right, of first and of second candidates; `None` before any text.
    pub fn acceptance(&self) -> Option<[f64; 2]> {
        self.lessons.ahead.as_ref().map(AheadController::acceptance)
    }

    /// Plans the first text by the [`acceptance`](Self::acceptance) of an earlier session with the same models. A
    /// session that has written a text goes by its own.
    pub fn expect_acceptance(&mut self, acceptance: [f64; 2]) {
        self.lessons.expected = Some(acceptance.map(|share| share.clamp(0.01, 0.99)));
    }

    /// Changes the target's logits from the next generation on; `None` for no change. `answered` is the number of the
    /// prompt's last tokens that are of the answer already.
    pub fn set_shaping(&mut self, options: Option<String>, answered: usize) {
        self.shaping = options.map(|options| (options, answered));
    }

    /// The server's Welcome; `None` before the handshake is done.
    pub fn server(&self) -> Option<&Welcome> {
        self.server.as_ref()
    }

    /// Data with which another session can resume this one; `None` before the handshake is done.
    pub fn saved(&self) -> Option<SavedSession> {
        self.connection.saved(self.last_generation)
    }

    /// Handles the loss of the connection. Returns true if the session can be resumed over another.
    pub fn disconnected(&mut self) -> bool {
        if self.closed || self.server.is_none() && self.connection.stage() == Stage::Greeting {
            return false;
        }
        self.connection.lose();
        true
    }

    /// Handles another connection, which is open now.
    pub fn reconnected(&mut self) {
        if self.connection.stage() != Stage::Down || self.closed {
            return;
        }
        let DraftInfo { vocab_size, tokenizer_hash, .. } = self.draft;
        let length = self.generation.as_ref().map_or(0, Generation::length) as u32;
        self.connection.open(Hello { vocab_size, tokenizer_hash }, self.last_generation, length);
    }

    /// Statistics of the current generation, or else of the last.
    pub fn statistics(&self) -> &Statistics {
        self.ledger.statistics()
    }

    /// Starts a generation from a prompt's token ids.
    pub fn start(&mut self, prompt: Vec<u32>, settings: &Settings, now: Duration) -> Result<(), StartError> {
        if !self.is_idle() {
            return Err(StartError::NotIdle);
        }
        self.prompt_length = prompt.len();
        let frame = self.begin(prompt, settings)?;
        self.settings = Some(settings.clone());
        if let Some(server) = &self.server {
            self.ledger = Ledger::new(&settings.mode.at(server), now);
        }
        self.send_shape(0);
        self.send(None, frame.encode());
        Ok(())
    }

    /// Sends the change of logits of the generation that begins, if there is one. Its prompt has `written` tokens more
    /// than the text was asked for with.
    fn send_shape(&mut self, written: usize) {
        let Some((options, answered)) = self.shaping.clone() else { return };
        let (generation, answered) = (self.last_generation, (answered + written) as u32);
        self.send(None, Frame::Shape(Shape { generation, answered, options }).encode());
    }

    /// Begins a generation that the frame asks for.
    fn begin(&mut self, prompt: Vec<u32>, settings: &Settings) -> Result<Frame, StartError> {
        let Some(server) = &self.server else { return Err(StartError::NotIdle) };
        let ends = Ends { draft: &self.draft, server };
        let settings = &Settings { mode: settings.mode.at(server), ..settings.clone() };
        let number = self.last_generation + 1;
        let (generation, frame) = Generation::new(number, prompt, settings, ends, &mut self.lessons)?;
        self.last_generation = number;
        self.generation = Some(generation);
        Ok(frame)
    }

    /// Ends the generation, if one is under way.
    pub fn cancel(&mut self) {
        if let Some(generation) = self.generation.as_ref() {
            let generation = generation.number();
            self.end_generation();
            self.send_cancel(generation);
            self.connection.tell(Event::Finished(EndReason::Cancelled));
        }
    }

    /// Says goodbye to the server. Poll once more for the frame, then close the connection.
    pub fn close(&mut self) {
        if !self.closed {
            self.end_generation();
            self.ledger.sent(self.connection.say_bye());
            self.closed = true;
        }
    }

    /// The next action for the driver; `None` if there is none at the moment.
    pub fn poll(&mut self, now: Duration) -> Result<Option<EdgeOutput>, EdgeError> {
        if let Some(output) = self.connection.poll(now) {
            return Ok(Some(output));
        }
        let generation = self.generation.as_mut().filter(|_| self.connection.stage() == Stage::Up);
        Ok(match generation.and_then(|generation| generation.next_step(now)) {
            None => None,
            Some(Step::Forward(forward)) => {
                if forward.rows > 0 {
                    self.ledger.drafts();
                }
                Some(EdgeOutput::Forward(self.wanted(forward)))
            }
            Some(Step::Tell(Told { bytes, payload_bits, found })) => {
                let bits = self.connection.post(bytes);
                self.ledger.told(bits, payload_bits, found);
                self.connection.poll(now)
            }
            Some(Step::Send(Outgoing { round, bytes })) => {
                self.send(Some(round), bytes);
                self.connection.poll(now)
            }
        })
    }

    /// States what is wanted of a pass besides its rows: as few logits as the scheme sends and nothing else looks at,
    /// or guesses of which nothing but ids is sent.
    fn wanted(&self, forward: Forward) -> Forward {
        let Some(generation) = &self.generation else { return forward };
        Forward { top_k: generation.top_k(), chosen: generation.choice(), ..forward }
    }

    /// A row of logits that `Forward` asked for, and the hidden state that they were made of (empty where there are no
    /// heads); they come in order. A row that comes after the generation was cancelled is dropped.
    pub fn handle_logits(&mut self, row: &[f32], hidden: &[f32], now: Duration) -> Result<(), EdgeError> {
        let Some(generation) = &mut self.generation else { return Ok(()) };
        let reaction = generation.handle_logits(LogitsRow { logits: row, hidden }, &mut self.ledger, now)?;
        self.react(reaction);
        Ok(())
    }

    /// Takes drafts or guesses that an engine has chosen, where [`Forward::chosen`] lets it. Each but the first is of a
    /// pass that followed the guess before it, which is in the cache now.
    ///
    /// # Errors
    /// [`EdgeError::Draft`] if there are none, or one is no token.
    pub fn handle_chosen(&mut self, chosen: &[Chosen], now: Duration) -> Result<(), EdgeError> {
        let Some(generation) = &mut self.generation else { return Ok(()) };
        let reaction = generation.handle_chosen(chosen, &mut self.ledger, now)?;
        self.react(reaction);
        Ok(())
    }

    /// Handles bytes from the server.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Duration) -> Result<(), EdgeError> {
        if self.closed {
            return Ok(());
        }
        let frame = Frame::decode(bytes)?;
        let received = Received { at: now, bits: bytes.len() * 8 };
        self.ledger.received(received.bits);
        let unexpected = EdgeError::Unexpected { frame: frame.name() };
        let number = match (&frame, self.connection.stage()) {
            // The server has said that it is done.
            (_, Stage::Down) => return Ok(()),
            (Frame::Welcome(welcome), Stage::Greeting | Stage::Resuming) => return self.welcome(welcome.clone(), now),
            (Frame::Error(error), _) if error.generation == 0 => {
                self.ended(error.clone());
                return Ok(());
            }
            (Frame::Bye, _) => {
                self.end(None);
                return Ok(());
            }
            (_, Stage::Greeting | Stage::Resuming) => return Err(unexpected),
            (Frame::Error(error), Stage::Up) => error.generation,
            (Frame::Verdict(verdict), Stage::Up) => verdict.generation,
            (Frame::Distribution(distribution), Stage::Up) => distribution.generation,
            (Frame::Evidence(evidence), Stage::Up) => evidence.generation,
            (Frame::Tokens(tokens), Stage::Up) => tokens.generation,
            _ => return Err(unexpected),
        };
        // A generation that this edge never began is an error; one of the past is not.
        if number > self.last_generation {
            return Err(unexpected);
        }
        if self.generation.as_ref().is_some_and(|generation| generation.number() == number) {
            self.handle_answer(frame, received)?;
        }
        Ok(())
    }

    /// A frame of the generation under way.
    fn handle_answer(&mut self, frame: Frame, received: Received) -> Result<(), EdgeError> {
        let Some(generation) = &mut self.generation else { return Ok(()) };
        // The last round that is answered, with all before it.
        let answered = match &frame {
            Frame::Verdict(verdict) => verdict.round,
            Frame::Distribution(distribution) => distribution.round,
            Frame::Evidence(evidence) => evidence.round,
            Frame::Error(error) => {
                self.end_generation();
                self.connection.forget_unanswered();
                self.connection.tell(Event::Refused(error.clone()));
                return Ok(());
            }
            // The target writes where nothing else is in flight.
            _ => u32::MAX,
        };
        let reaction = generation.handle_frame(frame, received, &mut self.ledger)?;
        if !matches!(reaction, Reaction::Stale) {
            // Nothing will answer a round that has been discarded.
            self.connection.keep_unanswered(|round| round > answered && generation.awaits(round));
        }
        self.react(reaction);
        Ok(())
    }

    /// Acts on the reaction to a frame or to logits.
    fn react(&mut self, reaction: Reaction) {
        match reaction {
            Reaction::Wait | Reaction::Stale => {}
            Reaction::Send(Outgoing { round, bytes }) => self.send(Some(round), bytes),
            Reaction::Commit { committed, finish, tell } => {
                self.connection.tell(Event::Committed(committed));
                if tell {
                    self.send_cancel(self.last_generation);
                }
                if let Some(finish) = finish {
                    self.end_generation();
                    self.connection.tell(Event::Finished(EndReason::Finish(finish)));
                }
            }
        }
    }

    fn end_generation(&mut self) {
        if let Some(generation) = self.generation.take() {
            generation.teach(&mut self.lessons);
        }
    }

    fn welcome(&mut self, welcome: Welcome, now: Duration) -> Result<(), EdgeError> {
        if welcome.vocab_size != self.draft.vocab_size {
            return Err(EdgeError::Vocabulary { draft: self.draft.vocab_size, target: welcome.vocab_size });
        }
        let anew = self.connection.welcome(&welcome)?;
        self.lessons.handshake = self.connection.handshake(now);
        if self.server.replace(welcome.clone()).is_none() {
            self.connection.tell(Event::Connected(welcome));
            if !anew && self.last_generation > 0 {
                self.send_cancel(self.last_generation);
            }
            return Ok(());
        }
        self.connection.tell(Event::Resumed { anew });
        if anew {
            return self.begin_anew();
        }
        self.ledger.sent(self.connection.resend());
        if let Some(generation) = &mut self.generation {
            generation.resent(now);
        }
        Ok(())
    }

    /// Asks a server that knows nothing of the generation under way for the rest of it. What was committed is a prefix
    /// of the text that was asked for, with its distribution: as a prompt it has the rest's.
    fn begin_anew(&mut self) -> Result<(), EdgeError> {
        self.connection.forget_unanswered();
        let (Some(generation), Some(settings)) = (self.generation.take(), &self.settings) else { return Ok(()) };
        let rest = generation.into_rest(&mut self.lessons);
        if rest.left == 0 {
            self.connection.tell(Event::Finished(EndReason::Finish(rest.limit)));
            return Ok(());
        }
        let settings = Settings { max_new_tokens: rest.left as u32, ..settings.clone() };
        let written = rest.text.len().saturating_sub(self.prompt_length);
        let frame = self.begin(rest.text, &settings).map_err(EdgeError::Forgotten)?;
        if let Some(generation) = &mut self.generation {
            generation.take_over(rest.guesses, rest.passed);
        }
        self.send_shape(written);
        self.send(None, frame.encode());
        Ok(())
    }

    /// The server ends the connection for a reason, and perhaps the session.
    fn ended(&mut self, error: ErrorFrame) {
        let resumes = self.connection.stage() == Stage::Resuming;
        let was_met = self.server.is_some();
        match error.code {
            ErrorCode::UnknownSession if resumes => self.connection.forgotten(),
            // These pass, or another session is to be begun.
            ErrorCode::ShuttingDown | ErrorCode::SessionExpired | ErrorCode::Idle | ErrorCode::ServerFull
                if was_met =>
            {
                self.connection.forgotten();
                self.connection.tell(Event::Interrupted(error));
            }
            _ => self.end(Some(error)),
        }
    }

    fn end(&mut self, reason: Option<ErrorFrame>) {
        self.closed = true;
        self.end_generation();
        self.connection.tell(Event::Closed(reason));
    }

    /// Ends a generation at the server. Nothing that was sent before matters any more.
    fn send_cancel(&mut self, generation: u32) {
        self.connection.forget_unanswered();
        self.send(None, Frame::Cancel { generation }.encode());
    }

    /// Sends a frame that the server has to have.
    fn send(&mut self, round: Option<u32>, bytes: Vec<u8>) {
        self.ledger.sent(self.connection.send(round, bytes));
    }
}

#[cfg(test)]
mod tests;
