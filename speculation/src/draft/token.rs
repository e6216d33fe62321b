//! Drafting one token: transform, sparsify, quantize, and only then draw.
//!
//! The draw uses the counts and nothing else. Drawing from q and sending q̂ would be a different sampler from the one
//! the cloud corrects for, and the text would not be the target's (Zhang et al., "quantize-and-sample"; the test
//! `tests/laws/exactness.rs` plants that error and sees it).

use outrider_codec::{
    distribution::{DistError, DraftDist, DraftToken},
    scheme::{Keeps, Scheme, SchemeParameters},
};

use crate::{
    draft::{
        half, lattice,
        sparsify::{self, Support},
    },
    sample::{Distribution, LogitsError, Randomness},
};

/// Error of logits from which no token can be drafted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// The draft model's logits are unusable.
    #[error("the draft model's output is unusable: {0}")]
    Logits(#[from] LogitsError),
    /// The number of logits differs from the number of tokens.
    #[error("the draft model gave {found} logits for a vocabulary of {vocab_size}")]
    Length {
        /// Number of logits in the row.
        found: usize,
        /// V, the size of the vocabulary.
        vocab_size: u32,
    },
    /// A guess that the draft model chose is outside of the vocabulary, or missing.
    #[error("the draft model chose no token of a vocabulary of {vocab_size}")]
    Choice {
        /// V, the size of the vocabulary.
        vocab_size: u32,
    },
    /// The hidden state is not what the heads were trained on.
    #[error("the draft model gave a hidden state of {found} numbers to heads for {expected}")]
    Hidden {
        /// Numbers of the hidden state.
        found: usize,
        /// Numbers that the heads want.
        expected: usize,
    },
    /// The quantized distribution is not one; follows from unusable logits only.
    #[error("the draft distribution cannot be quantized: {0}")]
    Distribution(#[from] DistError),
}

/// A distribution that a token may be drawn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// q̂, the distribution that the draft is drawn from.
    pub dist: DraftDist,
    /// Tokens that were kept, those that rounding left without mass included: the K of the scheme's code.
    pub support_size: u32,
    /// The mass of S(q) that was not kept.
    pub dropped_mass: f64,
}

/// The distribution q̂ of a scheme from S(q) = `q`. `threshold` is C-SQS's; other schemes have none.
///
/// # Errors
/// If `q` has no mass.
pub fn propose(
    q: &Distribution<'_>,
    parameters: SchemeParameters,
    scheme: &Scheme,
    threshold: f64,
) -> Result<Proposal, DistError> {
    let resolution = parameters.lattice_resolution();
    let support = match (parameters.info().keeps, resolution) {
        (Keeps::All, None) => {
            let dist = half::quantize_all(q)?;
            return Ok(Proposal { support_size: scheme.support_size(q.vocab_size(), &dist), dropped_mass: 0.0, dist });
        }
        (Keeps::All, Some(resolution)) => all_for(q, resolution),
        (Keeps::MostLikely, _) => sparsify::top_k(q, parameters.options().support_size),
        (Keeps::AboveThreshold, None) => sparsify::above(q, threshold),
        (Keeps::AboveThreshold, Some(resolution)) => {
            let support = sparsify::above(q, threshold).listing(lattice::most_listed(resolution));
            if scheme.is_widened(support.size) { all_for(q, resolution) } else { support }
        }
    };
    let dist = match resolution {
        Some(resolution) => lattice::quantize(&support, resolution)?,
        None => half::quantize(&support)?,
    };
    let support_size = scheme.support_size(support.size, &dist);
    Ok(Proposal { support_size, dropped_mass: support.dropped_mass(), dist })
}

/// Largest number of tokens of S(q), the most likely ones, that [q̂](propose) may be made of; `None`: all. Of the
/// others nothing but the mass matters. `threshold` is C-SQS's, which no more than its reciprocal can reach.
pub(crate) fn most_kept(parameters: SchemeParameters, threshold: f64) -> Option<u32> {
    match (parameters.info().keeps, parameters.lattice_resolution()) {
        (Keeps::MostLikely, _) => Some(parameters.options().support_size),
        (Keeps::All, resolution) => resolution.map(lattice::most_listed),
        (Keeps::AboveThreshold, _) => (threshold > 0.0).then(|| (1.0 / threshold).max(1.0) as u32),
    }
}

fn all_for(q: &Distribution<'_>, lattice_resolution: u32) -> Support {
    sparsify::all_listing(q, lattice::most_listed(lattice_resolution))
}

/// Draws a token from q̂, exactly: token i with probability `counts[i] / total`.
pub fn draw(proposal: Proposal, randomness: &mut Randomness) -> DraftToken {
    let id = draw_id(&proposal.dist, randomness);
    proposal.with(id)
}

/// The same, where the distribution goes on to be used: token i with probability `counts[i] / total`.
pub(crate) fn draw_id(dist: &DraftDist, randomness: &mut Randomness) -> u32 {
    let mut ticket = randomness.below(dist.total());
    let mut id = 0;
    for (&candidate, &count) in dist.ids().iter().zip(dist.counts()) {
        id = candidate;
        match ticket.checked_sub(count) {
            Some(rest) => ticket = rest,
            None => break,
        }
    }
    id
}

