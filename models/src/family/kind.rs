//! What a family says of itself.

use super::{
    block::Norm, config::ModelConfig, gguf_settings::Settings, keys::Keys, rotary::RopeLayout, spelling::Spelling,
};
use crate::error::LoadError;

/// Models that are described alike.
#[derive(Debug)]
pub(crate) struct Family {
    /// `model_type` in `config.json`.
    pub(super) model_type: &'static str,
    /// `general.architecture` in GGUF files, if there are such.
    pub(super) architecture: Option<&'static str>,
    /// What GGUF files have it rotate together; checkpoints always halves.
    pub(super) gguf_layout: RopeLayout,
    /// What its norms compute.
    pub(super) norm: Norm,
    /// What it calls settings of `config.json` that all families have: Llama's name, and its own.
    pub(super) synonyms: &'static [(&'static str, &'static str)],
    /// What holds where `config.json` does not say.
    pub(super) defaults: Defaults,
    /// Weights that it calls otherwise than Llama: field of [`weights`], name in GGUF, name in a checkpoint. Fields of
    /// one name are stored in one tensor, one behind the other in this order.
    pub(super) names: &'static [(&'static str, &'static str, &'static str)],
    /// Endings of tensors that files have and nobody needs: masks, and what follows from the settings.
    pub(super) unused: &'static [&'static str],
    /// Whether checkpoints have norms' scales less one.
    pub(super) norms_less_one: bool,
    /// Whether checkpoints have the blocks' matrices as `[inputs, outputs]`.
    pub(super) transposed: bool,
    /// Takes from `config.json` what only this family has.
    pub(super) hugging_face: fn(&Keys, &mut ModelConfig) -> Result<(), LoadError>,
    /// Takes from a GGUF file's settings what only this family has.
    pub(super) gguf: fn(&Settings<'_>, &mut ModelConfig) -> Result<(), LoadError>,
}

/// What holds where a `config.json` says nothing.
#[derive(Debug)]
pub(super) struct Defaults {
    pub(super) context_length: usize,
    pub(super) norm_epsilon: f32,
    pub(super) kv_heads: Option<usize>,
    pub(super) head_dim: Option<usize>,
    /// How many times as wide as the residual stream the feed-forward part is.
    pub(super) widening: Option<usize>,
    pub(super) tied: bool,
}

impl Family {
    /// How files call its weights.
    pub(super) fn spelling(&self) -> Spelling {
        let &Self { names, unused, norms_less_one, transposed, .. } = self;
        Spelling { names, aliases: &[], unused, norms_less_one, transposed }
    }
}
