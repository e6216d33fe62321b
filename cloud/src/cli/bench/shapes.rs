//! Models of real shapes with random weights: what a pass costs depends on the shape alone.
//!
//! Weights are drawn so that activations keep their size: uniform, of standard deviation about `0.5 / √inputs`.

use clap::ValueEnum;
use outrider_models::{
    ElementType, LayerWeights, ModelConfig, ModelWeights, RopeLayout, RopeScaling, StoredMatrix, StoredModel,
};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// The target of the pair, or that of --target
    Pair,
    /// TinyLlama's shape in bf16: 2.2 GB
    #[value(name = "1.1B-bf16")]
    SmallBf16,
    /// The same in Q8_0: 1.2 GB
    #[value(name = "1.1B-q8_0")]
    SmallQ8,
    /// Llama 7B's shape in bf16: 13.5 GB
    #[value(name = "7B-bf16")]
    LargeBf16,
    /// The same in Q8_0: 7.2 GB
    #[value(name = "7B-q8_0")]
    LargeQ8,
}

struct Shape {
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    feed_forward: usize,
    vocabulary: usize,
}

const TINYLLAMA: Shape =
    Shape { hidden: 2048, layers: 22, heads: 32, kv_heads: 4, feed_forward: 5632, vocabulary: 32_000 };
const LLAMA_7B: Shape =
    Shape { hidden: 4096, layers: 32, heads: 32, kv_heads: 32, feed_forward: 11_008, vocabulary: 32_000 };

impl Choice {
    /// Random weights of the shape; `None` for the pair, which has weights.
    pub fn random(self) -> Option<StoredModel> {
        let (shape, element) = match self {
            Self::Pair => return None,
            Self::SmallBf16 => (TINYLLAMA, ElementType::BF16),
            Self::SmallQ8 => (TINYLLAMA, ElementType::Q8_0),
            Self::LargeBf16 => (LLAMA_7B, ElementType::BF16),
            Self::LargeQ8 => (LLAMA_7B, ElementType::Q8_0),
        };
        Some(shape.model(element))
    }

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::SmallBf16 => "1.1B-bf16",
            Self::SmallQ8 => "1.1B-q8_0",
            Self::LargeBf16 => "7B-bf16",
            Self::LargeQ8 => "7B-q8_0",
        }
    }
}

impl Shape {
    fn model(&self, element: ElementType) -> StoredModel {
        let Self { hidden, layers, heads, kv_heads, feed_forward, vocabulary } = *self;
        let head_dim = hidden / heads;
        let mut random = Random(element.block_len() as u64);
        let mut matrix = |outputs, inputs| random.matrix(element, outputs, inputs);
        let embedding = matrix(vocabulary, hidden);
        let layers: Vec<_> = (0..layers)
            .map(|_| LayerWeights {
                attention_norm: vec![1.0; hidden],
                query: matrix(hidden, hidden),
                key: matrix(kv_heads * head_dim, hidden),
                value: matrix(kv_heads * head_dim, hidden),
                attention_output: matrix(hidden, hidden),
                feed_forward_norm: vec![1.0; hidden],
                gate: matrix(feed_forward, hidden),
                up: matrix(feed_forward, hidden),
                down: matrix(hidden, feed_forward),
            })
            .collect();
        let head = Some(matrix(vocabulary, hidden));
        let config = ModelConfig {
            vocab_size: vocabulary,
            hidden_size: hidden,
            intermediate_size: feed_forward,
            layers: layers.len(),
            heads,
            kv_heads,
            head_dim,
            context_length: 2048,
            rms_norm_eps: 1e-5,
            rope_theta: 10_000.0,
            rope_scaling: RopeScaling::None,
            rope_layout: RopeLayout::HalfSplit,
            bos_token_id: None,
            eos_token_ids: Vec::new(),
            tied_embeddings: false,
            chat_template: None,
        };
        StoredModel { config, weights: ModelWeights { embedding, layers, norm: vec![1.0; hidden], head } }
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Random bits whose scales make elements deviate as they should.
    fn matrix(&mut self, element: ElementType, outputs: usize, inputs: usize) -> StoredMatrix {
        let mut bytes = vec![0; outputs * element.row_bytes(inputs)];
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
        let deviation = 0.5 / (inputs as f32).sqrt();
        match element {
            // Integers of −128 to 127 deviate by 73.9.
            ElementType::Q8_0 => {
                let scale = half(deviation / 73.9);
                bytes.chunks_exact_mut(element.block_bytes()).for_each(|block| block[..2].copy_from_slice(&scale));
            }
            // A sign and seven bits of fraction stay random; the exponent is set.
            _ => {
                let exponent = (deviation.to_bits() >> 16) as u16 & 0x7f80;
                for value in bytes.as_chunks_mut::<2>().0 {
                    *value = (u16::from_le_bytes(*value) & 0x807f | exponent).to_le_bytes();
                }
            }
        }
        StoredMatrix { element, outputs, inputs, bytes }
    }
}

/// The binary16 number next to zero from a small positive `value`, little-endian.
fn half(value: f32) -> [u8; 2] {
    // Above the subnormal numbers, multiples of 2⁻²⁴, the exponent counts on.
    let exponent = value.log2().floor().max(-14.0);
    let fraction = value / exponent.exp2();
    (((exponent + 14.0) * 1024.0 + fraction * 1024.0) as u16).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_weights_give_logits_of_a_models_size() {
        let small = Shape { hidden: 64, layers: 2, heads: 4, kv_heads: 2, feed_forward: 96, vocabulary: 300 };
        for element in [ElementType::BF16, ElementType::Q8_0] {
            let model = small.model(element).into_model().unwrap();
            let (mut cache, tokens) = (model.new_cache(), [1, 200, 7]);
            let chunk = outrider_models::Chunk { cache: &mut cache, tokens: &tokens, positions: &[2] };
            let logits = model.forward(&mut [chunk]).unwrap();
            let row = logits[0].row(0);
            let deviation = (row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32).sqrt();
            assert!((0.2..1.0).contains(&deviation), "{element}: {deviation}");
        }
    }
}
