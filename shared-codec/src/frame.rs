//! Frames of the protocol, each a binary message.
//!
//! This module alone knows their byte layout, and [`crate::format`] describes it for other languages. Each message is
//! encoded and decoded in the file of its struct; this file has the bytes that distinguish frames.

mod draft;
mod errors;
mod fields;
mod guesses;
mod handshake;
mod limits;
mod request;
mod shape;
mod target;
mod tokens;
mod verdict;

use self::fields::take_generation;
use crate::{
    error::DecodeError,
    wire::{ByteReader, put_varint},
};

pub use self::{
    draft::Draft,
    errors::{ErrorCode, ErrorFrame},
    guesses::Guesses,
    handshake::{Hello, PASS_ROWS, PROTOCOL_VERSION, Resume, Ticket, Welcome},
    limits::Limits,
    request::{Prompt, Request, SamplingParameters},
    shape::{MAX_OPTIONS, Shape},
    target::{Distribution, Evidence, TargetDist},
    tokens::{Finish, Tokens},
    verdict::{Next, Verdict},
};
pub use crate::wire::{MAX_DRAFT_TOKENS, MAX_ERROR_TEXT, MAX_FRAME_BYTES};

// The first byte of a frame. A Draft has several, in its own file.
const HELLO: u8 = 0x01;
const PROMPT: u8 = 0x02;
const GENERATE: u8 = 0x03;
const CANCEL: u8 = 0x05;
const RESAMPLE: u8 = 0x06;
const RESUME: u8 = 0x08;
const GUESSES: u8 = 0x09;
const SHAPE: u8 = 0x0a;
const BYE: u8 = 0x0f;
const WELCOME: u8 = 0x81;
const VERDICT: u8 = 0x84;
const DISTRIBUTION: u8 = 0x85;
const TOKENS: u8 = 0x86;
const EVIDENCE: u8 = 0x87;
const ERROR: u8 = 0x8e;

/// A frame of the protocol: one binary WebSocket message.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// Edge → cloud, first.
    Hello(Hello),
    /// Edge → cloud, instead of [`Frame::Hello`]: resumes a session whose connection was lost.
    Resume(Resume),
    /// Cloud → edge, the answer to [`Frame::Hello`] and [`Frame::Resume`].
    Welcome(Welcome),
    /// Edge → cloud: changes the target's logits in the generation that starts next.
    Shape(Shape),
    /// Edge → cloud: starts a generation that the edge drafts for.
    Prompt(Prompt),
    /// Edge → cloud: starts a generation that the cloud writes; the edge may send [`Frame::Guesses`] at it.
    Generate(Request),
    /// Edge → cloud: one round of drafts.
    Draft(Draft),
    /// Edge → cloud: guesses at tokens that the cloud has yet to write.
    Guesses(Guesses),
    /// Edge → cloud: ends a generation.
    Cancel {
        /// Number of the generation.
        generation: u32,
    },
    /// Edge → cloud: no sample of the verdict survived; asks for the distribution (DSSD).
    Resample {
        /// The generation it belongs to.
        generation: u32,
        /// The round whose verdict left no sample.
        round: u32,
    },
    /// Cloud → edge: the answer to a [`Frame::Draft`].
    Verdict(Verdict),
    /// Cloud → edge: the answer to a [`Frame::Resample`].
    Distribution(Distribution),
    /// Cloud → edge: the basis of a draft's judgement.
    Evidence(Evidence),
    /// Cloud → edge: the tokens that one forward pass has added to a text that the target writes.
    Tokens(Tokens),
    /// Cloud → edge: something is wrong.
    Error(ErrorFrame),
    /// Either way: the sender is done and closes.
    Bye,
}

