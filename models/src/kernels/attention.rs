//! Attention of a few query rows over a page of keys and values at a time, with a running softmax.
//!
//! For scores s_t = q·k_t, the weighted sum Σ e^(s_t − m)·v_t and the normaliser Σ e^(s_t − m) are kept for the highest
//! score m so far; when a page has a higher one, both are scaled by e^(m − m′). (Milakov, Gimelshein 2018,
//! <https://arxiv.org/abs/1805.02867>.) A row goes through the pages in order, and through a page in an order that does
//! not depend on the row: its result depends on its own query and the cache alone.

use std::ops::Range;

use super::{
    pool,
    vector::{add_assign, exp, maximum, scale_by, soft_cap, sum},
};

/// The number of tokens in a page of a [`KvCache`](crate::KvCache): lanes of the products with keys.
pub const PAGE_TOKENS: usize = 32;

/// Rows that go through a page together, so that it is fetched once for all of them.
const ROWS: usize = 8;

/// Multiplications below which other threads cost more than they give.
const WORTH_SPLITTING: usize = 1 << 16;

/// Elements that are computed together.
const BLOCK: usize = 16;

/// What a row has seen: the highest score and the normaliser. The weighted sum of values is kept beside it.
#[derive(Debug, Clone, Copy)]
struct Running {
    highest: f32,
    total: f32,
}

impl Running {
    /// Nothing seen yet.
    const START: Self = Self { highest: f32::NEG_INFINITY, total: 0.0 };

    /// Adds some tokens of a page, at least one. `query`, scaled, and `context`: `[head_dim]`; `keys`:
    /// `[head_dim, PAGE_TOKENS]`; `values`: `[PAGE_TOKENS, head_dim]`; `bias`, for scores: `[PAGE_TOKENS]`.
    fn add_page(
        &mut self,
        query: &[f32],
        (keys, values): (&[f32], &[f32]),
        seen: Range<usize>,
        bias: Option<&[f32]>,
        softcap: Option<f32>,
        context: &mut [f32],
    ) {
        let mut weights = scores(query, keys);
        if let Some(bias) = bias {
            add_assign(&mut weights, bias);
        }
        if let Some(cap) = softcap {
            soft_cap(&mut weights, cap);
        }
        weights[..seen.start].fill(f32::NEG_INFINITY);
        weights[seen.end..].fill(f32::NEG_INFINITY);
        let highest = self.highest.max(maximum(&weights));
        for weight in &mut weights {
            *weight = exp(*weight - highest);
        }
        weights[..seen.start].fill(0.0);
        weights[seen.end..].fill(0.0);
        if highest > self.highest {
            // e^(−∞ − m) is tiny instead of zero, but what it scales is zero at the start.
            let scale = exp(self.highest - highest);
            self.total *= scale;
            scale_by(context, scale);
            self.highest = highest;
        }
        self.total += sum(&weights);
        weighted_sum(&weights[..seen.end], values, context);
    }

    /// Turns the weighted sum into the weighted mean.
    fn finish(self, context: &mut [f32]) {
        scale_by(context, 1.0 / self.total);
    }
}

/// A query row: which sequence it is of, where in its text it is, and how many of the sequence's tokens it may see
/// (itself included, where it is one of them).
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSpan {
    pub(crate) sequence: usize,
    pub(crate) position: usize,
    pub(crate) visible: usize,
}

/// What is added to scores, by head and by how far the key is behind the query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bias<'b> {
    /// shape: [heads, 2 · reach]; element i of a head is for a key i − reach tokens behind the query.
    pub(crate) values: &'b [f32],
    /// No row is at this position or behind it, and no page that is read ends behind it.
    pub(crate) reach: usize,
}

impl Bias<'_> {
    /// What is added to the scores of a page, `[PAGE_TOKENS]`, for a query at `position`.
    fn of_page(&self, head: usize, position: usize, page: usize) -> &[f32] {
        let first = self.reach + page * PAGE_TOKENS - position;
        &self.values[2 * self.reach * head..][first..first + PAGE_TOKENS]
    }
}

/// The heads of a layer. `heads / kv_heads` query heads in a row share a head of keys and values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// What scores are multiplied by.
    pub(crate) scale: f32,
    /// c of c·tanh(s/c), which scores go through.
    pub(crate) softcap: Option<f32>,
    /// How many tokens a row sees at most, itself included.
    pub(crate) window: Option<usize>,
}

