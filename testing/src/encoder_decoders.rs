//! Small models with an encoder (`models/tests/golden/make_encoder_decoder.py`), and the GGUF file that llama.cpp's
//! converter makes of each.

use crate::{
    gguf::{Gguf, bytes},
    golden::{Golden, Weight},
};

/// The models, in the order of the script.
pub fn goldens() -> Vec<Golden> {
    #[derive(serde::Deserialize)]
    struct File {
        models: Vec<Golden>,
    }
    let file: File = serde_json::from_str(include_str!("../../models/tests/golden/encoder_decoder.json")).unwrap();
    file.models
}

impl Golden {
    /// The GGUF file of a T5 in F32, if the format can express the model.
    pub fn t5(&self) -> Option<Gguf> {
        self.t5_of(&self.weights(), |weight| (0, bytes(&weight.values)))
    }

    /// The GGUF file of a T5 with these weights, if the format can express the model: it has no distance, and no scale
    /// but by a tied head. `stored` gives each one's type code and bytes.
    pub fn t5_of(&self, weights: &[Weight], stored: impl Fn(&Weight) -> (u32, Vec<u8>)) -> Option<Gguf> {
        let number = |key: &str, otherwise: u64| self.config[key].as_u64().unwrap_or(otherwise) as u32;
        if number("relative_attention_max_distance", 128) != 128 {
            return None;
        }
        let layers = number("num_layers", 6);
        let epsilon = self.config["layer_norm_epsilon"].as_f64().unwrap_or(1e-6) as f32;
        let mut file = Gguf::default();
        file.text("general.architecture", "t5")
            .u32("t5.context_length", 512)
            .u32("t5.embedding_length", number("d_model", 512))
            .u32("t5.feed_forward_length", number("d_ff", 2048))
            .u32("t5.block_count", layers)
            .u32("t5.decoder_block_count", number("num_decoder_layers", layers.into()))
            .u32("t5.attention.head_count", number("num_heads", 8))
            .u32("t5.attention.key_length", number("d_kv", 64))
            .u32("t5.attention.value_length", number("d_kv", 64))
            .f32("t5.attention.layer_norm_epsilon", epsilon)
            .u32("t5.attention.relative_buckets_count", number("relative_attention_num_buckets", 32))
            .f32("t5.attention.layer_norm_rms_epsilon", epsilon)
            .u32("t5.decoder_start_token_id", number("decoder_start_token_id", 0))
            .u32("tokenizer.ggml.eos_token_id", number("eos_token_id", 1));
        for weight in weights {
            let shape: Vec<u64> = weight.shape.iter().map(|&n| n as u64).collect();
            let (code, bytes) = stored(weight);
            file.tensor(&gguf_name(&weight.name), &shape, code, &bytes);
        }
        Some(file)
    }
}

/// llama.cpp's name of a tensor.
fn gguf_name(name: &str) -> String {
    let is_decoder = name.starts_with("decoder");
    let parts = [
        ("shared", "token_embd"),
        ("lm_head", "output"),
        ("coder.final_layer_norm", "c.output_norm"),
        ("coder.block", "c.blk"),
        ("layer.0.layer_norm", "attn_norm"),
        ("layer.1.layer_norm", if is_decoder { "cross_attn_norm" } else { "ffn_norm" }),
        ("layer.2.layer_norm", "ffn_norm"),
        ("layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"),
        ("layer.0.SelfAttention.", "attn_"),
        ("layer.1.EncDecAttention.", "cross_attn_"),
        ("layer.1.DenseReluDense.", "ffn_"),
        ("layer.2.DenseReluDense.", "ffn_"),
        ("ffn_wi_0", "ffn_gate"),
        ("ffn_wi_1", "ffn_up"),
        ("ffn_wi", "ffn_up"),
        ("ffn_wo", "ffn_down"),
    ];
    parts.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}
