//! One round's drafts: proposed, checked against the budget, drawn, coded; and settled by the verdict.

use outrider_codec::{
    distribution::DraftToken,
    error::ParameterError,
    frame::{SamplingParameters, TargetDist},
    probabilities::DraftProbability,
    scheme::{Drafts, MAX_PAYLOAD_BITS, RoundEncoder, Scheme, SchemeParameters},
};

use super::{EdgeError, Speculation};
use crate::{
    comparison::Comparison,
    conformal::Conformal,
    coupled::SharedNoise,
    draft::{self, DraftError},
    dssd,
    random::{End, Randomness},
    sampling,
};

/// Drafts tokens under one scheme.
#[derive(Debug)]
pub(super) struct Drafter {
    parameters: SchemeParameters,
    scheme: Scheme,
    sampling: SamplingParameters,
    randomness: Randomness,
    /// Coupled drafting's.
    noise: SharedNoise,
    /// C-SQS's.
    threshold: Option<Conformal>,
    comparison: Option<Comparison>,
    /// The most payload bits of a round.
    budget: usize,
    round: RoundEncoder,
    ids: Vec<u32>,
    /// The drafts with their distributions; none under coupled drafting.
    tokens: Vec<DraftToken>,
    /// The budget ended the round.
    spent: bool,
}

impl Drafter {
    pub(super) fn new(
        speculation: &Speculation,
        vocab_size: u32,
        prompt: &[u32],
        sampling: SamplingParameters,
        seed: u64,
    ) -> Result<Self, ParameterError> {
        let parameters = speculation.scheme;
        let mut scheme = Scheme::new(parameters, vocab_size)?;
        scheme.prime(prompt);
        let threshold =
            matches!(parameters, SchemeParameters::CSqs { .. }).then(|| Conformal::new(speculation.threshold));
        let budget = speculation.bit_budget.map_or(MAX_PAYLOAD_BITS, |bits| bits as usize).min(MAX_PAYLOAD_BITS);
        Ok(Self {
            parameters,
            round: scheme.round(),
            scheme,
            sampling,
            randomness: Randomness::new(seed, End::Edge),
            noise: SharedNoise::new(seed),
            threshold,
            comparison: speculation.compare.map(|with| Comparison::new(with, vocab_size, prompt)),
            budget,
            ids: Vec::new(),
            tokens: Vec::new(),
            spent: false,
        })
    }

    /// The round's drafted ids.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Whether the budget has room for another token, as far as that is known before its distribution.
    pub(super) fn has_room(&self) -> bool {
        let fixed = self.scheme.fixed_token_bits();
        !self.spent && fixed.is_none_or(|bits| self.round.bits() + bits as usize <= self.budget)
    }

    /// Whether the row of logits before the round's first is wanted too: a bonus token's.
    pub(super) fn wants_bonus_row(&self) -> bool {
        self.ids.is_empty()
            && (self.threshold.as_ref().is_some_and(Conformal::owes)
                || self.comparison.as_ref().is_some_and(Comparison::owes))
    }

    /// The row of the last verdict's bonus token.
    pub(super) fn bonus_row(&mut self, row: &[f32]) -> Result<(), DraftError> {
        let q = sampling::transform(row, &self.sampling)?;
        if let Some(threshold) = self.threshold.as_mut().filter(|threshold| threshold.owes()) {
            let proposal = draft::propose(&q, self.parameters, &self.scheme, threshold.threshold())?;
            threshold.bonus(proposal.dropped_mass);
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.bonus(&q)?;
        }
        Ok(())
    }

    /// Drafts a token from a row of logits, if the budget allows; `position` is its place in the text.
    ///
    /// Whether it does is decided before the draw and whatever it gives. Otherwise short codes, that is likely tokens,
    /// would be drafted more often than q̂ says.
    pub(super) fn draft(&mut self, row: &[f32], position: usize) -> Result<(), EdgeError> {
        let q = sampling::transform(row, &self.sampling).map_err(DraftError::from)?;
        let id = if self.parameters == SchemeParameters::Coupled {
            let id = self.noise.choose(position, &q);
            self.round.push_id(&self.scheme, id).map_err(EdgeError::Encode)?;
            id
        } else {
            let beta = self.threshold.as_ref().map_or(0.0, Conformal::threshold);
            let proposal = draft::propose(&q, self.parameters, &self.scheme, beta).map_err(DraftError::from)?;
            let bound = self.round.bound(&self.scheme, &proposal.dist, proposal.support_size);
            let dropped_mass = proposal.dropped_mass;
            if bound.map_err(EdgeError::Encode)? > self.budget {
                self.spent = true;
                if let Some(threshold) = &mut self.threshold {
                    threshold.declined(dropped_mass);
                }
                if let Some(comparison) = &mut self.comparison {
                    comparison.declined(&q).map_err(DraftError::from)?;
                }
                return Ok(());
            }
            let token = draft::draw(proposal, &mut self.randomness);
            let pushed = match self.parameters {
                SchemeParameters::Dssd { .. } => {
                    self.round.push_probability(&self.scheme, &DraftProbability::from(&token))
                }
                _ => self.round.push(&self.scheme, &token),
            };
            pushed.map_err(EdgeError::Encode)?;
            if let Some(threshold) = &mut self.threshold {
                threshold.drafted(dropped_mass);
            }
            let id = token.id;
            self.tokens.push(token);
            id
        };
        self.ids.push(id);
        if let Some(comparison) = &mut self.comparison {
            comparison.drafted(&q, id).map_err(DraftError::from)?;
        }
        Ok(())
    }

    /// The round's payload and its bits.
    pub(super) fn payload(&self) -> (Vec<u8>, usize) {
        self.round.clone().finish()
    }

    /// DSSD: the token in place of the rejected draft, from the cloud's samples; `None` if none survives.
    pub(super) fn survivor(&mut self, rejected: usize, samples: &[(u32, f32)]) -> Option<u32> {
        dssd::survivor(samples, &self.tokens[rejected].dist, &mut self.randomness)
    }

    /// DSSD: the token in place of the rejected draft, from the target's distribution.
    pub(super) fn resample(&mut self, rejected: usize, target: &TargetDist) -> u32 {
        dssd::resample(target, &self.tokens[rejected].dist, &mut self.randomness)
    }

    /// Ends the round: the first `accepted` drafts stand, then `token`. Gives what the drafts would have cost
    /// under other schemes, if that is compared.
    pub(super) fn settle(&mut self, accepted: usize, token: Option<u32>) -> Vec<(&'static str, usize)> {
        if let Some(threshold) = &mut self.threshold {
            threshold.verdict(accepted, token.is_some());
        }
        let others = self.comparison.as_mut().map(|comparison| comparison.settle(accepted, token));
        let drafts = Drafts::Distributions(std::mem::take(&mut self.tokens));
        if accepted <= drafts.len() {
            self.scheme.commit(&drafts, accepted, token);
        }
        self.ids.clear();
        self.spent = false;
        self.round = self.scheme.round();
        others.unwrap_or_default()
    }

    /// C-SQS's threshold and what it has dropped.
    pub(super) fn threshold(&self) -> Option<&Conformal> {
        self.threshold.as_ref()
    }

    /// Whether the cloud leaves resampling to the edge.
    pub(super) fn resamples(&self) -> bool {
        matches!(self.parameters, SchemeParameters::Dssd { .. })
    }
}