/// `out[row] = softmax(scale · q·Kᵀ + bias) · V` for each head of each row.
///
/// `queries`, `out`: `[rows, heads, head_dim]`; `queries` are scaled in place. `page(sequence, index, kv_head)` gives
/// keys, `[head_dim, PAGE_TOKENS]`, and values, `[PAGE_TOKENS, head_dim]`. Rows of a sequence are neighbours. `groups`
/// is memory for the division of the work.
pub(crate) fn attend<'c>(
    heads: Heads,
    queries: &mut [f32],
    spans: &[RowSpan],
    page: impl Fn(usize, usize, usize) -> (&'c [f32], &'c [f32]) + Sync,
    bias: Option<Bias<'_>>,
    groups: &mut Vec<[usize; 2]>,
    out: &mut [f32],
) {
    scale_by(queries, heads.scale);
    groups.clear();
    let mut first = 0;
    while first < spans.len() {
        let same = spans[first..].iter().take(ROWS).take_while(|span| span.sequence == spans[first].sequence);
        let end = first + same.count();
        groups.push([first, end]);
        first = end;
    }
    assert_eq!(out.len(), queries.len());
    let out = Contexts(out.as_mut_ptr());
    let (groups, queries) = (&*groups, &*queries);
    let run = |unit: usize| {
        let ([first, end], head) = (groups[unit / heads.heads], unit % heads.heads);
        let kv_head = head / (heads.heads / heads.kv_heads);
        let at = |row: usize| ((row * heads.heads) + head) * heads.head_dim;
        let mut running = [Running::START; ROWS];
        // SAFETY: `out` has a context for each row and head, which belongs to one unit; each unit runs once.
        #[allow(unsafe_code, reason = "units write to disjoint parts of a slice")]
        let context = |row: usize| unsafe { std::slice::from_raw_parts_mut(out.start().add(at(row)), heads.head_dim) };
        (first..end).for_each(|row| context(row).fill(0.0));
        let visible = spans[first..end].iter().map(|span| span.visible).max().unwrap_or(0);
        let begins = |row: usize| heads.window.map_or(0, |window| spans[row].visible.saturating_sub(window));
        let unseen = (first..end).map(begins).min().unwrap_or(0);
        for index in unseen / PAGE_TOKENS..visible.div_ceil(PAGE_TOKENS) {
            let (keys, values) = page(spans[first].sequence, index, kv_head);
            for (running, row) in running.iter_mut().zip(first..end) {
                let within = |tokens: usize| tokens.saturating_sub(index * PAGE_TOKENS).min(PAGE_TOKENS);
                let seen = within(begins(row))..within(spans[row].visible);
                if !seen.is_empty() {
                    let query = &queries[at(row)..][..heads.head_dim];
                    let bias = bias.as_ref().map(|bias| bias.of_page(head, spans[row].position, index));
                    running.add_page(query, (keys, values), seen, bias, heads.softcap, context(row));
                }
            }
        }
        running.iter().zip(first..end).for_each(|(running, row)| running.finish(context(row)));
    };
    let units = groups.len() * heads.heads;
    let visible: usize = spans.iter().map(|span| span.visible).sum();
    match 2 * visible * heads.heads * heads.head_dim < WORTH_SPLITTING {
        true => (0..units).for_each(run),
        false => pool::parallel(units, run),
    }
}

/// Where contexts are written.
struct Contexts(*mut f32);

// SAFETY: units write to disjoint elements.
#[allow(unsafe_code, reason = "see above")]
unsafe impl Sync for Contexts {}

impl Contexts {
    fn start(&self) -> *mut f32 {
        self.0
    }
}

/// q·k_t for every token of the page.
fn scores(query: &[f32], keys: &[f32]) -> [f32; PAGE_TOKENS] {
    let mut scores = [0.0; PAGE_TOKENS];
    for (block, scores) in scores.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let mut sums = [0.0f32; BLOCK];
        for (q, keys) in query.iter().zip(keys.as_chunks::<PAGE_TOKENS>().0) {
            let keys = &keys.as_chunks::<BLOCK>().0[block];
            for lane in 0..BLOCK {
                sums[lane] += q * keys[lane];
            }
        }
        *scores = sums;
    }
    scores
}

/// `context += Σ_t weights[t] · values[t]`, tokens in order.
fn weighted_sum(weights: &[f32], values: &[f32], context: &mut [f32]) {
    let head_dim = context.len();
    let (blocks, rest) = context.as_chunks_mut::<BLOCK>();
    let rest_at = blocks.len() * BLOCK;
    for (block, context) in blocks.iter_mut().enumerate() {
        let mut sums = *context;
        for (weight, values) in weights.iter().zip(values.chunks_exact(head_dim)) {
            let values = &values.as_chunks::<BLOCK>().0[block];
            for lane in 0..BLOCK {
                sums[lane] += weight * values[lane];
            }
        }
        *context = sums;
    }
    for (weight, values) in weights.iter().zip(values.chunks_exact(head_dim)) {
        for (sum, value) in rest.iter_mut().zip(&values[rest_at..]) {
            *sum += weight * value;
        }
    }
}
