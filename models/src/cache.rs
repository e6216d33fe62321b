//! Keys and values of the tokens a sequence has seen, with rollback.

use crate::config::ModelConfig;

/// Rows the first allocation of a cache holds.
const FIRST_ROWS: usize = 32;

/// The keys and values of one sequence, for every layer.
///
/// Memory grows geometrically with the number of tokens and never beyond the model's context:
/// `2 × layers × kv_heads × head_dim × 4` bytes a token. [`truncate`](Self::truncate) forgets tokens
/// in constant time and keeps the memory for those that follow.
///
/// Rows at and above [`len`](Self::len) may hold values of a forward pass that failed or of tokens that
/// were rolled back; they are always written again before they are read.
#[derive(Debug, Clone)]
pub struct KvCache {
    layers: Vec<LayerCache>,
    len: usize,
    width: usize,
    context_length: usize,
}

/// One layer's part. Both are `[rows, kv_heads, head_dim]`, rows ≥ the cache's `len`.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerCache {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
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
        let floats: usize = self.layers.iter().map(|layer| layer.keys.capacity() + layer.values.capacity()).sum();
        floats * size_of::<f32>()
    }

    pub(crate) fn new(config: &ModelConfig) -> Self {
        Self {
            layers: vec![LayerCache::default(); config.layers],
            len: 0,
            width: config.kv_heads * config.head_dim,
            context_length: config.context_length,
        }
    }

    /// Whether a model of this shape may use the cache.
    pub(crate) fn fits(&self, config: &ModelConfig) -> bool {
        self.layers.len() == config.layers
            && self.width == config.kv_heads * config.head_dim
            && self.context_length == config.context_length
    }

    /// Writes `keys` and `values`, each `[new, kv_heads, head_dim]`, behind the tokens of `layer`.
    /// They count only once [`commit`](Self::commit) has been called.
    pub(crate) fn stage(&mut self, layer: usize, keys: &[f32], values: &[f32]) {
        let start = self.len * self.width;
        let rows = self.len + keys.len() / self.width;
        let cache = &mut self.layers[layer];
        for (store, new) in [(&mut cache.keys, keys), (&mut cache.values, values)] {
            if store.len() < rows * self.width {
                let grown = rows.max(2 * store.len() / self.width).max(FIRST_ROWS);
                let grown = grown.min(self.context_length).max(rows) * self.width;
                store.reserve_exact(grown - store.len());
                store.resize(grown, 0.0);
            }
            store[start..start + new.len()].copy_from_slice(new);
        }
    }

    /// The keys and values of `layer`, staged ones included.
    pub(crate) fn layer(&self, layer: usize) -> &LayerCache {
        &self.layers[layer]
    }

    /// Makes `rows` staged tokens part of the cache.
    pub(crate) fn commit(&mut self, rows: usize) {
        self.len += rows;
    }
}
