//! The judgement of a round by the target's logits (Leviathan et al. 2023; Chen et al. 2023; Narasimhan et al.,
//! Algorithm 4).
//!
//! With q̂ the draft distribution and π what the [rule](crate::judge::rules) makes of it and of the target's p: draft x
//! is accepted with probability min(1, π(x)/q̂(x)). At the first rejection the token is drawn from norm(max(0, π −
//! q̂)). Then every committed token is distributed as π:
//!
//! ```text
//! P(y) = q̂(y)·min(1, π(y)/q̂(y)) + P(reject)·max(0, π(y) − q̂(y))/P(reject)
//!      = min(q̂, π)(y) + max(0, π − q̂)(y) = π(y)
//! ```
//!
//! Under the exact rule π = p, and if all drafts are accepted one more token is drawn from p. Under most others the
//! bonus token's π needs q̂ at its position. There the edge sends a draft more, and no token follows it: accepted or
//! replaced, the last draft is distributed as π, by the same two lines, and it takes the row of logits that a bonus
//! token would take. So a round has Algorithm 4's tokens for Algorithm 4's forward pass.
//!
//! [`block`](crate::judge::block) judges the drafts of a round together, where that is asked for.
//!
//! [DSSD](crate::judge::dssd) tests the same ratio and leaves the residual to the edge. [Coupled
//! drafting](crate::judge::coupled) accepts a draft that is the cloud's own choice.

use outrider_codec::{distribution::DraftToken, probabilities::DraftProbability, scheme::Drafts};

use crate::{
    judge::{
        block, dssd,
        rules::{Position, Statistic},
        types::{Judged, Judgement, NextToken, Round},
    },
    sample::{Distribution, LogitsError, Randomness},
    theory::total_variation,
};

/// Judges a round by the [rows](Round::rows) of V logits that it needs, followed by those of its
/// [branches](Round::branch_rows). These may be left out together: then the branches count for nothing.
///
/// The draws come in one order: one a draft until the first rejection, then those of the token that follows, or of
/// DSSD's samples. Block verification takes one for every draft first. Coupled drafting takes none.
///
/// # Errors
/// If logits cannot be sampled from.
///
/// # Panics
/// If there are more or fewer rows.
pub fn judge(round: &Round, rows: &[&[f32]]) -> Result<Judgement, LogitsError> {
    let branch_rows = rows.len().checked_sub(round.rows());
    assert!(branch_rows == Some(0) || branch_rows == Some(round.branch_rows()), "a round needs its rows of logits");
    if branch_rows > Some(0) {
        let (accepted, branch, next) = round.follow(|row, guesses| -> Result<u32, LogitsError> {
            let p = Distribution::new(rows[row], &round.sampling)?;
            Ok(round.noise.choose_from(round.position + guesses, &p))
        })?;
        return Ok(Judgement { accepted, branch, next, ..Judgement::default() });
    }
    if let Drafts::Distributions(drafts) = &round.drafts
        && round.is_block()
    {
        return block::judge(round, drafts, rows);
    }
    let mut randomness = round.randomness.clone();
    let drafts = round.drafts.len();
    let mut judged = Vec::new();
    for (accepted, row) in rows.iter().take(drafts).enumerate() {
        let p = Distribution::new(row, &round.sampling)?;
        let evidence = round.evidence.then_some(&mut judged);
        let rejected = match &round.drafts {
            Drafts::Distributions(tokens) => {
                speculate(round, accepted, &tokens[accepted], &p, evidence, &mut randomness)
            }
            Drafts::Probabilities(tokens) => {
                evidence.into_iter().for_each(|judged| judged.push(Judged::target(&p)));
                split(round, &tokens[accepted], &p, &mut randomness)
            }
            Drafts::Ids(ids) => {
                evidence.into_iter().for_each(|judged| judged.push(Judged::target(&p)));
                let token = round.noise.choose_from(round.position + accepted, &p);
                (token != ids[accepted]).then_some(NextToken::Token(token))
            }
        };
        if let Some(next) = rejected {
            return Ok(Judgement { accepted, next, judged, ..Judgement::default() });
        }
    }
    let mut clarity = None;
    let next = match rows.get(drafts) {
        None => NextToken::Nothing,
        Some(row) => {
            let p = Distribution::new(row, &round.sampling)?;
            NextToken::Token(if !round.is_coupled() {
                p.draw(&mut randomness)
            } else if round.wants_clarity {
                let two = round.noise.choose_two(round.position + drafts, &p);
                clarity = Some(two.clarity(&p));
                two.first
            } else {
                round.noise.choose_from(round.position + drafts, &p)
            })
        }
    };
    Ok(Judgement { accepted: drafts, branch: 0, next, judged, clarity })
}

