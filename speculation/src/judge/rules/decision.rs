//! Decisions of a rule and their consequences: acceptance, replacement, and the distribution of the committed token.

use outrider_codec::distribution::DraftDist;

use crate::sample::{Distribution, Randomness, at};

/// q̂(x) of each token of the support, by ascending id.
pub(super) fn probabilities(q: &DraftDist) -> impl Iterator<Item = f64> {
    q.counts().iter().map(|&count| f64::from(count) / f64::from(q.total()))
}

/// Decision at a drafted position, the same whichever token was drafted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    /// Accepts the draft: π = q̂.
    Keep,
    /// Accepts the draft x with probability min(1, π(x)/q̂(x)), or else a token from norm(max(0, π − q̂)) takes its
    /// place.
    Speculate(Interleaving),
    /// Rejects the draft for certain, and a token from p takes its place. It may be the same one.
    Replace,
}

/// π, which interleaves q̂ and p: weights on q̂'s support, and a multiple of p elsewhere. What it adds up to is the
/// rule's business.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interleaving {
    /// π(x) of each token of q̂'s support, by ascending id; at least 0.
    on_support: Vec<f64>,
    /// π(x)/p(x) of every other token; at least 0.
    elsewhere: f64,
}

impl Interleaving {
    /// An interleaving from `on_support`, one weight for each id of q̂, and the multiple of p `elsewhere`.
    pub(super) fn new(on_support: Vec<f64>, elsewhere: f64) -> Self {
        Self { on_support, elsewhere }
    }

    /// π as V weights, one for each token.
    pub(crate) fn dense(&self, q: &DraftDist, p: &[f64]) -> Vec<f64> {
        self.overlay(q, p, |weight, _| weight)
    }

    /// `elsewhere`·p, and on the support `weight` of π and q̂.
    fn overlay(&self, q: &DraftDist, p: &[f64], weight: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let mut weights: Vec<f64> = p.iter().map(|p| self.elsewhere * p).collect();
        for ((&id, &on_support), q) in q.ids().iter().zip(&self.on_support).zip(probabilities(q)) {
            if let Some(slot) = weights.get_mut(id as usize) {
                *slot = weight(on_support, q);
            }
        }
        weights
    }
}

impl Decision {
    /// The decision with `scale`·π in place of π, where π is the distribution of the [committed](Self::committed)
    /// token: where a rule's π does not add up to 1, its surplus over q̂ is multiplied so that it does.
    pub(crate) fn scaled(&self, q: &DraftDist, p: &Distribution<'_>, scale: f64) -> Self {
        let (mut on_support, mut elsewhere) = match self {
            Self::Keep => (probabilities(q).collect(), 0.0),
            Self::Speculate(pi) => (pi.on_support.clone(), pi.elsewhere),
            Self::Replace => (q.ids().iter().map(|&id| p.probability(id)).collect::<Vec<_>>(), 1.0),
        };
        let surplus: f64 = on_support.iter().zip(probabilities(q)).map(|(weight, q)| (weight - q).max(0.0)).sum();
        let surplus = surplus + elsewhere * p.without(q.ids()).mass();
        if let Self::Speculate(_) = self
            && surplus > 0.0
        {
            let factor = self.rejection_rate(q) / surplus;
            let raise = |(weight, q): (&mut f64, f64)| *weight = weight.min(q) + factor * (*weight - q).max(0.0);
            on_support.iter_mut().zip(probabilities(q)).for_each(raise);
            elsewhere *= factor;
        }
        on_support.iter_mut().for_each(|weight| *weight *= scale);
        Self::Speculate(Interleaving::new(on_support, scale * elsewhere))
    }

    /// The probability that the draft `id` is accepted: min(1, π(id)/q̂(id)). 0 for a token that q̂ never gives.
    pub(crate) fn acceptance(&self, q: &DraftDist, id: u32) -> f64 {
        q.ids().binary_search(&id).map_or(0.0, |place| self.accepted_mass(q, place) / probability(q, place))
    }

