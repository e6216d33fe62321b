//! Models of real shapes with random weights: what a forward pass costs depends on the shape alone.

use clap::ValueEnum;
use outrider_models::{ElementType, ModelConfig, ModelWeights, RandomWeights, RopeLayout, RopeScaling, StoredModel};

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
        shape.model(element)
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
    /// Absent if there are no random weights of this type.
    fn model(&self, element: ElementType) -> Option<StoredModel> {
        let Self { hidden, layers, heads, kv_heads, feed_forward, vocabulary } = *self;
        let config = ModelConfig {
            vocab_size: vocabulary,
            hidden_size: hidden,
            intermediate_size: feed_forward,
            layers,
            heads,
            kv_heads,
            head_dim: hidden / heads,
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
        let mut random = RandomWeights::new(element, element.block_len() as u64)?;
        let Ok(weights) = ModelWeights::gather(&config, &mut random);
        Some(StoredModel { config, weights })
    }
}
