//! Decoder over a packed, ragged batch of texts, each with its source.

use super::{
    super::{
        logits::{BatchLogits, Logits, LogitsRef},
        scratch::Scratch,
    },
    model::{EncoderDecoder, SourceChunk},
    parts::{Rows, Sight},
};
use crate::{
    error::ModelError,
    family::{config::LARGEST_DIMENSION, encoder_decoder::weights::DecoderLayer},
    kernels::{attention::RowSpan, pool},
};

impl EncoderDecoder {
    /// Runs the tokens of all chunks through the decoder. For each chunk, returns logits and the last hidden state at
    /// every requested position.
    ///
    /// The logits of a position have the same bits on every machine, for every grouping of tokens into calls and every
    /// batch. For rows without requested logits, the last block computes only keys and values. `scratch` is as in
    /// [`Model::forward_with`](crate::Model::forward_with).
    ///
    /// # Errors
    /// [`ModelError`] names the invalid chunk and the cause. The caches are then unchanged.
    pub fn forward_with<'s>(
        &self,
        batch: &mut [SourceChunk<'_>],
        scratch: &'s mut Scratch,
    ) -> Result<BatchLogits<'s>, ModelError> {
        let (vocab_size, hidden_size) = (self.config.vocab_size, self.config.hidden_size);
        for (chunk, SourceChunk { source, text }) in batch.iter().enumerate() {
            if !source.cache.is_of(&self.pages) {
                return Err(ModelError::SourceMismatch { chunk });
            }
            // Relative positions do not limit the length of a text.
            text.check(chunk, LARGEST_DIMENSION, vocab_size, &self.pages)?;
            if text.cache.branches.unread().next().is_some() {
                return Err(ModelError::Branch { chunk, branch: 1 });
            }
        }
        for SourceChunk { text, .. } in batch.iter_mut() {
            text.cache.make_room(text.tokens.len())?;
        }
        scratch.lay_out(batch.iter().map(|chunk| &chunk.text));
        pool::pass(scratch.threads(self.decoder_multiplications()), || self.run_decoder(batch, scratch));
        for SourceChunk { text, .. } in batch.iter_mut() {
            text.cache.grow(text.tokens.len());
        }
        let rows = LogitsRef::new(&scratch.logits, vocab_size, &scratch.final_hidden, hidden_size);
        Ok(BatchLogits { rows, ends: &scratch.ends })
    }

    /// Variant of [`forward_with`](Self::forward_with) that allocates its own memory.
    ///
    /// # Errors
    /// As for [`forward_with`](Self::forward_with).
    pub fn forward(&self, batch: &mut [SourceChunk<'_>]) -> Result<Vec<Logits>, ModelError> {
        let mut scratch = Scratch::default();
        let logits = self.forward_with(batch, &mut scratch)?;
        Ok(logits.iter().map(|chunk| chunk.to_logits()).collect())
    }

    /// Stages keys and values in the texts' caches; leaves requested logits and hidden states in `scratch`.
    fn run_decoder(&self, batch: &mut [SourceChunk<'_>], scratch: &mut Scratch) {
        scratch.logits.clear();
        scratch.final_hidden.clear();
        if scratch.tokens.is_empty() {
            return;
        }
        let decoder = &self.weights.decoder;
        let mut rows = Rows::new(&self.config, scratch, &self.weights.embedding, &self.decoder_bias);
        rows.scratch.see_sources(batch);
        for (index, DecoderLayer { own, cross, feed_forward }) in decoder.layers.iter().enumerate() {
            rows.norm(&own.norm);
            rows.keys_and_values(own);
            stage(index, rows.scratch, batch);
            // In the last block, rows without requested logits only need keys and values.
            let is_last = index + 1 == decoder.layers.len();
            if is_last && rows.scratch.wanted.len() < rows.scratch.spans.len() {
                if rows.scratch.wanted.is_empty() {
                    return;
                }
                rows.scratch.keep_wanted(self.config.hidden_size);
                rows.scratch.see_sources(batch);
            }
            rows.queries(own);
            rows.attend(own, Sight::Own, |text, page, head| batch[text].text.cache.page(page, index, head));
            rows.norm(&cross.norm);
            rows.queries(cross);
            rows.attend(cross, Sight::Source, |text, page, head| batch[text].source.cache.page(page, index, head));
            rows.feed_forward(feed_forward);
        }
        rows.logits(&decoder.norm, self.head());
    }
}

/// Stages the keys and values of all rows in their texts' caches.
fn stage(layer: usize, scratch: &Scratch, batch: &mut [SourceChunk<'_>]) {
    let width = scratch.key.len() / scratch.tokens.len();
    let mut first = 0;
    for SourceChunk { text, .. } in batch {
        let rows = first * width..(first + text.tokens.len()) * width;
        text.cache.stage(layer, &scratch.key[rows.clone()], &scratch.value[rows]);
        first += text.tokens.len();
    }
}

impl Scratch {
    /// Makes the whole source visible to each row of its text.
    fn see_sources(&mut self, batch: &[SourceChunk<'_>]) {
        self.source_spans.clear();
        let seen = |span: &RowSpan| RowSpan { visible: batch[span.sequence].source.len(), ..*span };
        self.source_spans.extend(self.spans.iter().map(seen));
    }
}
