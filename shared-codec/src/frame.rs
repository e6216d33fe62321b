//! The frames. This module alone knows their byte layout, and [`crate::format`] describes it for other languages: what
//! a frame has is in `messages.rs`, its bytes in `encode.rs` and `decode.rs`, the bytes that tell frames apart in
//! `tags.rs`.

mod decode;
mod encode;
mod errors;
mod messages;
mod tags;

pub use errors::{ErrorCode, ErrorFrame};
pub use messages::{
    Distribution, Draft, Evidence, Finish, Guesses, Hello, Next, Prompt, Request, Resume, SamplingParameters,
    TargetDist, Ticket, Tokens, Verdict, Welcome,
};

/// The protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u16 = 7;
/// The longest frame in bytes. Six dense distributions over 151 936 tokens fit, or a prompt of half a million tokens.
pub const MAX_FRAME_BYTES: usize = 2 * 1024 * 1024;
/// The longest text of an [`ErrorFrame`] in bytes; longer ones are cut.
pub const MAX_ERROR_TEXT: usize = 512;
/// The most tokens a [`Draft`] carries, and a frame of [`Guesses`].
pub const MAX_DRAFT_TOKENS: u8 = 64;

/// One binary WebSocket message.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// Edge → cloud, first.
    Hello(Hello),
    /// Edge → cloud, in place of [`Frame::Hello`]: goes on with a session whose connection was lost.
    Resume(Resume),
    /// Cloud → edge, the answer to [`Frame::Hello`] and [`Frame::Resume`].
    Welcome(Welcome),
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
        /// Which one.
        generation: u32,
    },
    /// Edge → cloud: no sample of the verdict survived; asks for the distribution (DSSD).
    Resample {
        /// The generation it belongs to.
        generation: u32,
        /// The round whose verdict is meant.
        round: u32,
    },
    /// Cloud → edge: the answer to a [`Frame::Draft`].
    Verdict(Verdict),
    /// Cloud → edge: the answer to a [`Frame::Resample`].
    Distribution(Distribution),
    /// Cloud → edge: what a draft was judged by.
    Evidence(Evidence),
    /// Cloud → edge: what one forward pass has added to a text that the target writes.
    Tokens(Tokens),
    /// Cloud → edge: something is wrong.
    Error(ErrorFrame),
    /// Either way: the sender is done and closes.
    Bye,
}

impl Frame {
    /// The word used in logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Frame::Hello(_) => "Hello",
            Frame::Resume(_) => "Resume",
            Frame::Welcome(_) => "Welcome",
            Frame::Prompt(_) => "Prompt",
            Frame::Generate(_) => "Generate",
            Frame::Guesses(_) => "Guesses",
            Frame::Draft(_) => "Draft",
            Frame::Cancel { .. } => "Cancel",
            Frame::Resample { .. } => "Resample",
            Frame::Verdict(_) => "Verdict",
            Frame::Distribution(_) => "Distribution",
            Frame::Evidence(_) => "Evidence",
            Frame::Tokens(_) => "Tokens",
            Frame::Error(_) => "Error",
            Frame::Bye => "Bye",
        }
    }
}

#[cfg(test)]
mod tests;
