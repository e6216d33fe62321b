//! Block verification (Sun et al. 2024, "Block Verification Accelerates Speculative Decoding", arXiv 2403.10444,
//! Algorithm 2): a round is accepted up to the last draft that passes, not up to the first that fails.
//!
//! With drafts x₁ … x_γ, their q̂ and π, and uniform random draws u₁ … u_γ:
//!
//! ```text
//! p₀ = 1,   pᵢ = min(1, pᵢ₋₁·π(xᵢ)/q̂(xᵢ))
//! Sᵢ = Σ max(0, pᵢ·π(v) − q̂(v)),   hᵢ = Sᵢ/(Sᵢ + 1 − pᵢ)   for i < γ, with π and q̂ of position i + 1;   h_γ = p_γ
//! τ = max {i: uᵢ < hᵢ}, or 0;   next token: norm(max(0, p_τ·π − q̂)) of position τ + 1 if τ < γ, else the bonus token
//! ```
//!
//! The prefix x₁ … xᵢ is kept with probability P(τ ≥ i | x₁ … xᵢ) = pᵢ. That holds for γ by h_γ. For i < γ, x_{i+1} is
//! drawn from q̂, so the mean of p_{i+1} is Σ min(q̂, pᵢ·π) = pᵢ − Sᵢ, and
//!
//! ```text
//! P(τ ≥ i) = pᵢ − Sᵢ + (1 − pᵢ + Sᵢ)·hᵢ = pᵢ
//! P(τ = i) = Sᵢ,   so y follows x₁ … xᵢ with probability max(0, pᵢ·π(y) − q̂(y)) + min(q̂(y), pᵢ·π(y)) = pᵢ·π(y).
//! ```
//!
//! So the text is distributed as under token-wise verification, and the expected number of accepted drafts is Σ
//! E\[pᵢ\], at least as many: pᵢ there is Π min(1, π/q̂). A round may end at any draft as long as that is decided
//! before the next one is drawn.
//!
//! With pᵢ·π in place of π, a position's [`Decision`] is that of token-wise verification. Its rejection rate is
//! Rᵢ = Σ max(0, q̂ − pᵢ·π) = 1 − pᵢ + Sᵢ. So hᵢ = 1 − (1 − pᵢ)/Rᵢ, and nothing outside of q̂'s support is added up.

use outrider_codec::distribution::DraftToken;

use crate::{
    judge::{
        dssd,
        rules::{Decision, Position, Statistic},
        types::{Judged, Judgement, NextToken, Round},
    },
    sample::{Distribution, LogitsError},
    theory::total_variation,
};

/// A position where the round may end, with what the token after it is drawn from.
struct End<'r> {
    /// The decision by p_τ·π.
    decision: Decision,
    /// The draft that is not accepted.
    draft: &'r DraftToken,
    /// The target's distribution at that draft.
    p: Distribution<'r>,
}

/// Judges a round whose q̂ were sent, by its rows of logits. Takes a draw for each draft, then one for the token that
/// follows.
///
/// # Errors
/// If logits cannot be sampled from. Rows after a prefix with pᵢ = 0 are not read, except the bonus token's.
pub(super) fn judge<'r>(round: &Round, drafts: &'r [DraftToken], rows: &[&'r [f32]]) -> Result<Judgement, LogitsError> {
    let mut randomness = round.randomness.clone();
    let draws: Vec<f64> = drafts.iter().map(|_| randomness.unit()).collect();
    let (mut judged, mut end, mut accepted, mut kept) = (Vec::new(), None, 0, 1.0);
    for (index, draft) in drafts.iter().enumerate() {
        let p = Distribution::new(rows[index], &round.sampling)?;
        let statistic = round.statistics.get(index).unwrap_or(&Statistic::Nothing);
        let position = Position { q: &draft.dist, statistic, p: &p, sampling: &round.sampling };
        let token_wise = round.rule.judge(&position);
        let decision = token_wise.scaled(&draft.dist, &p, kept);
        // Sᵢ and Rᵢ, with pᵢ = `kept`.
        let rejection = decision.rejection_rate(&draft.dist);
        let excess = (rejection - (1.0 - kept)).max(0.0);
        if round.evidence {
            // P(τ = i | τ ≥ i)
            let rejection = excess / kept;
            let dense = p.dense();
            let divergence = total_variation(&token_wise.committed(&draft.dist, &dense), &dense);
            judged.push(Judged { rejection, divergence, target: dssd::sparse(&dense) });
        }
        kept = decision.acceptance(&draft.dist, draft.id);
        // uᵢ < Sᵢ/Rᵢ; where Rᵢ = 0, every later draft is accepted.
        if index == 0 || draws[index - 1] * rejection < excess || rejection == 0.0 {
            accepted = index;
            end = Some(End { decision, draft, p });
        }
        if kept == 0.0 {
            break;
        }
    }
    if draws.last().is_none_or(|&draw| draw < kept) {
        accepted = drafts.len();
        end = None;
    }
    judged.truncate(accepted + 1);
    let next = match (end, rows.get(drafts.len())) {
        (Some(End { decision, draft, p }), _) => NextToken::Token(decision.replace(&draft.dist, &p, &mut randomness)),
        (None, Some(row)) => NextToken::Token(Distribution::new(row, &round.sampling)?.draw(&mut randomness)),
        (None, None) => NextToken::Nothing,
    };
    Ok(Judgement { accepted, next, judged, ..Judgement::default() })
}

