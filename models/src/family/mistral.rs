//! Mistral: Llama, with a sliding window in every layer of its first models; Mixtral: with a mixture of experts.

use super::{
    block::{Experts, Layers},
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
};
use crate::error::LoadError;

pub(super) const MISTRAL: Family = Family {
    model_type: "mistral",
    // GGUF files of Mistral have architecture `llama`.
    architecture: None,
    defaults: Defaults { context_length: 131_072, kv_heads: Some(8), ..LLAMA.defaults },
    hugging_face,
    ..LLAMA
};

pub(super) const MIXTRAL: Family = Family {
    model_type: "mixtral",
    defaults: Defaults { norm_epsilon: 1e-5, ..MISTRAL.defaults },
    names: &[
        ("router", "blk.{}.ffn_gate_inp.weight", "model.layers.{}.block_sparse_moe.gate.weight"),
        ("expert_gate", "blk.{}.ffn_gate_exps.weight", "model.layers.{}.block_sparse_moe.experts.{e}.w1.weight"),
        ("expert_up", "blk.{}.ffn_up_exps.weight", "model.layers.{}.block_sparse_moe.experts.{e}.w3.weight"),
        ("expert_down", "blk.{}.ffn_down_exps.weight", "model.layers.{}.block_sparse_moe.experts.{e}.w2.weight"),
    ],
    hugging_face: |keys, config| {
        keys.only_silu()?;
        config.take_rotary(keys, 1_000_000.0, None)?;
        config.block.experts = Some(Experts {
            count: keys.get("num_local_experts")?.unwrap_or(8),
            used: keys.get("num_experts_per_tok")?.unwrap_or(2),
            width: config.intermediate_size,
            normalized: true,
            bias: false,
            clamp: None,
        });
        config.take_window(keys, keys.get("sliding_window")?, Layers::All)
    },
    ..MISTRAL
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    keys.only_silu()?;
    config.take_rotary(keys, 10_000.0, None)?;
    // Null means no window; absent means the first model's.
    let tokens = if keys.is_null("sliding_window") { None } else { Some(4096) };
    let tokens = keys.get("sliding_window")?.or(tokens);
    config.take_window(keys, tokens, Layers::All)
}
