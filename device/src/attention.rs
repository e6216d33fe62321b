//! Attention of all sessions' queries at once.
//!
//! Sessions differ in length and in number of rows. Sessions whose lengths and numbers of rows agree up to the next
//! power of two form a group. Their keys and values are gathered from the pool into one padded batch, and a mask hides
//! padding and keys after a query's position. The number of kernels grows with the number of *groups*, which is bounded
//! by the powers of two in use, and not with the number of sessions. Padding at most doubles each side.
//!
//! With S sessions in a group, Q queries and K keys per session, H key-value heads, G query heads per key-value head,
//! and d elements per head:
//!
//! ```text
//! queries  [S·H, G·Q, d]   keys [S·H, K, d]   scores [S·H, G·Q, K]   values [S·H, K, d]   context [S·H, G·Q, d]
//! ```
//!
//! Queries, keys and values are stored as rows of d elements. One gather of rows selects the queries, another the keys
//! and values together.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::ops::softmax_last_dim;
use outrider_models::{ModelConfig, PAGE_TOKENS};

use crate::cache::{self, DeviceCache};

/// Query rows of one session.
pub(crate) struct Span<'c> {
    pub(crate) cache: &'c DeviceCache,
    /// Number of tokens that each row sees, itself included.
    pub(crate) visible: Vec<usize>,
}

/// Transformations of attention scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scores {
    /// Factor of the products of queries and keys.
    pub(crate) scale: f32,
    /// Soft cap c of scores, c·tanh(s/c).
    pub(crate) softcap: Option<f32>,
}

/// Assignment of rows to keys, shared by all layers of a forward pass.
pub(crate) struct Layout {
    groups: Vec<Group>,
    /// Position of each row's heads in the groups' contexts, `[rows × heads]`.
    restore: Tensor,
    head_dim: usize,
}

struct Group {
    sessions: usize,
    queries: usize,
    keys: usize,
    kv_heads: usize,
    heads: usize,
    /// Indices of query rows, `[sessions × heads × queries]`.
    query_rows: Tensor,
    /// Indices of pool rows, `[2 × sessions × kv_heads × keys]`: keys, then values.
    pool_rows: Tensor,
    /// Mask added to scores, `[sessions, 1, queries, keys]`: 0 for visible keys, −∞ for others.
    mask: Tensor,
    /// Mask of layers with a window, of the same shape.
    local_mask: Option<Tensor>,
}

