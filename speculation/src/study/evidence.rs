//! Evidence of both models' distributions at a committed token, for inspection.
//!
//! The edge has the distribution that a draft was drawn from. The cloud sends the target's distribution at every judged
//! draft where it is asked for ([`Speculation::explain`](crate::session::edge::Speculation::explain)).

use core::cmp::Ordering;
use std::collections::BTreeSet;

use outrider_codec::{distribution::DraftDist, frame::Evidence};

use super::explanation::Drawn;

/// The most candidates that are given for a position.
pub(crate) const MOST_CANDIDATES: usize = 8;
/// Number of these that are the draft's likeliest; the others are the target's likeliest, as long as it has any.
const OF_THE_DRAFT: usize = 3;

/// Probabilities of a token and of its alternatives under both models.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenEvidence {
    /// ln p of the token, under the target's distribution as it is sampled; `None` where the cloud sent none.
    pub log_probability: Option<f64>,
    /// Payload bits of a draft, as the round had them in the mean; `None` where nothing was drafted.
    pub bits: Option<f64>,
    /// The likeliest tokens there, the target's likeliest first; by the draft's where the target's are not known.
    pub candidates: Vec<Candidate>,
}

/// A token that could have stood at a position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Token id of the candidate.
    pub id: u32,
    /// Its probability when the draft was drawn: q̂, or S(q) where ids alone travel. `None` where nothing was drafted.
    pub draft: Option<f64>,
    /// Its probability under S(p); `None` where the cloud sent none.
    pub target: Option<f64>,
}

impl TokenEvidence {
    /// Evidence of a token that was drafted, or that replaced a draft, with the distribution by which the draft was
    /// judged.
    pub(crate) fn of_draft(id: u32, drawn: &Drawn, evidence: Option<&Evidence>, bits: f64) -> Self {
        let by_draft = match &drawn.dist {
            Some(dist) => likeliest(shares(dist)),
            None => likeliest(indexed(&drawn.q)),
        };
        let q = |id: u32| match &drawn.dist {
            Some(dist) => f64::from(dist.count(id)) / f64::from(dist.total()),
            None => drawn.q.get(id as usize).copied().unwrap_or_default(),
        };
        let Some(Evidence { target, .. }) = evidence else {
            let candidates = by_draft.into_iter().map(|(id, q)| Candidate { id, draft: Some(q), target: None });
            return Self { log_probability: None, bits: Some(bits), candidates: candidates.collect() };
        };
        // S(p) is whole: an id that it does not list has probability 0.
        let p = |id: u32| target.0.binary_search_by_key(&id, |entry| entry.0).map_or(0.0, |at| target.0[at].1.into());
        let by_target = likeliest(target.0.iter().map(|&(id, p)| (id, p.into())));
        let ids = by_draft.iter().take(OF_THE_DRAFT).chain(&by_target).chain(&by_draft).map(|candidate| candidate.0);
        let mut seen = BTreeSet::new();
        let ids = ids.filter(|&id| seen.insert(id)).take(MOST_CANDIDATES);
        let mut candidates: Vec<Candidate> =
            ids.map(|id| Candidate { id, draft: Some(q(id)), target: Some(p(id)) }).collect();
        let order = |candidate: &Candidate| (candidate.target, candidate.draft);
        candidates.sort_by(|a, b| order(b).partial_cmp(&order(a)).unwrap_or(Ordering::Equal));
        Self { log_probability: Some(p(id).ln()), bits: Some(bits), candidates }
    }

    /// Evidence of a position at which S(q) was drawn from, ahead of a text that the target writes.
    pub(crate) fn of_guess(q: &[f64], bits: Option<u32>) -> Self {
        let candidates = likeliest(indexed(q)).into_iter();
        let candidates = candidates.map(|(id, q)| Candidate { id, draft: Some(q), target: None }).collect();
        Self { log_probability: None, bits: bits.map(f64::from), candidates }
    }
}

/// The ids of q̂ with their probabilities.
fn shares(dist: &DraftDist) -> impl Iterator<Item = (u32, f64)> {
    let total = f64::from(dist.total());
    dist.ids().iter().zip(dist.counts()).map(move |(&id, &count)| (id, f64::from(count) / total))
}

