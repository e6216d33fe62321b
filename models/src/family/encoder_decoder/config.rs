//! The shape and constants of a model with an encoder.

use super::super::{block::FeedForward, config::LARGEST_DIMENSION};
use crate::error::{LoadError, invalid};

/// The shape and constants of an encoder-decoder: T5's, in all of its versions.
///
/// Positions are relative: nothing in the model bounds the length of a source or of a text. Attention in the encoder
/// costs the square of a source's length, so whoever takes sources from others bounds them.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderDecoderConfig {
    /// Number of token ids; a row of logits is this long. Sources and texts have the same ids.
    pub vocab_size: usize,
    /// Width of the residual streams.
    pub hidden_size: usize,
    /// Width inside the feed-forward parts.
    pub intermediate_size: usize,
    /// Number of the encoder's blocks.
    pub encoder_layers: usize,
    /// Number of the decoder's blocks.
    pub decoder_layers: usize,
    /// Number of heads, of queries as of keys and values.
    pub heads: usize,
    /// Width of a head. `heads × head_dim` need not be `hidden_size`.
    pub head_dim: usize,
    /// ε of the norms, which all are RMSNorm.
    pub norm_epsilon: f32,
    /// What the feed-forward parts compute.
    pub feed_forward: FeedForward,
    /// Buckets of relative positions. The encoder has half of them for each direction.
    pub position_buckets: usize,
    /// The distance in tokens from which on all are in the last bucket.
    pub position_distance: usize,
    /// Whether the output head is the embedding table.
    pub tied_embeddings: bool,
    /// What the last hidden state is multiplied by before the output head: 1/√hidden_size in T5 1.0, 1 in T5 1.1.
    pub output_scale: f32,
    /// The token that a text begins with, before any of its own.
    pub start_token_id: u32,
    /// Tokens that end a text.
    pub eos_token_ids: Vec<u32>,
}

impl EncoderDecoderConfig {
    /// Checks what the loaders cannot see from tensor shapes.
    pub(super) fn validate(&self) -> Result<(), LoadError> {
        let positive = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("encoder layers", self.encoder_layers),
            ("decoder layers", self.decoder_layers),
            ("heads", self.heads),
            ("head_dim", self.head_dim),
        ];
        for (key, value) in positive {
            if value == 0 || value > LARGEST_DIMENSION {
                return Err(invalid(key, value, "between 1 and 2²⁴"));
            }
        }
        if self.heads.checked_mul(self.head_dim).is_none_or(|width| width > LARGEST_DIMENSION) {
            return Err(invalid("head_dim", self.head_dim, "heads × head_dim at most 2²⁴"));
        }
        if !(4..=LARGEST_DIMENSION).contains(&self.position_buckets) {
            return Err(invalid("relative position buckets", self.position_buckets, "between 4 and 2²⁴"));
        }
        // The first half of the decoder's buckets has one distance each; the others spread over the rest.
        if !(self.position_buckets / 2 + 1..=LARGEST_DIMENSION).contains(&self.position_distance) {
            let expected = "above half of the buckets, at most 2²⁴";
            return Err(invalid("relative position distance", self.position_distance, expected));
        }
        for (key, value) in [("norm epsilon", self.norm_epsilon), ("output scale", self.output_scale)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(invalid(key, value, "finite and positive"));
            }
        }
        for &id in self.eos_token_ids.iter().chain([&self.start_token_id]) {
            if id as usize >= self.vocab_size {
                return Err(invalid("special token id", id, "below vocab_size"));
            }
        }
        Ok(())
    }

    /// Elements of all heads' queries, of their keys and of their values.
    pub(crate) fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }
}
