//! Definition of a model family.

use super::{
    block::Norm, config::ModelConfig, gguf_settings::Settings, keys::Keys, rotary::RopeLayout, spelling::Spelling,
};
use crate::error::LoadError;

/// Family of models that share a description.
#[derive(Debug)]
pub(crate) struct Family {
    /// Value of `model_type` in `config.json`.
    pub(super) model_type: &'static str,
    /// Value of `general.architecture` in GGUF files, if they exist for this family.
    pub(super) architecture: Option<&'static str>,
    /// Pairing of rotated elements in GGUF files; checkpoints always pair halves.
    pub(super) gguf_layout: RopeLayout,
    /// Kind of the family's norms.
    pub(super) norm: Norm,
    /// Synonyms of settings in `config.json`: Llama's name, and the family's own.
    pub(super) synonyms: &'static [(&'static str, &'static str)],
    /// Defaults for settings absent from `config.json`.
    pub(super) defaults: Defaults,
    /// Weights with names other than Llama's: field of [`weights`], name in GGUF, name in a checkpoint. Fields with the
    /// same name are stored in one tensor, concatenated in this order.
    pub(super) names: &'static [(&'static str, &'static str, &'static str)],
    /// Suffixes of unused tensors: masks, and values that follow from the settings.
    pub(super) unused: &'static [&'static str],
    /// True if checkpoints store norm scales less one.
    pub(super) norms_less_one: bool,
    /// True if checkpoints store block matrices as `[inputs, outputs]`.
    pub(super) transposed: bool,
    /// True if checkpoints store each projection of all experts as [one tensor](Spelling::fused_experts).
    pub(super) fused_experts: bool,
    /// Method of quantization that checkpoints may have, `quant_method` of `quantization_config`.
    pub(super) quantization: Option<&'static str>,
    /// Reads the family's own settings from `config.json`.
    pub(super) hugging_face: fn(&Keys, &mut ModelConfig) -> Result<(), LoadError>,
    /// Reads the family's own settings from a GGUF file.
    pub(super) gguf: fn(&Settings<'_>, &mut ModelConfig) -> Result<(), LoadError>,
}

/// Defaults for settings absent from a `config.json`.
#[derive(Debug)]
pub(super) struct Defaults {
    pub(super) context_length: usize,
    pub(super) norm_epsilon: f32,
    pub(super) kv_heads: Option<usize>,
    pub(super) head_dim: Option<usize>,
    /// Width of the feed-forward part as a multiple of the residual stream's.
    pub(super) widening: Option<usize>,
    pub(super) tied: bool,
}

impl Family {
    /// Names and storage conventions of the family's weights in files.
    pub(super) fn spelling(&self) -> Spelling {
        let &Self { names, unused, norms_less_one, transposed, fused_experts, .. } = self;
        Spelling { names, unused, norms_less_one, transposed, fused_experts, ..Spelling::default() }
    }
}
