//! Parts of blocks, over the rows of all sequences. Each part adds its output to the residual stream.

use super::{
    super::{
        linear::{Linear, products},
        scratch::Scratch,
    },
    bias::RelativeBias,
};
use crate::{
    family::{
        block::FeedForward,
        encoder_decoder::{
            config::EncoderDecoderConfig,
            weights::{Attention, FeedForwardPart},
        },
    },
    kernels::{
        activate, add_assign,
        attention::{Bias, Heads, attend},
        gated,
        head_page::PAGE_TOKENS,
        rms_norm, scale_by,
    },
};

/// Sequence that rows attend to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// The rows' own sequence, with relative position bias: [`Scratch::spans`].
    Own,
    /// The source, without bias: [`Scratch::source_spans`].
    Source,
}

/// Rows of a forward pass while they move through the blocks.
pub(super) struct Rows<'p> {
    pub(super) config: &'p EncoderDecoderConfig,
    pub(super) scratch: &'p mut Scratch,
    /// Largest distance that [`Scratch::bias`] covers.
    reach: usize,
}

impl<'p> Rows<'p> {
    /// Embeds the tokens that are laid out in `scratch`.
    pub(super) fn new(
        config: &'p EncoderDecoderConfig,
        scratch: &'p mut Scratch,
        embedding: &Linear,
        bias: &RelativeBias,
    ) -> Self {
        embedding.embed(&scratch.tokens, &mut scratch.hidden);
        let visible = scratch.spans.iter().map(|span| span.visible).max().unwrap_or(0);
        let reach = visible.next_multiple_of(PAGE_TOKENS);
        bias.lay_out(reach, &mut scratch.bias);
        Self { config, scratch, reach }
    }

    /// Computes the norm of the residual stream, input of the following products.
    pub(super) fn norm(&mut self, scales: &[f32]) {
        let Scratch { hidden, normed, .. } = &mut *self.scratch;
        rms_norm(hidden, scales, self.config.norm_epsilon, normed);
    }

    /// Computes queries from the normed rows.
    pub(super) fn queries(&mut self, attention: &Attention<Linear>) {
        let Scratch { normed, query, activations, .. } = &mut *self.scratch;
        products(normed, activations, [(&attention.query, query)]);
    }

    /// Computes keys and values from the normed rows.
    pub(super) fn keys_and_values(&mut self, attention: &Attention<Linear>) {
        let Scratch { normed, key, value, activations, .. } = &mut *self.scratch;
        products(normed, activations, [(&attention.key, key), (&attention.value, value)]);
    }

    /// Computes `hidden += output(softmax(queries · keysᵀ + bias) · values)`. Scores are not scaled.
    ///
    /// `page(sequence, page, head)` returns a head's part of a page.
    pub(super) fn attend<'c>(
        &mut self,
        attention: &Attention<Linear>,
        sight: Sight,
        page: impl Fn(usize, usize, usize) -> &'c [f32] + Sync,
    ) {
        let &EncoderDecoderConfig { heads, head_dim, .. } = self.config;
        let Scratch { hidden, query, spans, source_spans, context, projected, activations, groups, bias, .. } =
            &mut *self.scratch;
        context.resize(query.len(), 0.0);
        let (spans, bias) = match sight {
            Sight::Own => (spans, Some(Bias { values: bias, reach: self.reach })),
            Sight::Source => (source_spans, None),
        };
        let heads = Heads { heads, kv_heads: heads, head_dim, scale: 1.0, softcap: None, window: None, sinks: None };
        attend(heads, query, spans, page, bias, groups, context);
        products(context, activations, [(&attention.output, projected)]);
        add_assign(hidden, projected);
    }

    /// Computes `hidden += feed_forward(norm(hidden))`.
    pub(super) fn feed_forward(&mut self, part: &FeedForwardPart<Linear>) {
        self.norm(&part.norm);
        let Scratch { hidden, normed, projected, gate, up, activations, .. } = &mut *self.scratch;
        let (FeedForward::Gated(activation) | FeedForward::Plain(activation)) = self.config.feed_forward;
        let inner = match &part.gate {
            Some(gates) => {
                products(normed, activations, [(gates, gate), (&part.up, up)]);
                gated(activation, gate, up);
                gate
            }
            None => {
                products(normed, activations, [(&part.up, up)]);
                activate(activation, up);
                up
            }
        };
        products(inner, activations, [(&part.down, projected)]);
        add_assign(hidden, projected);
    }

    /// Computes the logits of the rows, `[rows, vocab_size]`, and the scaled hidden states they come from, `[rows,
    /// hidden_size]`.
    pub(super) fn logits(&mut self, norm: &[f32], head: &Linear) {
        let Scratch { hidden, final_hidden, activations, logits, .. } = &mut *self.scratch;
        rms_norm(hidden, norm, self.config.norm_epsilon, final_hidden);
        if self.config.output_scale != 1.0 {
            scale_by(final_hidden, self.config.output_scale);
        }
        products(final_hidden, activations, [(head, logits)]);
    }
}
