//! Names and storage conventions of weights, as far as they differ from Llama's.

use super::weights::{Container, WeightName};

/// Differences from Llama's weight names and storage; none by default.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spelling {
    /// Weights with other names: field of [`weights`](super::weights), name in GGUF, name in a checkpoint. Fields with
    /// the same name are stored in one tensor, concatenated in this order.
    pub(super) names: &'static [(&'static str, &'static str, &'static str)],
    /// Names of one tensor that files store once or several times; the first is ours.
    pub(crate) aliases: &'static [&'static str],
    /// Suffixes of unused tensors: masks, and values that follow from the settings.
    pub(crate) unused: &'static [&'static str],
    /// True if checkpoints store norm scales less one.
    pub(crate) norms_less_one: bool,
    /// True if checkpoints store block matrices as `[inputs, outputs]`.
    pub(super) transposed: bool,
    /// True if checkpoints store each projection of all experts as one tensor: matrices as `[experts, inputs, outputs]`
    /// or in MXFP4, and fields with the same name as alternating outputs.
    pub(super) fused_experts: bool,
    /// True if the model is the language model of a checkpoint that also reads images.
    pub(crate) is_tower: bool,
}

impl Spelling {
    /// Name of a weight in a file.
    pub(crate) fn name_of(&self, weight: &WeightName, container: Container) -> String {
        let renamed = self.names.iter().find(|(field, ..)| weight.fills(field));
        let own = renamed.map(|&(_, gguf, hugging_face)| match container {
            Container::Gguf => gguf,
            Container::HuggingFace => hugging_face,
        });
        weight.spelled(own, container)
    }

    /// Returns whether the tensor of this weight also holds others.
    pub(crate) fn shares(&self, weight: &WeightName, container: Container) -> bool {
        self.place(weight, container)[1] > 1
    }

    /// Returns the place of a weight among those of one tensor, from 0, and the number of these.
    pub(crate) fn place(&self, weight: &WeightName, container: Container) -> [usize; 2] {
        let name = |names: &(&'static str, &'static str, &'static str)| match container {
            Container::Gguf => names.1,
            Container::HuggingFace => names.2,
        };
        let own = self.names.iter().find(|names| weight.fills(names.0)).map(name);
        let in_one = || self.names.iter().filter(|names| own == Some(name(names)));
        [in_one().position(|names| weight.fills(names.0)).unwrap_or(0), in_one().count().max(1)]
    }

    /// Returns whether a checkpoint stores this matrix as `[inputs, outputs]`.
    pub(crate) fn is_transposed(&self, weight: &WeightName) -> bool {
        self.transposed && weight.is_of_block()
    }

    /// Returns whether a checkpoint stores this weight in one tensor for all experts.
    pub(crate) fn is_fused(&self, weight: &WeightName) -> bool {
        self.fused_experts && weight.is_of_expert()
    }
}
