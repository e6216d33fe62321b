//! The Llama architecture over a packed, ragged batch.

use super::{
    cache::{Chunk, HostPages, KvCache, feed},
    linear::{Linear, products},
    logits::{BatchLogits, Logits, LogitsRef},
    rope::{Angles, Rope},
};
use crate::{
    error::{LoadError, ModelError},
    family::{
        config::ModelConfig,
        weights::{LayerWeights, ModelWeights},
    },
    kernels::{
        add_assign,
        attention::{Heads, RowSpan, attend},
        gated_silu, pool, rms_norm,
        rounded::Activations,
    },
    threads,
};

/// A language model of the Llama architecture: RMSNorm, rotary positions, grouped-query attention, SwiGLU,
/// output head tied to the embedding table or not. Weights only; what a sequence has seen is in its
/// [`KvCache`], so that one model serves any number of sequences.
pub struct Model {
    config: ModelConfig,
    weights: ModelWeights<Linear>,
    rope: Rope,
    pages: HostPages,
}

impl Model {
    /// Shape and constants.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// [`ModelConfig::cut_vocabulary`]. Logits that are left keep their bits.
    ///
    /// # Errors
    /// The same.
    pub fn cut_vocabulary(&mut self, tokens: usize) -> Result<(), LoadError> {
        self.config.cut_vocabulary(tokens)
    }

    /// An empty cache for a sequence of this model.
    #[must_use]
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(self.pages.clone())
    }

    /// Runs the tokens of all chunks through the model together and gives, for each chunk, a row of
    /// logits and the hidden state it comes from per wanted position.
    ///
    /// The tokens of all chunks form one matrix in the linear layers; attention is per sequence. The logits
    /// of a position are bit-identical however its tokens were grouped into calls, whatever other
    /// chunks there were, and on every machine. Where no logits are wanted, the last block computes
    /// keys and values only.
    ///
    /// `scratch` is the memory of the forward pass, about `4 × tokens × (6 × hidden + 2 × intermediate)` bytes plus the
    /// logits; feed long prompts in pieces. A forward pass that is no larger than an earlier one with the same scratch
    /// allocates nothing, but for a page of a cache now and then.
    ///
    /// # Errors
    /// [`ModelError`] says which chunk is wrong and how. The caches are then as they were.
    pub fn forward_with<'s>(
        &self,
        batch: &mut [Chunk<'_>],
        scratch: &'s mut Scratch,
    ) -> Result<BatchLogits<'s>, ModelError> {
        feed(&self.config, &self.pages, batch, |batch| {
            scratch.lay_out(batch);
            let threads = match scratch.tokens.len() * self.multiplications() < PASS_WORTH_SPLITTING {
                true => 1,
                false => threads::limit(),
            };
            pool::pass(threads, || Pass { model: self, batch, scratch: &mut *scratch }.run());
            Ok(())
        })?;
        let (vocab_size, hidden_size) = (self.config.vocab_size, self.config.hidden_size);
        scratch.cut_logits(vocab_size);
        let rows = LogitsRef::new(&scratch.logits, vocab_size, &scratch.final_hidden, hidden_size);
        Ok(BatchLogits { rows, ends: &scratch.ends })
    }

    /// [`forward_with`](Self::forward_with) in memory of its own.
    ///
    /// # Errors
    /// The same.
    pub fn forward(&self, batch: &mut [Chunk<'_>]) -> Result<Vec<Logits>, ModelError> {
        let mut scratch = Scratch::default();
        let logits = self.forward_with(batch, &mut scratch)?;
        Ok(logits.iter().map(|chunk| chunk.to_logits()).collect())
    }

    pub(crate) fn new(config: ModelConfig, weights: ModelWeights<Linear>) -> Self {
        let (rope, pages) = (Rope::new(&config), HostPages::new(&config));
        Self { config, weights, rope, pages }
    }

    /// Multiplications for one token, attention apart.
    fn multiplications(&self) -> usize {
        self.weights.multiplied().map(Linear::multiplications).sum()
    }
}

/// Multiplications of a forward pass below which waking other threads costs more than it gives.
const PASS_WORTH_SPLITTING: usize = 2 << 20;

/// The memory of forward passes, to be used again and again; any model, any batch.
#[derive(Debug, Default)]
pub struct Scratch {
    // The rows of the packed batch.
    tokens: Vec<u32>,
    spans: Vec<RowSpan>,
    /// Rows whose logits are wanted, ascending.
    wanted: Vec<usize>,
    /// For each chunk, where its wanted rows end.
    ends: Vec<usize>,
    // Vectors of each row.
    hidden: Vec<f32>,
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    context: Vec<f32>,
    projected: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    // Of the wanted rows.
    final_hidden: Vec<f32>,
    logits: Vec<f32>,
    // What the products and the attention need besides.
    activations: Activations,
    angles: Angles,
    groups: Vec<[usize; 2]>,
}

