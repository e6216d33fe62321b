//! Llama 1 to 3.3, and what was trained in its shape: SmolLM 1 and 2, Yi, Vicuna.

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
    // Old checkpoints store the rotary frequencies, which follow from the configuration.
    unused: &[".rotary_emb.inv_freq"],
    norms_less_one: false,
    transposed: false,
    hugging_face,
    gguf,
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    keys.only_silu()?;
    let (attention_bias, feed_forward_bias) = (keys.flag("attention_bias")?, keys.flag("mlp_bias")?);
    let (projection_bias, output_bias) = (attention_bias, attention_bias);
    config.block = Block { projection_bias, output_bias, feed_forward_bias, ..config.block.clone() };
    // A Llama has no window, whatever stands here.
    keys.get::<serde_json::Value>("sliding_window")?;
    // Says how old checkpoints of others were permuted; all that are published are not.
    keys.only("rope_interleaved", &[false.into()])?;
    config.take_rotary(keys, 10_000.0, None)
}

/// Files of Mistral's models are of this architecture too: they have a window, in all layers.
fn gguf(settings: &Settings<'_>, config: &mut ModelConfig) -> Result<(), LoadError> {
    config.block.window = settings.window()?.map(|tokens| Window { tokens, layers: Layers::All });
    Ok(())
}
