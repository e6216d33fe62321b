//! Why a worker takes no guesses.

/// What a proposer says, or what is wrong with what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// It speaks another version.
    #[error("the proposer speaks version {theirs} of the channel, this gateway {ours}: take the two of one release")]
    Version {
        /// Its version.
        theirs: u16,
        /// The version here.
        ours: u16,
    },
    /// It wants another token.
    #[error("the proposer wants another token (--guesses-token-file here, OUTRIDER_GUESSES_TOKEN_FILE there)")]
    Token,
    /// It has as many gateways as it takes.
    #[error("the proposer has as many gateways as it takes")]
    Full,
    /// Its ids are those of another model.
    #[error("the proposer's model has {theirs} tokens, this server's {ours}: they do not belong together")]
    Vocabulary {
        /// Its tokens.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// Something else listens there.
    #[error("what listens there is no proposer")]
    NoProposer,
}

/// Why a connection to a worker has ended, or did not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The worker takes no guesses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The connection failed.
    #[error("{0}")]
    Failed(#[from] std::io::Error),
    /// It was closed.
    #[error("it was closed at the other end")]
    Closed,
    /// Something took too long.
    #[error("{0} took too long")]
    Slow(&'static str),
}

impl Lost {
    /// Whether waiting does not mend it.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}
