//! Lessons on the link and the models that the generations of a session pass on to the next.
//!
//! All of it is the edge's. It outlives connections, and is lost with the page: an edge that resumes by a ticket has no
//! lessons.

use core::time::Duration;
use std::sync::Arc;

use outrider_codec::{
    frame::{MAX_DRAFT_TOKENS, SamplingParameters, Welcome},
    scheme::SchemeParameters,
};

use super::settings::Speculation;
use crate::{
    control::{
        ahead::AheadController,
        calibration::Calibration,
        lookup_rates::LookupRates,
        rounds::{Bonus, ControlParameters, RoundController},
    },
    draft::{Passages, conformal::Conformal, gate::Gate},
    judge::rules::Rule,
};

/// Lessons of past generations, in rounds and ahead of texts.
#[derive(Debug, Default)]
pub(super) struct Lessons {
    pub(super) rounds: Option<Learned>,
    pub(super) ahead: Option<AheadController>,
    pub(super) calibration: Calibration,
    pub(super) lookup_rates: LookupRates,
    /// Passages that guesses may be looked up in.
    pub(super) passages: Arc<Passages>,
    /// Time of the last handshake, until a generation has learned it.
    pub(super) handshake: Option<Duration>,
    pub(super) thresholds: Thresholds,
}

/// C-SQS's threshold as the last generation that had one left it; with the same parameters the next goes on from there.
/// What else changes does not matter: Theorem 2 holds of any distributions, one after another.
#[derive(Debug, Clone, Default)]
pub(super) struct Thresholds {
    /// The threshold of the drafts that are sent.
    pub(super) sent: Option<Conformal>,
    /// The threshold of the schemes that are compared.
    pub(super) compared: Option<Conformal>,
}

/// Lessons of a generation in rounds, and their circumstances.
#[derive(Debug)]
pub(super) struct Learned {
    circumstances: Circumstances,
    pub(super) controller: RoundController,
}

/// Circumstances that acceptance and times depend on: under other ones they have to be learned again.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Circumstances {
    control: ControlParameters,
    scheme: SchemeParameters,
    rule: Rule,
    gate: Gate,
    sampling: SamplingParameters,
}

impl Learned {
    /// State at the start of a generation: what an `earlier` one learned, if its circumstances were the same.
    pub(super) fn new(
        speculation: &Speculation,
        sampling: SamplingParameters,
        server: &Welcome,
        earlier: Option<Self>,
    ) -> Self {
        let circumstances = Circumstances::new(speculation, sampling, server);
        let earlier = earlier.filter(|earlier| earlier.circumstances == circumstances);
        let mut learned =
            earlier.unwrap_or_else(|| Self { controller: RoundController::new(circumstances.control), circumstances });
        learned.controller.next_generation();
        learned
    }
}

impl Circumstances {
    fn new(speculation: &Speculation, sampling: SamplingParameters, server: &Welcome) -> Self {
        let control = ControlParameters {
            stop: speculation.stop,
            draft_length: speculation.draft_length,
            longest: server.limits.max_draft_tokens.min(MAX_DRAFT_TOKENS).into(),
            adaptive_mode: speculation.adaptive_mode,
            bonus: match speculation.max_in_flight {
                1 if speculation.rule.info().has_bonus => Bonus::Target,
                1 => Bonus::Drafted,
                _ => Bonus::Nothing,
            },
        };
        let Speculation { scheme, rule, gate, .. } = *speculation;
        Self { control, scheme, rule, gate, sampling }
    }
}
