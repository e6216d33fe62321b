//! What a session did, for those who count. Nothing depends on it.

use outrider_codec::{
    frame::{ErrorCode, Finish, Frame},
    scheme::SchemeParameters,
};

/// What a call of [`CloudSession`](super::CloudSession) led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudEvent {
    /// A generation began.
    Started {
        /// The scheme of its drafts; `None` if the target writes alone.
        scheme: Option<SchemeParameters>,
    },
    /// A round of drafts was judged.
    Judged {
        /// Number of drafts that came.
        proposed: usize,
        /// Number of drafts that were accepted.
        accepted: usize,
        /// Tokens that the round adds to the text, with one that the edge is to resample.
        committed: usize,
        /// Whether another token replaces a rejected draft.
        resampled: bool,
    },
    /// A pass of the target added to a text that it writes.
    Wrote {
        /// Tokens that it added.
        tokens: usize,
        /// Guesses that it judged.
        judged: usize,
        /// Guesses that were right.
        accepted: usize,
        /// How many of those were not the first at their position.
        branched: usize,
        /// Whether the guesses were the server's own.
        own: bool,
    },
    /// Guesses came.
    Guessed {
        /// How many.
        came: usize,
        /// How many of them at tokens that were written already.
        late: usize,
    },
    /// A generation is over.
    Finished(Finish),
    /// The edge ended a generation.
    Cancelled,
    /// The edge was told an error.
    Failed(ErrorCode),
}

/// What a pass led to.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Frames to send.
    pub(super) frames: Vec<Frame>,
    /// What is counted of it.
    pub(super) event: Option<CloudEvent>,
    /// Why the generation is over, if it is.
    pub(super) finish: Option<Finish>,
}
