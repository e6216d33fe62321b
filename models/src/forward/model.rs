//! Forward pass of a decoder-only model over a packed, ragged batch: an interpreter of [`Block`](crate::Block).

use super::{
    cache::{Chunk, HostPages, KvCache, feed},
    linear::{Linear, products},
    logits::{BatchLogits, Logits, LogitsRef},
    rope::{Angles, PerRotary, Rope},
    scratch::Scratch,
};
use crate::{
    error::{LoadError, ModelError},
    family::{
        block::{FeedForward, Norm, Position},
        config::ModelConfig,
        weights::{LayerWeights, ModelWeights},
    },
    kernels::{
        activate, add_assign, add_to_rows,
        attention::{Heads, attend},
        gated, gated_within, layer_norm, pool, rms_norm, rms_norm_in_place,
        rounded::ActivationBits,
        scale_by, soft_cap,
    },
};

/// Decoder-only language model. Holds weights only; the state of a sequence is in its [`KvCache`], so one model serves
/// any number of sequences.
pub struct Model {
    config: ModelConfig,
    weights: ModelWeights<Linear>,
    ropes: PerRotary<Option<Rope>>,
    pages: HostPages,
    activation_bits: ActivationBits,
}

impl Model {
    /// Shape and constants of the model.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Limits the vocabulary as [`ModelConfig::cut_vocabulary`] does. The remaining logits keep their bits.
    ///
    /// # Errors
    /// As for [`ModelConfig::cut_vocabulary`].
    pub fn cut_vocabulary(&mut self, tokens: usize) -> Result<(), LoadError> {
        self.config.cut_vocabulary(tokens)
    }

    /// Rounds activations to this number of bits before products with quantized weights, in later passes.
    ///
    /// Two parts cost what twice the rows cost in a pass, and change logits.
    pub fn set_activation_bits(&mut self, bits: ActivationBits) {
        self.activation_bits = bits;
    }

    /// Creates an empty cache for a sequence of this model.
    #[must_use]
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(self.pages.clone())
    }

    /// Runs the tokens of all chunks through the model. For each chunk, returns logits and the last hidden state at
    /// every requested position.
    ///
    /// Unread [branches](KvCache::branch) of the caches are part of the pass: rows after each of their tokens follow
    /// those of the chunk.
    ///
    /// The tokens of all chunks form one matrix in the linear layers; attention is per sequence. The logits of a
    /// position have the same bits on every machine, for every grouping of tokens into calls and every batch. For rows
    /// without requested logits, the last block computes only keys and values.
    ///
    /// `scratch` needs about `4 × tokens × (6 × hidden_size + 2 × intermediate_size)` bytes plus the logits. Split long
    /// prompts into several calls. A forward pass no larger than an earlier one with the same scratch allocates nothing
    /// except new cache pages.
    ///
    /// # Errors
    /// [`ModelError`] names the invalid chunk and the cause. The caches are then unchanged.
    pub fn forward_with<'s>(
        &self,
        batch: &mut [Chunk<'_>],
        scratch: &'s mut Scratch,
    ) -> Result<BatchLogits<'s>, ModelError> {
        feed(&self.config, &self.pages, batch, |batch| {
            scratch.lay_out(batch.iter());
            let threads = scratch.threads(self.multiplications());
            pool::pass(threads, || Pass { model: self, batch, scratch: &mut *scratch }.run());
            Ok(())
        })?;
        let (vocab_size, hidden_size) = (self.config.vocab_size, self.config.hidden_size);
        match &self.config.draft_vocabulary {
            Some(vocabulary) => scratch.spread_logits(vocabulary, vocab_size),
            None => scratch.cut_logits(vocab_size),
        }
        let rows = LogitsRef::new(&scratch.logits, vocab_size, &scratch.final_hidden, hidden_size);
        Ok(BatchLogits { rows, ends: &scratch.ends })
    }

    /// Variant of [`forward_with`](Self::forward_with) that allocates its own memory.
    ///
    /// # Errors
    /// As for [`forward_with`](Self::forward_with).
    pub fn forward(&self, batch: &mut [Chunk<'_>]) -> Result<Vec<Logits>, ModelError> {
        let mut scratch = Scratch::default();
        let logits = self.forward_with(batch, &mut scratch)?;
        Ok(logits.iter().map(|chunk| chunk.to_logits()).collect())
    }

    pub(crate) fn new(config: ModelConfig, weights: ModelWeights<Linear>) -> Self {
        let rope = |rotary| Rope::new(rotary, config.head_dim);
        let ropes = match &config.block.position {
            Position::Rotary { global, local, .. } => {
                PerRotary { global: Some(rope(global)), local: local.as_ref().map(rope) }
            }
            Position::Learned { .. } => PerRotary::default(),
        };
        let pages = HostPages::new(&config);
        Self { config, weights, ropes, pages, activation_bits: ActivationBits::default() }
    }

    /// Multiplications per token, except those of attention scores and contexts.
    fn multiplications(&self) -> usize {
        self.weights.multiplied().map(Linear::multiplications).sum()
    }
}

