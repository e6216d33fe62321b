//! DSSD: the edge resamples (Ning et al., "Distributed split speculative decoding").
//!
//! Up go the drafted ids and their probabilities q̂(x), which is all that the test min(1, p(x)/q̂(x)) needs. After a
//! rejection the residual norm(max(0, P − q̂)) is drawn by the edge, which has q̂; so P has to come down, at 4 bytes a
//! token of the vocabulary, or, shorter and with the same distribution:
//!
//! **Samples.** The residual is P thinned: a sample y of P is kept with probability max(0, 1 − q̂(y)/P(y)), and
//!
//! ```text
//! P(y)·max(0, 1 − q̂(y)/P(y)) = max(0, P(y) − q̂(y))
//! ```
//!
//! so the first of independent samples that is kept is distributed as the residual. The cloud sends m samples (y,
//! P(y)). If none is kept, which says nothing of what a further draw would be, the edge asks for P and draws from its
//! residual.
//!
//! P is rounded to f32 *before* the test, so that both ends compute with the same P. (Algorithms 1 and 2 of the paper
//! invert the ratio, and take P from the draft.)

use outrider_codec::{distribution::DraftDist, frame::TargetDist};

use crate::{judge::thinning, sample::Randomness};

/// P as it is sent: V probabilities in f32, without those that are zero.
pub(crate) fn sparse(p: &[f64]) -> TargetDist {
    TargetDist((0u32..).zip(p).map(|(id, &p)| (id, p as f32)).filter(|&(_, p)| p > 0.0).collect())
}

/// `count` independent samples of P with their probabilities.
pub(crate) fn samples(target: &TargetDist, count: usize, randomness: &mut Randomness) -> Vec<(u32, f32)> {
    let weights: Vec<f64> = target.0.iter().map(|&(_, p)| p.into()).collect();
    (0..count).map(|_| target.0[randomness.draw(&weights) as usize]).collect()
}

/// Resamples on the edge: the first sample that survives its draw; `None` if none does.
pub(crate) fn survivor(samples: &[(u32, f32)], dist: &DraftDist, randomness: &mut Randomness) -> Option<u32> {
    let samples: Vec<(u32, f64)> = samples.iter().map(|&(id, p)| (id, p.into())).collect();
    thinning::survivor(&samples, dist, randomness)
}

/// Resamples on the edge: a draw from norm(max(0, P − q̂)), or from P where rounding leaves nothing of it.
pub(crate) fn resample(target: &TargetDist, dist: &DraftDist, randomness: &mut Randomness) -> u32 {
    let q = |id| f64::from(dist.count(id)) / f64::from(dist.total());
    let mut weights: Vec<f64> = target.0.iter().map(|&(id, p)| (f64::from(p) - q(id)).max(0.0)).collect();
    if weights.iter().all(|&weight| weight == 0.0) {
        weights = target.0.iter().map(|&(_, p)| p.into()).collect();
    }
    target.0[randomness.draw(&weights) as usize].0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::End;

    #[test]
    fn a_certain_target_leaves_one_token() {
        let mut randomness = Randomness::new(1, End::Cloud);
        let target = sparse(&[0.0, 1.0, 0.0]);
        assert_eq!(target, TargetDist(vec![(1, 1.0)]));
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
