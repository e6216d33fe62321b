//! One round's drafts: proposed, checked against the budget, drawn, coded; and settled by the verdict.

use std::sync::Arc;

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    error::ParameterError,
    frame::{SamplingParameters, TargetDist},
    scheme::{Drafts, MAX_PAYLOAD_BITS, RoundEncoder, Scheme, SchemeParameters, Sends},
};

use super::{EdgeError, Speculation};
use crate::{
    draft::{self, DraftError, conformal::Conformal},
    judge::{
        dssd,
        rules::{Need, Statistic},
        unscaled::Transport,
    },
    policy::{
        control::{Advice, Controller, Outlook},
        gate::{HeadError, Heads},
        passing::{Doubt, Passing},
    },
    sample::{Distribution, End, Randomness, SharedNoise},
    study::{comparison::Comparison, explanation::Drawn},
    theory::sqs,
};

/// What came of a row of logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Choice {
    /// A token was drafted.
    Drafted,
    /// A token of this probability passes without being sent.
    Passed { token: u32, probability: f64 },
    /// The round ends before this token.
    Declined,
}

/// Drafts tokens under one scheme. A clone drafts on as if the round stood, while the original waits for its verdict.
#[derive(Debug, Clone)]
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
    /// How the statistics travel that the rule needs, and those of the round.
    transport: Transport,
    statistics: Vec<u8>,
    passing: Passing,
    heads: Option<Arc<Heads>>,
    /// What the round's drafts were drawn from, where the generation is to be explained.
    drawn: Option<Vec<Drawn>>,
    /// The most payload bits of a round.
    budget: usize,
    round: RoundEncoder,
    ids: Vec<u32>,
    /// The drafts with their distributions; none under coupled drafting.
    tokens: Vec<DraftToken>,
    /// The round takes no more drafts.
    full: bool,
    /// The next token has been left to the target.
    defers: bool,
}

