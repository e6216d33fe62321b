//! GPT-2: LayerNorm, learned positions, biases everywhere, one matrix for queries, keys and values. Checkpoints store
//! matrices transposed.

use serde_json::json;

use super::{
    block::{Activation, Block, FeedForward, Norm, Position},
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
};
use crate::error::LoadError;

const QUERY_KEY_VALUE: (&str, &str) = ("blk.{}.attn_qkv.weight", "transformer.h.{}.attn.c_attn.weight");
const BIASES: (&str, &str) = ("blk.{}.attn_qkv.bias", "transformer.h.{}.attn.c_attn.bias");

pub(super) const GPT2: Family = Family {
    model_type: "gpt2",
    architecture: Some("gpt2"),
    norm: Norm::Layer,
    synonyms: &[
        ("hidden_size", "n_embd"),
        ("max_position_embeddings", "n_positions"),
        ("num_attention_heads", "n_head"),
        ("num_hidden_layers", "n_layer"),
        ("intermediate_size", "n_inner"),
        ("rms_norm_eps", "layer_norm_epsilon"),
        ("hidden_act", "activation_function"),
    ],
    defaults: Defaults { context_length: 1024, norm_epsilon: 1e-5, widening: Some(4), tied: true, ..LLAMA.defaults },
    names: &[
        ("embedding", "token_embd.weight", "transformer.wte.weight"),
        ("positions", "position_embd.weight", "transformer.wpe.weight"),
        ("attention_norm", "blk.{}.attn_norm.weight", "transformer.h.{}.ln_1.weight"),
        ("attention_norm_bias", "blk.{}.attn_norm.bias", "transformer.h.{}.ln_1.bias"),
        ("query", QUERY_KEY_VALUE.0, QUERY_KEY_VALUE.1),
        ("key", QUERY_KEY_VALUE.0, QUERY_KEY_VALUE.1),
        ("value", QUERY_KEY_VALUE.0, QUERY_KEY_VALUE.1),
        ("query_bias", BIASES.0, BIASES.1),
        ("key_bias", BIASES.0, BIASES.1),
        ("value_bias", BIASES.0, BIASES.1),
        ("attention_output", "blk.{}.attn_output.weight", "transformer.h.{}.attn.c_proj.weight"),
        ("attention_output_bias", "blk.{}.attn_output.bias", "transformer.h.{}.attn.c_proj.bias"),
        ("feed_forward_norm", "blk.{}.ffn_norm.weight", "transformer.h.{}.ln_2.weight"),
        ("feed_forward_norm_bias", "blk.{}.ffn_norm.bias", "transformer.h.{}.ln_2.bias"),
        ("up", "blk.{}.ffn_up.weight", "transformer.h.{}.mlp.c_fc.weight"),
        ("up_bias", "blk.{}.ffn_up.bias", "transformer.h.{}.mlp.c_fc.bias"),
        ("down", "blk.{}.ffn_down.weight", "transformer.h.{}.mlp.c_proj.weight"),
        ("down_bias", "blk.{}.ffn_down.bias", "transformer.h.{}.mlp.c_proj.bias"),
        ("norm", "output_norm.weight", "transformer.ln_f.weight"),
        ("norm_bias", "output_norm.bias", "transformer.ln_f.bias"),
    ],
    // Attention masks.
    unused: &[".attn.bias", ".attn.masked_bias"],
    transposed: true,
    hugging_face,
    gguf: |_, config| {
        set(config);
        Ok(())
    },
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    set(config);
    keys.only("hidden_act", &[json!("gelu_new"), json!("gelu_pytorch_tanh")])?;
    keys.only("scale_attn_weights", &[json!(true)])?;
    keys.only("scale_attn_by_inverse_layer_idx", &[json!(false)])?;
    // Changes only the order of operations, for training in f16.
    keys.flag("reorder_and_upcast_attn")?;
    // A second name of the context length.
    keys.get::<usize>("n_ctx")?;
    Ok(())
}

fn set(config: &mut ModelConfig) {
    config.block = Block {
        projection_bias: true,
        output_bias: true,
        feed_forward: FeedForward::Plain(Activation::GeluTanh),
        feed_forward_bias: true,
        position: Position::Learned { offset: 0 },
        ..config.block.clone()
    };
}
