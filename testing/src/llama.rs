//! Llamas of any shape with arbitrary weights.

use serde_json::json;

use crate::{
    gguf::{F32, Gguf, Row},
    safetensors::{Safetensors, checkpoint_name},
};

/// Shape of a Llama with a tied head. Every matrix has rows of whole blocks if the widths are multiples of 256.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Rows of the embedding table.
    pub vocab: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of the feed-forward part.
    pub inner: u64,
    /// Number of transformer blocks.
    pub layers: u64,
    /// Query heads; there are half as many key heads.
    pub heads: u64,
}

impl Shape {
    /// Name and shape of every tensor, as GGUF files have them.
    pub fn tensors(&self) -> Vec<(String, Vec<u64>)> {
        let Self { vocab, hidden, inner, .. } = *self;
        let mut tensors = vec![("token_embd.weight".to_owned(), vec![vocab, hidden])];
        for layer in 0..self.layers {
            let parts: [(&str, &[u64]); 9] = [
                ("attn_norm", &[hidden]),
                ("attn_q", &[hidden, hidden]),
                ("attn_k", &[hidden / 2, hidden]),
                ("attn_v", &[hidden / 2, hidden]),
                ("attn_output", &[hidden, hidden]),
                ("ffn_norm", &[hidden]),
                ("ffn_gate", &[inner, hidden]),
                ("ffn_up", &[inner, hidden]),
                ("ffn_down", &[hidden, inner]),
            ];
            tensors.extend(parts.map(|(part, shape)| (format!("blk.{layer}.{part}.weight"), shape.to_vec())));
        }
        tensors.push(("output_norm.weight".to_owned(), vec![hidden]));
        tensors
    }

    /// A GGUF file without tensors.
    pub fn settings(&self) -> Gguf {
        let mut file = Gguf::default();
        file.text("general.architecture", "llama")
            .u32("llama.embedding_length", self.hidden as u32)
            .u32("llama.feed_forward_length", self.inner as u32)
            .u32("llama.block_count", self.layers as u32)
            .u32("llama.attention.head_count", self.heads as u32)
            .u32("llama.attention.head_count_kv", self.heads as u32 / 2)
            .u32("llama.context_length", 64)
            .f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        file
    }

    /// A GGUF file whose matrices are of this type: arbitrary bytes, but f32 elements are small numbers.
    pub fn gguf(&self, element: Row) -> Gguf {
        let (mut file, mut seed) = (self.settings(), 1);
        for (name, shape) in self.tensors() {
            let (_, code, block_len, block_bytes) = if shape.len() == 1 { F32 } else { element };
            let count = shape.iter().product::<u64>() / block_len as u64 * block_bytes as u64;
            let data = if code == F32.1 { small_numbers(count / 4, &mut seed) } else { noise(count, &mut seed) };
            file.tensor(&name, &shape, code, &data);
        }
        file
    }

    /// `config.json` and `model.safetensors` with f32, f16 or bf16 matrices.
    pub fn safetensors(&self, dtype: &str) -> (Vec<u8>, Vec<u8>) {
        let config = json!({
            "model_type": "llama", "hidden_act": "silu", "vocab_size": self.vocab, "hidden_size": self.hidden,
            "intermediate_size": self.inner, "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads / 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": true
        });
        let (mut file, mut seed) = (Safetensors::default(), 1);
        for (name, shape) in self.tensors() {
            let count = shape.iter().product::<u64>();
            let data = if dtype == "F32" { small_numbers(count, &mut seed) } else { noise(2 * count, &mut seed) };
            file.tensor(&checkpoint_name(&name), dtype, &shape, &data);
        }
        (serde_json::to_vec(&config).unwrap(), file.finish())
    }
}

/// Pseudo-random bits, 31 at a time.
pub fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn noise(bytes: u64, seed: &mut u64) -> Vec<u8> {
    (0..bytes.div_ceil(3)).flat_map(|_| random(seed).to_le_bytes()[..3].to_vec()).take(bytes as usize).collect()
}

fn small_numbers(count: u64, seed: &mut u64) -> Vec<u8> {
    (0..count).flat_map(|_| (random(seed) as f32 / 1e10 - 0.1).to_le_bytes()).collect()
}
