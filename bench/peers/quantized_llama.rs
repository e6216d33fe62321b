//! candle's `quantized_llama` as an engine. It gives the last row's logits only, whatever is asked for.

use std::io::{Read, Seek};

use candle_core::{Device, Tensor, quantized::gguf_file::Content};
use candle_transformers::models::quantized_llama::ModelWeights;

use crate::passes::{Engine, Failure, Pass};

/// Tokens that are cached in one pass: in the browser, the attention of a long prompt needs much memory.
const PIECE: usize = 128;

/// The model with a copy of what it was after the cached tokens: its cache cannot be cut, but tensors are shared.
pub struct QuantizedLlama {
    pub vocabulary: u32,
    cached: usize,
    before: ModelWeights,
    now: ModelWeights,
}

impl QuantizedLlama {
    /// Reads a GGUF file.
    pub fn read(file: &mut (impl Read + Seek)) -> Result<Self, Failure> {
        let content = Content::read(file)?;
        let vocabulary =
            content.metadata.get("llama.vocab_size").ok_or("the vocabulary's size is missing")?.to_u32()?;
        let model = ModelWeights::from_gguf(content, file, &Device::Cpu)?;
        Ok(Self { vocabulary, cached: 0, before: model.clone(), now: model })
    }
}

impl Engine for QuantizedLlama {
    fn rewind(&mut self, cached: usize, tokens: &[u32]) -> Result<(), Failure> {
        if self.cached != cached {
            // At position 0 the cache begins anew.
            for (piece, index) in tokens[..cached].chunks(PIECE).zip(0..) {
                forward(&mut self.before, piece, index * PIECE)?;
            }
            self.cached = cached;
        }
        self.now = self.before.clone();
        Ok(())
    }

    fn run(&mut self, pass: Pass, tokens: &[u32]) -> Result<(), Failure> {
        forward(&mut self.now, tokens, pass.cached)
    }
}

fn forward(model: &mut ModelWeights, tokens: &[u32], position: usize) -> Result<(), Failure> {
    model.forward(&Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?, position)?;
    Ok(())
}
