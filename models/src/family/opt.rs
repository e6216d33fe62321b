//! OPT: LayerNorm, learned positions after two unused rows, ReLU, biases everywhere. The 350M model has another
//! structure and is rejected.

use serde_json::json;

use super::{
    block::{Activation, Block, FeedForward, Norm, Position},
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
};
use crate::error::LoadError;

pub(super) const OPT: Family = Family {
    model_type: "opt",
    architecture: None,
    norm: Norm::Layer,
    synonyms: &[("intermediate_size", "ffn_dim"), ("hidden_act", "activation_function")],
    defaults: Defaults { context_length: 2048, norm_epsilon: 1e-5, tied: true, ..LLAMA.defaults },
    names: &[
        ("embedding", "", "model.decoder.embed_tokens.weight"),
        ("positions", "", "model.decoder.embed_positions.weight"),
        ("attention_norm", "", "model.decoder.layers.{}.self_attn_layer_norm.weight"),
        ("attention_norm_bias", "", "model.decoder.layers.{}.self_attn_layer_norm.bias"),
        ("query", "", "model.decoder.layers.{}.self_attn.q_proj.weight"),
        ("key", "", "model.decoder.layers.{}.self_attn.k_proj.weight"),
        ("value", "", "model.decoder.layers.{}.self_attn.v_proj.weight"),
        ("query_bias", "", "model.decoder.layers.{}.self_attn.q_proj.bias"),
        ("key_bias", "", "model.decoder.layers.{}.self_attn.k_proj.bias"),
        ("value_bias", "", "model.decoder.layers.{}.self_attn.v_proj.bias"),
        ("attention_output", "", "model.decoder.layers.{}.self_attn.out_proj.weight"),
        ("attention_output_bias", "", "model.decoder.layers.{}.self_attn.out_proj.bias"),
        ("feed_forward_norm", "", "model.decoder.layers.{}.final_layer_norm.weight"),
        ("feed_forward_norm_bias", "", "model.decoder.layers.{}.final_layer_norm.bias"),
        ("up", "", "model.decoder.layers.{}.fc1.weight"),
        ("up_bias", "", "model.decoder.layers.{}.fc1.bias"),
        ("down", "", "model.decoder.layers.{}.fc2.weight"),
        ("down_bias", "", "model.decoder.layers.{}.fc2.bias"),
        ("norm", "", "model.decoder.final_layer_norm.weight"),
        ("norm_bias", "", "model.decoder.final_layer_norm.bias"),
    ],
    hugging_face,
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    config.block = Block {
        projection_bias: true,
        output_bias: true,
        feed_forward: FeedForward::Plain(Activation::Relu),
        feed_forward_bias: true,
        position: Position::Learned { offset: 2 },
        ..config.block.clone()
    };
    keys.only("hidden_act", &[json!("relu")])?;
    for key in ["do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"] {
        keys.only(key, &[json!(true)])?;
    }
    keys.only("_remove_final_layer_norm", &[json!(false)])?;
    keys.only("word_embed_proj_dim", &[json!(config.hidden_size)])
}
