//! Attention of several queries over one page of the KV cache at a time, with an online softmax.
//!
//! For scores s_t = q·k_t, the weighted sum Σ e^(s_t − m)·v_t and the normaliser Σ e^(s_t − m) are kept for the highest
//! score m so far. When a page has a higher score m′, both are scaled by e^(m − m′) (Milakov, Gimelshein 2018,
//! <https://arxiv.org/abs/1805.02867>). Each query visits the pages in order, and the order of sums within a page is
//! the same for all queries. Its result therefore depends only on the query and the cache.
//!
//! A sink is a score without a value (Xiao et al. 2023, <https://arxiv.org/abs/2309.17453>; learned in gpt-oss). A
//! query with a sink b starts from m = b and a normaliser of e^(b − b) = 1 instead of −∞ and 0.
//!
//! Rows of a sequence and heads of a group (grouped-query attention) share a page: it is fetched once for all of them,
//! and each of its vectors is loaded once for four.

use std::ops::Range;

use super::{
    head_page::{PAGE_TOKENS, scores, weighted_sums},
    pool,
    vector::{exp, maximum, scale_by, soft_cap, sum},
};

/// Maximum number of queries that share a page.
const QUERIES: usize = 8;

/// Number of queries for which a vector of a page is loaded once.
const TILE: usize = 4;

/// Number of multiplications below which other threads cost more than they save.
const WORTH_SPLITTING: usize = 1 << 16;

/// Number of scores or context elements that a tile sums at a time for each query. With four queries these are eight
/// vectors of the compiler's choice: enough to hide the latency of additions, and leaving registers for the operands.
const LANES: usize = if cfg!(target_feature = "avx") { 16 } else { 8 };

/// State of a query while it visits the pages.
struct Query<'a> {
    /// Scaled query vector. shape: `[head_dim]`
    query: &'a [f32],
    row: usize,
    /// Online softmax: highest score so far, normaliser, and weighted sum of values. shape: `[head_dim]`
    highest: f32,
    total: f32,
    context: &'a mut [f32],
}

impl Query<'_> {
    /// Placeholder for unused entries of an array.
    fn missing() -> Self {
        Self { query: &[], row: 0, highest: f32::NEG_INFINITY, total: 0.0, context: &mut [] }
    }

    /// Replaces the scores of a page's tokens by their weights, which are zero for tokens outside `seen`.
    fn weigh(&mut self, scores: &mut [f32; PAGE_TOKENS], seen: Range<usize>, cap: Option<f32>) {
        if let Some(cap) = cap {
            soft_cap(scores, cap);
        }
        let all = 0..PAGE_TOKENS;
        if seen != all {
            scores[..seen.start].fill(f32::NEG_INFINITY);
            scores[seen.end..].fill(f32::NEG_INFINITY);
        }
        let highest = self.highest.max(maximum(scores));
        for score in &mut *scores {
            *score = exp(*score - highest);
        }
        if seen != all {
            scores[..seen.start].fill(0.0);
            scores[seen.end..].fill(0.0);
        }
        if highest > self.highest {
            // e^(−∞ − m) is tiny instead of zero, but it scales sums that are zero at the start.
            let scale = exp(self.highest - highest);
            self.total *= scale;
            scale_by(self.context, scale);
            self.highest = highest;
        }
        self.total += sum(scores);
    }
}

/// Adds a page's tokens to the sums of N queries. `sight` gives the visible tokens of the page, and `next` is the page
/// to be prefetched. BLOCKS and LANES set how many numbers are summed at a time for each query.
fn add_page<const N: usize, const BLOCKS: usize, const LANES: usize>(
    queries: &mut [Query<'_>],
    page: &[f32],
    next: &[f32],
    sight: impl Fn(&Query<'_>) -> Range<usize>,
    cap: Option<f32>,
) {
    let Some((queries, [])) = queries.split_first_chunk_mut::<N>() else { return };
    let values = &page[page.len() / 2..];
    let mut weights = scores::<N, BLOCKS, LANES>(queries.each_ref().map(|query| query.query), page, values);
    let mut ends = [0; N];
    for ((query, weights), end) in queries.iter_mut().zip(&mut weights).zip(&mut ends) {
        let seen = sight(query);
        *end = if seen.is_empty() { 0 } else { seen.end };
        query.weigh(weights, seen, cap);
    }
    let contexts = queries.each_mut().map(|query| &mut *query.context);
    weighted_sums::<N, BLOCKS, LANES>(&weights, ends, page, next, contexts);
}

/// Row of queries: its sequence, its position, and the number of visible tokens, including itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSpan {
    pub(crate) sequence: usize,
    pub(crate) position: usize,
    pub(crate) visible: usize,
}

/// Attention heads of a layer. Each head of keys and values is shared by `heads / kv_heads` query heads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads<'s> {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Factor of attention scores.
    pub(crate) scale: f32,
    /// Soft cap c of scores, c·tanh(s/c).
    pub(crate) softcap: Option<f32>,
    /// Maximum number of tokens that a row sees, itself included.
    pub(crate) window: Option<usize>,
    /// Sink of each head, `[heads]`.
    pub(crate) sinks: Option<&'s [f32]>,
}

