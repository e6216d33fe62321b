//! How files call weights, as far as they call them otherwise than Llama's.

use super::weights::{Container, WeightName};

/// What files say otherwise of weights than Llama's; by default nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spelling {
    /// Weights of another name: field of [`weights`](super::weights), name in GGUF, name in a checkpoint. Fields of one
    /// name are stored in one tensor, one behind the other in this order.
    pub(super) names: &'static [(&'static str, &'static str, &'static str)],
    /// Names of one tensor, by which files have it once or several times; the first is ours.
    pub(crate) aliases: &'static [&'static str],
    /// Endings of tensors that files have and nobody needs: masks, and what follows from the settings.
    pub(crate) unused: &'static [&'static str],
    /// Whether checkpoints have norms' scales less one.
    pub(crate) norms_less_one: bool,
    /// Whether checkpoints have the blocks' matrices as `[inputs, outputs]`.
    pub(super) transposed: bool,
}

impl Spelling {
    /// What a file calls a weight.
    pub(crate) fn name_of(&self, weight: &WeightName, container: Container) -> String {
        let renamed = self.names.iter().find(|(field, ..)| weight.fills(field));
        let own = renamed.map(|&(_, gguf, hugging_face)| match container {
            Container::Gguf => gguf,
            Container::HuggingFace => hugging_face,
        });
        weight.spelled(own, container)
    }

    /// Whether the tensor that has this weight has others too.
    pub(crate) fn shares(&self, weight: &WeightName, container: Container) -> bool {
        let name = |names: &(&'static str, &'static str, &'static str)| match container {
            Container::Gguf => names.1,
            Container::HuggingFace => names.2,
        };
        let own = self.names.iter().find(|names| weight.fills(names.0)).map(name);
        own.is_some_and(|own| self.names.iter().filter(|names| name(names) == own).count() > 1)
    }

    /// Whether a checkpoint has this matrix as `[inputs, outputs]`.
    pub(crate) fn is_transposed(&self, weight: &WeightName) -> bool {
        self.transposed && weight.is_of_block()
    }
}
