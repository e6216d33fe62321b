//! Models that `outrider bench verify` measures.

use clap::ValueEnum;
use outrider_models::{
    ElementType, StoredModel,
    shapes::{LLAMA_7B, TINYLLAMA},
};

/// A model that `outrider bench verify` measures.
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

    /// Name of the model in tables.
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