/// A token x ~ q for a draft x̂ ~ q̂ = `dist`, which it differs from with probability TV(q, q̂), as rarely as can be:
/// x̂ with probability min(1, q(x̂)/q̂(x̂)), else one from norm(max(0, q − q̂)) (maximal coupling).
pub(crate) fn couple(q: &Distribution<'_>, dist: &DraftDist, draft: u32, randomness: &mut Randomness) -> u32 {
    let share = |count: u32| f64::from(count) / f64::from(dist.total());
    if randomness.unit() * share(dist.count(draft)) < q.probability(draft) {
        return draft;
    }
    let mut left = q.dense();
    for (&id, &count) in dist.ids().iter().zip(dist.counts()) {
        left[id as usize] = (left[id as usize] - share(count)).max(0.0);
    }
    // Rounding may leave nothing where q̂ is q.
    if left.iter().any(|&mass| mass > 0.0) { randomness.draw(&left) } else { draft }
}

impl Proposal {
    /// A draft of this distribution.
    pub(crate) fn with(self, id: u32) -> DraftToken {
        let Self { dist, support_size, .. } = self;
        DraftToken { id, dist, support_size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{
        End,
        tests::{PLAIN, logits},
    };
    use outrider_codec::{frame::SamplingParameters, scheme::Code};

    #[test]
    fn every_ticket_draws_its_token() {
        let dist = DraftDist::new(vec![4, 7, 9], vec![1, 2, 5]).unwrap();
        let proposal = Proposal { dist: dist.clone(), support_size: 3, dropped_mass: 0.0 };
        let mut randomness = Randomness::new(1, End::Edge);
        let mut seen = [0u32; 3];
        for _ in 0..80_000 {
            let token = draw(proposal.clone(), &mut randomness);
            seen[dist.ids().binary_search(&token.id).unwrap()] += 1;
        }
        for (seen, expected) in seen.into_iter().zip([10_000u32, 20_000, 50_000]) {
            assert!(seen.abs_diff(expected) < 600, "{seen} of {expected}");
        }
    }

    /// x is distributed as q, and equal to x̂ as often as q and q̂ overlap.
    #[test]
    fn coupled_tokens_have_both_distributions() {
        let row = logits(&[0.5, 0.1, 0.4]);
        let q = Distribution::new(&row, &PLAIN).unwrap();
        let dist = DraftDist::new(vec![0, 1], vec![1, 3]).unwrap();
        let mut randomness = Randomness::new(5, End::Edge);
        let (mut own, mut drafts, mut equal) = ([0u32; 3], [0u32; 3], 0u32);
        for _ in 0..80_000 {
            let draft = draw_id(&dist, &mut randomness);
            let id = couple(&q, &dist, draft, &mut randomness);
            own[id as usize] += 1;
            drafts[draft as usize] += 1;
            equal += u32::from(id == draft);
        }
        for (seen, expected) in own.into_iter().zip([40_000u32, 8_000, 32_000]) {
            assert!(seen.abs_diff(expected) < 700, "{own:?}");
        }
        assert!(drafts[0].abs_diff(20_000) < 600 && drafts[2] == 0, "{drafts:?}");
        // Σ min(q, q̂) = 0.25 + 0.1.
        assert!(equal.abs_diff(28_000) < 700, "{equal}");
        let dist = DraftDist::new(vec![2], vec![7]).unwrap();
        let greedy = Distribution::new(&[0.0, 0.0, 1.0], &SamplingParameters { temperature: 0.0, ..PLAIN }).unwrap();
        assert_eq!(couple(&greedy, &dist, 2, &mut randomness), 2);
    }

    #[test]
    fn each_scheme_keeps_its_own_support() {
        let row = logits(&[0.5, 0.0, 0.25, 0.125, 0.125]);
        let q = Distribution::new(&row, &PLAIN).unwrap();
        let code = Code::Enumerative;
        let lattice_resolution = 8;
        for (parameters, ids, counts, support_size, dropped) in [
            (SchemeParameters::KSqs { support_size: 2, lattice_resolution, code }, &[0, 2][..], &[5, 3][..], 2, 0.25),
            (SchemeParameters::CSqs { lattice_resolution, code }, &[0, 2], &[5, 3], 2, 0.25),
            (SchemeParameters::Qs { lattice_resolution, code }, &[0, 2, 3, 4], &[4, 2, 1, 1], 5, 0.0),
            (SchemeParameters::TkSlt { support_size: 1 }, &[0], &[1 << 24], 1, 0.5),
            (SchemeParameters::Dense, &[0, 2, 3, 4], &[1 << 23, 1 << 22, 1 << 21, 1 << 21], 5, 0.0),
        ] {
            let scheme = Scheme::new(parameters, 5).unwrap();
            let proposal = propose(&q, parameters, &scheme, 0.2).unwrap();
            assert_eq!((proposal.dist.ids(), proposal.dist.counts()), (ids, counts), "{parameters:?}");
            assert_eq!(proposal.support_size, support_size, "{parameters:?}");
            assert!((proposal.dropped_mass - dropped).abs() < 1e-7, "{parameters:?}");
        }
    }
}
