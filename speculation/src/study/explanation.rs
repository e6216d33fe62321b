//! Predictions of the papers' closed forms for a generation, from the distributions by which it was judged, beside the
//! results.
//!
//! The cloud sends the target's distribution at every judged draft (and what its rule makes of it); the edge has q and
//! q̂.

use outrider_codec::{
    distribution::DraftDist,
    frame::{Evidence, TargetDist},
};

use crate::{judge::coupled, theory::RejectionBound};

/// Sums over the judged drafts of a generation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    /// Drafts judged: the accepted ones, and the first rejected one of each round.
    pub judged: usize,
    /// Σ of the probabilities of rejection: the expected number of rejections where these drafts were judged.
    pub rejections: f64,
    /// Σ r(1 − r) of them: the variance of the number of rejections.
    pub variance: f64,
    /// Σ TV between the distribution of the committed token and the target's: 0 under the exact rule.
    pub divergence: f64,
    /// Theorem 1 of SQS, its two terms.
    pub bound: RejectionBound,
}

/// The distributions that a draft was drawn from, kept until it is judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawn {
    /// Probabilities S(q), V of them.
    pub q: Vec<f64>,
    /// The quantized distribution q̂; `None` under coupled drafting, which draws from S(q) itself.
    pub dist: Option<DraftDist>,
    /// Distortion α_n + K_n/4ℓ; 0 where nothing is quantized on a lattice.
    pub distortion: f64,
    /// True if the cloud has all of q̂, so that it knows the probability of rejection.
    pub is_known: bool,
}

impl Explanation {
    /// Counts a judged draft.
    pub(crate) fn add(&mut self, drawn: &Drawn, evidence: &Evidence) {
        let p = dense(&evidence.target, drawn.q.len());
        let rejection = match &drawn.dist {
            Some(_) if drawn.is_known => evidence.rejection.into(),
            Some(dist) => distance(dist, &p),
            None => 1.0 - coupled::agreement(&drawn.q, &p),
        };
        self.judged += 1;
        self.rejections += rejection;
        self.variance += rejection * (1.0 - rejection);
        self.divergence += f64::from(evidence.divergence);
        self.bound.add(crate::theory::total_variation(&drawn.q, &p), drawn.distortion);
    }

    /// The acceptance rate that follows: 1 − the mean probability of rejection; `None` if nothing was judged.
    pub(crate) fn acceptance_rate(&self) -> Option<f64> {
        (self.judged > 0).then(|| 1.0 - self.rejections / self.judged as f64)
    }

    /// Mean TV between the distribution of the committed token and the target's; `None` if nothing was judged.
    pub(crate) fn mean_divergence(&self) -> Option<f64> {
        (self.judged > 0).then(|| self.divergence / self.judged as f64)
    }
}

fn dense(target: &TargetDist, vocab_size: usize) -> Vec<f64> {
    let mut p = vec![0.0; vocab_size];
    for &(id, probability) in &target.0 {
        if let Some(place) = p.get_mut(id as usize) {
            *place = probability.into();
        }
    }
    p
}

/// The total variation TV(q̂, p).
fn distance(dist: &DraftDist, p: &[f64]) -> f64 {
    let total = f64::from(dist.total());
    let excess = |(&id, &count): (&u32, &u32)| (f64::from(count) / total - p[id as usize]).max(0.0);
    dist.ids().iter().zip(dist.counts()).map(excess).sum()
}
