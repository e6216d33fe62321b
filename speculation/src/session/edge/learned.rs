//! What the generations of a session learn of the link and the models, one from another.
//!
//! All of it is the edge's. It outlives connections, and is lost with the page: who comes back by a ticket learns anew.

use core::time::Duration;

use outrider_codec::{
    frame::{MAX_DRAFT_TOKENS, SamplingParameters, Welcome},
    scheme::SchemeParameters,
};

use super::settings::Speculation;
use crate::{
    control::{
        ahead::AheadController,
        rounds::{Bonus, ControlParameters, RoundController},
    },
    draft::conformal::Conformal,
    draft::gate::Gate,
    judge::rules::Rule,
};

/// What generations have learned, in rounds and ahead of texts.
#[derive(Debug, Default)]
pub(super) struct Lessons {
    pub(super) rounds: Option<Learned>,
    pub(super) ahead: Option<AheadController>,
    /// How long the last handshake took, until a generation has learned it.
    pub(super) handshake: Option<Duration>,
    pub(super) thresholds: Thresholds,
}

/// C-SQS's threshold as the last generation that had one left it; with the same parameters the next goes on from there.
/// What else changes does not matter: Theorem 2 holds of any distributions, one after another.
#[derive(Debug, Clone, Default)]
pub(super) struct Thresholds {
    /// Of what is sent.
    pub(super) sent: Option<Conformal>,
    /// Of what is compared with it.
    pub(super) compared: Option<Conformal>,
}

/// What a generation in rounds has learned, and where.
#[derive(Debug)]
pub(super) struct Learned {
    circumstances: Circumstances,
    pub(super) controller: RoundController,
}

/// What acceptance and times depend on: under other ones they have to be learned anew.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Circumstances {
    control: ControlParameters,
    scheme: SchemeParameters,
    rule: Rule,
    gate: Gate,
    sampling: SamplingParameters,
}

impl Learned {
    /// At the start of a generation: what an `earlier` one learned, if its circumstances were the same.
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
                1 if speculation.rule.has_bonus() => Bonus::Target,
                1 => Bonus::Drafted,
                _ => Bonus::Nothing,
            },
        };
        let Speculation { scheme, rule, gate, .. } = *speculation;
        Self { control, scheme, rule, gate, sampling }
    }
}
