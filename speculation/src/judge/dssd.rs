//! DSSD: the edge resamples (Ning et al., "Distributed split speculative decoding").
//!
//! Up go the drafted ids and their probabilities q̂(x), which is all that the test min(1, p(x)/q̂(x)) needs. After a
//! rejection the residual norm(max(0, P − q̂)) is drawn by the edge, which has q̂; so P has to come down, at 4 bytes a
//! token of the vocabulary, or, shorter and of the same law:
//!
//! **Samples.** The residual is P thinned: a sample y of P is kept with probability max(0, 1 − q̂(y)/P(y)), and
//!
//! ```text
//! P(y)·max(0, 1 − q̂(y)/P(y)) = max(0, P(y) − q̂(y))
//! ```
//!
//! so the first of independent samples that is kept has the residual's law. The cloud sends m samples (y, P(y)). If
//! none is kept, which says nothing of what a further draw would be, the edge asks for P and draws from its residual.
//!
//! P is rounded to f32 *before* the test, so that both ends compute with the same P. (Algorithms 1 and 2 of the paper
//! invert the ratio, and take P from the draft.)

use outrider_codec::{
    distribution::DraftDist,
    frame::{SamplingParameters, TargetDist},
    probabilities::DraftProbability,
};

use crate::{
    judge::{
        acceptance::{self, Outcome},
        thinning,
    },
    sample::{Distribution, LogitsError, Randomness},
};

/// What became of a round.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// All drafts stand, and the bonus token follows unless the round is continued.
    Accepted(Outcome),
    /// The first `accepted` drafts stand; the edge resamples the next from the target's distribution.
    Rejected {
        /// Number of drafts that stand.
        accepted: usize,
        /// P at the rejected draft.
        target: TargetDist,
    },
}

/// Judges a round on the cloud. `rows`: one more than there are drafts, as for the exact rule, or as many if the round is continued.
///
/// # Errors
/// If logits cannot be sampled from.
pub fn verify(
    drafts: &[DraftProbability],
    rows: &[&[f32]],
    sampling: &SamplingParameters,
    randomness: &mut Randomness,
) -> Result<Judgement, LogitsError> {
    let is_continued = rows.len() == drafts.len() && !drafts.is_empty();
    assert!(is_continued || rows.len() == drafts.len() + 1, "a round needs one row of logits a draft and one more");
    for (accepted, (draft, row)) in drafts.iter().zip(rows).enumerate() {
        let p = Distribution::new(row, sampling)?;
        let q = f64::from(draft.count) / f64::from(draft.total);
        if randomness.unit() * q >= f64::from(p.probability(draft.id) as f32) {
            return Ok(Judgement::Rejected { accepted, target: sparse(&p.dense()) });
        }
    }
    let bonus = rows.get(drafts.len()).map(|row| Distribution::new(row, sampling)).transpose()?;
    Ok(Judgement::Accepted(Outcome { accepted: drafts.len(), token: bonus.map(|p| p.draw(randomness)) }))
}

/// V probabilities in f32, those that are not zero: P as it is sent.
pub fn sparse(p: &[f64]) -> TargetDist {
    TargetDist((0u32..).zip(p).map(|(id, &p)| (id, p as f32)).filter(|&(_, p)| p > 0.0).collect())
}

/// `count` independent samples of P with their probabilities.
pub fn samples(target: &TargetDist, count: u8, randomness: &mut Randomness) -> Vec<(u32, f32)> {
    let weights: Vec<f64> = target.0.iter().map(|&(_, p)| p.into()).collect();
    (0..count).map(|_| target.0[acceptance::sample(&weights, randomness) as usize]).collect()
}

/// On the edge: the first sample that survives its coin; `None` if none does.
pub fn survivor(samples: &[(u32, f32)], dist: &DraftDist, randomness: &mut Randomness) -> Option<u32> {
    let samples: Vec<(u32, f64)> = samples.iter().map(|&(id, p)| (id, p.into())).collect();
    thinning::survivor(&samples, dist, randomness)
}

/// On the edge: a draw from norm(max(0, P − q̂)), or from P where rounding leaves nothing of it.
pub fn resample(target: &TargetDist, dist: &DraftDist, randomness: &mut Randomness) -> u32 {
    let q = |id| f64::from(dist.count(id)) / f64::from(dist.total());
    let mut weights: Vec<f64> = target.0.iter().map(|&(id, p)| (f64::from(p) - q(id)).max(0.0)).collect();
    if weights.iter().all(|&weight| weight == 0.0) {
        weights = target.0.iter().map(|&(_, p)| p.into()).collect();
    }
    target.0[acceptance::sample(&weights, randomness) as usize].0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::End;

    const GREEDY: SamplingParameters = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };

    #[test]
    fn greedy_drafts_stand_or_fall_for_certain() {
        let mut randomness = Randomness::new(1, End::Cloud);
        let rows = [&[0.0, 1.0, 0.0][..], &[5.0, 1.0, 0.0]];
        let certain = |id| DraftProbability { id, count: 1 << 24, total: 1 << 24 };
        let accepted = Judgement::Accepted(Outcome { accepted: 1, token: Some(0) });
        assert_eq!(verify(&[certain(1)], &rows, &GREEDY, &mut randomness), Ok(accepted));
        let target = TargetDist(vec![(1, 1.0)]);
        let rejected = Judgement::Rejected { accepted: 0, target: target.clone() };
        assert_eq!(verify(&[certain(0)], &rows, &GREEDY, &mut randomness), Ok(rejected));
        let dist = DraftDist::new(vec![0], vec![1 << 24]).unwrap();
        let sent = samples(&target, 2, &mut randomness);
        assert_eq!(sent, [(1, 1.0); 2]);
        assert_eq!(survivor(&sent, &dist, &mut randomness), Some(1));
        assert_eq!(resample(&target, &dist, &mut randomness), 1);
    }

    #[test]
    fn what_the_draft_makes_more_likely_never_survives() {
        let mut randomness = Randomness::new(2, End::Edge);
        let dist = DraftDist::new(vec![0, 1], vec![3, 1]).unwrap();
        let target = TargetDist(vec![(0, 0.5), (1, 0.25), (2, 0.25)]);
        for _ in 0..1000 {
            assert_eq!(survivor(&[(0, 0.5), (1, 0.25)], &dist, &mut randomness), None);
            assert_eq!(resample(&target, &dist, &mut randomness), 2);
        }
    }
}
