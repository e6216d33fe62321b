//! Lessons on the link and the models that the generations of a session pass on to the next.
//!
//! All of it is the edge's. It outlives connections, and is lost with the page: an edge that resumes by a ticket has no
//! lessons.

use core::time::Duration;
use std::sync::Arc;

use outrider_codec::{
    frame::{MAX_DRAFT_TOKENS, PASS_ROWS, SamplingParameters, Welcome},
    scheme::SchemeParameters,
};

use super::settings::Speculation;
use crate::{
    control::{
        ahead::AheadController,
        calibration::Calibration,
        lookup_rates::LookupRates,
        observation::Observation,
        plan::Schedule,
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
    /// Acceptance in an earlier session with the same models: first and second candidates.
    pub(super) expected: Option<[f64; 2]>,
    /// Time of the last handshake, until a generation has learned it.
    pub(super) handshake: Option<Duration>,
    pub(super) thresholds: Thresholds,
}

impl Lessons {
    /// Takes the controller of guesses as the last text left it. A new one begins with the server's times of passes and
    /// the acceptance of earlier sessions.
    pub(super) fn controller(&mut self, fixed: Option<Schedule>, server: &Welcome) -> AheadController {
        let mut controller = self.ahead.take().unwrap_or_else(|| {
            let mut new = AheadController::new(fixed);
            for (rows, micros) in PASS_ROWS.into_iter().zip(server.pass_micros).filter(|&(_, micros)| micros > 0) {
                let took = Duration::from_micros(micros.into());
                new.observe(Observation::Timed { rows: rows.into(), took });
            }
            if let Some(acceptance) = self.expected {
                new.expect(acceptance);
            }
            new
        });
        if let Some(handshake) = self.handshake.take() {
            controller.observe(Observation::Handshake(handshake));
        }
        controller
    }
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

#[cfg(test)]
mod tests {
    use outrider_codec::frame::{Limits, Ticket};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn welcome(pass_micros: [u32; PASS_ROWS.len()]) -> Welcome {
        let limits = Limits::rounds(16, 4);
        let ticket = Ticket::default();
        Welcome { vocab_size: 4, limits, eos_ids: Vec::new(), ticket, detached_seconds: 120, pass_micros }
    }

    /// Guesses are right seldom, as in an earlier session: fewer are made ahead from the first one on, until the text
    /// says something else. What a text has taught is not replaced.
    #[test]
    fn the_first_text_expects_what_an_earlier_session_had() {
        let server = welcome([0; 5]);
        let usual = Lessons::default().controller(None, &server);
        let mut lessons = Lessons { expected: Some([0.3, 0.1]), ..Lessons::default() };
        let mut controller = lessons.controller(None, &server);
        assert_eq!(controller.acceptance(), [0.3, 0.1]);
        assert!(controller.plan().lead < 4 && usual.plan().lead > 7, "{:?}", controller.plan());
        for _ in 0..100 {
            controller.observe(Observation::Compared { candidates: 1, right: Some(0) });
        }
        let [learned, _] = controller.acceptance();
        assert!(learned > 0.8, "{learned}");
        lessons.ahead = Some(controller);
        assert_eq!(lessons.controller(None, &server).acceptance()[0], learned);
    }

    /// A row costs a third of a pass, as the server says. Another Welcome changes nothing that was measured since.
    #[test]
    fn the_first_text_knows_what_rows_cost() {
        let row_cost = |controller: &mut AheadController| {
            let took = Duration::from_millis(9);
            controller.observe(Observation::FirstToken { after: 2 * took, pass: took });
            controller.observe(Observation::Drafted { took: took / 9, count: 1 });
            controller.observe(Observation::Passed { took, accepted: 0, at_hand: None });
            controller.conditions().unwrap().rows.all(3) / 3.0
        };
        let mut lessons = Lessons::default();
        let mut controller = lessons.controller(None, &welcome([9000, 12_000, 18_000, 30_000, 54_000]));
        assert!((row_cost(&mut controller) - 0.333).abs() < 0.04);
        lessons.ahead = Some(controller);
        assert!((row_cost(&mut lessons.controller(None, &welcome([9000; 5]))) - 0.333).abs() < 0.04);
        assert!(row_cost(&mut Lessons::default().controller(None, &welcome([0; 5]))) < 0.2);
    }
}