#[cfg(test)]
mod tests {
    use outrider_codec::{distribution::DraftDist, frame::SamplingParameters, scheme::Drafts};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;
    use crate::{
        judge::{judge as judge_round, types::Verification},
        sample::{End as Draws, Randomness, transform},
    };

    const WARM: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };

    /// Logits over three tokens after a prefix, of the target and of the draft model.
    fn logits(prefix: &[u32], model: u32) -> Vec<f32> {
        let number = prefix.iter().fold(7 + model, |number, id| number * 5 + id + 1);
        (0..3).map(|id| ((number * (id + 3) * 37 % 101) as f32) / 40.0).collect()
    }

    fn q(prefix: &[u32]) -> DraftDist {
        let weights = transform(&logits(prefix, 6), &WARM).unwrap();
        DraftDist::new(vec![0, 1, 2], weights.iter().map(|weight| 1 + (weight * 50.0) as u32).collect()).unwrap()
    }

    /// Shares of texts of three tokens, each a round of two drafts and what the target writes after it.
    fn written(verification: Verification, seeds: u64) -> Vec<f64> {
        let mut shares = vec![0.0; 27];
        for seed in 0..seeds {
            let mut edge = Randomness::new(seed, Draws::Edge);
            let (mut text, mut drafts, mut rows) = (Vec::new(), Vec::new(), vec![logits(&[], 0)]);
            for _ in 0..2 {
                let dist = q(&text);
                let weights: Vec<f64> = dist.counts().iter().map(|&count| count.into()).collect();
                let id = edge.draw(&weights);
                drafts.push(DraftToken { id, dist, support_size: 3 });
                text.push(id);
                rows.push(logits(&text, 0));
            }
            let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let round = Round { verification, drafts: Drafts::Distributions(drafts), ..Round::alone(WARM, seed, 1) };
            let judgement = judge_round(&round, &rows).unwrap();
            let NextToken::Token(next) = judgement.next else { panic!("{judgement:?}") };
            text.truncate(judgement.accepted);
            text.push(next);
            while text.len() < 3 {
                text.push(edge.draw(&transform(&logits(&text, 0), &WARM).unwrap()));
            }
            shares[text.iter().fold(0, |cell, &id| cell * 3 + id as usize)] += 1.0 / seeds as f64;
        }
        shares
    }

    #[test]
    fn a_block_has_the_distribution_of_the_target() {
        let p = |prefix: &[u32]| transform(&logits(prefix, 0), &WARM).unwrap();
        let cells = (0..27u32).map(|cell| {
            let text = [cell / 9, cell / 3 % 3, cell % 3];
            (0..3).map(|place| p(&text[..place])[text[place] as usize]).product()
        });
        let target: Vec<f64> = cells.collect();
        // 27 cells and 200,000 texts: 0.005 is what chance gives.
        for verification in [Verification::Block, Verification::Token] {
            let distance = total_variation(&written(verification, 200_000), &target);
            assert!(distance < 0.01, "{verification:?}: {distance}");
        }
    }
}
