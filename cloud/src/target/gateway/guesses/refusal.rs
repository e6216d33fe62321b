//! Reasons why a worker takes no guesses.

/// Refusal by a proposer, or an answer that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The proposer speaks another version.
    #[error(
        "the proposer speaks version {theirs} of the channel, this gateway version {ours}: use the same release of both"
    )]
    Version {
        /// Version of the proposer.
        theirs: u16,
        /// Version of this gateway.
        ours: u16,
    },
    /// The proposer requires another token.
    #[error("the proposer expects another token (--guesses-token-file here, OUTRIDER_GUESSES_TOKEN_FILE there)")]
    Token,
    /// The proposer has as many gateways as it takes.
    #[error("the proposer has no room for another gateway")]
    Full,
    /// The proposer's model has another vocabulary.
    #[error("the proposer's model has {theirs} tokens, this server's {ours}: they do not belong together")]
    Vocabulary {
        /// Vocabulary size of the proposer's model.
        theirs: u32,
        /// Vocabulary size of this server's target.
        ours: u32,
    },
    /// Another program listens at the address.
    #[error("the listener there is not a proposer")]
    NoProposer,
}

/// Reason why a connection to a worker ended or failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The worker takes no guesses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The connection failed.
    #[error("{0}")]
    Failed(#[from] std::io::Error),
    /// The other end closed the connection.
    #[error("the other end closed it")]
    Closed,
    /// A step took too long.
    #[error("{0} took too long")]
    Slow(&'static str),
}

impl Lost {
    /// Returns true if reconnecting does not help.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}
