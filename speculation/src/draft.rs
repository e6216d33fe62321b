//! Drafting one token: transform, sparsify, quantize, and only then draw.
//!
//! The draw uses the counts and nothing else. Drawing from q and sending q̂ would be a different sampler from the one
//! the cloud corrects for, and the text would not be the target's (Zhang et al., "quantize-and-sample"; the test
//! `tests/exactness.rs` plants that error and sees it).

use outrider_codec::{
    distribution::{DistError, DraftDist},
    frame::SamplingParameters,
    k_sqs::DraftToken,
};

use crate::{
    lattice,
    random::Randomness,
    sampling::{self, LogitsError},
    sparsify,
};

/// Why no token can be drafted from these logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// The draft model's logits are unusable.
    #[error("the draft model's output is unusable: {0}")]
    Logits(#[from] LogitsError),
    /// The quantized distribution is not one; follows from unusable logits only.
    #[error("the draft distribution cannot be quantized: {0}")]
    Distribution(#[from] DistError),
}

/// q̂ of K-SQS: the `support_size` most likely tokens of S(softmax(logits)) on the lattice of `resolution`.
pub fn k_sqs(
    logits: &[f32],
    parameters: &SamplingParameters,
    support_size: u32,
    resolution: u32,
) -> Result<DraftDist, DraftError> {
    let q = sampling::transform(logits, parameters)?;
    Ok(lattice::quantize(&sparsify::top_k(&q, support_size), resolution)?)
}

/// Draws a token from q̂, exactly: token i with probability `counts[i] / total`.
pub fn draw(dist: DraftDist, randomness: &mut Randomness) -> DraftToken {
    let mut ticket = randomness.below(dist.total());
    let mut id = 0;
    for (&candidate, &count) in dist.ids().iter().zip(dist.counts()) {
        id = candidate;
        match ticket.checked_sub(count) {
            Some(rest) => ticket = rest,
            None => break,
        }
    }
    DraftToken { id, dist }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::End;

    #[test]
    fn every_ticket_draws_its_token() {
        let dist = DraftDist::new(vec![4, 7, 9], vec![1, 2, 5]).unwrap();
        let mut randomness = Randomness::new(1, End::Edge);
        let mut seen = [0u32; 3];
        for _ in 0..80_000 {
            let token = draw(dist.clone(), &mut randomness);
            seen[dist.ids().binary_search(&token.id).unwrap()] += 1;
        }
        for (seen, expected) in seen.into_iter().zip([10_000u32, 20_000, 50_000]) {
            assert!(seen.abs_diff(expected) < 600, "{seen} of {expected}");
        }
    }

    #[test]
    fn greedy_drafts_are_certain() {
        let greedy = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
        let dist = k_sqs(&[0.0, 3.0, 1.0], &greedy, 2, 100).unwrap();
        assert_eq!((dist.ids(), dist.counts()), (&[1][..], &[100][..]));
    }
}
