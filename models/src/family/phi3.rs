//! Phi-3 and 4: queries, keys and values in one tensor, gate and up in another. The long-context factors are not
//! supported.

use serde_json::json;

use super::{
    block::{Layers, Window},
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
    rope_parameters::long_magnitude,
    rotary::RopeLayout,
};
use crate::error::LoadError;

const QUERY_KEY_VALUE: (&str, &str) = ("blk.{}.attn_qkv.weight", "model.layers.{}.self_attn.qkv_proj.weight");
const GATE_UP: (&str, &str) = ("blk.{}.ffn_up.weight", "model.layers.{}.mlp.gate_up_proj.weight");

pub(super) const PHI3: Family = Family {
    model_type: "phi3",
    architecture: Some("phi3"),
    gguf_layout: RopeLayout::HalfSplit,
    defaults: Defaults { context_length: 4096, norm_epsilon: 1e-5, ..LLAMA.defaults },
    names: &[
        ("query", QUERY_KEY_VALUE.0, QUERY_KEY_VALUE.1),
        ("key", QUERY_KEY_VALUE.0, QUERY_KEY_VALUE.1),
        ("value", QUERY_KEY_VALUE.0, QUERY_KEY_VALUE.1),
        ("gate", GATE_UP.0, GATE_UP.1),
        ("up", GATE_UP.0, GATE_UP.1),
        ("rope_factors", "rope_factors_short.weight", "rope_scaling"),
    ],
    unused: &[".rotary_emb.inv_freq", "rope_factors_long.weight"],
    hugging_face,
    gguf: |settings, config| {
        config.block.window = settings.window()?.map(|tokens| Window { tokens, layers: Layers::All });
        // The context is limited to that of the short factors, as for checkpoints.
        let Some(original) = settings.integer("rope.scaling.original_context_length")? else { return Ok(()) };
        let (longest, original) = (config.context_length as f32, original as usize);
        let stated = settings.float("rope.scaling.attn_factor")?;
        config.context_length = config.context_length.min(original);
        if let Some(rotary) = config.rotary_mut() {
            rotary.magnitude = stated.unwrap_or_else(|| long_magnitude(longest / original as f32, original as f32));
        }
        Ok(())
    },
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    keys.only_silu()?;
    keys.only("attention_bias", &[json!(false)])?;
    keys.only("mlp_bias", &[json!(false)])?;
    keys.only("lm_head_bias", &[json!(false)])?;
    keys.only("full_attn_mod", &[json!(1)])?;
    keys.only("interpolate_factor", &[json!(1)])?;
    keys.only("embd_layer", &[])?;
    config.take_rotary(keys, 10_000.0, Some(1.0))?;
    config.take_window(keys, keys.get("sliding_window")?, Layers::All)
}
