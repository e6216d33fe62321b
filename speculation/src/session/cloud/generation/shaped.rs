//! The change of the target's logits in a generation: asked for, made, and then part of each pass.

use std::sync::Arc;

use outrider_codec::frame::Shape;

use super::{
    super::shaping::{Shaping, ShapingOptions},
    Generation,
};

impl Generation {
    /// Asks for the change of logits of a Shape, if there is one.
    pub(in super::super) fn with(mut self, shape: Option<Shape>) -> Self {
        self.options = shape.map(|Shape { answered, options, .. }| ShapingOptions {
            options,
            temperature: self.sampling.temperature,
            prompt: self.committed.len().saturating_sub(answered as usize),
        });
        self
    }

    /// Options of a change of logits that is to be made, once.
    pub(in super::super) fn take_options(&mut self) -> Option<ShapingOptions> {
        self.options.take()
    }

    /// Changes the target's logits from now on.
    pub(in super::super) fn shape(&mut self, shaping: Arc<dyn Shaping>) {
        self.shaping = Some(shaping);
    }
}
