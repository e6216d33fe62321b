//! Sessions for a caller in the same process: no handshake, no bytes, nothing to resume.
//!
//! Order of calls: [`CloudSession::in_process`], [`generate`](CloudSession::generate), and then
//! [`next_frame`](CloudSession::next_frame) before each [`poll`](CloudSession::poll). `poll` asks for passes as it does
//! for an edge, and gives neither `Send` nor `Close`.

use std::{collections::VecDeque, sync::Arc};

use outrider_codec::frame::{Frame, Request};

use super::{Admission, CloudSession, shaping::Shaping, target::TargetInfo};

impl CloudSession {
    /// A session whose caller takes frames as values.
    pub fn in_process(target: TargetInfo) -> Self {
        let session = Self::new(target, Admission::default());
        Self { greeted: true, frames: Some(VecDeque::new()), ..session }
    }

    /// Begins a text that the target writes alone, instead of the one under way. The request's number is not used.
    pub fn generate(&mut self, request: Request) {
        self.events.clear();
        self.cancel(self.last_generation);
        (self.in_flight, self.drafting) = (None, None);
        self.frames.iter_mut().for_each(VecDeque::clear);
        let generation = self.last_generation + 1;
        if let Err(failure) = self.start_alone(Request { generation, ..request }) {
            self.fail(failure);
        }
    }

    /// Changes the target's logits from the next pass of the text under way on.
    pub fn shape(&mut self, shaping: Arc<dyn Shaping>) {
        if let Some(generation) = &mut self.generation {
            generation.shape(shaping);
        }
    }

    /// The next frame of a session [in the same process](Self::in_process).
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.frames.as_mut()?.pop_front()
    }
}
