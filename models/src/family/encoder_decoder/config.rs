//! Shape and constants of an encoder-decoder model.

use super::super::{block::FeedForward, config::LARGEST_DIMENSION};
use crate::error::{LoadError, invalid};

/// Shape and constants of an encoder-decoder: T5 in all versions.
///
/// Positions are relative, so the model does not bound the length of a source or text. Encoder attention is quadratic
/// in the source length, so callers must bound untrusted sources.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderDecoderConfig {
    /// Number of token ids, which is the length of a row of logits. Sources and texts share the ids.
    pub vocab_size: usize,
    /// Width of the residual streams.
    pub hidden_size: usize,
    /// Width inside the feed-forward parts.
    pub intermediate_size: usize,
    /// Number of encoder blocks.
    pub encoder_layers: usize,
    /// Number of decoder blocks.
    pub decoder_layers: usize,
    /// Number of heads, the same for queries, keys and values.
    pub heads: usize,
    /// Width of an attention head. `heads × head_dim` need not be `hidden_size`.
    pub head_dim: usize,
    /// Constant ε of the norms, all of which are RMSNorm.
    pub norm_epsilon: f32,
    /// Kind of the feed-forward parts.
    pub feed_forward: FeedForward,
    /// Number of relative position buckets. The encoder uses half of them for each direction.
    pub position_buckets: usize,
    /// Distance in tokens from which on all positions share the last bucket.
    pub position_distance: usize,
    /// True if the output head is the embedding table.
    pub tied_embeddings: bool,
    /// Factor of the last hidden state before the output head: 1/√hidden_size in T5 1.0, 1 in T5 1.1.
    pub output_scale: f32,
    /// Token at the start of every text, before its own tokens.
    pub start_token_id: u32,
    /// Tokens that end a text.
    pub eos_token_ids: Vec<u32>,
}

impl EncoderDecoderConfig {
    /// Checks the settings that tensor shapes do not determine.
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
        // The first half of the decoder's buckets hold one distance each; the others cover the remaining distances.
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

    /// Number of elements in all heads' queries; that of keys and of values is the same.
    pub(crate) fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }
}
