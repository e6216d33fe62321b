//! The drafts of one round: proposed, drawn and coded; and settled by the verdict.

use outrider_codec::{
    distribution::DraftToken,
    error::ParameterError,
    frame::{SamplingParameters, TargetDist},
    scheme::{Keeps, SchemeParameters, Sends},
};

use super::{
    error::EdgeError,
    learned::Thresholds,
    observers::Observers,
    payload::PayloadWriter,
    settings::{Settings, Speculation},
};
use crate::{
    Choice, TopK,
    draft::{self, DraftError, Proposal, conformal::Conformal},
    judge::dssd,
    sample::{Distribution, End, Randomness, SharedNoise},
    study::explanation::Drawn,
    theory,
};

/// Decision on a position of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its token is committed without being sent.
    Pass,
    /// Its token is drafted; `last`: and no other after it in this round.
    Draft { last: bool },
    /// The target writes its token: the round ends before it.
    Decline,
}

/// A token that passes without being sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PassedToken {
    pub(super) id: u32,
    /// ln q(x) of the draft model's own distribution, before S(·).
    pub(super) log_probability: f64,
}

/// The place where a token is drafted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// The position in the text.
    pub(super) position: usize,
    /// The most payload bits of the round.
    pub(super) budget: usize,
}

/// Drafts tokens under one scheme. A clone drafts on as if the round were accepted, while the original waits for its
/// verdict.
#[derive(Debug, Clone)]
pub(super) struct Drafter {
    parameters: SchemeParameters,
    /// Parameters of S(·) for the draft model.
    sampling: SamplingParameters,
    randomness: Randomness,
    /// The noise of coupled drafting.
    noise: SharedNoise,
    observers: Observers,
    payload: PayloadWriter,
    ids: Vec<u32>,
    /// The drafts with their distributions; none under coupled drafting.
    tokens: Vec<DraftToken>,
    /// The distributions that the drafts were drawn from, where the generation is to be explained.
    drawn: Option<Vec<Drawn>>,
    /// True if the round takes no more drafts.
    ended: bool,
    /// True if the next token has been left to the target.
    defers: bool,
}

/// A token about to be drawn, or drawn for the gate to see.
pub(super) struct Candidate {
    source: Source,
    drawn: Option<Pair>,
}

/// The distribution that a draft is drawn from.
enum Source {
    /// q itself, from which both ends choose with the same noise.
    Shared,
    /// The scheme's proposal, with q̂.
    Proposed(Proposal),
}

/// A token drawn for the gate to see.
#[derive(Clone, Copy)]
struct Pair {
    /// The token drawn from q, which is committed if it passes.
    own: u32,
    /// The token drawn from q̂, which is drafted otherwise.
    draft: u32,
}

