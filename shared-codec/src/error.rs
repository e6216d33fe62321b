//! Errors of decoding bytes, and of parameters that no code can be made for.

/// Reason why a byte string is not a frame or a payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ended inside a field.
    #[error("the input ends inside {field}")]
    Truncated {
        /// The field that was being read.
        field: &'static str,
    },
    /// Bytes are left after the last field.
    #[error("{count} bytes are left after the last field")]
    TrailingBytes {
        /// Number of bytes left over.
        count: usize,
    },
    /// The first byte names no frame.
    #[error("{kind:#04x} is not a frame kind")]
    UnknownKind {
        /// First byte of the frame.
        kind: u8,
    },
    /// The handshake does not start with the protocol's four letters.
    #[error("the handshake does not start with \"OUTR\"")]
    NotOutrider,
    /// The peer speaks another version of the protocol.
    #[error("the peer speaks protocol version {found}, this side version {ours}")]
    Version {
        /// Protocol version of the peer.
        found: u16,
        /// Protocol version of this end.
        ours: u16,
    },
    /// A field holds a value that the format does not allow.
    #[error("{field} holds {value}, which the format does not allow")]
    Value {
        /// Name of the offending field.
        field: &'static str,
        /// Value of the field; saturated to 64 bits.
        value: u64,
    },
    /// A text field is not UTF-8.
    #[error("{field} is not UTF-8")]
    Utf8 {
        /// Name of the offending field.
        field: &'static str,
    },
    /// The frame is longer than any frame may be.
    #[error("the frame has {length} bytes, the limit is {limit}")]
    TooLong {
        /// Length of the input in bytes.
        length: usize,
        /// The limit, [`crate::frame::MAX_FRAME_BYTES`].
        limit: usize,
    },
}

/// Reason why numbers cannot be used as parameters of a scheme, or a distribution cannot be coded with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The support size is zero or above the vocabulary size.
    #[error("support size K = {support_size} is not in 1..={vocab_size}")]
    SupportSize {
        /// Number of ids kept, K.
        support_size: u32,
        /// Size of the vocabulary, V.
        vocab_size: u32,
    },
    /// The lattice resolution is zero or above the limit.
    #[error("lattice resolution = {resolution} is not in 1..={limit}")]
    LatticeResolution {
        /// Lattice resolution, ℓ.
        resolution: u32,
        /// The largest lattice resolution allowed.
        limit: u32,
    },
    /// The vocabulary is empty or above the limit.
    #[error("vocabulary size {vocab_size} is not in 1..={limit}")]
    VocabSize {
        /// Size of the vocabulary, V.
        vocab_size: u32,
        /// The largest vocabulary allowed.
        limit: u32,
    },
    /// The parameters are valid one by one, but coding a token would take too long.
    #[error("coding a token would take {work} steps, the limit is {limit}: choose a smaller K or lattice resolution")]
    TooMuchWork {
        /// Cost of coding a token, in the unit of [`MAX_WORK`](crate::lattice::MAX_WORK).
        work: u64,
        /// The largest cost allowed.
        limit: u64,
    },
    /// Not even one token would fit into a frame.
    #[error("a token has {bits} bits, a frame holds {limit}: choose a smaller K, or a scheme that sends less")]
    TokenTooLong {
        /// Bits of one coded token.
        bits: u32,
        /// The most payload bits of a frame.
        limit: usize,
    },
    /// DSSD is to send no samples after a rejection.
    #[error("the downlink has to send at least one sample")]
    NoSamples,
    /// Ids and counts do not make a distribution.
    #[error("not a draft distribution: {0}")]
    Distribution(#[from] crate::distribution::DistError),
    /// The distribution does not fit the scheme's parameters.
    #[error("the distribution does not fit the scheme: {what}")]
    DoesNotFit {
        /// Reason why the distribution does not fit, as a clause.
        what: &'static str,
    },
}
