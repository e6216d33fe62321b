//! Decisions on each position before its token is drawn: by the gate, the stop rule, the budget and the text's end.
//!
//! Decisions are made before the draw and do not depend on it, except for a gate that sees the token. Otherwise short
//! codes, that is likely tokens, would be drafted more often than q̂ says. A stop head that sees the token is asked
//! after the draw, of a draft that is sent whatever it says: the round's length is a stopping time of its drafts, and
//! each of them is distributed as q̂.

use std::sync::Arc;

use outrider_codec::{frame::MAX_DRAFT_TOKENS, scheme::MAX_PAYLOAD_BITS};

use super::{
    drafter::{Drafter, Fate},
    learned::Learned,
    settings::{DraftInfo, Ends, Speculation},
    text::Text,
};
use crate::{
    control::{
        observation::Observation,
        plan::Mode,
        rounds::{Advice, Estimates, Outlook},
    },
    draft::DraftError,
    draft::{
        gate::{Doubt, Gate},
        heads::{HeadError, Heads, TokenFeatures},
    },
    judge::rules::{Need, Statistic},
    sample::Distribution,
};

/// Decides for one generation.
#[derive(Debug)]
pub(super) struct Planner {
    gate: Gate,
    heads: Option<Arc<Heads>>,
    learned: Learned,
    /// True if the rule puts a token of the target after drafts that are all accepted.
    has_bonus: bool,
    /// The most drafts of a round.
    longest: usize,
    /// The most tokens that the draft model can read.
    draft_context: usize,
    /// The most payload bits of a round.
    budget: usize,
}

impl Planner {
    pub(super) fn new(speculation: &Speculation, ends: Ends<'_>, learned: Learned) -> Self {
        let DraftInfo { context_length, heads, .. } = ends.draft;
        Self {
            gate: speculation.gate,
            heads: heads.clone(),
            learned,
            has_bonus: speculation.rule.info().has_bonus,
            longest: ends.server.limits.max_draft_tokens.min(MAX_DRAFT_TOKENS).into(),
            draft_context: *context_length as usize,
            budget: speculation.bit_budget.map_or(MAX_PAYLOAD_BITS, |bits| bits as usize).min(MAX_PAYLOAD_BITS),
        }
    }

    pub(super) fn into_learned(self) -> Learned {
        self.learned
    }

    pub(super) fn has_bonus(&self) -> bool {
        self.has_bonus
    }

    pub(super) fn gate(&self) -> Gate {
        self.gate
    }

    /// The payload bits of a round where `taken` bits of the frame are used otherwise.
    pub(super) fn budget_beside(&self, taken: usize) -> usize {
        self.budget.min(MAX_PAYLOAD_BITS.saturating_sub(taken))
    }

    /// Number of tokens that the target is to write alone before the next round, if any.
    pub(super) fn next_stream(&mut self) -> Option<u32> {
        // A cascade has its own way of choosing the target.
        if self.gate.is_cascade() {
            return None;
        }
        let plan = self.learned.controller.next_plan();
        (plan.mode == Mode::Alone).then_some(plan.stream)
    }

    /// True if another token is to be drafted, or to pass, before the frame is sent; without it the text would have
    /// `length` tokens.
    pub(super) fn wants_another(&self, drafter: &Drafter, length: usize, text: &Text) -> bool {
        (self.may_pass(drafter, length, text) || self.may_draft(drafter, length, text))
            && length <= self.draft_context
            && !drafter.ids().last().is_some_and(|&id| text.is_end(id))
    }

    /// True if a token may pass. It takes nothing of the round, and may be the text's last.
    fn may_pass(&self, drafter: &Drafter, length: usize, text: &Text) -> bool {
        let at_start = drafter.ids().is_empty() && !drafter.has_ended();
        self.gate != Gate::Never && at_start && length < text.length_limit()
    }

    /// True if the round has room for a draft.
    pub(super) fn may_draft(&self, drafter: &Drafter, length: usize, text: &Text) -> bool {
        self.wants_draft(drafter.ids().len(), length, text) && drafter.room(self.budget) > 0
    }

    /// True if the round has room for a draft after `drafted` others, apart from the payload's bits.
    fn wants_draft(&self, drafted: usize, length: usize, text: &Text) -> bool {
        drafted < self.longest && self.learned.controller.wants(drafted) && length < self.end_of_drafts(text)
    }

    /// Number of drafts that may follow in the round, as far as that is known before any is drawn; without them the
    /// text would have `length` tokens.
    pub(super) fn drafts_left(&self, drafter: &Drafter, length: usize, text: &Text) -> usize {
        let drafted = drafter.ids().len();
        let is_wanted =
            |more: &usize| self.wants_draft(drafted + more, length + more, text) && length + more <= self.draft_context;
        (0..self.longest.min(drafter.room(self.budget))).take_while(is_wanted).count()
    }