/// Computes `out[row] = softmax(scale · q·Kᵀ) · V` for each head of each row.
///
/// `queries`, `out`: `[rows, heads, head_dim]`; `queries` are scaled in place. `page(sequence, index, kv_head)` returns
/// a head's part of a page, laid out as in [`head_page`](super::head_page). Rows of a sequence must be adjacent.
/// `groups` is working memory.
pub(crate) fn attend<'c>(
    heads: Heads<'_>,
    queries: &mut [f32],
    spans: &[RowSpan],
    page: impl Fn(usize, usize, usize) -> &'c [f32] + Sync,
    groups: &mut Vec<[usize; 2]>,
    out: &mut [f32],
) {
    scale_by(queries, heads.scale);
    groups.clear();
    let mut first = 0;
    while first < spans.len() {
        let same = spans[first..].iter().take(QUERIES).take_while(|span| span.sequence == spans[first].sequence);
        let end = first + same.count();
        groups.push([first, end]);
        first = end;
    }
    let visible: usize = spans.iter().map(|span| span.visible).sum();
    let threads = match 2 * visible * heads.heads * heads.head_dim < WORTH_SPLITTING {
        true => 1,
        false => pool::sharing(),
    };
    let division = Division::new(heads, groups, threads);
    assert!([queries.len(), out.len()] == [spans.len() * heads.heads * heads.head_dim; 2]);
    let (queries, out) = (&*queries, Contexts(out.as_mut_ptr()));
    let run = |unit: usize| {
        let Unit { rows, kv_head, heads: own } = division.unit(unit);
        let mut all: [_; QUERIES] = std::array::from_fn(|_| Query::missing());
        let mut count = 0;
        for row in rows.clone() {
            for head in own.clone() {
                let at = (row * heads.heads + head) * heads.head_dim;
                // SAFETY: `out` has a context for each row and head, which belongs to one unit; each unit runs once.
                #[allow(unsafe_code, reason = "units write to disjoint parts of a slice")]
                let context = unsafe { std::slice::from_raw_parts_mut(out.start().add(at), heads.head_dim) };
                context.fill(0.0);
                let (highest, total) = heads.sinks.map_or((f32::NEG_INFINITY, 0.0), |sinks| (sinks[head], 1.0));
                let query = &queries[at..][..heads.head_dim];
                all[count] = Query { query, row, highest, total, context };
                count += 1;
            }
        }
        let all = &mut all[..count];
        let visible = spans[rows.clone()].iter().map(|span| span.visible).max().unwrap_or(0);
        let begins = |row: usize| heads.window.map_or(0, |window| spans[row].visible.saturating_sub(window));
        let unseen = rows.clone().map(begins).min().unwrap_or(0);
        let end = visible.div_ceil(PAGE_TOKENS);
        for index in unseen / PAGE_TOKENS..end {
            let number = |index: usize| page(spans[rows.start].sequence, index, kv_head);
            let page = number(index);
            let next = if index + 1 < end { number(index + 1) } else { page };
            let sight = |query: &Query<'_>| {
                let within = |tokens: usize| tokens.saturating_sub(index * PAGE_TOKENS).min(PAGE_TOKENS);
                within(begins(query.row))..within(spans[query.row].visible)
            };
            for tile in all.chunks_mut(TILE) {
                match tile.len() {
                    4 => add_page::<4, 1, LANES>(tile, page, next, sight, heads.softcap),
                    3 => add_page::<3, 1, LANES>(tile, page, next, sight, heads.softcap),
                    2 => add_page::<2, 1, 16>(tile, page, next, sight, heads.softcap),
                    _ => add_page::<1, 2, 16>(tile, page, next, sight, heads.softcap),
                }
            }
        }
        all.iter_mut().for_each(|query| scale_by(query.context, 1.0 / query.total));
    };
    match threads {
        1 => (0..division.units()).for_each(run),
        _ => pool::parallel(division.units(), run),
    }
}