/// State of one forward pass.
struct Pass<'p, 'b> {
    model: &'p Model,
    batch: &'p mut [Chunk<'b>],
    scratch: &'p mut Scratch,
}

impl Pass<'_, '_> {
    /// Stages keys and values in the caches. Leaves in `scratch` the requested logits, `[wanted, rows of the head]`,
    /// and the normed hidden states they come from, `[wanted, hidden_size]`.
    fn run(mut self) {
        let model = self.model;
        self.scratch.activations.set_bits(model.activation_bits);
        self.scratch.logits.clear();
        self.scratch.final_hidden.clear();
        if self.scratch.tokens.is_empty() {
            return;
        }
        self.embed();
        self.scratch.angles(&model.ropes);
        let last = model.weights.layers.len() - 1;
        for (index, layer) in model.weights.layers.iter().enumerate() {
            // In the last block, rows without requested logits only need keys and values.
            let partial = index == last && self.scratch.wanted.len() < self.scratch.spans.len();
            let Scratch { hidden, normed, query, key, value, activations, .. } = &mut *self.scratch;
            let input = model.normed_before(&layer.attention_norm, &layer.attention_norm_bias, hidden, normed);
            if partial {
                products(input, activations, [(&layer.key, key), (&layer.value, value)]);
            } else {
                products(input, activations, [(&layer.query, query), (&layer.key, key), (&layer.value, value)]);
            }
            self.stage_keys_and_values(index, layer);
            if partial {
                if self.scratch.wanted.is_empty() {
                    return;
                }
                self.scratch.keep_wanted(model.config.hidden_size);
                self.scratch.angles(&model.ropes);
                let Scratch { hidden, normed, query, activations, .. } = &mut *self.scratch;
                let input = if layer.attention_norm.is_some() { normed } else { hidden };
                products(input, activations, [(&layer.query, query)]);
            }
            self.attention(index, layer);
            self.feed_forward(layer);
        }
        self.logits();
    }

    fn embed(&mut self) {
        let Self { model, scratch, .. } = self;
        let block = &model.config.block;
        match &model.config.draft_vocabulary {
            Some(vocabulary) if model.config.tied_embeddings => {
                let Scratch { tokens, hidden, places, .. } = &mut **scratch;
                places.clear();
                places.extend(tokens.iter().map(|&token| vocabulary.row_of(token)));
                model.weights.embedding.embed(places, hidden);
            }
            _ => model.weights.embedding.embed(&scratch.tokens, &mut scratch.hidden),
        }
        if block.embedding_scale != 1.0 {
            scale_by(&mut scratch.hidden, block.embedding_scale);
        }
        if let (Some(table), Position::Learned { offset }) = (&model.weights.positions, &block.position) {
            let Scratch { hidden, projected, places, spans, .. } = &mut **scratch;
            places.clear();
            places.extend(spans.iter().map(|span| (span.position + offset) as u32));
            table.embed(places, projected);
            add_assign(hidden, projected);
        }
    }

    fn stage_keys_and_values(&mut self, index: usize, layer: &LayerWeights<Linear>) {
        let ModelConfig { kv_heads, head_dim, norm_epsilon, .. } = self.model.config;
        let Scratch { key, value, angles, lines, .. } = &mut *self.scratch;
        add_bias(key, &layer.key_bias);
        add_bias(value, &layer.value_bias);
        if let Some(scales) = &layer.key_norm {
            rms_norm_in_place(key, scales, norm_epsilon);
        }
        self.model.rotate(index, key, kv_heads, angles);
        let width = kv_heads * head_dim;
        let (mut keys, mut values) = (key.as_slice(), value.as_slice());
        for line in lines.iter() {
            let (own_keys, other_keys) = keys.split_at(line.tokens * width);
            let (own_values, other_values) = values.split_at(line.tokens * width);
            self.batch[line.chunk].cache.stage_line(line.number, index, own_keys, own_values);
            (keys, values) = (other_keys, other_values);
        }
    }

    /// Computes `hidden += attention(query)`.
    fn attention(&mut self, index: usize, layer: &LayerWeights<Linear>) {
        let ModelConfig { heads, kv_heads, head_dim, norm_epsilon, ref block, .. } = self.model.config;
        let Scratch { query, spans, lines, context, projected, activations, angles, groups, .. } = &mut *self.scratch;
        add_bias(query, &layer.query_bias);
        if let Some(scales) = &layer.query_norm {
            rms_norm_in_place(query, scales, norm_epsilon);
        }
        self.model.rotate(index, query, heads, angles);
        context.resize(query.len(), 0.0);
        let (scale, softcap, window) = (self.model.config.score_scale(), block.score_softcap, block.window(index));
        let sinks = layer.sinks.as_deref();
        let heads = Heads { heads, kv_heads, head_dim, scale, softcap, window, sinks };
        let batch = &*self.batch;
        let page = |sequence: usize, page: usize, kv_head: usize| {
            let line = lines[sequence];
            batch[line.chunk].cache.page_of(line.number, page, index, kv_head)
        };
        attend(heads, query, spans, page, groups, context);
        products(context, activations, [(&layer.attention_output, projected)]);
        add_bias(projected, &layer.attention_output_bias);
        self.add_projected(&layer.after_attention_norm);
    }

