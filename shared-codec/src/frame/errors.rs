//! Errors as the ends tell them to each other.

/// Something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFrame {
    /// The generation that ends; 0 if the connection does.
    pub generation: u32,
    /// What.
    pub code: ErrorCode,
    /// One sentence for a person.
    pub text: String,
}

/// What went wrong, and by the high byte whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

pub(super) const ERROR_CODES: [(ErrorCode, u16, &str); 16] = [
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
    /// The number on the wire.
    pub fn number(self) -> u16 {
        match self {
            ErrorCode::Other(number) => number,
            known => ERROR_CODES.iter().find(|row| row.0 == known).map_or(0, |row| row.1),
        }
    }

    /// The code of a number.
    pub fn from_number(number: u16) -> Self {
        ERROR_CODES.iter().find(|row| row.1 == number).map_or(ErrorCode::Other(number), |row| row.0)
    }

    /// A stable word for programs: `malformed`, `server-full`, ….
    pub fn name(self) -> &'static str {
        ERROR_CODES.iter().find(|row| row.0 == self).map_or("unknown", |row| row.2)
    }
}