/// Division of the work: rows of a sequence and heads of a group, at most [`QUERIES`] together.
struct Division<'g> {
    groups: &'g [[usize; 2]],
    kv_heads: usize,
    /// Number of query heads that share a KV head, and number of parts they are divided into.
    shared_by: usize,
    parts: usize,
}

/// Work for one thread at a time.
struct Unit {
    rows: Range<usize>,
    kv_head: usize,
    heads: Range<usize>,
}

impl<'g> Division<'g> {
    /// Chooses the largest units that give each thread one, because small units read pages more often.
    fn new(heads: Heads<'_>, groups: &'g [[usize; 2]], threads: usize) -> Self {
        let shared_by = heads.heads / heads.kv_heads;
        let rows = groups.iter().map(|[first, end]| end - first).max().unwrap_or(1);
        let fewest = shared_by.div_ceil((QUERIES / rows).max(1));
        let wanted = threads.div_ceil(groups.len().max(1) * heads.kv_heads);
        let parts = fewest.max(wanted.min(shared_by));
        Self { groups, kv_heads: heads.kv_heads, shared_by, parts }
    }

    fn units(&self) -> usize {
        self.groups.len() * self.kv_heads * self.parts
    }

    fn unit(&self, index: usize) -> Unit {
        let (rest, part) = (index / self.parts, index % self.parts);
        let ([first, end], kv_head) = (self.groups[rest / self.kv_heads], rest % self.kv_heads);
        let begin = |part: usize| kv_head * self.shared_by + part * self.shared_by / self.parts;
        Unit { rows: first..end, kv_head, heads: begin(part)..begin(part + 1) }
    }
}

/// Pointer to the output of all units.
struct Contexts(*mut f32);

// SAFETY: units write to disjoint elements.
#[allow(unsafe_code, reason = "see above")]
unsafe impl Sync for Contexts {}

