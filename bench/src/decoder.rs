//! Outrider as an engine: the model as server and browser hold it, one sequence.

use outrider_models::{Chunk, KvCache, Model, Scratch};

use crate::passes::{Engine, Failure, Pass};

/// A model with everything that a pass needs.
pub struct Decoder {
    model: Model,
    cache: KvCache,
    scratch: Scratch,
    wanted: Vec<usize>,
}

impl Decoder {
    pub fn new(model: Model) -> Self {
        let cache = model.new_cache();
        Self { model, cache, scratch: Scratch::default(), wanted: Vec::new() }
    }

    pub fn vocabulary(&self) -> u32 {
        self.model.config().vocab_size as u32
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), Failure> {
        let chunk = Chunk { cache: &mut self.cache, tokens, positions: &self.wanted };
        self.model.forward_with(&mut [chunk], &mut self.scratch)?;
        Ok(())
    }
}

impl Engine for Decoder {
    fn rewind(&mut self, cached: usize, tokens: &[u32]) -> Result<(), Failure> {
        /// Number of tokens of a piece. Prompts are fed in pieces, since the memory of a pass grows with its tokens.
        const PIECE: usize = 128;
        self.wanted.clear();
        self.cache.truncate(cached);
        for piece in tokens[self.cache.len()..cached].chunks(PIECE) {
            self.forward(piece)?;
        }
        Ok(())
    }

    fn run(&mut self, pass: Pass, tokens: &[u32]) -> Result<(), Failure> {
        self.wanted.clear();
        self.wanted.extend(if pass.all_logits { 0..pass.rows } else { pass.rows - 1..pass.rows });
        self.forward(tokens)
    }
}
