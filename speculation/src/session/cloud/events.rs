//! What a session did, for those who count. Nothing depends on it.

use outrider_codec::{
    frame::{ErrorCode, Finish, Frame, Next},
    scheme::SchemeParameters,
};

/// What a call of [`CloudSession`](super::CloudSession) led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudEvent {
    /// A generation began.
    Started {
        /// The scheme of its drafts; none if the target writes alone.
        scheme: Option<SchemeParameters>,
    },
    /// A round of drafts was judged.
    Judged {
        /// Drafts that came.
        proposed: usize,
        /// Drafts that stand.
        accepted: usize,
        /// Tokens that the round adds to the text, with one that the edge is to resample.
        committed: usize,
        /// Whether another token replaces a rejected draft.
        resampled: bool,
    },
    /// The target wrote a token alone.
    Wrote,
    /// A generation is over.
    Finished(Finish),
    /// The edge ended a generation.
    Cancelled,
    /// The edge was told an error.
    Failed(ErrorCode),
}

/// What a frame says that answers a pass over `proposed` drafts.
pub(super) fn of(frame: &Frame, proposed: usize) -> Option<CloudEvent> {
    match frame {
        Frame::Verdict(verdict) => {
            let accepted = usize::from(verdict.accepted);
            let follows = usize::from(verdict.next != Next::Nothing);
            let resampled = accepted < proposed && follows == 1;
            Some(CloudEvent::Judged { proposed, accepted, committed: accepted + follows, resampled })
        }
        Frame::Token(_) => Some(CloudEvent::Wrote),
        _ => None,
    }
}

/// Why the generation that a frame belongs to is over with it.
pub(super) fn finish(frame: &Frame) -> Option<CloudEvent> {
    match frame {
        Frame::Verdict(verdict) => verdict.finish.map(CloudEvent::Finished),
        Frame::Token(token) => token.finish.map(CloudEvent::Finished),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use outrider_codec::frame::{TargetDist, Verdict};

    use super::*;

    #[test]
    fn a_verdict_says_what_stands_and_what_is_replaced() {
        let judged = |accepted, next| {
            let verdict = Verdict { generation: 1, round: 0, accepted, next, finish: None };
            match of(&Frame::Verdict(verdict), 4) {
                Some(CloudEvent::Judged { proposed: 4, accepted: a, committed, resampled }) => {
                    (a, committed, resampled)
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(judged(4, Next::Token(7)), (4, 5, false), "a bonus token");
        assert_eq!(judged(2, Next::Token(7)), (2, 3, true));
        assert_eq!(judged(2, Next::Distribution(TargetDist(vec![(1, 1.0)]))), (2, 3, true), "the edge resamples");
        assert_eq!(judged(2, Next::Nothing), (2, 2, false), "the second ended the text");
        assert_eq!(of(&Frame::Bye, 4), None);
    }
}
