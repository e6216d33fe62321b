//! Instructions for an engine that computes elsewhere, and the drafts that it has chosen. They say, for the pass under
//! way, how many logits are enough, or what drafts are chosen by.

use super::{
    super::{
        error::EdgeError,
        reaction::{Reaction, check_chosen},
        text::Text,
    },
    Drafting, OpenRound, Phase,
};
use crate::{Choice, Chosen, TopK};

impl Drafting {
    /// Number of logits of the rows to come that are enough, if not all are needed.
    pub(in super::super) fn top_k(&self) -> Option<TopK> {
        let open = self.open.as_ref().filter(|open| matches!(open.phase, Phase::AwaitsLogits(_)))?;
        // What passes is drawn from all of q.
        if self.planner.looks_at_rows() { None } else { open.drafter.top_k() }
    }

    /// The choice by which the engine may choose the drafts of the pass under way, if that need not be done
    /// [here](Self::handle_logits): as many as the round still wants.
    pub(in super::super) fn choice(&self, text: &Text) -> Option<Choice> {
        let open = self.open.as_ref().filter(|open| open.phase == Phase::AwaitsLogits(1))?;
        if self.planner.looks_at_rows() {
            return None;
        }
        let length = text.len() + self.flight.drafted() + open.drafter.ids().len();
        open.drafter.choice(self.planner.drafts_left(&open.drafter, length, text).max(1))
    }

    /// Takes drafts that the draft model's engine has chosen.
    pub(in super::super) fn handle_chosen(&mut self, chosen: &[Chosen], text: &Text) -> Result<Reaction, EdgeError> {
        if self.discarded_rows > 0 {
            self.discarded_rows -= 1;
            return Ok(Reaction::Wait);
        }
        let base = text.len() + self.flight.drafted();
        let Some(OpenRound { drafter, phase: phase @ Phase::AwaitsLogits(1), .. }) = &mut self.open else {
            return Ok(Reaction::Wait);
        };
        check_chosen(chosen, text.vocab_size())?;
        *phase = Phase::Drafting;
        // It has read all but the last. If not all are taken the round ends, and the next goes on from what was.
        self.cached = base + drafter.ids().len() + chosen.len() - 1;
        for Chosen { first, .. } in chosen {
            if !self.planner.wants_another(drafter, base + drafter.ids().len(), text) {
                drafter.end();
                break;
            }
            drafter.take_chosen(*first)?;
        }
        Ok(Reaction::Wait)
    }
}
