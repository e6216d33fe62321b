//! OLMo 2: norms after attention and feed-forward part instead of before, and norms over all heads of queries and of
//! keys.

use super::{
    block::{HeadNorm, NormPlaces},
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
    rotary::RopeLayout,
};
use crate::error::LoadError;

pub(super) const OLMO2: Family = Family {
    model_type: "olmo2",
    architecture: Some("olmo2"),
    gguf_layout: RopeLayout::HalfSplit,
    defaults: Defaults { norm_epsilon: 1e-5, ..LLAMA.defaults },
    hugging_face,
    gguf: |settings, config| {
        norms(config);
        settings.refuse("attention.sliding_window", "sliding window")
    },
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    norms(config);
    keys.only_silu()?;
    let bias = keys.flag("attention_bias")?;
    (config.block.projection_bias, config.block.output_bias) = (bias, bias);
    config.take_rotary(keys, 10_000.0, None)
}

fn norms(config: &mut ModelConfig) {
    config.block.norms = NormPlaces::After;
    config.block.head_norm = HeadNorm::All;
}
