//! StableLM 2: LayerNorm, partially rotated heads.

use serde_json::json;

use super::{
    block::Norm,
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
    rotary::RopeLayout,
};
use crate::error::LoadError;

pub(super) const STABLELM: Family = Family {
    model_type: "stablelm",
    architecture: Some("stablelm"),
    gguf_layout: RopeLayout::HalfSplit,
    norm: Norm::Layer,
    synonyms: &[("rms_norm_eps", "layer_norm_eps")],
    defaults: Defaults { context_length: 4096, norm_epsilon: 1e-5, kv_heads: Some(32), ..LLAMA.defaults },
    hugging_face,
    gguf: |settings, _| settings.refuse("use_parallel_residual", "parallel residual"),
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    keys.only_silu()?;
    keys.only("use_parallel_residual", &[json!(false)])?;
    keys.only("qk_layernorm", &[json!(false)])?;
    config.block.projection_bias = keys.flag("use_qkv_bias")?;
    config.take_rotary(keys, 10_000.0, Some(0.25))
}
