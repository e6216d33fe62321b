//! Models of real shapes with random weights: what a forward pass costs depends on the shape alone.

use crate::{
    container::{element::ElementType, random::RandomWeights, stored::StoredModel},
    family::{block::Block, config::ModelConfig, recommended::RecommendedSampling, weights::ModelWeights},
};

/// The sizes of a model that is built like a Llama.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    feed_forward: usize,
    vocabulary: usize,
}

/// SmolLM's with 135 million weights, of which the embedding counts once.
pub const SMOLLM_135M: Shape =
    Shape { hidden: 576, layers: 30, heads: 9, kv_heads: 3, feed_forward: 1536, vocabulary: 49_152 };
/// TinyLlama's, 1.1 billion.
pub const TINYLLAMA: Shape =
    Shape { hidden: 2048, layers: 22, heads: 32, kv_heads: 4, feed_forward: 5632, vocabulary: 32_000 };
/// Llama 2's, 7 billion.
pub const LLAMA_7B: Shape =
    Shape { hidden: 4096, layers: 32, heads: 32, kv_heads: 32, feed_forward: 11_008, vocabulary: 32_000 };
/// GPT2-small's and GPT-Neo-125M's, as a Llama: three matrices of 8/3 widths feed forward where GPT has two of 4.
pub const GPT2_SMALL: Shape =
    Shape { hidden: 768, layers: 12, heads: 12, kv_heads: 12, feed_forward: 2048, vocabulary: 50_257 };
/// GPT-Neo-1.3B's, as a Llama.
pub const GPT_NEO_1_3B: Shape =
    Shape { hidden: 2048, layers: 24, heads: 16, kv_heads: 16, feed_forward: 5472, vocabulary: 50_257 };
/// GPT2-XL's, 1.5 billion, as a Llama.
pub const GPT2_XL: Shape =
    Shape { hidden: 1600, layers: 48, heads: 25, kv_heads: 25, feed_forward: 4256, vocabulary: 50_257 };

impl Shape {
    /// A model with random weights; absent if there are none of this type.
    pub fn model(&self, element: ElementType) -> Option<StoredModel> {
        let Self { hidden, layers, heads, kv_heads, feed_forward, vocabulary } = *self;
        let config = ModelConfig {
            vocab_size: vocabulary,
            draft_vocabulary: None,
            hidden_size: hidden,
            intermediate_size: feed_forward,
            layers,
            heads,
            kv_heads,
            head_dim: hidden / heads,
            context_length: 2048,
            norm_epsilon: 1e-5,
            block: Block::default(),
            bos_token_id: None,
            adds_bos: false,
            eos_token_ids: Vec::new(),
            tied_embeddings: false,
            chat_template: None,
            sampling: RecommendedSampling::default(),
            guess_chance: None,
        };
        let mut random = RandomWeights::new(element, element.block_len() as u64)?;
        let Ok(weights) = ModelWeights::gather(&config, &mut random);
        Some(StoredModel { config, weights })
    }
}