impl Contexts {
    fn start(&self) -> *mut f32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{super::head_page, *};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    /// Pseudo-random numbers between −1 and 1 with a long period.
    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        let hash = |i: usize| (i + 1).wrapping_mul(seed * 2 + 2_654_435_761) >> 7 & 0xffff;
        (0..count).map(|i| hash(i) as f32 / 32768.0 - 1.0).collect()
    }

    /// Keys and values of a sequence, `[tokens, kv_heads, head_dim]`, and its pages, `[pages, kv_heads]`.
    struct Text<'s> {
        heads: Heads<'s>,
        keys: Vec<f32>,
        values: Vec<f32>,
        pages: Vec<f32>,
    }

    impl<'s> Text<'s> {
        fn new(heads: Heads<'s>, pages: usize, seed: usize) -> Self {
            let Heads { kv_heads, head_dim, .. } = heads;
            let count = pages * PAGE_TOKENS * kv_heads * head_dim;
            let (keys, values) = (numbers(seed, count), numbers(seed + 1, count));
            let len = head_page::len(head_dim);
            let mut text = Self { heads, keys, values, pages: vec![f32::NAN; pages * kv_heads * len] };
            for token in 0..pages * PAGE_TOKENS {
                for head in 0..kv_heads {
                    let page = &mut text.pages[(token / PAGE_TOKENS * kv_heads + head) * len..][..len];
                    let at = (token * kv_heads + head) * head_dim..(token * kv_heads + head + 1) * head_dim;
                    head_page::store(page, token % PAGE_TOKENS, &text.keys[at.clone()], &text.values[at]);
                }
            }
            text
        }

        fn page(&self, index: usize, kv_head: usize) -> &[f32] {
            let len = head_page::len(self.heads.head_dim);
            &self.pages[(index * self.heads.kv_heads + kv_head) * len..][..len]
        }

        /// Reference: softmax over the scores of all visible tokens, in f64.
        fn attend(&self, query: &[f32], head: usize, span: RowSpan) -> Vec<f64> {
            let Heads { head_dim, scale, softcap, window, sinks, .. } = self.heads;
            let kv_head = head / (self.heads.heads / self.heads.kv_heads);
            let first = window.map_or(0, |window| span.visible.saturating_sub(window));
            let scores: Vec<f64> = (first..span.visible)
                .map(|token| {
                    let at = (token * self.heads.kv_heads + kv_head) * head_dim;
                    let key = |i: usize| f64::from(self.keys[at + i]);
                    let dot: f64 = (0..head_dim).map(|i| f64::from(query[i]) * key(i)).sum();
                    let score = dot * f64::from(scale);
                    softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
                })
                .collect();
            let sink = sinks.map_or(0.0, |sinks| f64::from(sinks[head]).exp());
            let total = scores.iter().map(|score| score.exp()).sum::<f64>() + sink;
            let mut context = vec![0.0; head_dim];
            for (token, score) in (first..).zip(&scores) {
                let values = &self.values[(token * self.heads.kv_heads + kv_head) * head_dim..][..head_dim];
                context.iter_mut().zip(values).for_each(|(sum, v)| *sum += score.exp() / total * f64::from(*v));
            }
            context
        }
    }

    fn contexts(texts: &[Text<'_>], spans: &[RowSpan], queries: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; queries.len()];
        let page = |sequence: usize, index: usize, head: usize| texts[sequence].page(index, head);
        attend(texts[0].heads, &mut queries.to_vec(), spans, page, &mut Vec::new(), &mut out);
        out
    }

    /// Covers every number of queries in a tile, head sizes that are whole vectors and others, rows of two sequences,
    /// windows and caps.
    #[test]
    fn contexts_are_weighted_means_and_the_same_in_any_company() {
        let shapes = [(1, 1, 4), (2, 2, 6), (3, 1, 64), (6, 2, 20), (7, 1, 48), (16, 2, 80), (9, 1, 33)];
        let settings = [(None, None, false), (Some(5), None, true), (Some(40), Some(0.5), false), (None, None, true)];
        // Sinks above and below all scores, and between them.
        let all_sinks: Vec<f32> = (0..16).map(|head| (head as f32 - 7.5) * 3.0).collect();
        for ((heads, kv_heads, head_dim), (window, softcap, has_sinks)) in
            shapes.into_iter().flat_map(|shape| settings.map(|setting| (shape, setting)))
        {
            let sinks = has_sinks.then_some(&all_sinks[..heads]);
            let heads = Heads { heads, kv_heads, head_dim, scale: 0.6, softcap, window, sinks };
            let texts = [Text::new(heads, 3, 1), Text::new(heads, 3, 5)];
            let span = |sequence: usize, visible: usize| RowSpan { sequence, position: visible - 1, visible };
            for (first, rows) in [(1, 1), (31, 3), (60, 10), (33, 7)] {
                let mut spans: Vec<_> = (0..rows).map(|row| span(0, first + row)).collect();
                if rows == 7 {
                    spans.reverse();
                }
                spans.push(span(1, 70));
                let width = heads.heads * head_dim;
                let queries = numbers(3, spans.len() * width);
                let found = contexts(&texts, &spans, &queries);
                for (row, span) in spans.iter().enumerate() {
                    let query = &queries[row * width..][..width];
                    let own = &found[row * width..][..width];
                    let alone = contexts(&texts, &[*span], query);
                    assert_eq!(own, alone, "{heads:?}: row {row} of {rows} has other bits alone");
                    for (head, own) in own.chunks(head_dim).enumerate() {
                        let query = &query[head * head_dim..][..head_dim];
                        let expected = texts[span.sequence].attend(query, head, *span);
                        for (found, expected) in own.iter().zip(&expected) {
                            let error = (f64::from(*found) - expected).abs();
                            assert!(error < 5e-6, "{heads:?}, row {row} of {rows}, head {head}: {found}, {expected}");
                        }
                    }
                }
            }
        }
    }

    /// Tokens that overflow to infinity or NaN do not affect rows that do not see them.
    #[test]
    fn what_a_row_does_not_see_cannot_spoil_it() {
        for window in [None, Some(20)] {
            let heads = Heads { heads: 3, kv_heads: 1, head_dim: 20, scale: 1.0, softcap: None, window, sinks: None };
            let spans = [8, 9, 10, 70].map(|visible| RowSpan { sequence: 0, position: visible - 1, visible });
            let queries = numbers(3, spans.len() * 60);
            let spoil = |token: usize| {
                let mut text = Text::new(heads, 3, 1);
                let page = &mut text.pages[token / PAGE_TOKENS * head_page::len(20)..][..head_page::len(20)];
                head_page::store(page, token % PAGE_TOKENS, &[1.0; 20], &[f32::INFINITY; 20]);
                contexts(&[text], &spans, &queries)
            };
            let clean = contexts(&[Text::new(heads, 3, 1)], &spans, &queries);
            assert_eq!(spoil(9)[..120], clean[..120], "rows before it");
            assert_eq!(spoil(69)[..180], clean[..180], "rows before it");
            assert_eq!(spoil(9)[180..] == clean[180..], window.is_some(), "a row behind it");
        }
    }
}
