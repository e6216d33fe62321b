//! The exact acceptance rule (Leviathan et al. 2023; Chen et al. 2023).
//!
//! With p = S(target) and q̂ the draft distribution: draft x stands with probability min(1, p(x)/q̂(x)). At the first
//! that falls the token is drawn from norm(max(0, p − q̂)); if all stand, one more is drawn from p after the last. Then
//! every committed token is distributed as p:
//!
//! ```text
//! P(y) = q̂(y)·min(1, p(y)/q̂(y)) + P(reject)·max(0, p(y) − q̂(y))/P(reject) = min(q̂, p)(y) + max(0, p − q̂)(y) = p(y)
//! ```

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::SamplingParameters,
};

use crate::{
    random::Randomness,
    sampling::{LogitsError, transform},
};

/// What became of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The first so many drafts stand.
    pub accepted: usize,
    /// The token after them; resampled if `accepted` is less than the number of drafts, else the bonus token.
    pub token: u32,
}

/// Judges a round under the exact rule. `rows` are the target's logits after the last committed token and after each
/// draft: one row more than `drafts`, V logits each.
pub fn verify(
    drafts: &[DraftToken],
    rows: &[&[f32]],
    sampling: &SamplingParameters,
    randomness: &mut Randomness,
) -> Result<Outcome, LogitsError> {
    assert_eq!(rows.len(), drafts.len() + 1, "a round needs one row of logits a draft and one more");
    for (accepted, (draft, row)) in drafts.iter().zip(rows).enumerate() {
        let p = transform(row, sampling)?;
        if !stands(draft, &p, randomness) {
            let token = sample(&residual(&p, &draft.dist), randomness);
            return Ok(Outcome { accepted, token });
        }
    }
    let p = transform(rows[drafts.len()], sampling)?;
    Ok(Outcome { accepted: drafts.len(), token: sample(&p, randomness) })
}

/// One coin: true with probability min(1, p(x)/q̂(x)).
fn stands(draft: &DraftToken, p: &[f64], randomness: &mut Randomness) -> bool {
    let q = f64::from(draft.dist.count(draft.id)) / f64::from(draft.dist.total());
    let p = p.get(draft.id as usize).copied().unwrap_or(0.0);
    // Always one coin a draft, so that the stream of coins does not depend on the outcome of the comparison.
    randomness.unit() * q < p
}

/// max(0, p − q̂), not normalised. Where rounding leaves nothing (p = q̂ to the last bit), p itself.
pub fn residual(p: &[f64], dist: &DraftDist) -> Vec<f64> {
    let mut rest = p.to_vec();
    for (&id, &count) in dist.ids().iter().zip(dist.counts()) {
        if let Some(mass) = rest.get_mut(id as usize) {
            *mass = (*mass - f64::from(count) / f64::from(dist.total())).max(0.0);
        }
    }
    if rest.iter().all(|&mass| mass == 0.0) { p.to_vec() } else { rest }
}

/// Draws a token with probability proportional to its weight; at least one weight is above zero.
pub fn sample(weights: &[f64], randomness: &mut Randomness) -> u32 {
    let sum: f64 = weights.iter().sum();
    let mut ticket = randomness.unit() * sum;
    let mut chosen = 0;
    for (id, &weight) in weights.iter().enumerate() {
        if weight > 0.0 {
            // Rounding may leave a ticket beyond the last weight: it then goes to the last token with any.
            chosen = id;
            if ticket < weight {
                break;
            }
            ticket -= weight;
        }
    }
    chosen as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::End;

    const GREEDY: SamplingParameters = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };

    fn certain(id: u32) -> DraftToken {
        DraftToken { id, dist: DraftDist::new(vec![id], vec![100]).unwrap(), support_size: 1 }
    }

    #[test]
    fn greedy_accepts_what_the_target_says_and_nothing_else() {
        let mut randomness = Randomness::new(1, End::Cloud);
        let rows: Vec<Vec<f32>> =
            [2usize, 0, 1].map(|best| (0..3).map(|i| f32::from(u8::from(i == best))).collect()).to_vec();
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let mut outcome = |a, b| verify(&[certain(a), certain(b)], &rows, &GREEDY, &mut randomness).unwrap();
        assert_eq!(outcome(2, 0), Outcome { accepted: 2, token: 1 });
        assert_eq!(outcome(2, 1), Outcome { accepted: 1, token: 0 });
        assert_eq!(outcome(0, 0), Outcome { accepted: 0, token: 2 });
        assert_eq!(verify(&[], &rows[..1], &GREEDY, &mut randomness), Ok(Outcome { accepted: 0, token: 2 }));
    }

    #[test]
    fn an_empty_residual_falls_back_to_p() {
        let dist = DraftDist::new(vec![0, 1], vec![1, 1]).unwrap();
        assert_eq!(residual(&[0.5, 0.5], &dist), [0.5, 0.5]);
        assert_eq!(residual(&[0.25, 0.5, 0.25], &dist), [0.0, 0.0, 0.25]);
    }

    #[test]
    fn samples_never_have_zero_weight() {
        let mut randomness = Randomness::new(3, End::Cloud);
        for _ in 0..1000 {
            assert!([1, 3].contains(&sample(&[0.0, 0.3, 0.0, 0.7, 0.0], &mut randomness)));
        }
    }
}