impl Drafter {
    pub(super) fn new(
        speculation: &Speculation,
        settings: &Settings,
        vocab_size: u32,
        prompt: &[u32],
        earlier: &Thresholds,
    ) -> Result<Self, ParameterError> {
        let Settings { sampling, seed, .. } = *settings;
        let parameters = speculation.scheme;
        Ok(Self {
            parameters,
            sampling: settings.draft_sampling(),
            randomness: Randomness::new(seed, End::Edge),
            noise: SharedNoise::new(seed),
            payload: PayloadWriter::new(speculation, &sampling, vocab_size, prompt)?,
            observers: Observers::new(speculation, vocab_size, prompt, earlier),
            ids: Vec::new(),
            tokens: Vec::new(),
            drawn: speculation.explain.then(Vec::new),
            ended: false,
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

    /// Number of further drafts that a budget has room for, as far as that is known before their distributions.
    pub(super) fn room(&self, budget: usize) -> usize {
        if self.ended { 0 } else { self.payload.room(budget).unwrap_or(usize::MAX) }
    }

    /// Ends the round after its last draft.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// True if the round has ended before a token that was looked at.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// True if the next token has been left to the target.
    pub(super) fn defers(&self) -> bool {
        self.defers
    }

    /// True if the row of logits before the round's first is wanted too: a bonus token's.
    pub(super) fn wants_bonus_row(&self) -> bool {
        self.ids.is_empty() && self.observers.owe()
    }

    /// True if a row of logits is used for drafts alone.
    fn looks_at_nothing_else(&self) -> bool {
        self.drawn.is_none() && self.observers.comparison.is_none() && !self.payload.sends_statistics()
    }

    /// Number of a row's logits that are enough, if not all are needed.
    pub(super) fn top_k(&self) -> Option<TopK> {
        // The row of a bonus token moves the threshold that the next is cut by.
        if !self.looks_at_nothing_else() || self.wants_bonus_row() {
            return None;
        }
        let kept = draft::most_kept(self.parameters, self.observers.beta())?;
        let SamplingParameters { temperature, top_k, top_p } = self.sampling;
        // Top-p cuts where the mass of a prefix reaches it, which tokens that share their mass reach elsewhere. It
        // cancels where the kept ones are renormalised.
        let is_relative = self.parameters.info().keeps == Keeps::MostLikely;
        if top_p < 1.0 && top_k == 0 && temperature > 0.0 && !is_relative {
            return None;
        }
        // Top-p cuts by the mass of what top-k leaves.
        let k = if temperature == 0.0 { 1 } else { kept.max(top_k) };
        Some(TopK { k, temperature })
    }

    /// The choice by which up to `most` drafts may be chosen, if only ids are wanted.
    pub(super) fn choice(&self, most: usize) -> Option<Choice> {
        let are_ids = self.parameters.sends() == Sends::Ids && self.looks_at_nothing_else();
        let seed = (self.sampling.temperature > 0.0).then(|| self.noise.seed());
        are_ids.then_some(Choice { seed, sampling: self.sampling, most })
    }

    /// A draft that was chosen by such a choice.
    pub(super) fn take_chosen(&mut self, id: u32) -> Result<(), EdgeError> {
        self.payload.push_id(id)?;
        self.ids.push(id);
        Ok(())
    }

    /// S(q) of a row of logits.
    pub(super) fn distribution<'a>(&self, row: &'a [f32]) -> Result<Distribution<'a>, DraftError> {
        Ok(Distribution::new(row, &self.sampling)?)
    }

    /// The row of the last verdict's bonus token.
    pub(super) fn bonus_row(&mut self, row: &[f32]) -> Result<(), DraftError> {
        let q = Distribution::new(row, &self.sampling)?;
        let (parameters, scheme) = (self.parameters, self.payload.scheme());
        self.observers.bonus(&q, |beta| Ok(draft::propose(&q, parameters, scheme, beta)?.dropped_mass))
    }

    /// Does with a token from `q` what was decided; ends the round before it where the budget has no room.
    pub(super) fn take(
        &mut self,
        q: &Distribution<'_>,
        candidate: Candidate,
        fate: Fate,
        slot: Slot,
    ) -> Result<Option<PassedToken>, EdgeError> {
        self.defers = fate == Fate::Decline;
        let dropped = candidate.dropped_mass();
        match fate {
            Fate::Pass => return self.pass(q, &candidate, slot.position).map(Some),
            Fate::Draft { last } if self.fits(&candidate, slot.budget)? => {
                self.draft(q, candidate, slot.position)?;
                self.ended = last;
            }
            Fate::Draft { .. } | Fate::Decline => {
                self.ended = true;
                self.observers.declined(q, dropped)?;
            }
        }
        Ok(None)
    }

    /// The source of the token at a position; and that token, if the gate `sees` it.
    pub(super) fn candidate(
        &mut self,
        q: &Distribution<'_>,
        position: usize,
        sees: bool,
    ) -> Result<Candidate, DraftError> {
        if self.parameters.sends() == Sends::Ids {
            let chosen = || self.noise.choose_from(position, q);
            let drawn = sees.then(chosen).map(|id| Pair { own: id, draft: id });
            return Ok(Candidate { source: Source::Shared, drawn });
        }
        let proposal = draft::propose(q, self.parameters, self.payload.scheme(), self.observers.beta())?;
        let drawn = sees.then(|| {
            let draft = draft::draw_id(&proposal.dist, &mut self.randomness);
            Pair { own: draft::couple(q, &proposal.dist, draft, &mut self.randomness), draft }
        });
        Ok(Candidate { source: Source::Proposed(proposal), drawn })
    }

    fn fits(&self, candidate: &Candidate, budget: usize) -> Result<bool, EdgeError> {
        match &candidate.source {
            // All ids have the same bits: there was room before the distribution was known.
            Source::Shared => Ok(true),
            Source::Proposed(proposal) => self.payload.fits(proposal, budget),
        }
    }

    fn draft(&mut self, q: &Distribution<'_>, candidate: Candidate, position: usize) -> Result<(), EdgeError> {
        let (dropped, distortion) = (candidate.dropped_mass(), candidate.distortion(self.parameters));
        let (id, dist) = match candidate.source {
            Source::Shared => {
                let id = self.noise.choose_from(position, q);
                self.payload.push_id(id)?;
                (id, None)
            }
            Source::Proposed(proposal) => {
                let token = match candidate.drawn {
                    Some(Pair { draft, .. }) => proposal.with(draft),
                    None => draft::draw(proposal, &mut self.randomness),
                };
                self.payload.push(q, &token)?;
                let (id, dist) = (token.id, self.drawn.is_some().then(|| token.dist.clone()));
                self.tokens.push(token);
                (id, dist)
            }
        };
        self.ids.push(id);
        self.observers.drafted(q, id, dropped)?;
        if let Some(drawn) = &mut self.drawn {
            let is_known = self.parameters.sends() == Sends::Distributions;
            drawn.push(Drawn { q: q.dense(), dist, distortion, is_known });
        }
        Ok(())
    }

    fn pass(&mut self, q: &Distribution<'_>, candidate: &Candidate, position: usize) -> Result<PassedToken, EdgeError> {
        let dropped = candidate.dropped_mass();
        let id = match (candidate.drawn, &candidate.source) {
            (Some(Pair { own, .. }), _) => own,
            (None, Source::Shared) => self.noise.choose_from(position, q),
            // Nothing of it travels: there is no reason to draw from q̂.
            (None, Source::Proposed(_)) => q.draw(&mut self.randomness),
        };
        self.observers.passed(q, id, dropped)?;
        self.payload.read(id);
        Ok(PassedToken { id, log_probability: q.unscaled().log_probability(q.logits()[id as usize]) })
    }

    /// The target wrote a token alone.
    pub(super) fn streamed(&mut self, token: u32) {
        self.observers.streamed(token);
        self.payload.read(token);
    }

    /// The round's payload and its bits.
    pub(super) fn payload(&self) -> (Vec<u8>, usize) {
        self.payload.finish()
    }

    /// The distributions that the round's drafts were drawn from, where the generation is to be explained.
    pub(super) fn drawn(&self) -> &[Drawn] {
        self.drawn.as_deref().unwrap_or_default()
    }

    /// True if the cloud leaves resampling to the edge (DSSD).
    pub(super) fn resamples(&self) -> bool {
        self.parameters.sends() == Sends::Probabilities
    }

    /// DSSD: the token in place of the rejected draft, from the cloud's samples; `None` if none survives.
    pub(super) fn survivor(&mut self, rejected: usize, samples: &[(u32, f32)]) -> Option<u32> {
        dssd::survivor(samples, &self.tokens[rejected].dist, &mut self.randomness)
    }

    /// DSSD: the token in place of the rejected draft, from the target's distribution.
    pub(super) fn resample(&mut self, rejected: usize, target: &TargetDist) -> u32 {
        dssd::resample(target, &self.tokens[rejected].dist, &mut self.randomness)
    }

    /// The drafter of the next round, as if all drafts of this one were accepted and no token followed.
    pub(super) fn next(&self) -> Self {
        let mut next = self.clone();
        next.settle(next.ids.len(), None);
        next
    }

    /// Ends the round: the first `accepted` drafts are committed, then `token`. Gives what the drafts would have cost
    /// under other schemes, if that is compared.
    pub(super) fn settle(&mut self, accepted: usize, token: Option<u32>) -> Vec<(&'static str, usize)> {
        self.payload.settle(std::mem::take(&mut self.tokens), accepted, token);
        self.ids.clear();
        if let Some(drawn) = &mut self.drawn {
            drawn.clear();
        }
        (self.ended, self.defers) = (false, false);
        self.observers.settle(accepted, token)
    }

    /// The generation has ended with the text before this round.
    pub(super) fn teach(self, thresholds: &mut Thresholds) {
        self.observers.teach(thresholds);
    }

    /// C-SQS's threshold and what it has dropped.
    pub(super) fn threshold(&self) -> Option<&Conformal> {
        self.observers.threshold.as_ref()
    }
}

impl Candidate {
    /// The token that the gate sees, if it does.
    pub(super) fn seen(&self) -> Option<u32> {
        self.drawn.map(|pair| pair.own)
    }

    /// The mass of S(q) that q̂ leaves out.
    fn dropped_mass(&self) -> f64 {
        if let Source::Proposed(proposal) = &self.source { proposal.dropped_mass } else { 0.0 }
    }

    /// α_n + K_n/4ℓ of Theorem 1; without a lattice the dropped mass alone.
    fn distortion(&self, parameters: SchemeParameters) -> f64 {
        match (&self.source, parameters.lattice_resolution()) {
            (Source::Proposed(Proposal { dropped_mass, support_size, .. }), Some(resolution)) => {
                theory::distortion(*dropped_mass, *support_size, resolution)
            }
            _ => self.dropped_mass(),
        }
    }
}
