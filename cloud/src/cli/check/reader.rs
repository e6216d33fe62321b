//! A model that reads a text, with its distributions and its times.

use std::{hint::black_box, time::Instant};

use outrider_codec::frame::SamplingParameters;
use outrider_models::{Chunk, KvCache, Model, Scratch};
use outrider_speculation::sample::{self, Distribution, SharedNoise};

use super::{super::output::CommandError, timing::mean_seconds};

/// Number of tokens that a model reads at a time.
const PIECE: usize = 32;
/// Samplings in one measurement, which are too short to be timed alone.
const SAMPLINGS: u32 = 4;

/// A model with the tokens it has read.
pub(super) struct Reader<'m> {
    model: &'m Model,
    pub(super) cache: KvCache,
    scratch: Scratch,
}

impl<'m> Reader<'m> {
    pub(super) fn new(model: &'m Model) -> Self {
        Self { model, cache: model.new_cache(), scratch: Scratch::default() }
    }

    /// Distributions after each of these tokens, `[tokens, vocab_size]`.
    pub(super) fn read(
        &mut self,
        tokens: &[u32],
        sampling: &SamplingParameters,
    ) -> Result<Vec<Vec<f64>>, CommandError> {
        let mut distributions = Vec::new();
        for piece in tokens.chunks(PIECE) {
            let positions: Vec<usize> = (0..piece.len()).collect();
            let chunk = Chunk { cache: &mut self.cache, tokens: piece, positions: &positions };
            let logits = self.model.forward_with(&mut [chunk], &mut self.scratch)?;
            for row in logits.chunk(0).iter() {
                distributions.push(sample::transform(row, sampling)?);
            }
        }
        Ok(distributions)
    }

    /// Seconds of a pass of `rows` tokens after those read, with the choice of a token at each of them.
    pub(super) fn time_of(&mut self, rows: usize, sampling: &SamplingParameters) -> Result<f64, CommandError> {
        let held = self.cache.len();
        let (tokens, positions): (Vec<u32>, Vec<usize>) = (vec![0; rows], (0..rows).collect());
        let began = Instant::now();
        let chunk = Chunk { cache: &mut self.cache, tokens: &tokens, positions: &positions };
        let logits = self.model.forward_with(&mut [chunk], &mut self.scratch)?;
        let passed = began.elapsed().as_secs_f64();
        let noise = SharedNoise::new(1);
        let chosen = mean_seconds(SAMPLINGS, || {
            for (position, row) in logits.chunk(0).iter().enumerate() {
                black_box(noise.choose_from(position, &Distribution::new(row, sampling)?));
            }
            Ok(())
        })?;
        self.cache.truncate(held);
        Ok(passed + chosen)
    }
}