/// The token in place of a draft whose q̂ was sent, if the rule rejects it.
fn speculate(
    round: &Round,
    index: usize,
    draft: &DraftToken,
    p: &Distribution<'_>,
    evidence: Option<&mut Vec<Judged>>,
    randomness: &mut Randomness,
) -> Option<NextToken> {
    let (q, sampling) = (&draft.dist, &round.sampling);
    let statistic = round.statistics.get(index).unwrap_or(&Statistic::Nothing);
    let decision = round.rule.judge(&Position { q, statistic, p, sampling });
    if let Some(judged) = evidence {
        let dense = p.dense();
        let divergence = total_variation(&decision.committed(q, &dense), &dense);
        judged.push(Judged { rejection: decision.rejection_rate(q), divergence, target: dssd::sparse(&dense) });
    }
    // Always one draw a draft, so that the draws after it do not depend on the outcome of the comparison.
    let accepts = randomness.unit() < decision.acceptance(q, draft.id);
    (!accepts).then(|| NextToken::Token(decision.replace(q, p, randomness)))
}

/// The distribution that the edge resamples from, if a draft of which q̂(x) was sent is rejected; `None` if it is
/// accepted.
fn split(
    round: &Round,
    draft: &DraftProbability,
    p: &Distribution<'_>,
    randomness: &mut Randomness,
) -> Option<NextToken> {
    let q = f64::from(draft.count) / f64::from(draft.total);
    if randomness.unit() * q < f64::from(p.probability(draft.id) as f32) {
        return None;
    }
    let target = dssd::sparse(&p.dense());
    let samples = dssd::samples(&target, round.samples(), randomness);
    Some(NextToken::Residual { target, samples })
}

impl Judged {
    /// Evidence with p alone, where the cloud does not have q̂. The edge can work out the rest.
    fn target(p: &Distribution<'_>) -> Self {
        Self { rejection: 0.0, divergence: 0.0, target: dssd::sparse(&p.dense()) }
    }
}

#[cfg(test)]
mod tests {
    use outrider_codec::{
        distribution::DraftDist,
        frame::{SamplingParameters, TargetDist},
        scheme::{Downlink, SchemeParameters},
    };
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;
    use crate::judge::{rules::Rule, types::Verification};

    const GREEDY: SamplingParameters = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
    const WARM: SamplingParameters = SamplingParameters { temperature: 1.0, ..GREEDY };

    fn certain(id: u32) -> DraftToken {
        DraftToken { id, dist: DraftDist::new(vec![id], vec![100]).unwrap(), support_size: 1 }
    }

    /// A round of these drafts, certain ones, under a scheme.
    fn round(scheme: SchemeParameters, sampling: SamplingParameters, ids: &[u32]) -> Round {
        let drafts = match scheme {
            SchemeParameters::Coupled => Drafts::Ids(ids.to_vec()),
            SchemeParameters::Dssd { .. } => {
                Drafts::Probabilities(ids.iter().map(|&id| DraftProbability::from(&certain(id))).collect())
            }
            _ => Drafts::Distributions(ids.iter().copied().map(certain).collect()),
        };
        Round { scheme: Some(scheme), drafts, ..Round::alone(sampling, 1, 3) }
    }

    const ROWS: [&[f32]; 3] = [&[0.4, 0.1, 0.9, 0.3], &[0.2, 0.8, 0.1, 0.0], &[0.5, 0.6, 0.2, 0.9]];
    const DSSD: SchemeParameters = SchemeParameters::Dssd { downlink: Downlink::Sampled(2) };

