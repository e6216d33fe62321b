//! Keys and values of the tokens a sequence has seen, with rollback.

use crate::{config::ModelConfig, kernels::attention::PAGE_TOKENS};

/// The keys and values of one sequence, for every layer.
///
/// Memory grows by pages of 32 tokens, `2 × layers × kv_heads × head_dim × 4` bytes a token, and never moves.
/// [`truncate`](Self::truncate) forgets tokens in constant time and keeps the memory for those that follow.
///
/// Places at and above [`len`](Self::len) may hold values of a forward pass that failed or of tokens that
/// were rolled back; they are always written again before they are read.
#[derive(Debug, Clone)]
pub struct KvCache {
    /// Each `[layers]` of keys, `[kv_heads, head_dim, PAGE_TOKENS]`, and values, `[kv_heads, PAGE_TOKENS, head_dim]`.
    pages: Vec<Box<[f32]>>,
    len: usize,
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
    context_length: usize,
}

impl KvCache {
    /// Number of tokens held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no token is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all but the first `len` tokens. Does nothing if there are no more than that.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Bytes allocated for keys and values at present.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pages.len() * self.page_len() * size_of::<f32>()
    }

    /// Bytes that a cache of this shape has allocated once it holds `tokens`, if it never held more.
    #[must_use]
    pub fn bytes_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(PAGE_TOKENS) * self.page_len() * size_of::<f32>()
    }

    pub(crate) fn new(config: &ModelConfig) -> Self {
        Self {
            pages: Vec::new(),
            len: 0,
            layers: config.layers,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            context_length: config.context_length,
        }
    }

    /// Whether a model of this shape may use the cache.
    pub(crate) fn fits(&self, config: &ModelConfig) -> bool {
        self.layers == config.layers
            && self.kv_heads == config.kv_heads
            && self.head_dim == config.head_dim
            && self.context_length == config.context_length
    }

    /// Makes room for `new` tokens behind those that are held.
    pub(crate) fn reserve(&mut self, new: usize) {
        let pages = (self.len + new).div_ceil(PAGE_TOKENS);
        while self.pages.len() < pages {
            self.pages.push(vec![0.0; self.page_len()].into_boxed_slice());
        }
    }

    /// Writes `keys` and `values`, each `[new, kv_heads, head_dim]`, behind the tokens of `layer`, for which room has been
    /// made. They count only once [`commit`](Self::commit) has been called.
    pub(crate) fn stage(&mut self, layer: usize, keys: &[f32], values: &[f32]) {
        let (head_dim, width) = (self.head_dim, self.kv_heads * self.head_dim);
        let part = width * PAGE_TOKENS;
        let tokens = keys.chunks_exact(width).zip(values.chunks_exact(width));
        for (index, (key, value)) in (self.len..).zip(tokens) {
            let place = index % PAGE_TOKENS;
            let page = &mut self.pages[index / PAGE_TOKENS][layer * 2 * part..][..2 * part];
            let (page_keys, page_values) = page.split_at_mut(part);
            for (element, key) in key.iter().enumerate() {
                page_keys[element * PAGE_TOKENS + place] = *key;
            }
            for (head, value) in value.chunks_exact(head_dim).enumerate() {
                page_values[(head * PAGE_TOKENS + place) * head_dim..][..head_dim].copy_from_slice(value);
            }
        }
    }

    /// Keys, `[head_dim, PAGE_TOKENS]`, and values, `[PAGE_TOKENS, head_dim]`, of a head in the `page`-th page, staged ones included.
    pub(crate) fn page(&self, page: usize, layer: usize, kv_head: usize) -> (&[f32], &[f32]) {
        let head = self.head_dim * PAGE_TOKENS;
        let part = self.kv_heads * head;
        let page = &self.pages[page][layer * 2 * part..][..2 * part];
        let (keys, values) = page.split_at(part);
        (&keys[kv_head * head..][..head], &values[kv_head * head..][..head])
    }

    /// Makes `rows` staged tokens part of the cache.
    pub(crate) fn commit(&mut self, rows: usize) {
        self.len += rows;
    }

    fn page_len(&self) -> usize {
        self.layers * 2 * self.kv_heads * self.head_dim * PAGE_TOKENS
    }
}