fn indexed(dense: &[f64]) -> impl Iterator<Item = (u32, f64)> {
    (0..).zip(dense.iter().copied())
}

/// At most [`MOST_CANDIDATES`] of positive probability, the likeliest first; of equal ones the smaller id.
fn likeliest(all: impl Iterator<Item = (u32, f64)>) -> Vec<(u32, f64)> {
    let mut best: Vec<(u32, f64)> = Vec::with_capacity(MOST_CANDIDATES + 1);
    for (id, probability) in all {
        let is_full = best.len() == MOST_CANDIDATES;
        if probability <= 0.0 || is_full && best.last().is_some_and(|last| probability <= last.1) {
            continue;
        }
        let at = best.partition_point(|other| other.1 >= probability);
        best.insert(at, (id, probability));
        best.truncate(MOST_CANDIDATES);
    }
    best
}

#[cfg(test)]
mod tests {
    use outrider_codec::frame::TargetDist;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn drawn(q: &[f64], dist: Option<(&[u32], &[u32])>) -> Drawn {
        let dist = dist.map(|(ids, counts)| DraftDist::new(ids.to_vec(), counts.to_vec()).unwrap());
        Drawn { q: q.to_vec(), dist, distortion: 0.0, is_known: true }
    }

    fn evidence(target: &[(u32, f32)]) -> Evidence {
        let target = TargetDist(target.to_vec());
        Evidence { generation: 1, round: 0, index: 0, rejection: 0.0, divergence: 0.0, target }
    }

    fn told(evidence: &TokenEvidence) -> Vec<(u32, Option<f64>, Option<f64>)> {
        evidence.candidates.iter().map(|candidate| (candidate.id, candidate.draft, candidate.target)).collect()
    }

    #[test]
    fn the_draft_is_told_as_it_was_drawn_and_the_target_as_it_is_sampled() {
        let drawn = drawn(&[0.5, 0.3, 0.2, 0.0], Some((&[0, 1], &[3, 1])));
        let found = TokenEvidence::of_draft(3, &drawn, Some(&evidence(&[(1, 0.25), (3, 0.75)])), 7.5);
        assert_eq!((found.log_probability, found.bits), (Some(0.75f64.ln()), Some(7.5)));
        let (some, zero) = (Some::<f64>, Some(0.0));
        assert_eq!(told(&found), [(3, zero, some(0.75)), (1, some(0.25), some(0.25)), (0, some(0.75), zero)]);
        let unknown = TokenEvidence::of_draft(3, &drawn, None, 7.5);
        assert_eq!(unknown.log_probability, None);
        assert_eq!(told(&unknown), [(0, some(0.75), None), (1, some(0.25), None)]);
    }

    /// Evidence where ids alone travel: the draft is drawn from S(q) itself.
    #[test]
    fn without_a_quantized_distribution_it_is_the_drafts_own() {
        let found = TokenEvidence::of_draft(2, &drawn(&[0.1, 0.6, 0.3], None), Some(&evidence(&[(2, 1.0)])), 2.0);
        assert_eq!(found.log_probability, Some(0.0));
        let (q, zero) = (Some::<f64>, Some(0.0));
        assert_eq!(told(&found), [(2, q(0.3), q(1.0)), (1, q(0.6), zero), (0, q(0.1), zero)]);
        let guess = TokenEvidence::of_guess(&[0.1, 0.6, 0.3], Some(2));
        assert_eq!(told(&guess), [(1, q(0.6), None), (2, q(0.3), None), (0, q(0.1), None)]);
    }

    /// The draft's favourites are among the candidates even where the target has eight of its own, and the target's
    /// five likeliest always are.
    #[test]
    fn both_models_favourites_are_among_eight() {
        let counts: Vec<u32> = (1..=9).collect();
        let dist: Vec<u32> = (20..29).collect();
        let drawn = drawn(&[0.0; 40], Some((&dist, &counts)));
        let target: Vec<(u32, f32)> = (0..12).map(|id| (id, (id + 1) as f32 / 78.0)).collect();
        let ids: Vec<u32> =
            TokenEvidence::of_draft(0, &drawn, Some(&evidence(&target)), 1.0).candidates.iter().map(|c| c.id).collect();
        assert_eq!(ids, [11, 10, 9, 8, 7, 28, 27, 26]);
    }
}
