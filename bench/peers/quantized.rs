//! candle's `quantized_llama` and `quantized_gemma3` as an engine. They give the last row's logits only, whatever is
//! asked for. Its `quantized_qwen2` can neither be copied nor cut back: there are no passes of it.

use std::io::{Read, Seek};

use candle_core::{
    Device, Tensor,
    quantized::gguf_file::{Content, Value},
};
use candle_transformers::models::{quantized_gemma3, quantized_llama};

use crate::passes::{Engine, Failure, Pass};

/// Tokens that are cached in one pass: in the browser, the attention of a long prompt needs much memory.
const PIECE: usize = 128;

/// A model with a copy of its state after the cached tokens: its cache cannot be cut, but tensors are shared.
pub struct Quantized {
    pub vocabulary: u32,
    cached: usize,
    before: Weights,
    now: Weights,
}

#[derive(Clone)]
enum Weights {
    Llama(quantized_llama::ModelWeights),
    Gemma3(quantized_gemma3::ModelWeights),
    Other(String),
}

impl Quantized {
    /// Reads a model from a GGUF file.
    pub fn read(file: &mut (impl Read + Seek)) -> Result<Self, Failure> {
        let content = Content::read(file)?;
        let architecture = content.metadata.get("general.architecture").ok_or("the architecture is missing")?;
        let architecture = architecture.to_string()?.clone();
        let vocabulary = match content.metadata.get("tokenizer.ggml.tokens") {
            Some(Value::Array(tokens)) => tokens.len() as u32,
            _ => return Err("the vocabulary is missing".into()),
        };
        let device = Device::Cpu;
        let weights = match architecture.as_str() {
            "llama" => Weights::Llama(quantized_llama::ModelWeights::from_gguf(content, file, &device)?),
            "gemma3" => Weights::Gemma3(quantized_gemma3::ModelWeights::from_gguf(content, file, &device)?),
            _ => Weights::Other(architecture),
        };
        Ok(Self { vocabulary, cached: 0, before: weights.clone(), now: weights })
    }
}

impl Engine for Quantized {
    fn rewind(&mut self, cached: usize, tokens: &[u32]) -> Result<(), Failure> {
        if self.cached != cached {
            // At position 0 candle clears its cache.
            for (piece, index) in tokens[..cached].chunks(PIECE).zip(0..) {
                self.before.forward(piece, index * PIECE)?;
            }
            self.cached = cached;
        }
        self.now = self.before.clone();
        Ok(())
    }

    fn run(&mut self, pass: Pass, tokens: &[u32]) -> Result<(), Failure> {
        self.now.forward(tokens, pass.cached)
    }
}

impl Weights {
    fn forward(&mut self, tokens: &[u32], position: usize) -> Result<(), Failure> {
        let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        match self {
            Self::Llama(model) => model.forward(&tokens, position)?,
            Self::Gemma3(model) => model.forward(&tokens, position)?,
            Self::Other(architecture) => return Err(format!("no passes of {architecture}").into()),
        };
        Ok(())
    }
}