    /// At temperature 0 the target's own tokens, 2, 1 and 3, are all that is accepted.
    #[test]
    fn greedy_accepts_what_the_target_says_and_nothing_else() {
        for scheme in [SchemeParameters::Dense, DSSD, SchemeParameters::Coupled] {
            for (ids, accepted) in [(&[2, 1][..], 2), (&[2, 2], 1), (&[0, 0], 0), (&[], 0), (&[2], 1)] {
                let round = round(scheme, GREEDY, ids);
                let judgement = judge(&round, &ROWS[..round.rows()]).unwrap();
                assert_eq!(judgement, round.settle(accepted, [2, 1, 3][accepted]), "{scheme:?} {ids:?}");
                let block = Round { verification: Verification::Block, ..round.clone() };
                assert_eq!(judge(&block, &ROWS[..block.rows()]).unwrap(), judgement, "{scheme:?} {ids:?}, as a block");
                assert_eq!(round.check(&judgement, 4), Ok(()));
                let resamples = accepted < ids.len() && scheme == DSSD;
                assert_eq!(
                    matches!(judgement.next, NextToken::Residual { samples, .. } if samples.len() == 2),
                    resamples
                );
            }
        }
    }

    /// The order of draws that every seed's text depends on: one a draft, and then what follows, from the draws of the
    /// position.
    #[test]
    fn draws_come_one_a_draft_and_then_for_the_token_that_follows() {
        let dist = || DraftDist::new(vec![0, 1, 2, 3], vec![3, 2, 4, 1]).unwrap();
        let p: Vec<Vec<f64>> = ROWS.iter().map(|row| Distribution::new(row, &WARM).unwrap().dense()).collect();
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let drafts = [0u32, 2].map(|id| DraftToken { id, dist: dist(), support_size: 4 });
            let full = Round { drafts: Drafts::Distributions(drafts.to_vec()), ..Round::alone(WARM, seed, 5) };
            for scheme in [SchemeParameters::Dense, DSSD] {
                let drafts = match scheme {
                    SchemeParameters::Dense => full.drafts.clone(),
                    _ => Drafts::Probabilities(drafts.iter().map(DraftProbability::from).collect()),
                };
                for continued in [false, true] {
                    let round = Round { scheme: Some(scheme), drafts: drafts.clone(), continued, ..full.clone() };
                    let judgement = judge(&round, &ROWS[..round.rows()]).unwrap();
                    let mut draws = Randomness::new(seed, crate::sample::End::Cloud);
                    draws.begin_round(5);
                    let accepts = |(index, id): (usize, u32), unit: f64| {
                        unit * f64::from(dist().count(id)) / 10.0 < p[index][id as usize]
                    };
                    let accepted =
                        [(0, 0), (1, 2)].into_iter().take_while(|&draft| accepts(draft, draws.unit())).count();
                    assert_eq!(judgement.accepted, accepted);
                    let expected = if accepted == 2 && continued {
                        NextToken::Nothing
                    } else if accepted == 2 {
                        NextToken::Token(Distribution::new(ROWS[2], &WARM).unwrap().draw(&mut draws))
                    } else if scheme == SchemeParameters::Dense {
                        // Nothing of p lies outside of q̂'s support, so the draw goes through the residual by id.
                        let left = p[accepted]
                            .iter()
                            .zip(dist().counts())
                            .map(|(p, &c)| (p - f64::from(c) / 10.0).max(0.0))
                            .collect::<Vec<_>>();
                        NextToken::Token(draws.draw(&left))
                    } else {
                        let target = dssd::sparse(&p[accepted]);
                        let samples = dssd::samples(&target, 2, &mut draws);
                        NextToken::Residual { target, samples }
                    };
                    assert_eq!(judgement.next, expected, "{scheme:?}, continued {continued}, seed {seed}");
                    outcomes.insert((accepted, continued));
                }
            }
        }
        assert_eq!(outcomes.len(), 6, "every outcome is among them");
    }

    /// Without its clarity a server's own drafts would be as many after every choice, and no text would show it.
    #[test]
    fn a_guess_comes_with_its_clarity() {
        for seed in 0..20 {
            let (guess, q) = (Round::guess(WARM, seed, 5), Distribution::new(ROWS[0], &WARM).unwrap());
            let two = guess.noise.choose_two(5, &q);
            let expected = Judgement { clarity: Some(two.clarity(&q)), ..guess.settle(0, two.first) };
            assert_eq!(judge(&guess, &ROWS[..1]).unwrap(), expected);
            assert_eq!(judge(&Round::ahead(WARM, seed, 5, Vec::new()), &ROWS[..1]).unwrap().clarity, None);
        }
    }

    #[test]
    fn coupled_rounds_choose_with_the_noise_of_their_positions() {
        for seed in 0..100 {
            let alone = Round::alone(WARM, seed, 5);
            let own: Vec<u32> = (5..)
                .zip(ROWS)
                .map(|(position, row)| alone.noise.choose_from(position, &Distribution::new(row, &WARM).unwrap()))
                .collect();
            for ids in [[own[0], own[1]], [own[0], own[1] ^ 1], [own[0] ^ 1, own[1]]] {
                let round = Round {
                    scheme: Some(SchemeParameters::Coupled),
                    drafts: Drafts::Ids(ids.to_vec()),
                    ..alone.clone()
                };
                let accepted = ids.iter().zip(&own).take_while(|(id, own)| id == own).count();
                assert_eq!(judge(&round, &ROWS).unwrap(), round.settle(accepted, own[accepted]));
            }
        }
    }

    /// A judgement of another round is seen to be one, whatever in it is wrong.
    #[test]
    fn what_no_logits_lead_to_is_found() {
        use crate::judge::types::JudgementError as Error;
        let plain = round(SchemeParameters::Dense, WARM, &[1, 2]);
        let split = round(DSSD, WARM, &[1, 2]);
        let continued = Round { continued: true, ..plain.clone() };
        let lossy = Round { rule: Rule::new("lossy", 0.3).unwrap(), ..plain.clone() };
        let shown = Round { evidence: true, ..plain.clone() };
        let to = |accepted, next| Judgement { accepted, next, ..Judgement::default() };
        let token = |accepted, id| to(accepted, NextToken::Token(id));
        let nothing = |accepted| to(accepted, NextToken::Nothing);
        let residual = |ids: &[(u32, f32)], samples: &[(u32, f32)]| {
            to(1, NextToken::Residual { target: TargetDist(ids.to_vec()), samples: samples.to_vec() })
        };
        let half = [(0, 0.5), (3, 0.5)];
        let next = |accepted| Err(Error::Next { accepted, drafts: 2 });
        let outside = Err(Error::Token { id: 4, vocab_size: 4 });
        let seen = |id| Judged { rejection: 0.5, divergence: 0.0, target: TargetDist(vec![(id, 1.0)]) };
        for (round, judgement, expected) in [
            (&plain, token(1, 3), Ok(())),
            (&plain, token(2, 3), Ok(())),
            (&continued, nothing(2), Ok(())),
            (&lossy, nothing(2), Ok(())),
            (&split, residual(&half, &[half[0]; 2]), Ok(())),
            (&shown, Judgement { judged: vec![seen(1), seen(3)], ..token(1, 3) }, Ok(())),
            (&plain, token(3, 3), Err(Error::Accepted { accepted: 3, drafts: 2 })),
            (&plain, token(1, 4), outside),
            (&plain, nothing(1), next(1)),
            (&plain, nothing(2), next(2)),
            (&plain, residual(&half, &half), next(1)),
            (&continued, token(2, 3), next(2)),
            (&lossy, token(2, 3), next(2)),
            (&split, token(1, 3), next(1)),
            (&split, residual(&half, &half[..1]), next(1)),
            (&split, residual(&half, &[(4, 0.5); 2]), outside),
            (&split, residual(&[(4, 0.5)], &half), outside),
            (&split, residual(&[], &half), Err(Error::Distribution)),
            (&split, residual(&[half[1], half[0]], &half), Err(Error::Distribution)),
            (&split, residual(&[(0, 0.0)], &half), Err(Error::Distribution)),
            (
                &plain,
                Judgement { judged: vec![seen(1)], ..token(1, 3) },
                Err(Error::Evidence { found: 1, expected: 0 }),
            ),
            (
                &shown,
                Judgement { judged: vec![seen(1)], ..token(1, 3) },
                Err(Error::Evidence { found: 1, expected: 2 }),
            ),
            (&shown, Judgement { judged: vec![seen(1), seen(4)], ..token(1, 3) }, outside),
        ] {
            assert_eq!(round.check(&judgement, 4), expected, "{judgement:?}");
        }
    }
}
