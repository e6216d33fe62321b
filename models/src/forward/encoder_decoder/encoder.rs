//! Encoder: from a source's tokens to keys and values for the decoder.

use super::{
    super::{cache::KvCache, scratch::Scratch},
    model::{EncoderDecoder, Source},
    parts::{Rows, Sight},
};
use crate::{
    error::ModelError,
    kernels::{attention::RowSpan, pool, rms_norm},
};

impl EncoderDecoder {
    /// Encodes several sources in one pass. T5's sources end with the token `</s>` (id 1), which the caller appends.
    ///
    /// All tokens form one matrix in the linear layers. The keys and values of a source have the same bits whatever
    /// other sources are encoded with it.
    ///
    /// A source must be encoded as a whole, because each token attends to all others. `scratch` needs about `4 × tokens
    /// × (6 × hidden_size + 2 × intermediate_size)` bytes. Attention takes time quadratic in the source length.
    ///
    /// # Errors
    /// [`ModelError::EmptySource`] and [`ModelError::TokenOutOfRange`], in which `chunk` is the source's index.
    pub fn encode_with(&self, sources: &[&[u32]], scratch: &mut Scratch) -> Result<Vec<Source>, ModelError> {
        let vocab_size = self.config.vocab_size;
        // Caches of one encoder block, and the caches that become the sources.
        let (mut caches, mut encoded) = (Vec::new(), Vec::new());
        for (index, tokens) in sources.iter().enumerate() {
            if tokens.is_empty() {
                return Err(ModelError::EmptySource { source_index: index });
            }
            if let Some(at) = tokens.iter().position(|&token| token as usize >= vocab_size) {
                return Err(ModelError::TokenOutOfRange { chunk: index, index: at, token: tokens[at], vocab_size });
            }
            let mut cache = KvCache::new(self.encoder_pages.clone());
            cache.make_room(tokens.len())?;
            caches.push(cache);
            let mut cache = KvCache::new(self.pages.clone());
            cache.make_room(tokens.len())?;
            encoded.push(cache);
        }
        scratch.lay_out_sources(sources);
        pool::pass(scratch.threads(self.encoder_multiplications()), || {
            self.run_encoder(&mut caches, &mut encoded, scratch);
        });
        let complete = encoded.into_iter().zip(sources).map(|(mut cache, tokens)| {
            cache.grow(tokens.len());
            Source { cache }
        });
        Ok(complete.collect())
    }

    /// Variant of [`encode_with`](Self::encode_with) for one source that allocates its own memory.
    ///
    /// # Errors
    /// As for [`encode_with`](Self::encode_with).
    pub fn encode(&self, tokens: &[u32]) -> Result<Source, ModelError> {
        let sources = self.encode_with(&[tokens], &mut Scratch::default())?;
        // The result has one entry per source.
        sources.into_iter().next().ok_or(ModelError::EmptySource { source_index: 0 })
    }

    fn run_encoder(&self, caches: &mut [KvCache], encoded: &mut [KvCache], scratch: &mut Scratch) {
        if scratch.tokens.is_empty() {
            return;
        }
        let encoder = &self.weights.encoder;
        let mut rows = Rows::new(&self.config, scratch, &self.weights.embedding, &self.encoder_bias);
        for (attention, feed_forward) in &encoder.layers {
            rows.norm(&attention.norm);
            rows.queries(attention);
            rows.keys_and_values(attention);
            stage(0, rows.scratch, caches);
            rows.attend(attention, Sight::Own, |sequence, page, head| caches[sequence].page(page, 0, head));
            rows.feed_forward(feed_forward);
        }
        let Scratch { hidden, normed, .. } = &mut *rows.scratch;
        rms_norm(hidden, &encoder.norm, self.config.norm_epsilon, normed);
        for (index, layer) in self.weights.decoder.layers.iter().enumerate() {
            rows.keys_and_values(&layer.cross);
            stage(index, rows.scratch, encoded);
        }
    }
}

/// Stages the keys and values of all rows in their sequences' caches.
fn stage(layer: usize, scratch: &Scratch, caches: &mut [KvCache]) {
    let width = scratch.key.len() / scratch.spans.len();
    let mut first = 0;
    for group in scratch.spans.chunk_by(|one, next| one.sequence == next.sequence) {
        let rows = first * width..(first + group.len()) * width;
        caches[group[0].sequence].stage(layer, &scratch.key[rows.clone()], &scratch.value[rows]);
        first += group.len();
    }
}

impl Scratch {
    /// Lays out the rows of sources; each row sees its whole source.
    fn lay_out_sources(&mut self, sources: &[&[u32]]) {
        self.tokens.clear();
        self.spans.clear();
        for (sequence, tokens) in sources.iter().enumerate() {
            self.tokens.extend(*tokens);
            let visible = tokens.len();
            self.spans.extend((0..visible).map(|position| RowSpan { sequence, position, visible }));
        }
    }
}
