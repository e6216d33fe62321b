//! Answers of the driver other than judgements: a change of logits that it has made, and what it could not do.

use std::sync::Arc;

use outrider_codec::frame::ErrorCode;

use super::{CloudSession, failure::Failure, shaping::Shaping, target::InFlight};

impl CloudSession {
    /// Takes the change of logits that was to be made, or the reason why there is none, which ends the generation.
    pub fn handle_shaping(&mut self, made: Result<Arc<dyn Shaping>, String>) {
        self.events.clear();
        let number = self.shaping.take();
        let Some(generation) = self.generation.as_mut().filter(|generation| Some(generation.number()) == number) else {
            return;
        };
        match made {
            Ok(shaping) => generation.shape(shaping),
            Err(text) => {
                let number = generation.number();
                self.fail(Failure::generation(number, ErrorCode::InvalidParameters, text));
            }
        }
    }

    /// The pass under way could not be run. The generation ends; the connection goes on.
    pub fn handle_failure(&mut self, text: &str) {
        self.fail_pass(ErrorCode::Internal, text);
    }

    /// The pass under way will not be run, because this target cannot serve what the generation asks for. It ends; the
    /// connection goes on.
    pub fn handle_refusal(&mut self, text: &str) {
        self.fail_pass(ErrorCode::InvalidParameters, text);
    }

    fn fail_pass(&mut self, code: ErrorCode, text: &str) {
        self.events.clear();
        if let Some(InFlight { generation, .. }) = self.in_flight.take()
            && self.generation.as_ref().is_some_and(|current| current.number() == generation)
        {
            self.fail(Failure::generation(generation, code, text.to_owned()));
        }
    }
}
