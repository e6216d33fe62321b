//! Error frames, which both ends send.

use crate::{
    error::DecodeError,
    wire::{ByteReader, MAX_ERROR_TEXT, put_varint},
};

/// An error, and the generation or connection that it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFrame {
    /// The generation that ends; 0 if the connection does.
    pub generation: u32,
    /// The kind of error; its high byte names the side at fault.
    pub code: ErrorCode,
    /// A sentence for people that describes the error.
    pub text: String,
}

impl ErrorFrame {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        out.extend(self.code.number().to_le_bytes());
        let text = &self.text[..self.text.floor_char_boundary(MAX_ERROR_TEXT)];
        put_varint(out, text.len() as u32);
        out.extend(text.as_bytes());
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let generation = input.varint("generation")?;
        let code = ErrorCode::from_number(input.u16("error code")?);
        let length = input.count("error text")?;
        if length > MAX_ERROR_TEXT {
            return Err(DecodeError::Value { field: "error text length", value: length as u64 });
        }
        let text = std::str::from_utf8(input.bytes(length, "error text")?)
            .map_err(|_| DecodeError::Utf8 { field: "error text" })?;
        Ok(Self { generation, code, text: text.to_owned() })
    }
}

/// The kind of an error; the high byte names the side at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// 0x0101: the bytes are no frame or no payload.
    Malformed,
    /// 0x0201: a frame that does not belong here.
    OutOfOrder,
    /// 0x0202: a draft that breaks its own scheme or the agreed limits.
    InvalidDraft,
    /// 0x0203: parameters out of their range.
    InvalidParameters,
    /// 0x0301: another protocol version.
    Version,
    /// 0x0302: token ids mean something else on the other end.
    Tokenizer,
    /// 0x0401: the prompt does not fit the context.
    PromptTooLong,
    /// 0x0402: no place for another session.
    ServerFull,
    /// 0x0403: the frame is too long.
    FrameTooLong,
    /// 0x0404: nothing was heard for too long.
    Idle,
    /// 0x0410: there is no such session, or not with this secret.
    UnknownSession,
    /// 0x0411: another connection goes on with the session.
    TakenOver,
    /// 0x0412: the session is as old as one may get.
    SessionExpired,
    /// 0x0501: the server failed.
    Internal,
    /// 0x0502: the server is stopping.
    ShuttingDown,
    /// 0x0601: the server wants a token and was shown none that it knows.
    Unauthorized,
    /// A code of a later version; the fault is still known by the high byte.
    Other(u16),
}

const ERROR_CODES: [(ErrorCode, u16, &str); 16] = [
    (ErrorCode::Malformed, 0x0101, "malformed"),
    (ErrorCode::OutOfOrder, 0x0201, "out-of-order"),
    (ErrorCode::InvalidDraft, 0x0202, "invalid-draft"),
    (ErrorCode::InvalidParameters, 0x0203, "invalid-parameters"),
    (ErrorCode::Version, 0x0301, "incompatible-version"),
    (ErrorCode::Tokenizer, 0x0302, "tokenizer-mismatch"),
    (ErrorCode::PromptTooLong, 0x0401, "prompt-too-long"),
    (ErrorCode::ServerFull, 0x0402, "server-full"),
    (ErrorCode::FrameTooLong, 0x0403, "frame-too-long"),
    (ErrorCode::Idle, 0x0404, "idle"),
    (ErrorCode::UnknownSession, 0x0410, "unknown-session"),
    (ErrorCode::TakenOver, 0x0411, "taken-over"),
    (ErrorCode::SessionExpired, 0x0412, "session-expired"),
    (ErrorCode::Internal, 0x0501, "internal"),
    (ErrorCode::ShuttingDown, 0x0502, "shutting-down"),
    (ErrorCode::Unauthorized, 0x0601, "unauthorized"),
];

impl ErrorCode {
    /// The number of the code on the wire.
    pub fn number(self) -> u16 {
        match self {
            ErrorCode::Other(number) => number,
            known => ERROR_CODES.iter().find(|row| row.0 == known).map_or(0, |row| row.1),
        }
    }

    /// Returns the code of a number.
    pub fn from_number(number: u16) -> Self {
        ERROR_CODES.iter().find(|row| row.1 == number).map_or(ErrorCode::Other(number), |row| row.0)
    }

    /// A stable word for programs: `malformed`, `server-full`, ….
    pub fn name(self) -> &'static str {
        ERROR_CODES.iter().find(|row| row.0 == self).map_or("unknown", |row| row.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn a_long_error_text_is_cut_between_characters() {
        let error = ErrorFrame { generation: 0, code: ErrorCode::Internal, text: "ü".repeat(MAX_ERROR_TEXT) };
        match Frame::decode(&Frame::Error(error).encode()) {
            Ok(Frame::Error(error)) => assert_eq!(error.text, "ü".repeat(MAX_ERROR_TEXT / 2)),
            other => panic!("{other:?}"),
        }
        assert_eq!(Frame::decode(b"\x8e\x00\x01\x01\x01\xff"), Err(DecodeError::Utf8 { field: "error text" }));
    }

    #[test]
    fn error_codes_are_distinct_and_unknown_ones_survive() {
        for (code, number, name) in ERROR_CODES {
            assert_eq!((ErrorCode::from_number(number), code.number(), code.name()), (code, number, name));
        }
        assert_eq!(ErrorCode::from_number(0x04ff), ErrorCode::Other(0x04ff));
        assert_eq!(ErrorCode::Other(0x04ff).number(), 0x04ff);
    }
}
