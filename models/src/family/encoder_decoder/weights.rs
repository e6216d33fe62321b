//! Weights of an encoder-decoder model in one list, with their names in GGUF files and in checkpoints.

use super::{
    super::{
        block::FeedForward,
        weights::{WeightName, WeightSource},
    },
    config::EncoderDecoderConfig,
};

/// All weights of an encoder-decoder, with `M` for matrices, which are `[outputs, inputs]`.
#[derive(Debug)]
pub(crate) struct EncoderDecoderWeights<M> {
    /// Embeddings of sources and texts, `[vocab_size, hidden_size]`; also the output head if `head` is absent.
    pub(crate) embedding: M,
    pub(crate) encoder: Encoder<M>,
    pub(crate) decoder: Decoder<M>,
    /// Output head, `[vocab_size, hidden_size]`; absent if tied.
    pub(crate) head: Option<M>,
}

/// Weights of the encoder.
#[derive(Debug)]
pub(crate) struct Encoder<M> {
    /// Relative position bias of attention scores, shared by all blocks, `[buckets, heads]`.
    pub(crate) bias: M,
    /// Blocks: attention, then the feed-forward part.
    pub(crate) layers: Vec<(Attention<M>, FeedForwardPart<M>)>,
    /// Scales of the final norm.
    pub(crate) norm: Vec<f32>,
}

/// Weights of the decoder.
#[derive(Debug)]
pub(crate) struct Decoder<M> {
    /// Relative position bias of self-attention scores, shared by all blocks, `[buckets, heads]`.
    pub(crate) bias: M,
    /// Decoder blocks, in order.
    pub(crate) layers: Vec<DecoderLayer<M>>,
    /// Scales of the final norm.
    pub(crate) norm: Vec<f32>,
}

/// Weights of a decoder block.
#[derive(Debug)]
pub(crate) struct DecoderLayer<M> {
    /// Self-attention over the text.
    pub(crate) own: Attention<M>,
    /// Cross-attention over the source.
    pub(crate) cross: Attention<M>,
    pub(crate) feed_forward: FeedForwardPart<M>,
}

/// Weights of attention, with the norm before it.
#[derive(Debug)]
pub(crate) struct Attention<M> {
    /// Scales of the norm before attention.
    pub(crate) norm: Vec<f32>,
    pub(crate) query: M,
    pub(crate) key: M,
    pub(crate) value: M,
    /// Output projection of all heads.
    pub(crate) output: M,
}

/// Weights of a feed-forward part, with the norm before it.
#[derive(Debug)]
pub(crate) struct FeedForwardPart<M> {
    /// Scales of the norm before this part.
    pub(crate) norm: Vec<f32>,
    /// Gate projection, the input of the activation; absent in plain parts.
    pub(crate) gate: Option<M>,
    /// Up projection: multiplied by the gate, or the input of the activation in plain parts.
    pub(crate) up: M,
    /// Down projection to the residual stream.
    pub(crate) down: M,
}