impl Frame {
    /// Decodes one binary message.
    ///
    /// # Errors
    /// If the bytes are no frame. Any bytes give a frame or a named error.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_FRAME_BYTES {
            return Err(DecodeError::TooLong { length: bytes.len(), limit: MAX_FRAME_BYTES });
        }
        let mut reader = ByteReader::new(bytes);
        let input = &mut reader;
        let frame = match input.u8("frame kind")? {
            HELLO => Frame::Hello(Hello::decode(input)?),
            RESUME => Frame::Resume(Resume::decode(input)?),
            WELCOME => Frame::Welcome(Welcome::decode(input)?),
            SHAPE => Frame::Shape(Shape::decode(input)?),
            PROMPT => Frame::Prompt(Prompt::decode(input)?),
            GENERATE => Frame::Generate(Request::decode(input)?),
            kind if Draft::has_kind(kind) => Frame::Draft(Draft::decode(kind, input)?),
            GUESSES => Frame::Guesses(Guesses::decode(input)?),
            RESAMPLE => Frame::Resample { generation: take_generation(input)?, round: input.varint("round")? },
            CANCEL => Frame::Cancel { generation: take_generation(input)? },
            VERDICT => Frame::Verdict(Verdict::decode(input)?),
            DISTRIBUTION => Frame::Distribution(Distribution::decode(input)?),
            EVIDENCE => Frame::Evidence(Evidence::decode(input)?),
            TOKENS => Frame::Tokens(Tokens::decode(input)?),
            ERROR => Frame::Error(ErrorFrame::decode(input)?),
            BYE => Frame::Bye,
            kind => return Err(DecodeError::UnknownKind { kind }),
        };
        reader.finish()?;
        Ok(frame)
    }

    /// Encodes the frame as one binary message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.head().0];
        let out = &mut bytes;
        match self {
            Frame::Hello(hello) => hello.encode(out),
            Frame::Resume(resume) => resume.encode(out),
            Frame::Welcome(welcome) => welcome.encode(out),
            Frame::Shape(shape) => shape.encode(out),
            Frame::Prompt(prompt) => prompt.encode(out),
            Frame::Generate(request) => request.encode(out),
            Frame::Draft(draft) => draft.encode(out),
            Frame::Guesses(guesses) => guesses.encode(out),
            Frame::Cancel { generation } => put_varint(out, *generation),
            Frame::Resample { generation, round } => {
                put_varint(out, *generation);
                put_varint(out, *round);
            }
            Frame::Verdict(verdict) => verdict.encode(out),
            Frame::Distribution(distribution) => distribution.encode(out),
            Frame::Evidence(evidence) => evidence.encode(out),
            Frame::Tokens(tokens) => tokens.encode(out),
            Frame::Error(error) => error.encode(out),
            Frame::Bye => {}
        }
        bytes
    }

    /// The name of the frame in logs and errors.
    pub fn name(&self) -> &'static str {
        self.head().1
    }

    /// The first byte of the frame, and its name in logs and errors.
    fn head(&self) -> (u8, &'static str) {
        match self {
            Frame::Hello(_) => (HELLO, "Hello"),
            Frame::Resume(_) => (RESUME, "Resume"),
            Frame::Welcome(_) => (WELCOME, "Welcome"),
            Frame::Shape(_) => (SHAPE, "Shape"),
            Frame::Prompt(_) => (PROMPT, "Prompt"),
            Frame::Generate(_) => (GENERATE, "Generate"),
            Frame::Guesses(_) => (GUESSES, "Guesses"),
            Frame::Draft(draft) => (draft.kind(), "Draft"),
            Frame::Cancel { .. } => (CANCEL, "Cancel"),
            Frame::Resample { .. } => (RESAMPLE, "Resample"),
            Frame::Verdict(_) => (VERDICT, "Verdict"),
            Frame::Distribution(_) => (DISTRIBUTION, "Distribution"),
            Frame::Evidence(_) => (EVIDENCE, "Evidence"),
            Frame::Tokens(_) => (TOKENS, "Tokens"),
            Frame::Error(_) => (ERROR, "Error"),
            Frame::Bye => (BYE, "Bye"),
        }
    }
}

#[cfg(test)]
mod tests;
