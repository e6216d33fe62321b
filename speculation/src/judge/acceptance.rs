//! Acceptance of a round under a rule (Leviathan et al. 2023; Chen et al. 2023; Narasimhan et al., Algorithm 4).
//!
//! With q̂ the draft distribution and π what the [rule](crate::judge::rules) makes of it and of the target's p: draft x stands with
//! probability min(1, π(x)/q̂(x)). At the first that falls the token is drawn from norm(max(0, π − q̂)). Then every
//! committed token is distributed as π:
//!
//! ```text
//! P(y) = q̂(y)·min(1, π(y)/q̂(y)) + P(reject)·max(0, π(y) − q̂(y))/P(reject) = min(q̂, π)(y) + max(0, π − q̂)(y) = π(y)
//! ```
//!
//! Under the exact rule π = p, and if all stand one more token is drawn from p. Under most others the π of that token needs
//! a q̂ that was not sent, so none follows; nothing is lost by that: the row of logits which the bonus token would come from
//! judges one draft more.

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::SamplingParameters,
};

use crate::{
    judge::rules::{Decision, Position, Rule, Statistic},
    sample::{Distribution, LogitsError, Randomness, transform},
    theory::total_variation,
};

/// What became of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The first so many drafts stand.
    pub accepted: usize,
    /// The token after them: resampled if `accepted` is less than the number of drafts, else the bonus token, which not
    /// every rule has.
    pub token: Option<u32>,
}

/// What a draft was judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The probability that a draft is rejected here, before it is drawn.
    pub rejection: f64,
    /// Total variation between the law of the token committed here and p.
    pub divergence: f64,
    /// p: V probabilities.
    pub target: Vec<f64>,
}

/// How many rows of logits a round of so many drafts needs: after the last committed token and after each draft, but the last
/// where nothing is drawn after it, by the rule or because the round is continued.
pub fn rows(drafts: usize, rule: &Rule, continued: bool) -> usize {
    if drafts == 0 || rule.has_bonus() && !continued { drafts + 1 } else { drafts }
}

/// What judges a round.
#[derive(Debug)]
pub struct Judge<'a> {
    /// The rule.
    pub rule: Rule,
    /// S(·).
    pub sampling: SamplingParameters,
    /// The cloud's.
    pub randomness: &'a mut Randomness,
    /// Where it is noted what the drafts were judged by: those that stand and the first that falls.
    pub judged: Option<&'a mut Vec<Judged>>,
}

impl<'a> Judge<'a> {
    /// The exact rule's, without notes.
    pub fn exact(sampling: SamplingParameters, randomness: &'a mut Randomness) -> Self {
        Self { rule: Rule::EXACT, sampling, randomness, judged: None }
    }

    /// Judges a round. `statistics` has what the rule needs of the draft model's own distribution, for each of the `drafts`;
    /// nothing is needed by the exact rule. `rows` has as many rows of V logits as [`rows`] says; if there are no more than drafts, no
    /// token follows where all stand. A round of no drafts gives a token of the target's.
    ///
    /// # Errors
    /// If logits cannot be sampled from.
    pub fn verify(
        self,
        drafts: &[DraftToken],
        statistics: &[Statistic],
        rows: &[&[f32]],
    ) -> Result<Outcome, LogitsError> {
        let Self { rule, sampling, randomness, mut judged } = self;
        let is_continued = rows.len() == drafts.len();
        assert_eq!(rows.len(), self::rows(drafts.len(), &rule, is_continued), "a round needs its rows of logits");
        for (accepted, (draft, logits)) in drafts.iter().zip(rows).enumerate() {
            let q = &draft.dist;
            let p = Distribution::new(logits, &sampling)?;
            let statistic = statistics.get(accepted).unwrap_or(&Statistic::Nothing);
            let decision = rule.judge(&Position { q, statistic, p: &p, sampling: &sampling });
            if let Some(judged) = &mut judged {
                judged.push(Judged::new(&decision, q, p.dense()));
            }
            // Always one coin a draft, so that the stream of coins does not depend on the outcome of the comparison.
            if randomness.unit() >= decision.acceptance(q, draft.id) {
                let token = decision.replace(q, &p, randomness);
                return Ok(Outcome { accepted, token: Some(token) });
            }
        }
        let bonus = rows.get(drafts.len()).map(|row| Distribution::new(row, &sampling)).transpose()?;
        Ok(Outcome { accepted: drafts.len(), token: bonus.map(|p| p.draw(randomness)) })
    }
}

/// What was judged by where the cloud has not all of q̂: the target's distributions alone, for the drafts that stand and the
/// first of the `drafted` that falls. The edge can work out the rest.
///
/// # Errors
/// If logits cannot be sampled from.
pub fn witness(
    accepted: usize,
    drafted: usize,
    rows: &[&[f32]],
    sampling: &SamplingParameters,
    judged: Option<&mut Vec<Judged>>,
) -> Result<(), LogitsError> {
    let Some(judged) = judged else { return Ok(()) };
    for row in &rows[..drafted.min(accepted + 1)] {
        judged.push(Judged { rejection: 0.0, divergence: 0.0, target: transform(row, sampling)? });
    }
    Ok(())
}

impl Judged {
    fn new(decision: &Decision, q: &DraftDist, p: Vec<f64>) -> Self {
        let divergence = total_variation(&decision.law(q, &p), &p);
        Self { rejection: decision.rejection_rate(q), divergence, target: p }
    }
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
    at(weights, randomness.unit())
}

/// The token that such a share of the weights' sum falls to, in [0, 1).
pub(crate) fn at(weights: &[f64], share: f64) -> u32 {
    let sum: f64 = weights.iter().sum();
    let mut ticket = share * sum;
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
    use crate::sample::End;

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
        let mut outcome = |drafts: &[u32]| {
            let drafts: Vec<_> = drafts.iter().map(|&id| certain(id)).collect();
            Judge::exact(GREEDY, &mut randomness).verify(&drafts, &[], &rows[..=drafts.len()]).unwrap()
        };
        assert_eq!(outcome(&[2, 0]), Outcome { accepted: 2, token: Some(1) });
        assert_eq!(outcome(&[2, 1]), Outcome { accepted: 1, token: Some(0) });
        assert_eq!(outcome(&[0, 0]), Outcome { accepted: 0, token: Some(2) });
        assert_eq!(outcome(&[]), Outcome { accepted: 0, token: Some(2) });
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
