//! Events of a session, for metrics. Nothing depends on them.

use outrider_codec::{
    frame::{ErrorCode, Finish, Frame},
    scheme::SchemeParameters,
};

/// An event of a call of [`CloudSession`](super::CloudSession).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloudEvent {
    /// A generation has begun.
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
        /// True if another token replaces a rejected draft.
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
        /// Right guesses among these that were not the first at their position.
        branched: usize,
        /// True if the guesses were the server's own.
        own: bool,
    },
    /// Guesses of the edge came.
    Guessed {
        /// Number of guesses that came.
        came: usize,
        /// Guesses among them at tokens that were written already.
        late: usize,
    },
    /// A generation is over.
    Finished(Finish),
    /// The edge ended a generation.
    Cancelled,
    /// The edge was sent an error.
    Failed(ErrorCode),
}

/// Results of a judged pass.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Frames to send to the edge.
    pub(super) frames: Vec<Frame>,
    /// The event to count, if any.
    pub(super) event: Option<CloudEvent>,
    /// The reason why the generation is over, if it is.
    pub(super) finish: Option<Finish>,
}