    /// True if gate or stop rule may look at a row of logits.
    pub(super) fn looks_at_rows(&self) -> bool {
        self.gate != Gate::Never || self.learned.controller.needs_outlook()
    }

    /// Length of the text at which drafts have to end.
    fn end_of_drafts(&self, text: &Text) -> usize {
        // One position is the cloud's own token's, where it has one.
        text.length_limit() - usize::from(self.has_bonus)
    }

    /// True if a draft may follow the round's last. It depends on what is drafted and on nothing else, not on what has
    /// arrived meanwhile, so that the text does not either.
    pub(super) fn continues(&self, drafter: &Drafter, length: usize, text: &Text) -> bool {
        drafter.ids().last().is_some_and(|&id| !text.is_end(id))
            && !drafter.defers()
            && length < self.end_of_drafts(text)
            && length <= self.draft_context
    }

    /// True if the gate sees the token at the position after `drafted` drafts of the round.
    pub(super) fn sees_token(&self, drafted: usize) -> bool {
        drafted == 0 && self.gate.sees_token(self.heads.as_deref())
    }

    /// Decides on the position after `drafted` drafts of the round, with the distribution `q` and the hidden state that
    /// it was made of; `drawn` is the token that the gate sees, if it does, and `passed` tokens have passed since the
    /// last round.
    pub(super) fn decide(
        &mut self,
        q: &Distribution<'_>,
        hidden: &[f32],
        drawn: Option<u32>,
        passed: usize,
        drafted: usize,
        may_draft: bool,
    ) -> Result<Fate, DraftError> {
        self.check_width(hidden)?;
        let token = drawn.map(|id| TokenFeatures::of(q, id));
        let doubt = match drafted {
            0 => self.gate.doubt(self.heads.as_deref(), hidden, token.as_ref(), passed, || scalar(Need::Peak, q)),
            _ => Doubt::Verify,
        };
        let advice = match doubt {
            Doubt::None => return Ok(Fate::Pass),
            Doubt::Verify if may_draft => self.consider(q, hidden, drafted),
            Doubt::Verify | Doubt::Defer => Advice::Decline,
        };
        Ok(match advice {
            Advice::Draft => Fate::Draft { last: false },
            Advice::DraftAndStop => Fate::Draft { last: true },
            Advice::Decline => Fate::Decline,
        })
    }

    fn consider(&mut self, q: &Distribution<'_>, hidden: &[f32], drafted: usize) -> Advice {
        if !self.learned.controller.needs_outlook() || self.stop_sees_token() {
            return Advice::Draft;
        }
        self.advise(q, hidden, &[], drafted)
    }

    /// True if the round ends after a token that has been drafted after `drafted` others: by a stop head that sees it.
    pub(super) fn stops_after(&mut self, q: &Distribution<'_>, hidden: &[f32], id: u32, drafted: usize) -> bool {
        // Working the features out takes a walk over the logits.
        if !self.stop_sees_token() {
            return false;
        }
        let token = TokenFeatures::of(q, id);
        self.advise(q, hidden, &token.0, drafted) == Advice::DraftAndStop
    }

    fn stop_sees_token(&self) -> bool {
        self.learned.controller.stops_by_score() && self.heads.as_ref().is_some_and(|heads| heads.stop_sees_token())
    }

    fn advise(&mut self, q: &Distribution<'_>, hidden: &[f32], token: &[f32], drafted: usize) -> Advice {
        let head = self.heads.as_ref().and_then(|heads| heads.stop.as_ref());
        let outlook = Outlook {
            peak: scalar(Need::Peak, q),
            entropy: q.entropy(),
            stop_score: head.map(|head| head.score(hidden, token)),
        };
        self.learned.controller.consider(drafted, &outlook)
    }

    fn check_width(&self, hidden: &[f32]) -> Result<(), DraftError> {
        match self.heads.as_ref().map(|heads| heads.check_width(hidden.len())) {
            Some(Err(HeadError::Width { head: expected, hidden: found })) => {
                Err(DraftError::Hidden { found, expected })
            }
            _ => Ok(()),
        }
    }

    /// Takes an observation. Gives the estimates of the session now.
    pub(super) fn observe(&mut self, observation: Observation) -> Estimates {
        self.learned.controller.observe(observation);
        self.learned.controller.estimates()
    }
}

/// A statistic of the draft model's own distribution.
fn scalar(need: Need, q: &Distribution<'_>) -> f64 {
    if let Statistic::Scalar(value) = need.of_unscaled(q, &[]) { value } else { 0.0 }
}