impl Drafter {
    pub(super) fn new(
        speculation: &Speculation,
        vocab_size: u32,
        prompt: &[u32],
        sampling: SamplingParameters,
        seed: u64,
        heads: Option<Arc<Heads>>,
    ) -> Result<Self, ParameterError> {
        let parameters = speculation.scheme;
        let mut scheme = Scheme::new(parameters, vocab_size)?;
        scheme.prime(prompt);
        let threshold = parameters.has_threshold().then(|| Conformal::new(speculation.threshold));
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
            transport: Transport::new(&speculation.rule, &sampling),
            statistics: Vec::new(),
            passing: speculation.passing,
            heads,
            drawn: speculation.explain.then(Vec::new),
            budget,
            ids: Vec::new(),
            tokens: Vec::new(),
            full: false,
            defers: false,
        })
    }

    /// A round begins when the text has `length` tokens.
    pub(super) fn begin(&mut self, length: usize) {
        self.randomness.begin_round(length);
    }

    /// The round's drafted ids.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Whether the budget has room for another token, as far as that is known before its distribution.
    pub(super) fn has_room(&self) -> bool {
        let fixed = self.scheme.fixed_token_bits();
        !self.full && fixed.is_none_or(|bits| self.bits() + bits as usize <= self.budget)
    }

    /// Whether the round has ended before a token that was looked at.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Whether the next token has been left to the target.
    pub(super) fn defers(&self) -> bool {
        self.defers
    }

    /// Whether the row of logits before the round's first is wanted too: a bonus token's.
    pub(super) fn wants_bonus_row(&self) -> bool {
        self.ids.is_empty()
            && (self.threshold.as_ref().is_some_and(Conformal::owes)
                || self.comparison.as_ref().is_some_and(Comparison::owes))
    }

    /// The row of the last verdict's bonus token.
    pub(super) fn bonus_row(&mut self, row: &[f32]) -> Result<(), DraftError> {
        let q = Distribution::new(row, &self.sampling)?;
        if let Some(threshold) = self.threshold.as_mut().filter(|threshold| threshold.owes()) {
            let proposal = draft::propose(&q, self.parameters, &self.scheme, threshold.threshold())?;
            threshold.bonus(proposal.dropped_mass);
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.bonus(&q)?;
        }
        Ok(())
    }

    /// Drafts a token from a row of logits and the hidden state they were made of, lets it pass, or ends the round before it;
    /// `position` is its place in the text, so many bits of the frame are `taken` already, and it may be drafted only if
    /// `may_draft`.
    ///
    /// Which of these is decided before the draw and whatever it gives. Otherwise short codes, that is likely tokens,
    /// would be drafted more often than q̂ says.
    pub(super) fn choose(
        &mut self,
        row: &[f32],
        hidden: &[f32],
        position: usize,
        taken: usize,
        may_draft: bool,
        controller: &mut Controller,
    ) -> Result<Choice, EdgeError> {
        let q = Distribution::new(row, &self.sampling).map_err(DraftError::from)?;
        self.check_width(hidden)?;
        let doubt = if self.ids.is_empty() {
            self.passing.doubt(self.heads.as_deref(), hidden, || scalar(Need::Peak, &q))
        } else {
            Doubt::Verify
        };
        let advice = match doubt {
            Doubt::Verify if !may_draft => Advice::Decline,
            Doubt::Verify if controller.needs_outlook() => {
                let head = self.heads.as_ref().and_then(|heads| heads.stop.as_ref());
                controller.consider(
                    self.ids.len(),
                    &Outlook {
                        peak: scalar(Need::Peak, &q),
                        entropy: scalar(Need::Entropy, &q),
                        stop_score: head.map(|head| head.score(hidden)),
                    },
                )
            }
            Doubt::Verify | Doubt::None => Advice::Draft,
            Doubt::Defer => Advice::Decline,
        };
        self.defers = advice == Advice::Decline;
        let beta = self.threshold.as_ref().map_or(0.0, Conformal::threshold);
        if self.parameters.sends() == Sends::Ids {
            if advice == Advice::Decline {
                return self.decline(&q, 0.0);
            }
            let id = self.noise.choose_from(position, &q);
            if doubt == Doubt::None {
                return self.pass(&q, id, q.probability(id), 0.0);
            }
            self.round.push_id(&self.scheme, id).map_err(EdgeError::Encode)?;
            return self.drafted(&q, id, None, 0.0, advice);
        }
        let proposal = draft::propose(&q, self.parameters, &self.scheme, beta).map_err(DraftError::from)?;
        let dropped_mass = proposal.dropped_mass;
        if advice == Advice::Decline {
            return self.decline(&q, dropped_mass);
        }
        if doubt == Doubt::None {
            let token = draft::draw(proposal, &mut self.randomness);
            let probability = f64::from(token.dist.count(token.id)) / f64::from(token.dist.total());
            return self.pass(&q, token.id, probability, dropped_mass);
        }
        let bound = self.round.bound(&self.scheme, &proposal.dist, proposal.support_size).map_err(EdgeError::Encode)?;
        let bits = bound + self.statistics.len() * 8 + self.transport.bits(&proposal.dist);
        if bits > self.budget.min(MAX_PAYLOAD_BITS.saturating_sub(taken)) {
            return self.decline(&q, dropped_mass);
        }
        self.transport.put(&mut self.statistics, &q, &proposal.dist);
        let distortion = self.distortion(&proposal);
        let token = draft::draw(proposal, &mut self.randomness);
        self.round.push(&self.scheme, &token).map_err(EdgeError::Encode)?;
        if let Some(threshold) = &mut self.threshold {
            threshold.drafted(dropped_mass);
        }
        let (id, dist) = (token.id, self.drawn.is_some().then(|| token.dist.clone()));
        self.tokens.push(token);
        self.drafted(&q, id, dist, distortion, advice)
    }

    fn check_width(&self, hidden: &[f32]) -> Result<(), DraftError> {
        let width = self.heads.as_ref().map(|heads| heads.check_width(hidden.len()));
        match width {
            Some(Err(HeadError::Width { head: expected, hidden: found })) => {
                Err(DraftError::Hidden { found, expected })
            }
            _ => Ok(()),
        }
    }

    fn drafted(
        &mut self,
        q: &Distribution<'_>,
        id: u32,
        dist: Option<DraftDist>,
        distortion: f64,
        advice: Advice,
    ) -> Result<Choice, EdgeError> {
        self.ids.push(id);
        self.full = advice == Advice::DraftAndStop;
        if let Some(comparison) = &mut self.comparison {
            comparison.drafted(q, id).map_err(DraftError::from)?;
        }
        if let Some(drawn) = &mut self.drawn {
            let is_known = self.parameters.sends() == Sends::Distributions;
            drawn.push(Drawn { q: q.dense(), dist, distortion, is_known });
        }
        Ok(Choice::Drafted)
    }

    fn decline(&mut self, q: &Distribution<'_>, dropped_mass: f64) -> Result<Choice, EdgeError> {
        self.full = true;
        if let Some(threshold) = &mut self.threshold {
            threshold.declined(dropped_mass);
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.declined(q).map_err(DraftError::from)?;
        }
        Ok(Choice::Declined)
    }

    fn pass(
        &mut self,
        q: &Distribution<'_>,
        token: u32,
        probability: f64,
        dropped_mass: f64,
    ) -> Result<Choice, EdgeError> {
        if let Some(threshold) = &mut self.threshold {
            threshold.passed(dropped_mass);
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.passed(q, token).map_err(DraftError::from)?;
        }
        self.read(token);
        Ok(Choice::Passed { token, probability })
    }

    /// The target wrote a token alone.
    pub(super) fn streamed(&mut self, token: u32) {
        if let Some(threshold) = &mut self.threshold {
            threshold.forgive();
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.streamed(token);
        }
        self.read(token);
    }

    /// A token was committed that was not in a round.
    fn read(&mut self, token: u32) {
        self.scheme.prime(&[token]);
        self.round = self.scheme.round();
    }

    /// α_n + K_n/4ℓ of Theorem 1; without a lattice the dropped mass alone.
    fn distortion(&self, proposal: &draft::Proposal) -> f64 {
        self.parameters.lattice_resolution().map_or(proposal.dropped_mass, |lattice_resolution| {
            sqs::distortion(proposal.dropped_mass, proposal.support_size, lattice_resolution)
        })
    }

    fn bits(&self) -> usize {
        self.statistics.len() * 8 + self.round.bits()
    }

    /// The round's payload and its bits.
    pub(super) fn payload(&self) -> (Vec<u8>, usize) {
        let (round, bits) = self.round.clone().finish();
        ([&self.statistics[..], &round].concat(), self.statistics.len() * 8 + bits)
    }

    /// What the round's drafts were drawn from, where the generation is to be explained.
    pub(super) fn drawn(&self) -> &[Drawn] {
        self.drawn.as_deref().unwrap_or_default()
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
        self.statistics.clear();
        (self.full, self.defers) = (false, false);
        if let Some(drawn) = &mut self.drawn {
            drawn.clear();
        }
        self.round = self.scheme.round();
        others.unwrap_or_default()
    }

    /// C-SQS's threshold and what it has dropped.
    pub(super) fn threshold(&self) -> Option<&Conformal> {
        self.threshold.as_ref()
    }

    /// Whether the cloud leaves resampling to the edge.
    pub(super) fn resamples(&self) -> bool {
        self.parameters.sends() == Sends::Probabilities
    }
}

/// A statistic of the draft model's own distribution.
fn scalar(need: Need, q: &Distribution<'_>) -> f64 {
    if let Statistic::Scalar(value) = need.of_unscaled(q, &[]) { value } else { 0.0 }
}
