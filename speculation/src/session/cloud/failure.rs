//! Errors that end a generation or a connection, as they are sent to the edge.

use outrider_codec::{error::DecodeError, frame::ErrorCode};

/// An error to tell the edge before going on without the generation, or the connection.
pub(super) struct Failure {
    /// The generation that ends; 0 for the connection.
    pub(super) generation: u32,
    pub(super) code: ErrorCode,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn connection(code: ErrorCode, text: String) -> Self {
        Self { generation: 0, code, text }
    }

    pub(super) fn generation(generation: u32, code: ErrorCode, text: String) -> Self {
        Self { generation, code, text }
    }

    pub(super) fn out_of_order(what: &str) -> Self {
        Self::connection(ErrorCode::OutOfOrder, format!("Out of order: {what}."))
    }

    /// Accepts a frame about a generation that is over: it may have ended with an error that the edge had not read yet.
    pub(super) fn unless_late(number: u32, last_generation: u32) -> Result<(), Self> {
        if number <= last_generation { Ok(()) } else { Err(Self::out_of_order("a round came before Prompt")) }
    }

    pub(super) fn invalid_draft(what: &str) -> Self {
        Self::connection(ErrorCode::InvalidDraft, format!("Invalid draft: {what}."))
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
