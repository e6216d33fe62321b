//! Llama 1 to 3.3, and models of the same shape: SmolLM 1 and 2, Yi, Vicuna.

use super::{
    block::{Block, Layers, Norm, Window},
    config::ModelConfig,
    gguf_settings::Settings,
    keys::Keys,
    kind::{Defaults, Family},
    rotary::RopeLayout,
};
use crate::error::LoadError;

pub(super) const LLAMA: Family = Family {
    model_type: "llama",
    architecture: Some("llama"),
    gguf_layout: RopeLayout::Interleaved,
    norm: Norm::Rms,
    synonyms: &[],
    defaults: Defaults {
        context_length: 2048,
        norm_epsilon: 1e-6,
        kv_heads: None,
        head_dim: None,
        widening: None,
        tied: false,
    },
    names: &[],
    // Old checkpoints store the rotary frequencies, which follow from the settings.
    unused: &[".rotary_emb.inv_freq"],
    norms_less_one: false,
    transposed: false,
    fused_experts: false,
    quantization: None,
    hugging_face,
    gguf,
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    keys.only_silu()?;
    let (attention_bias, feed_forward_bias) = (keys.flag("attention_bias")?, keys.flag("mlp_bias")?);
    let (projection_bias, output_bias) = (attention_bias, attention_bias);
    config.block = Block { projection_bias, output_bias, feed_forward_bias, ..config.block.clone() };
    // Llama models have no window, even if this is set.
    keys.get::<serde_json::Value>("sliding_window")?;
    // Row permutation of checkpoints converted from other formats; all published ones have none.
    keys.only("rope_interleaved", &[false.into()])?;
    config.take_rotary(keys, 10_000.0, None)
}

/// Reads the window of Mistral models, which all layers have, and the experts of Mixtral: their GGUF files have this
/// architecture.
fn gguf(settings: &Settings<'_>, config: &mut ModelConfig) -> Result<(), LoadError> {
    config.block.experts = settings.experts(config)?;
    config.block.window = settings.window()?.map(|tokens| Window { tokens, layers: Layers::All });
    Ok(())
}