impl Layout {
    /// Creates the layout of a pass. `spans` are in the order of the rows.
    pub(crate) fn new(spans: &[Span<'_>], config: &ModelConfig, device: &Device) -> Result<Self> {
        let mut first_row = 0;
        let mut alike: BTreeMap<(usize, usize), Vec<(usize, &Span<'_>)>> = BTreeMap::new();
        for span in spans.iter().filter(|span| !span.visible.is_empty()) {
            let keys = span.visible.last().copied().unwrap_or(1).next_power_of_two().max(PAGE_TOKENS);
            let queries = span.visible.len().next_power_of_two();
            alike.entry((keys, queries)).or_default().push((first_row, span));
            first_row += span.visible.len();
        }
        let heads = config.heads;
        let mut restore = vec![0u32; first_row * heads];
        let mut groups = Vec::with_capacity(alike.len());
        let mut before = 0;
        for ((keys, queries), spans) in alike {
            for (session, (first_row, span)) in spans.iter().enumerate() {
                for query in 0..span.visible.len() {
                    for head in 0..heads {
                        let index = before + (session * heads + head) * queries + query;
                        restore[(first_row + query) * heads + head] = index as u32;
                    }
                }
            }
            before += spans.len() * heads * queries;
            groups.push(Group::new(&spans, (queries, keys), config, device)?);
        }
        let restore = Tensor::new(restore, device)?;
        Ok(Self { groups, restore, head_dim: config.head_dim })
    }

    /// Computes softmax(scale · queries · keysᵀ) · values for `queries` of shape `[rows × heads, d]`. The result has
    /// the same shape, in f32. `pool` is that of the layer, and `is_local` is true if the layer has the window.
    pub(crate) fn attend(&self, queries: &Tensor, pool: &Tensor, scores: Scores, is_local: bool) -> Result<Tensor> {
        let queries = (queries * f64::from(scores.scale))?.to_dtype(pool.dtype())?;
        let pool = pool.reshape((pool.elem_count() / self.head_dim, self.head_dim))?;
        let contexts = self.groups.iter().map(|group| group.attend(&queries, &pool, scores.softcap, is_local));
        let contexts = contexts.collect::<Result<Vec<_>>>()?;
        let all = match contexts.as_slice() {
            [one] => one.clone(),
            several => Tensor::cat(several, 0)?,
        };
        all.index_select(&self.restore, 0)
    }
}

impl Group {
    fn new(
        spans: &[(usize, &Span<'_>)],
        (queries, keys): (usize, usize),
        config: &ModelConfig,
        device: &Device,
    ) -> Result<Self> {
        let (sessions, heads, kv_heads) = (spans.len(), config.heads, config.kv_heads);
        let mut query_rows = Vec::with_capacity(sessions * heads * queries);
        let mut pool_rows = Vec::with_capacity(2 * sessions * kv_heads * keys);
        let window = config.block.window.as_ref().map(|window| window.tokens);
        let mut mask = Vec::with_capacity(sessions * queries * keys);
        let mut local_mask = Vec::new();
        let hidden = |is_hidden: bool| if is_hidden { f32::NEG_INFINITY } else { 0.0 };
        for (first_row, span) in spans {
            let count = span.visible.len();
            // Padding is from the same session, so sessions never affect each other's values.
            let padded = |query: usize| query.min(count - 1);
            for head in 0..heads {
                query_rows.extend((0..queries).map(|query| ((first_row + padded(query)) * heads + head) as u32));
            }
            for query in 0..queries {
                let visible = span.visible[padded(query)];
                mask.extend((0..keys).map(|key| hidden(key >= visible)));
                if let Some(window) = window {
                    local_mask.extend((0..keys).map(|key| hidden(key >= visible || key + window < visible)));
                }
            }
        }
        for part in 0..2 {
            for (_, span) in spans {
                let held = span.visible.last().copied().unwrap_or(1);
                let slot = |key: usize| cache::slot(span.cache, key.min(held - 1));
                for head in 0..kv_heads {
                    pool_rows.extend((0..keys).map(|key| ((slot(key) * 2 + part) * kv_heads + head) as u32));
                }
            }
        }
        Ok(Self {
            sessions,
            queries,
            keys,
            kv_heads,
            heads,
            query_rows: Tensor::new(query_rows, device)?,
            pool_rows: Tensor::new(pool_rows, device)?,
            mask: Tensor::from_vec(mask, (sessions, 1, queries, keys), device)?,
            local_mask: match window {
                Some(_) => Some(Tensor::from_vec(local_mask, (sessions, 1, queries, keys), device)?),
                None => None,
            },
        })
    }

    /// Computes the contexts of the group, `[sessions × heads × queries, d]` in f32.
    fn attend(&self, queries: &Tensor, pool: &Tensor, softcap: Option<f32>, is_local: bool) -> Result<Tensor> {
        let Self { sessions, heads, kv_heads, .. } = *self;
        let (batch, grouped) = (sessions * kv_heads, heads / kv_heads * self.queries);
        let head_dim = queries.dim(1)?;
        let gathered = pool.index_select(&self.pool_rows, 0)?.reshape((2 * batch, self.keys, head_dim))?;
        let (keys, values) = (gathered.narrow(0, 0, batch)?, gathered.narrow(0, batch, batch)?);
        let queries = queries.index_select(&self.query_rows, 0)?.reshape((batch, grouped, head_dim))?;
        let scores = queries.matmul(&keys.transpose(1, 2)?)?.to_dtype(DType::F32)?;
        let scores = if let Some(cap) = softcap { soft_cap(&scores, cap)? } else { scores };
        let mask = if is_local { self.local_mask.as_ref().unwrap_or(&self.mask) } else { &self.mask };
        let scores = scores.reshape((sessions, heads, self.queries, self.keys))?.broadcast_add(mask)?;
        let weights = softmax_last_dim(&scores)?.reshape((batch, grouped, self.keys))?.to_dtype(pool.dtype())?;
        let context = weights.matmul(&values)?.to_dtype(DType::F32)?;
        context.reshape((batch * grouped, head_dim))
    }
}

/// Computes the soft cap, cap · tanh(x / cap).
pub(crate) fn soft_cap(x: &Tensor, cap: f32) -> Result<Tensor> {
    (x * (1.0 / f64::from(cap)))?.tanh()? * f64::from(cap)
}