    /// Weights that the replacement of a rejected draft is drawn from, V of them, which need not add up to 1: max(0, π
    /// − q̂), or p for [`Replace`](Self::Replace). Where rounding leaves nothing, π.
    ///
    /// After [`Keep`](Self::Keep) no draft is rejected; q̂ then, which is π.
    pub(crate) fn replacement(&self, q: &DraftDist, p: &[f64]) -> Vec<f64> {
        match self {
            Self::Keep => Interleaving::new(probabilities(q).collect(), 0.0).dense(q, p),
            Self::Speculate(pi) => {
                let residual = pi.overlay(q, p, |weight, q| (weight - q).max(0.0));
                if residual.iter().all(|&weight| weight == 0.0) { pi.dense(q, p) } else { residual }
            }
            Self::Replace => p.to_vec(),
        }
    }

    /// Draws the token in place of a rejected draft, in proportion to [`replacement`](Self::replacement)'s weights but
    /// without a list of them: one of p's others, or else a token of q̂'s support. Takes one draw.
    pub(crate) fn replace(&self, q: &DraftDist, p: &Distribution<'_>, randomness: &mut Randomness) -> u32 {
        let (on_support, elsewhere): (Vec<f64>, f64) = match self {
            Self::Keep => (probabilities(q).collect(), 0.0),
            Self::Speculate(pi) => {
                let residual = pi.on_support.iter().zip(probabilities(q)).map(|(weight, q)| (weight - q).max(0.0));
                (residual.collect(), pi.elsewhere)
            }
            Self::Replace => return p.draw(randomness),
        };
        let rest = p.without(q.ids());
        let outside = elsewhere * rest.mass();
        let within: f64 = on_support.iter().sum();
        let unit = randomness.unit();
        let ticket = unit * (within + outside);
        match self {
            // Rounding leaves nothing: π.
            Self::Speculate(pi) if within + outside == 0.0 => q.ids()[at(&pi.on_support, unit) as usize],
            _ if ticket < outside => rest.at(ticket / outside),
            _ => q.ids()[at(&on_support, (ticket - outside) / within) as usize],
        }
    }

    /// The probability that a draft from q̂ is rejected: Σ q̂(x)·(1 − acceptance(x)).
    pub(crate) fn rejection_rate(&self, q: &DraftDist) -> f64 {
        (0..q.ids().len()).map(|place| probability(q, place) - self.accepted_mass(q, place)).sum()
    }

    /// The distribution of the committed token, V probabilities that add up to 1: all that can happen, enumerated.
    ///
    /// ```text
    /// P(y) = Σ_x q̂(x)·[a(x)·1{y = x} + (1 − a(x))·r(y)],   a = acceptance, r = norm(replacement)
    /// ```
    pub(crate) fn committed(&self, q: &DraftDist, p: &[f64]) -> Vec<f64> {
        let [accepted, replaced] = self.consequences(q, p);
        accepted.iter().zip(replaced).map(|(accepted, replaced)| accepted + replaced).collect()
    }

    /// The two parts of [`committed`](Self::committed): accepted drafts, and what takes the place of rejected ones.
    pub(super) fn consequences(&self, q: &DraftDist, p: &[f64]) -> [Vec<f64>; 2] {
        let replacement = self.replacement(q, p);
        let rate = self.rejection_rate(q) / replacement.iter().sum::<f64>();
        let replaced: Vec<f64> = replacement.iter().map(|weight| rate * weight).collect();
        let mut accepted = vec![0.0; replaced.len()];
        for (place, &id) in q.ids().iter().enumerate() {
            accepted[id as usize] = self.accepted_mass(q, place);
        }
        [accepted, replaced]
    }

    /// q̂(x)·a(x) = min(q̂(x), π(x)) of the token at `place` of the support.
    fn accepted_mass(&self, q: &DraftDist, place: usize) -> f64 {
        let mass = probability(q, place);
        match self {
            Self::Keep => mass,
            Self::Speculate(pi) => mass.min(pi.on_support[place]),
            Self::Replace => 0.0,
        }
    }
}

