//! Errors of a session, and of the start of a generation.

use outrider_codec::error::{DecodeError, ParameterError};

use crate::{draft::DraftError, judge::unscaled::Incompatible};

/// Error that ends a session of the edge.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EdgeError {
    /// The server's bytes are no frame.
    #[error("the server sent bytes that are no frame: {0}")]
    Decode(#[from] DecodeError),
    /// The server sent a frame that does not belong here.
    #[error("the server sent {frame} at the wrong time")]
    Unexpected {
        /// The name of the frame.
        frame: &'static str,
    },
    /// The server's verdict contradicts what was drafted.
    #[error("the server's verdict is impossible: {what}")]
    ImpossibleVerdict {
        /// The part that is impossible.
        what: &'static str,
    },
    /// The server's vocabulary is not the draft's.
    #[error("the draft has a vocabulary of {draft} tokens, the target of {target}")]
    Vocabulary {
        /// V of the draft model.
        draft: u32,
        /// V of the target model.
        target: u32,
    },
    /// The server has forgotten the session, and what is left of the generation cannot be asked of it again.
    #[error("the server has forgotten the text and cannot go on with it: {0}")]
    Forgotten(StartError),
    /// The draft model gave something that cannot be sampled.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// The drafts cannot be coded; a fault of ours.
    #[error("the drafts cannot be coded: {0}")]
    Encode(ParameterError),
}

impl EdgeError {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            EdgeError::Decode(DecodeError::Version { .. }) => "incompatible-version",
            EdgeError::Decode(_) => "malformed",
            EdgeError::Unexpected { .. } => "out-of-order",
            EdgeError::ImpossibleVerdict { .. } => "impossible-verdict",
            EdgeError::Vocabulary { .. } => "tokenizer-mismatch",
            EdgeError::Forgotten(error) => error.code(),
            EdgeError::Draft(_) => "draft-failed",
            EdgeError::Encode(_) => "internal",
        }
    }
}

/// Error of a generation that cannot start. The session is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The handshake is not done, or a generation is under way, or the session is closed.
    #[error("the session is not idle")]
    NotIdle,
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt does not fit the target's context.
    #[error("the prompt has {tokens} tokens; at most {limit} fit")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The most tokens that fit.
        limit: usize,
    },
    /// A prompt token is outside the vocabulary.
    #[error("prompt token {token} is outside the vocabulary of {vocab_size}")]
    PromptToken {
        /// The id outside of the vocabulary.
        token: u32,
        /// V, the size of the vocabulary.
        vocab_size: u32,
    },
    /// The server takes no guesses.
    #[error("this server takes no guesses: its target makes random draws of its own")]
    NoGuesses,
    /// Rounds of drafts without a draft model.
    #[error("rounds need a draft model, and there is none: guesses are looked up, under `auto` or `ahead`")]
    NoModel,
    /// A setting is out of its range.
    #[error("{name} must be {range}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The values that are allowed.
        range: &'static str,
    },
    /// The scheme's parameters are out of their range.
    #[error(transparent)]
    Scheme(#[from] ParameterError),
    /// The rule cannot be used with the scheme.
    #[error(transparent)]
    Rule(#[from] Incompatible),
    /// The draft model has no trained head for what was asked.
    #[error("{what} needs a trained {head}, which this draft model does not have")]
    NoHead {
        /// The feature that was asked for.
        what: &'static str,
        /// The kind of head that it needs.
        head: &'static str,
    },
}

impl StartError {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            StartError::NotIdle => "not-idle",
            StartError::PromptTooLong { .. } => "prompt-too-long",
            StartError::EmptyPrompt
            | StartError::PromptToken { .. }
            | StartError::NoGuesses
            | StartError::NoModel
            | StartError::Setting { .. }
            | StartError::Scheme(_)
            | StartError::Rule(_)
            | StartError::NoHead { .. } => "invalid-parameters",
        }
    }
}
