//! Encoder-decoder model, and the inputs of its forward passes.

use super::{
    super::{
        cache::{Chunk, HostPages, KvCache},
        linear::Linear,
    },
    bias::{Direction, RelativeBias},
};
use crate::family::encoder_decoder::{
    config::EncoderDecoderConfig,
    weights::{Attention, DecoderLayer, EncoderDecoderWeights, FeedForwardPart},
};

/// Encoder-decoder model: T5 1.0, T5 1.1 and Flan-T5.
///
/// Holds weights only. [`encode`](Self::encode) creates a [`Source`] from the input tokens. The state of a text is in a
/// [`KvCache`], as for a [`Model`](crate::Model).
///
/// ```no_run
/// # use outrider_models::{Chunk, EncoderDecoder, SourceChunk};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = EncoderDecoder::open("flan-t5-small".as_ref())?;
/// let source = model.encode(&[13959, 1566, 12, 2968, 10, 1])?;
/// let mut cache = model.new_cache();
/// let start = [model.config().start_token_id];
/// let text = Chunk { cache: &mut cache, tokens: &start, positions: &[0] };
/// let logits = model.forward(&mut [SourceChunk { source: &source, text }])?;
/// assert_eq!(logits[0].row(0).len(), model.config().vocab_size);
/// # Ok(())
/// # }
/// ```
pub struct EncoderDecoder {
    pub(super) config: EncoderDecoderConfig,
    pub(super) weights: EncoderDecoderWeights<Linear>,
    pub(super) encoder_bias: RelativeBias,
    pub(super) decoder_bias: RelativeBias,
    /// Pages for caches of texts and of sources.
    pub(super) pages: HostPages,
    /// Pages for the cache of one encoder block.
    pub(super) encoder_pages: HostPages,
}

/// Encoded source: keys and values of its tokens for the cross-attention of every decoder block.
///
/// A source is immutable. Any number of texts may share it, each with its own cache.
#[derive(Debug, Clone)]
pub struct Source {
    pub(super) cache: KvCache,
}

impl Source {
    /// Number of source tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Returns whether the source is empty, which is never true for sources from the encoder.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Size in bytes: `8 × decoder_layers × heads × head_dim` per token, rounded up to whole pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.cache.bytes()
    }
}

/// Part of one text in a batch, and its source.
#[derive(Debug)]
pub struct SourceChunk<'a> {
    /// Source of the text, the same in all of its chunks.
    pub source: &'a Source,
    /// New tokens of the text and the positions of requested logits. The first token of a text is
    /// [`start_token_id`](EncoderDecoderConfig::start_token_id).
    pub text: Chunk<'a>,
}

impl EncoderDecoder {
    /// Shape and constants of the model.
    #[must_use]
    pub fn config(&self) -> &EncoderDecoderConfig {
        &self.config
    }

    /// Creates an empty cache for a text of this model.
    #[must_use]
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(self.pages.clone())
    }

    pub(super) fn new(config: EncoderDecoderConfig, weights: EncoderDecoderWeights<Linear>) -> Self {
        let encoder_bias = RelativeBias::new(&weights.encoder.bias, &config, Direction::Both);
        let decoder_bias = RelativeBias::new(&weights.decoder.bias, &config, Direction::Before);
        let pages = HostPages::of_heads(config.decoder_layers, config.heads, config.head_dim);
        let encoder_pages = HostPages::of_heads(1, config.heads, config.head_dim);
        Self { config, weights, encoder_bias, decoder_bias, pages, encoder_pages }
    }

    pub(super) fn head(&self) -> &Linear {
        self.weights.head.as_ref().unwrap_or(&self.weights.embedding)
    }

    /// Multiplications per source token, except those of attention scores and contexts.
    pub(super) fn encoder_multiplications(&self) -> usize {
        let blocks: usize =
            self.weights.encoder.layers.iter().map(|(own, part)| of_attention(own) + of_feed_forward(part)).sum();
        let cross =
            |layer: &DecoderLayer<Linear>| layer.cross.key.multiplications() + layer.cross.value.multiplications();
        blocks + self.weights.decoder.layers.iter().map(cross).sum::<usize>()
    }

    /// Multiplications per text token, except those of attention scores and contexts.
    pub(super) fn decoder_multiplications(&self) -> usize {
        let block = |layer: &DecoderLayer<Linear>| {
            let cross = layer.cross.query.multiplications() + layer.cross.output.multiplications();
            of_attention(&layer.own) + cross + of_feed_forward(&layer.feed_forward)
        };
        self.weights.decoder.layers.iter().map(block).sum::<usize>() + self.head().multiplications()
    }
}

fn of_attention(Attention { query, key, value, output, .. }: &Attention<Linear>) -> usize {
    [query, key, value, output].into_iter().map(Linear::multiplications).sum()
}

fn of_feed_forward(FeedForwardPart { gate, up, down, .. }: &FeedForwardPart<Linear>) -> usize {
    gate.iter().chain([up, down]).map(Linear::multiplications).sum()
}