    /// Computes `hidden += feed_forward(norm(hidden))`.
    fn feed_forward(&mut self, layer: &LayerWeights<Linear>) {
        let model = self.model;
        let Scratch { hidden, normed, projected, gate, up, activations, mixture, .. } = &mut *self.scratch;
        let input = model.normed_before(&layer.feed_forward_norm, &layer.feed_forward_norm_bias, hidden, normed);
        let (FeedForward::Gated(activation) | FeedForward::Plain(activation)) = model.config.block.feed_forward;
        match (&layer.gate, &layer.up, &layer.down) {
            (Some(gates), Some(ups), Some(down)) => {
                products(input, activations, [(gates, gate), (ups, up)]);
                add_bias(gate, &layer.gate_bias);
                add_bias(up, &layer.up_bias);
                gated(activation, gate, up);
                products(gate, activations, [(down, projected)]);
            }
            (None, Some(ups), Some(down)) => {
                products(input, activations, [(ups, up)]);
                add_bias(up, &layer.up_bias);
                activate(activation, up);
                products(up, activations, [(down, projected)]);
            }
            _ => {
                if let (Some(router), Some(experts)) = (&layer.router, &model.config.block.experts) {
                    mixture.choose(experts, router, &layer.router_bias, input, activations);
                    let width = model.config.hidden_size;
                    let gating = |gate: &mut [f32], up: &[f32]| match experts.clamp {
                        Some(clamp) => gated_within(clamp, gate, up),
                        None => gated(activation, gate, up),
                    };
                    mixture.mix(&layer.experts, gating, width, input, activations, [gate, up], projected);
                }
            }
        }
        add_bias(projected, &layer.down_bias);
        self.add_projected(&layer.after_feed_forward_norm);
    }

    /// Computes `hidden += scale · norm(projected)`.
    fn add_projected(&mut self, norm: &Option<Vec<f32>>) {
        let ModelConfig { norm_epsilon, ref block, .. } = self.model.config;
        let Scratch { hidden, projected, .. } = &mut *self.scratch;
        if let Some(scales) = norm {
            rms_norm_in_place(projected, scales, norm_epsilon);
        }
        if block.residual_scale != 1.0 {
            scale_by(projected, block.residual_scale);
        }
        add_assign(hidden, projected);
    }

    fn logits(&mut self) {
        let Self { model, scratch, .. } = self;
        let Scratch { hidden, final_hidden, activations, logits, .. } = &mut **scratch;
        model.norm(&model.weights.norm, &model.weights.norm_bias, hidden, final_hidden);
        let head = model.weights.head.as_ref().unwrap_or(&model.weights.embedding);
        products(final_hidden, activations, [(head, logits)]);
        let block = &model.config.block;
        if block.logit_scale != 1.0 {
            scale_by(logits, block.logit_scale);
        }
        if let Some(cap) = block.logit_softcap {
            soft_cap(logits, cap);
        }
    }
}

impl Model {
    /// Input of a part: the norm of `hidden`, stored in `normed`, or `hidden` itself.
    fn normed_before<'v>(
        &self,
        scales: &Option<Vec<f32>>,
        biases: &Option<Vec<f32>>,
        hidden: &'v [f32],
        normed: &'v mut Vec<f32>,
    ) -> &'v [f32] {
        let Some(scales) = scales else { return hidden };
        self.norm(scales, biases, hidden, normed);
        normed
    }

    fn norm(&self, scales: &[f32], biases: &Option<Vec<f32>>, x: &[f32], out: &mut Vec<f32>) {
        let epsilon = self.config.norm_epsilon;
        match (self.config.block.norm, biases) {
            (Norm::Layer, Some(biases)) => layer_norm(x, scales, biases, epsilon, out),
            _ => rms_norm(x, scales, epsilon, out),
        }
    }

    /// Applies the layer's rotary embedding to every head of every row.
    fn rotate(&self, layer: usize, x: &mut [f32], heads: usize, angles: &PerRotary<Angles>) {
        let scope = self.config.block.rotary_scope(layer);
        if let Some((scope, rope)) = scope.and_then(|scope| Some((scope, self.ropes.of(scope).as_ref()?))) {
            rope.rotate(x, heads, angles.of(scope));
        }
    }
}

/// Computes `row += bias` for each row, if there is a bias.
fn add_bias(x: &mut [f32], bias: &Option<Vec<f32>>) {
    if let Some(bias) = bias {
        add_to_rows(x, bias);
    }
}
