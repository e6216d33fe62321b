//! Observations that an edge session makes, as its controllers take them.

use core::time::Duration;

/// A measurement or an outcome. A controller ignores those that its mode of drafting does not need.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Observation {
    /// Time of a connection's handshake. The target computes nothing for it, so that it shows a link that passes hide.
    Handshake(Duration),
    /// Time from the request of a text to its first token, and of the pass that wrote it.
    FirstToken {
        /// Time from the request to the token.
        after: Duration,
        /// Time of the target's pass.
        pass: Duration,
    },
    /// Time of a pass, as the target measured it before the session.
    Timed {
        /// Number of rows, guesses and the one before them.
        rows: usize,
        /// Time of the pass alone, without the link.
        took: Duration,
    },
    /// Time of drafts that were made together.
    Drafted {
        /// Time from asking for their forward pass to its logits.
        took: Duration,
        /// Number of these drafts.
        count: usize,
    },
    /// Time of drafts and one frame, of which none was lost to waiting.
    Framed {
        /// Time from the beginning of the drafts to that of the next ones.
        took: Duration,
        /// Number of these drafts.
        drafts: usize,
    },
    /// Time from tokens that proved guesses wrong to the frame of the next guesses.
    Corrected {
        /// Time between the two.
        after: Duration,
        /// Number of guesses in the frame.
        drafts: usize,
    },
    /// Time of a pass of the target.
    Passed {
        /// The pass, as the target says.
        took: Duration,
        /// Guesses that it accepted.
        accepted: usize,
        /// Guesses that it had, if that is known.
        at_hand: Option<usize>,
    },
    /// Time of a pass in which the target judged drafts of its own.
    PassedAlone(Duration),
    /// Bounds on the round trip: tokens came of a pass that began when the target had new guesses.
    Answered(Answer),
    /// Candidates for a position, and the rank of the one that was written, if one was.
    Compared {
        /// Number of candidates.
        candidates: usize,
        /// Rank of the right one, from 0.
        right: Option<usize>,
    },
    /// Tokens that a pass wrote.
    Written {
        /// Number of these tokens.
        tokens: usize,
        /// Time at which they came, since any fixed moment.
        now: Duration,
    },
    /// A text, or the rest of one, that the target wrote without an edge's guesses.
    WrittenAlone {
        /// Number of its tokens.
        tokens: usize,
        /// Number of passes that wrote them.
        passes: usize,
        /// Time in which they came.
        took: Duration,
    },
    /// A settled round of drafts.
    Round(RoundTimes),
    /// A token that the target wrote alone, and the time since the one before; `None` for the first of a stream, whose
    /// wait includes the round trip.
    Streamed(Option<Duration>),
}

/// Bounds on the link's round trip from an answer to guesses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Lower bound: a pass began before the guesses came.
    pub least: Duration,
    /// Upper bound: another began when they had come.
    pub most: Duration,
    /// True if no pass was under way when they were sent, so that the upper bound is exact if the target waits for
    /// guesses.
    pub awaited: bool,
}

/// Outcome and times of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTimes {
    /// Tokens that were drafted.
    pub drafted: usize,
    /// Drafts that were judged: those accepted and, if any was rejected, the first that was.
    pub judged: usize,
    /// Drafts that were accepted.
    pub accepted: usize,
    /// Tokens that the verdict committed: the accepted ones and the one after them, if any.
    pub committed: usize,
    /// Tokens that passed before the round's drafts without being sent; drafting them took its time.
    pub passed: usize,
    /// Time from asking for the first forward pass to sending the frame.
    pub drafting: Duration,
    /// Time from sending the frame to the verdict.
    pub round_trip: Duration,
}
