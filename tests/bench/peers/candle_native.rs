//! candle's `quantized_llama` as an engine. It gives the last row's logits only, whatever is asked for.
#![forbid(unsafe_code)]

use std::{error::Error, fs::File, time::Instant};

use candle_core::{Device, Tensor, quantized::gguf_file::Content};
use candle_transformers::models::quantized_llama::ModelWeights;

use protocol::{Engine, Pass};

#[path = "../protocol.rs"]
mod protocol;

/// The model with a copy of what it was after the cached tokens: its cache cannot be cut, but tensors are shared.
struct Candle {
    cached: usize,
    before: ModelWeights,
    now: ModelWeights,
}

impl Engine for Candle {
    type Error = candle_core::Error;

    fn run(&mut self, pass: Pass, tokens: &[u32]) -> Result<(), Self::Error> {
        let rows = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        self.now.forward(&rows, pass.cached)?;
        Ok(())
    }

    fn rewind(&mut self, cached: usize, tokens: &[u32]) -> Result<(), Self::Error> {
        if self.cached != cached && cached > 0 {
            let rows = Tensor::new(&tokens[..cached], &Device::Cpu)?.unsqueeze(0)?;
            // At position 0 the cache begins anew.
            self.before.forward(&rows, 0)?;
        }
        self.cached = cached;
        self.now = self.before.clone();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    // The number of threads is read by candle, from the environment.
    let path = std::env::args().nth(1).ok_or("usage: candle_native MODEL THREADS")?;
    let mut file = File::open(path)?;
    let content = Content::read(&mut file)?;
    let vocabulary = content.metadata.get("llama.vocab_size").ok_or("the vocabulary's size is missing")?.to_u32()?;
    let model = ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?;
    let build = format!("avx512vnni {}", cfg!(target_feature = "avx512vnni"));
    protocol::serve(Candle { cached: 0, before: model.clone(), now: model }, began, &build, vocabulary)
}
