//! gpt-oss: mixtures of experts with biases and a clamped SwiGLU, sinks in attention, and a sliding window in every
//! other layer.

use serde_json::Value;

use super::{
    block::{ClampedSwiglu, Experts, Layers, Position, Window},
    config::ModelConfig,
    gguf_settings::Settings,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
    rotary::RopeLayout,
};
use crate::error::LoadError;

const GATE_AND_UP: &str = "model.layers.{}.mlp.experts.gate_up_proj";
const GATE_AND_UP_BIAS: &str = "model.layers.{}.mlp.experts.gate_up_proj_bias";
/// Layers with the window where a file does not list them.
const LOCAL: Layers = Layers::AllBut { period: 2, but: 1 };
/// Gating of the published models, which GGUF files do not state.
const CLAMP: ClampedSwiglu = ClampedSwiglu { slope: 1.702, limit: 7.0 };

pub(super) const GPT_OSS: Family = Family {
    model_type: "gpt_oss",
    architecture: Some("gpt-oss"),
    gguf_layout: RopeLayout::HalfSplit,
    defaults: Defaults {
        context_length: 131_072,
        norm_epsilon: 1e-5,
        kv_heads: Some(8),
        head_dim: Some(64),
        ..LLAMA.defaults
    },
    names: &[
        ("feed_forward_norm", "blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight"),
        ("router", "blk.{}.ffn_gate_inp.weight", "model.layers.{}.mlp.router.weight"),
        ("expert_gate", "blk.{}.ffn_gate_exps.weight", GATE_AND_UP),
        ("expert_up", "blk.{}.ffn_up_exps.weight", GATE_AND_UP),
        ("expert_down", "blk.{}.ffn_down_exps.weight", "model.layers.{}.mlp.experts.down_proj"),
        ("expert_gate_bias", "blk.{}.ffn_gate_exps.bias", GATE_AND_UP_BIAS),
        ("expert_up_bias", "blk.{}.ffn_up_exps.bias", GATE_AND_UP_BIAS),
        ("expert_down_bias", "blk.{}.ffn_down_exps.bias", "model.layers.{}.mlp.experts.down_proj_bias"),
    ],
    fused_experts: true,
    quantization: Some("mxfp4"),
    hugging_face,
    gguf,
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    keys.only_silu()?;
    let bias = keys.get("attention_bias")?.unwrap_or(true);
    let count = keys.get("num_local_experts")?.or(keys.get("num_experts")?).unwrap_or(128);
    // Second names in published files: of the experts of a token, and of the context length before YaRN.
    let used = keys.get("num_experts_per_tok")?.or(keys.get("experts_per_token")?).unwrap_or(4);
    keys.get::<usize>("initial_context_length")?;
    let slope = keys.get("swiglu_alpha")?.unwrap_or(CLAMP.slope);
    let limit = keys.get("swiglu_limit")?.unwrap_or(CLAMP.limit);
    let (width, clamp) = (config.intermediate_size, Some(ClampedSwiglu { slope, limit }));
    config.block.experts = Some(Experts { count, used, width, normalized: true, bias: true, clamp });
    (config.block.projection_bias, config.block.output_bias, config.block.sinks) = (bias, bias, true);
    let [new, old] = ["rope_parameters", "rope_scaling"].map(|key| keys.get::<Value>(key));
    if new?.is_none() && old?.is_none() {
        return Err(LoadError::MissingSetting { key: "rope_scaling".to_owned() });
    }
    config.take_rotary(keys, 150_000.0, None)?;
    let tokens = if keys.is_null("sliding_window") { None } else { Some(128) };
    config.take_window(keys, keys.get("sliding_window")?.or(tokens), LOCAL)
}

fn gguf(settings: &Settings<'_>, config: &mut ModelConfig) -> Result<(), LoadError> {
    let stated = settings.experts(config)?;
    config.block.experts = stated.map(|stated| Experts { bias: true, clamp: Some(CLAMP), ..stated });
    config.block.sinks = true;
    config.block.window = settings.window()?.map(|tokens| Window { tokens, layers: LOCAL });
    // The published models do not round YaRN's bounds.
    let global = settings.rotary(config, false)?;
    config.block.position = Position::Rotary { global, local: None, nope: Layers::None };
    Ok(())
}
