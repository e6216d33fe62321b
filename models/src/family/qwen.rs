//! Qwen 2 and 2.5 (biases of queries, keys and values), Qwen 3 (norms of queries and keys), with
//! and without a mixture of experts.

use super::{
    block::{Experts, HeadNorm, Layers},
    config::ModelConfig,
    gguf_settings::Settings,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
    rotary::RopeLayout,
};
use crate::error::LoadError;

pub(super) const QWEN2: Family = Family {
    model_type: "qwen2",
    architecture: Some("qwen2"),
    gguf_layout: RopeLayout::HalfSplit,
    defaults: Defaults { context_length: 32_768, ..LLAMA.defaults },
    hugging_face: |keys, config| {
        config.block.projection_bias = true;
        shared(keys, config)
    },
    gguf: |settings, _| without_window(settings),
    ..LLAMA
};

pub(super) const QWEN3: Family = Family {
    model_type: "qwen3",
    architecture: Some("qwen3"),
    defaults: Defaults { context_length: 32_768, head_dim: Some(128), ..LLAMA.defaults },
    hugging_face: |keys, config| {
        let bias = keys.flag("attention_bias")?;
        (config.block.projection_bias, config.block.output_bias) = (bias, bias);
        config.block.head_norm = HeadNorm::Each;
        shared(keys, config)
    },
    gguf: |settings, config| {
        config.block.head_norm = HeadNorm::Each;
        without_window(settings)
    },
    ..QWEN2
};

pub(super) const QWEN3_MOE: Family = Family {
    model_type: "qwen3_moe",
    architecture: Some("qwen3moe"),
    defaults: Defaults { kv_heads: Some(4), head_dim: None, ..QWEN3.defaults },
    hugging_face: |keys, config| {
        // Published models have experts in all layers.
        keys.only("decoder_sparse_step", &[1.into()])?;
        keys.only("mlp_only_layers", &[serde_json::json!([])])?;
        let count = keys.get("num_experts")?.or(keys.get("num_local_experts")?);
        config.block.experts = Some(Experts {
            count: count.unwrap_or(128),
            used: keys.get("num_experts_per_tok")?.unwrap_or(8),
            width: keys.get("moe_intermediate_size")?.unwrap_or(768),
            normalized: keys.flag("norm_topk_prob")?,
            bias: false,
            clamp: None,
        });
        (QWEN3.hugging_face)(keys, config)
    },
    gguf: |settings, config| {
        config.block.experts = settings.experts(config)?;
        (QWEN3.gguf)(settings, config)
    },
    ..QWEN3
};

/// Reads the settings that Qwen 2 and 3 share. Layers from `max_window_layers` on have the window, if there is one.
fn shared(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    keys.only_silu()?;
    // Image positions of multimodal models.
    keys.only("use_mrope", &[false.into()])?;
    config.take_rotary(keys, 10_000.0, None)?;
    let tokens = keys.get("sliding_window")?;
    let first = keys.get("max_window_layers")?.unwrap_or(28);
    let tokens = if keys.flag("use_sliding_window")? { tokens.or(Some(4096)) } else { None };
    let layers = match tokens {
        Some(_) => Layers::Listed((0..config.layers).map(|layer| layer >= first).collect()),
        None => Layers::None,
    };
    config.take_window(keys, tokens, layers)
}

/// Rejects a sliding window: no published GGUF file has one, and the format does not say in which layers.
fn without_window(settings: &Settings<'_>) -> Result<(), LoadError> {
    settings.refuse("attention.sliding_window", "sliding window")
}