/// Name of a weight in GGUF and in a checkpoint. `{}` stands for the number of a block.
type Names = [&'static str; 2];

pub(super) const EMBEDDING: Names = ["token_embd.weight", "shared.weight"];
pub(super) const HEAD: Names = ["output.weight", "lm_head.weight"];
/// Tensor whose presence in a GGUF file shows that the model is gated.
pub(super) const FIRST_GATE: &str = "enc.blk.0.ffn_gate.weight";

const ENCODER_BIAS: Names =
    ["enc.blk.0.attn_rel_b.weight", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"];
const ENCODER_NORM: Names = ["enc.output_norm.weight", "encoder.final_layer_norm.weight"];
const DECODER_BIAS: Names =
    ["dec.blk.0.attn_rel_b.weight", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"];
const DECODER_NORM: Names = ["dec.output_norm.weight", "decoder.final_layer_norm.weight"];

/// Names of norm, query, key, value and output.
const ENCODER_OWN: [Names; 5] = [
    ["enc.blk.{}.attn_norm.weight", "encoder.block.{}.layer.0.layer_norm.weight"],
    ["enc.blk.{}.attn_q.weight", "encoder.block.{}.layer.0.SelfAttention.q.weight"],
    ["enc.blk.{}.attn_k.weight", "encoder.block.{}.layer.0.SelfAttention.k.weight"],
    ["enc.blk.{}.attn_v.weight", "encoder.block.{}.layer.0.SelfAttention.v.weight"],
    ["enc.blk.{}.attn_o.weight", "encoder.block.{}.layer.0.SelfAttention.o.weight"],
];
const DECODER_OWN: [Names; 5] = [
    ["dec.blk.{}.attn_norm.weight", "decoder.block.{}.layer.0.layer_norm.weight"],
    ["dec.blk.{}.attn_q.weight", "decoder.block.{}.layer.0.SelfAttention.q.weight"],
    ["dec.blk.{}.attn_k.weight", "decoder.block.{}.layer.0.SelfAttention.k.weight"],
    ["dec.blk.{}.attn_v.weight", "decoder.block.{}.layer.0.SelfAttention.v.weight"],
    ["dec.blk.{}.attn_o.weight", "decoder.block.{}.layer.0.SelfAttention.o.weight"],
];
const DECODER_CROSS: [Names; 5] = [
    ["dec.blk.{}.cross_attn_norm.weight", "decoder.block.{}.layer.1.layer_norm.weight"],
    ["dec.blk.{}.cross_attn_q.weight", "decoder.block.{}.layer.1.EncDecAttention.q.weight"],
    ["dec.blk.{}.cross_attn_k.weight", "decoder.block.{}.layer.1.EncDecAttention.k.weight"],
    ["dec.blk.{}.cross_attn_v.weight", "decoder.block.{}.layer.1.EncDecAttention.v.weight"],
    ["dec.blk.{}.cross_attn_o.weight", "decoder.block.{}.layer.1.EncDecAttention.o.weight"],
];

/// Names of norm, gate, gated up, plain up, and down.
const ENCODER_FEED_FORWARD: [Names; 5] = [
    ["enc.blk.{}.ffn_norm.weight", "encoder.block.{}.layer.1.layer_norm.weight"],
    ["enc.blk.{}.ffn_gate.weight", "encoder.block.{}.layer.1.DenseReluDense.wi_0.weight"],
    ["enc.blk.{}.ffn_up.weight", "encoder.block.{}.layer.1.DenseReluDense.wi_1.weight"],
    ["enc.blk.{}.ffn_up.weight", "encoder.block.{}.layer.1.DenseReluDense.wi.weight"],
    ["enc.blk.{}.ffn_down.weight", "encoder.block.{}.layer.1.DenseReluDense.wo.weight"],
];
const DECODER_FEED_FORWARD: [Names; 5] = [
    ["dec.blk.{}.ffn_norm.weight", "decoder.block.{}.layer.2.layer_norm.weight"],
    ["dec.blk.{}.ffn_gate.weight", "decoder.block.{}.layer.2.DenseReluDense.wi_0.weight"],
    ["dec.blk.{}.ffn_up.weight", "decoder.block.{}.layer.2.DenseReluDense.wi_1.weight"],
    ["dec.blk.{}.ffn_up.weight", "decoder.block.{}.layer.2.DenseReluDense.wi.weight"],
    ["dec.blk.{}.ffn_down.weight", "decoder.block.{}.layer.2.DenseReluDense.wo.weight"],
];

/// Requests for the weights of one model from a source.
struct Asking<'a, S> {
    config: &'a EncoderDecoderConfig,
    source: &'a mut S,
}

impl<S: WeightSource> Asking<'_, S> {
    fn matrix(&mut self, [gguf, hugging_face]: Names, block: usize, shape: [usize; 2]) -> Result<S::Matrix, S::Error> {
        self.source.matrix(WeightName::plain(gguf, hugging_face, block), shape)
    }

    /// Scales of an RMSNorm.
    fn norm(&mut self, [gguf, hugging_face]: Names, block: usize) -> Result<Vec<f32>, S::Error> {
        self.source.vector(WeightName::plain(gguf, hugging_face, block), [self.config.hidden_size])
    }

    fn bias(&mut self, names: Names) -> Result<S::Matrix, S::Error> {
        self.matrix(names, 0, [self.config.position_buckets, self.config.heads])
    }

    fn attention(
        &mut self,
        [norm, query, key, value, output]: [Names; 5],
        block: usize,
    ) -> Result<Attention<S::Matrix>, S::Error> {
        let (inner, outer) = (self.config.attention_width(), self.config.hidden_size);
        Ok(Attention {
            norm: self.norm(norm, block)?,
            query: self.matrix(query, block, [inner, outer])?,
            key: self.matrix(key, block, [inner, outer])?,
            value: self.matrix(value, block, [inner, outer])?,
            output: self.matrix(output, block, [outer, inner])?,
        })
    }

    fn feed_forward(
        &mut self,
        [norm, gate, gated, plain, down]: [Names; 5],
        block: usize,
    ) -> Result<FeedForwardPart<S::Matrix>, S::Error> {
        let (inner, outer) = (self.config.intermediate_size, self.config.hidden_size);
        let is_gated = matches!(self.config.feed_forward, FeedForward::Gated(_));
        Ok(FeedForwardPart {
            norm: self.norm(norm, block)?,
            gate: if is_gated { Some(self.matrix(gate, block, [inner, outer])?) } else { None },
            up: self.matrix(if is_gated { gated } else { plain }, block, [inner, outer])?,
            down: self.matrix(down, block, [outer, inner])?,
        })
    }
}

impl<M> EncoderDecoderWeights<M> {
    /// Requests the weights of a model from `source`, always in the same order.
    ///
    /// Requests stop at the first missing weight, so a false number of blocks in a file costs nothing.
    pub(super) fn gather<S: WeightSource<Matrix = M>>(
        config: &EncoderDecoderConfig,
        source: &mut S,
    ) -> Result<Self, S::Error> {
        let mut ask = Asking { config, source };
        let table = [config.vocab_size, config.hidden_size];
        let embedding = ask.matrix(EMBEDDING, 0, table)?;
        let bias = ask.bias(ENCODER_BIAS)?;
        let mut layers = Vec::new();
        for block in 0..config.encoder_layers {
            layers.push((ask.attention(ENCODER_OWN, block)?, ask.feed_forward(ENCODER_FEED_FORWARD, block)?));
        }
        let encoder = Encoder { bias, layers, norm: ask.norm(ENCODER_NORM, 0)? };
        let bias = ask.bias(DECODER_BIAS)?;
        let mut layers = Vec::new();
        for block in 0..config.decoder_layers {
            layers.push(DecoderLayer {
                own: ask.attention(DECODER_OWN, block)?,
                cross: ask.attention(DECODER_CROSS, block)?,
                feed_forward: ask.feed_forward(DECODER_FEED_FORWARD, block)?,
            });
        }
        let decoder = Decoder { bias, layers, norm: ask.norm(DECODER_NORM, 0)? };
        let head = if config.tied_embeddings { None } else { Some(ask.matrix(HEAD, 0, table)?) };
        Ok(Self { embedding, encoder, decoder, head })
    }
}
