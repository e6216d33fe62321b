//! Grouped-query attention of a row over its sequence's cache.
//!
//! One row at a time and positions in ascending order: a row's result depends on its own query and on
//! the cache only, never on the rows computed beside it.

use crate::{
    cache::LayerCache,
    config::ModelConfig,
    kernels::{dot, pool::for_each_chunk, scaled_add, softmax},
};

/// A query row's place: which sequence, and how many of its tokens it may see (itself included).
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSpan {
    pub(crate) sequence: usize,
    pub(crate) visible: usize,
}

/// `out[row] = softmax(q·Kᵀ / √head_dim) · V` for each head of each row.
///
/// `queries`, `out`: `[rows, heads, head_dim]`; `caches[spans[row].sequence]` is the row's cache.
pub(crate) fn attend(
    config: &ModelConfig,
    queries: &[f32],
    spans: &[RowSpan],
    caches: &[&LayerCache],
    out: &mut [f32],
) {
    let width = config.heads * config.head_dim;
    let visible: usize = spans.iter().map(|span| span.visible).sum();
    for_each_chunk(out, width, 2 * visible * width, |row, out| {
        let span = spans[row];
        let query = &queries[row * width..(row + 1) * width];
        attend_row(config, query, caches[span.sequence], span.visible, out);
    });
}

fn attend_row(config: &ModelConfig, query: &[f32], cache: &LayerCache, visible: usize, out: &mut [f32]) {
    let head_dim = config.head_dim;
    let stride = config.kv_heads * head_dim;
    let group = config.heads / config.kv_heads;
    let scale = 1.0 / (head_dim as f32).sqrt();
    let keys = &cache.keys[..visible * stride];
    let values = &cache.values[..visible * stride];
    let mut weights = vec![0.0; visible];
    let heads = query.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim));
    for (head, (query, out)) in heads.enumerate() {
        let offset = head / group * head_dim;
        for (weight, key) in weights.iter_mut().zip(keys.chunks_exact(stride)) {
            *weight = dot::<8>(query, &key[offset..offset + head_dim]) * scale;
        }
        softmax(&mut weights);
        out.fill(0.0);
        for (weight, value) in weights.iter().zip(values.chunks_exact(stride)) {
            scaled_add(out, *weight, &value[offset..offset + head_dim]);
        }
    }
}
