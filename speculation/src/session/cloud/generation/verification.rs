//! The steps of a generation that the edge drafts for: its rounds, and what follows them on the downlink.

use outrider_codec::frame::{Next, TargetDist};

use super::Verification;
use crate::judge::{NextToken, Round};

impl Verification {
    /// A round under this scheme and rule, in place of one that the target would write alone.
    pub(super) fn round(&self, alone: Round) -> Round {
        let (scheme, verification) = (Some(self.parameters), self.method);
        Round { scheme, rule: self.rule, verification, evidence: self.evidence, ..alone }
    }

    /// The target has written a token alone; the next round follows when it has written all.
    pub(super) fn write(&mut self, token: &[u32]) {
        self.scheme.prime(token);
        self.stream -= 1;
        if self.stream == 0 {
            self.flight.end(true);
        }
    }

    /// The token that follows as it is sent down, and the distribution that the edge resamples it from.
    pub(super) fn downlink(&self, next: NextToken) -> (Next, Option<TargetDist>) {
        match next {
            NextToken::Nothing => (Next::Nothing, None),
            NextToken::Token(token) => (Next::Token(token), None),
            NextToken::Residual { target, samples } if self.sends_samples() => (Next::Samples(samples), Some(target)),
            NextToken::Residual { target, .. } => (Next::Distribution(target.clone()), Some(target)),
        }
    }

    pub(super) fn sends_samples(&self) -> bool {
        self.parameters.samples().is_some()
    }
}