impl Scratch {
    fn lay_out(&mut self, batch: &[Chunk<'_>]) {
        self.tokens.clear();
        self.spans.clear();
        self.wanted.clear();
        self.ends.clear();
        for (sequence, chunk) in batch.iter().enumerate() {
            let first = self.tokens.len();
            self.wanted.extend(chunk.positions.iter().map(|position| first + position));
            self.ends.push(self.wanted.len());
            self.tokens.extend(chunk.tokens);
            let visible = (1..=chunk.tokens.len()).map(|new| chunk.cache.len() + new);
            self.spans.extend(visible.map(|visible| RowSpan { sequence, visible }));
        }
    }

    /// Keeps only the wanted rows of the residual stream and of what has been normed.
    fn keep_wanted(&mut self, width: usize) {
        for (to, &from) in self.wanted.iter().enumerate() {
            self.hidden.copy_within(from * width..(from + 1) * width, to * width);
            self.normed.copy_within(from * width..(from + 1) * width, to * width);
            self.spans[to] = self.spans[from];
        }
        self.spans.truncate(self.wanted.len());
        self.hidden.truncate(self.wanted.len() * width);
        self.normed.truncate(self.wanted.len() * width);
    }

    /// Keeps only the first `width` logits of each wanted row.
    fn cut_logits(&mut self, width: usize) {
        let rows = self.wanted.len();
        let computed = self.logits.len() / rows.max(1);
        if computed > width {
            for row in 0..rows {
                self.logits.copy_within(row * computed..row * computed + width, row * width);
            }
            self.logits.truncate(rows * width);
        }
    }

    fn angles(&mut self, rope: &Rope) {
        rope.angles(self.spans.iter().map(|span| span.visible - 1), &mut self.angles);
    }
}

/// One forward pass.
struct Pass<'p, 'b> {
    model: &'p Model,
    batch: &'p mut [Chunk<'b>],
    scratch: &'p mut Scratch,
}

impl Pass<'_, '_> {
    /// Stages keys and values in the caches; leaves the wanted logits, `[wanted, rows of the head]`, and the normed
    /// hidden states that the head makes them from, `[wanted, hidden_size]`.
    fn run(mut self) {
        let model = self.model;
        self.scratch.logits.clear();
        self.scratch.final_hidden.clear();
        if self.scratch.tokens.is_empty() {
            return;
        }
        model.weights.embedding.embed(&self.scratch.tokens, &mut self.scratch.hidden);
        self.scratch.angles(&model.rope);
        let epsilon = model.config.rms_norm_eps;
        let last = model.weights.layers.len() - 1;
        for (index, layer) in model.weights.layers.iter().enumerate() {
            // In the last block, only rows that lead to logits matter beyond their keys and values.
            let partial = index == last && self.scratch.wanted.len() < self.scratch.spans.len();
            let Scratch { hidden, normed, query, key, value, activations, .. } = &mut *self.scratch;
            rms_norm(hidden, &layer.attention_norm, epsilon, normed);
            if partial {
                products(normed, activations, [(&layer.key, key), (&layer.value, value)]);
            } else {
                products(normed, activations, [(&layer.query, query), (&layer.key, key), (&layer.value, value)]);
            }
            self.stage_keys_and_values(index);
            if partial {
                if self.scratch.wanted.is_empty() {
                    return;
                }
                self.scratch.keep_wanted(model.config.hidden_size);
                self.scratch.angles(&model.rope);
                let Scratch { normed, query, activations, .. } = &mut *self.scratch;
                products(normed, activations, [(&layer.query, query)]);
            }
            self.attention(index, layer);
            self.feed_forward(layer);
        }
        let Scratch { hidden, final_hidden, activations, logits, .. } = &mut *self.scratch;
        rms_norm(hidden, &model.weights.norm, epsilon, final_hidden);
        let head = model.weights.head.as_ref().unwrap_or(&model.weights.embedding);
        products(final_hidden, activations, [(head, logits)]);
    }

    fn stage_keys_and_values(&mut self, layer: usize) {
        let config = &self.model.config;
        let Scratch { key, value, angles, .. } = &mut *self.scratch;
        self.model.rope.rotate(key, config.kv_heads, angles);
        let width = config.kv_heads * config.head_dim;
        let (mut keys, mut values) = (key.as_slice(), value.as_slice());
        for chunk in self.batch.iter_mut() {
            let (own_keys, other_keys) = keys.split_at(chunk.tokens.len() * width);
            let (own_values, other_values) = values.split_at(chunk.tokens.len() * width);
            chunk.cache.stage(layer, own_keys, own_values);
            (keys, values) = (other_keys, other_values);
        }
    }

    /// `hidden += attention(query)`.
    fn attention(&mut self, index: usize, layer: &LayerWeights<Linear>) {
        let ModelConfig { heads, kv_heads, head_dim, .. } = self.model.config;
        let Scratch { hidden, query, spans, context, projected, activations, angles, groups, .. } = &mut *self.scratch;
        self.model.rope.rotate(query, heads, angles);
        context.resize(query.len(), 0.0);
        let batch = &*self.batch;
        let page = |sequence: usize, page: usize, kv_head: usize| batch[sequence].cache.page(page, index, kv_head);
        attend(Heads { heads, kv_heads, head_dim }, query, spans, page, groups, context);
        products(context, activations, [(&layer.attention_output, projected)]);
        add_assign(hidden, projected);
    }

    /// `hidden += feed_forward(norm(hidden))`.
    fn feed_forward(&mut self, layer: &LayerWeights<Linear>) {
        let Scratch { hidden, normed, projected, gate, up, activations, .. } = &mut *self.scratch;
        rms_norm(hidden, &layer.feed_forward_norm, self.model.config.rms_norm_eps, normed);
        products(normed, activations, [(&layer.gate, gate), (&layer.up, up)]);
        gated_silu(gate, up);
        products(gate, activations, [(&layer.down, projected)]);
        add_assign(hidden, projected);
    }
}
