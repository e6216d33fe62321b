//! GPT-Neo: GPT-2 with a sliding window in every other layer, unscaled attention scores, and matrices that are not
//! transposed.

use serde_json::json;

use super::{
    block::{Activation, Block, FeedForward, Layers, Norm, Position, Window},
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
};
use crate::error::{LoadError, invalid};

pub(super) const GPT_NEO: Family = Family {
    model_type: "gpt_neo",
    architecture: None,
    norm: Norm::Layer,
    synonyms: &[
        ("num_attention_heads", "num_heads"),
        ("num_hidden_layers", "num_layers"),
        ("rms_norm_eps", "layer_norm_epsilon"),
        ("hidden_act", "activation_function"),
    ],
    defaults: Defaults { context_length: 2048, norm_epsilon: 1e-5, widening: Some(4), tied: true, ..LLAMA.defaults },
    names: &[
        ("embedding", "", "transformer.wte.weight"),
        ("positions", "", "transformer.wpe.weight"),
        ("attention_norm", "", "transformer.h.{}.ln_1.weight"),
        ("attention_norm_bias", "", "transformer.h.{}.ln_1.bias"),
        ("query", "", "transformer.h.{}.attn.attention.q_proj.weight"),
        ("key", "", "transformer.h.{}.attn.attention.k_proj.weight"),
        ("value", "", "transformer.h.{}.attn.attention.v_proj.weight"),
        ("attention_output", "", "transformer.h.{}.attn.attention.out_proj.weight"),
        ("attention_output_bias", "", "transformer.h.{}.attn.attention.out_proj.bias"),
        ("feed_forward_norm", "", "transformer.h.{}.ln_2.weight"),
        ("feed_forward_norm_bias", "", "transformer.h.{}.ln_2.bias"),
        ("up", "", "transformer.h.{}.mlp.c_fc.weight"),
        ("up_bias", "", "transformer.h.{}.mlp.c_fc.bias"),
        ("down", "", "transformer.h.{}.mlp.c_proj.weight"),
        ("down_bias", "", "transformer.h.{}.mlp.c_proj.bias"),
        ("norm", "", "transformer.ln_f.weight"),
        ("norm_bias", "", "transformer.ln_f.bias"),
    ],
    // Attention masks.
    unused: &[".attn.attention.bias", ".attn.attention.masked_bias"],
    hugging_face,
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    config.block = Block {
        output_bias: true,
        feed_forward: FeedForward::Plain(Activation::GeluTanh),
        feed_forward_bias: true,
        position: Position::Learned { offset: 0 },
        score_scale: Some(1.0),
        ..config.block.clone()
    };
    keys.only("hidden_act", &[json!("gelu_new"), json!("gelu_pytorch_tanh")])?;
    let tokens = keys.get("window_size")?.unwrap_or(256);
    let layers = match keys.get::<Vec<(Vec<String>, usize)>>("attention_types")? {
        Some(types) => listed(&types, config.layers)?,
        None => (0..config.layers).map(|layer| layer % 2 == 1).collect(),
    };
    // Redundant with `attention_types`.
    keys.get::<serde_json::Value>("attention_layers")?;
    config.block.window = Some(Window { tokens, layers: Layers::Listed(layers) });
    Ok(())
}

/// Expands `attention_types`, pairs of kinds and repetitions, to one flag per layer: true if local.
fn listed(types: &[(Vec<String>, usize)], layers: usize) -> Result<Vec<bool>, LoadError> {
    let mut local = Vec::new();
    for (kinds, times) in types {
        if let Some(other) = kinds.iter().find(|kind| !matches!(&***kind, "global" | "local")) {
            return Err(LoadError::Unsupported { what: "attention type", found: other.clone() });
        }
        if kinds.len().saturating_mul(*times).saturating_add(local.len()) > layers {
            return Err(invalid("attention_types", kinds.len().saturating_mul(*times), "as many as there are layers"));
        }
        for _ in 0..*times {
            local.extend(kinds.iter().map(|kind| kind == "local"));
        }
    }
    match local.len() == layers {
        true => Ok(local),
        false => Err(invalid("attention_types", local.len(), "as many as there are layers")),
    }
}
