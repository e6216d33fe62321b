//! State of a session's connection: the handshake, and the frames that the server has yet to answer.

use core::time::Duration;
use std::collections::VecDeque;

use outrider_codec::frame::{Frame, Hello, Resume, Ticket, Welcome};

use super::{
    error::EdgeError,
    event::{EdgeOutput, Event},
};

/// Data to resume a session from elsewhere: to be kept where only its user can read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedSession {
    /// Name and secret of the session.
    pub ticket: Ticket,
    /// Number of times that it was resumed.
    pub attempts: u32,
    /// The session's last generation.
    pub generation: u32,
}

/// Progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The Hello is under way.
    Greeting,
    /// Resume is under way.
    Resuming,
    /// The handshake is done.
    Up,
    /// There is no connection.
    Down,
}

/// A frame that the server has to have.
#[derive(Debug)]
struct Unanswered {
    /// The round that the answer is about; `None` for what any answer of the generation answers.
    round: Option<u32>,
    bytes: Vec<u8>,
}

/// One connection after another to the same server, with the outputs that wait for the driver.
#[derive(Debug)]
pub(super) struct Connection {
    stage: Stage,
    /// Time at which the handshake began.
    began: Option<Duration>,
    /// Ticket to resume the session with; `None` if the server has none of it.
    ticket: Option<Ticket>,
    /// Number of times that the session was asked for with that.
    attempts: u32,
    /// Frames that were sent and that the server has not answered, oldest first: at most Cancel, Prompt, the Drafts in
    /// flight and Resample.
    unanswered: Vec<Unanswered>,
    outputs: VecDeque<EdgeOutput>,
}

impl Connection {
    /// The state before the first connection; to a server that has a session with this ticket, if there is one.
    pub(super) fn new(ticket: Option<Ticket>, attempts: u32) -> Self {
        Self { stage: Stage::Down, began: None, ticket, attempts, unanswered: Vec::new(), outputs: VecDeque::new() }
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// Data to resume the session with; `generation` is its last.
    pub(super) fn saved(&self, generation: u32) -> Option<SavedSession> {
        Some(SavedSession { ticket: self.ticket?, attempts: self.attempts, generation })
    }

    /// Begins the handshake on a new connection: says Hello, or asks for the session, whose last text has `length`
    /// tokens.
    pub(super) fn open(&mut self, hello: Hello, generation: u32, length: u32) {
        let frame = match self.ticket {
            Some(ticket) => {
                self.stage = Stage::Resuming;
                self.attempts = self.attempts.saturating_add(1);
                Frame::Resume(Resume { ticket, attempt: self.attempts, generation, length })
            }
            None => {
                self.stage = Stage::Greeting;
                Frame::Hello(hello)
            }
        };
        self.began = None;
        self.outputs.push_back(EdgeOutput::Send(frame.encode()));
    }

    /// Time that the handshake took, if it is done now.
    pub(super) fn handshake(&self, now: Duration) -> Option<Duration> {
        Some(now.saturating_sub(self.began?))
    }

    /// The handshake is done. Gives whether the session is a new one.
    pub(super) fn welcome(&mut self, welcome: &Welcome) -> Result<bool, EdgeError> {
        let anew = self.stage == Stage::Greeting;
        if !anew && self.ticket != Some(welcome.ticket) {
            return Err(EdgeError::Unexpected { frame: "Welcome" });
        }
        if anew {
            self.attempts = 0;
        }
        (self.stage, self.ticket) = (Stage::Up, Some(welcome.ticket));
        Ok(anew)
    }

    /// The connection is gone. What was to be sent over it is not.
    pub(super) fn lose(&mut self) {
        self.outputs.retain(|output| matches!(output, EdgeOutput::Event(_)));
        self.stage = Stage::Down;
    }

    /// The server is done with the connection, and has forgotten the session.
    pub(super) fn forgotten(&mut self) {
        (self.ticket, self.stage) = (None, Stage::Down);
    }

    /// Sends a frame that the server has to have: without a connection, when there is one. Gives the bits that were
    /// sent.
    pub(super) fn send(&mut self, round: Option<u32>, bytes: Vec<u8>) -> usize {
        self.unanswered.push(Unanswered { round, bytes: bytes.clone() });
        if self.stage == Stage::Up { self.post(bytes) } else { 0 }
    }

    /// Says goodbye, if there is a connection. Gives the bits that were sent.
    pub(super) fn say_bye(&mut self) -> usize {
        if self.stage == Stage::Down { 0 } else { self.post(Frame::Bye.encode()) }
    }

    /// Sends again what the server has not answered. Gives the bits that were sent.
    pub(super) fn resend(&mut self) -> usize {
        let frames = std::mem::take(&mut self.unanswered);
        frames.into_iter().map(|Unanswered { round, bytes }| self.send(round, bytes)).sum()
    }

    /// Keeps only the frames of rounds whose answer `is_due`.
    pub(super) fn keep_unanswered(&mut self, is_due: impl Fn(u32) -> bool) {
        self.unanswered.retain(|frame| frame.round.is_some_and(&is_due));
    }

    /// Forgets all frames: nothing that was sent before matters any more.
    pub(super) fn forget_unanswered(&mut self) {
        self.unanswered.clear();
    }

    /// Reports an event to the user, after what is to be sent already.
    pub(super) fn tell(&mut self, event: Event) {
        self.outputs.push_back(EdgeOutput::Event(event));
    }

    /// The next output for the driver, if there is one.
    pub(super) fn poll(&mut self, now: Duration) -> Option<EdgeOutput> {
        self.began.get_or_insert(now);
        self.outputs.pop_front()
    }

    /// Sends a frame that may be lost with the connection. Gives the bits that are sent.
    pub(super) fn post(&mut self, bytes: Vec<u8>) -> usize {
        let bits = bytes.len() * 8;
        self.outputs.push_back(EdgeOutput::Send(bytes));
        bits
    }
}