fn probability(q: &DraftDist, place: usize) -> f64 {
    f64::from(q.counts()[place]) / f64::from(q.total())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        sample::{End, tests::PLAIN},
        theory::total_variation,
    };
    use outrider_codec::frame::SamplingParameters;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    const P: [f64; 4] = [0.5, 0.25, 0.0, 0.25];

    fn q() -> DraftDist {
        DraftDist::new(vec![1, 2], vec![1, 3]).unwrap()
    }

    #[test]
    fn a_kept_draft_stands() {
        let keep = Decision::Keep;
        assert_eq!((keep.acceptance(&q(), 1), keep.acceptance(&q(), 2), keep.rejection_rate(&q())), (1.0, 1.0, 0.0));
        assert_eq!(keep.acceptance(&q(), 0), 0.0, "it cannot be drafted");
        assert_eq!(keep.committed(&q(), &P), [0.0, 0.25, 0.75, 0.0]);
    }

    #[test]
    fn a_replaced_draft_falls() {
        let replace = Decision::Replace;
        assert_eq!((replace.acceptance(&q(), 1), replace.rejection_rate(&q())), (0.0, 1.0));
        assert_eq!(replace.replacement(&q(), &P), P);
        assert_eq!(replace.committed(&q(), &P), P);
    }

    #[test]
    fn between_them_the_ratio_decides() {
        let pi = Interleaving::new(vec![0.5, 0.375], 0.125);
        assert_eq!(pi.dense(&q(), &P), [0.0625, 0.5, 0.375, 0.03125]);
        let speculate = Decision::Speculate(pi);
        assert_eq!((speculate.acceptance(&q(), 1), speculate.acceptance(&q(), 2)), (1.0, 0.5));
        assert_eq!(speculate.rejection_rate(&q()), 0.375);
        assert_eq!(speculate.replacement(&q(), &P), [0.0625, 0.25, 0.0, 0.03125]);
        let sum = 0.34375;
        let expected = [0.375 * 0.0625 / sum, 0.25 + 0.375 * 0.25 / sum, 0.375, 0.375 * 0.03125 / sum];
        let distribution = speculate.committed(&q(), &P);
        assert!(
            distribution.iter().zip(expected).all(|(distribution, expected)| (distribution - expected).abs() < 1e-15),
            "{distribution:?}"
        );
    }

    #[test]
    fn an_empty_residual_falls_back_to_the_target_distribution() {
        let same = Decision::Speculate(Interleaving::new(vec![0.25, 0.75], 0.0));
        assert_eq!(same.replacement(&q(), &P), [0.0, 0.25, 0.75, 0.0]);
        assert_eq!(same.committed(&q(), &P), [0.0, 0.25, 0.75, 0.0]);
    }

    /// The draw is distributed as the list, over pieces and over the tokens that top-p leaves.
    #[test]
    fn replacements_are_drawn_in_proportion_to_their_weights() {
        let row: Vec<f32> = (0..200).map(|i| -((i * 37 % 200) as f32) * 0.04).collect();
        let q = DraftDist::new(vec![0, 27, 100, 199], vec![5, 1, 1, 1]).unwrap();
        let weights = |on_support: [f64; 4], elsewhere| Interleaving::new(on_support.to_vec(), elsewhere);
        for sampling in [PLAIN, SamplingParameters { top_p: 0.7, ..PLAIN }] {
            let p = Distribution::new(&row, &sampling).unwrap();
            for decision in [
                Decision::Keep,
                Decision::Replace,
                Decision::Speculate(weights([0.1, 0.4, 0.05, 0.3], 1.0)),
                Decision::Speculate(weights([0.9, 0.125, 0.1, 0.4], 0.0)),
                // Nothing is left of this one.
                Decision::Speculate(weights([0.1, 0.125, 0.0, 0.125], 0.0)),
            ] {
                let list = decision.replacement(&q, &p.dense());
                let sum: f64 = list.iter().sum();
                let mut randomness = Randomness::new(9, End::Cloud);
                let mut seen = vec![0.0; row.len()];
                for _ in 0..40_000 {
                    seen[decision.replace(&q, &p, &mut randomness) as usize] += 1.0 / 40_000.0;
                }
                let distribution: Vec<f64> = list.iter().map(|weight| weight / sum).collect();
                assert!(
                    seen.iter().zip(&distribution).all(|(seen, distribution)| *seen == 0.0 || *distribution > 0.0),
                    "{decision:?}"
                );
                // 200 tokens: 0.03 is what chance gives.
                assert!(
                    total_variation(&seen, &distribution) < 0.05,
                    "{decision:?}: {}",
                    total_variation(&seen, &distribution)
                );
            }
        }
    }
}
