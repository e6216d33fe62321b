//! Part of a KV cache page that belongs to one head: keys and values of [`PAGE_TOKENS`] tokens, and attention's
//! products with them.
//!
//! Products with a page give one number per token or per element of a head. Sixteen of these are adjacent in memory, in
//! order of computation, so a page is read sequentially. Strided reads reach half of the memory bandwidth.
//!
//! ```text
//! keys     [2 blocks of tokens, head_dim, 16 tokens]
//! values   [head_dim / 16 blocks of elements, PAGE_TOKENS, 16 elements], then [PAGE_TOKENS, elements left over]
//! ```

use std::ops::Range;

use super::memory::prefetch;

/// Number of tokens in a page of a [`KvCache`](crate::KvCache).
pub const PAGE_TOKENS: usize = 32;

/// Number of tokens, or elements, in a block.
const BLOCK: usize = 16;

/// Number of f32 values in a page for a head of `head_dim` elements.
pub(crate) const fn len(head_dim: usize) -> usize {
    2 * head_dim * PAGE_TOKENS
}

/// Stores the key and value of a token, `[head_dim]` each.
pub(crate) fn store(page: &mut [f32], token: usize, key: &[f32], value: &[f32]) {
    let head_dim = key.len();
    let (keys, values) = page.split_at_mut(head_dim * PAGE_TOKENS);
    let (block, lane) = (token / BLOCK, token % BLOCK);
    let keys = &mut keys[block * head_dim * BLOCK..][..head_dim * BLOCK];
    for (keys, key) in keys.as_chunks_mut::<BLOCK>().0.iter_mut().zip(key) {
        keys[lane] = *key;
    }
    let (blocks, rest) = value.as_chunks::<BLOCK>();
    let (in_blocks, behind) = values.split_at_mut(blocks.len() * BLOCK * PAGE_TOKENS);
    for (values, value) in in_blocks.chunks_exact_mut(BLOCK * PAGE_TOKENS).zip(blocks) {
        values[token * BLOCK..][..BLOCK].copy_from_slice(value);
    }
    behind[token * rest.len()..][..rest.len()].copy_from_slice(rest);
}

/// Slice of blocks of BLOCK numbers.
type Blocks<'p> = &'p [[f32; BLOCK]];

/// Computes q·k_t of N queries for every token, each summed over the elements in order. Sums LANES tokens of BLOCKS
/// blocks at a time. `ahead` is prefetched.
pub(super) fn scores<const N: usize, const BLOCKS: usize, const LANES: usize>(
    queries: [&[f32]; N],
    page: &[f32],
    ahead: &[f32],
) -> [[f32; PAGE_TOKENS]; N] {
    let head_dim = queries[0].len();
    let queries = queries.map(|query| &query[..head_dim]);
    let (keys, _) = page[..head_dim * PAGE_TOKENS].as_chunks::<BLOCK>();
    let mut scores = [[0.0; PAGE_TOKENS]; N];
    for block in (0..PAGE_TOKENS / BLOCK).step_by(BLOCKS) {
        let keys: [Blocks<'_>; BLOCKS] = std::array::from_fn(|i| &keys[(block + i) * head_dim..][..head_dim]);
        for first in (0..BLOCK).step_by(LANES) {
            let mut sums = [[[0.0f32; LANES]; BLOCKS]; N];
            for element in 0..head_dim {
                for (i, keys) in keys.iter().enumerate() {
                    prefetch(ahead, ((block + i) * head_dim + element) * BLOCK);
                    let Some(keys) = keys[element][first..].first_chunk::<LANES>() else { break };
                    for n in 0..N {
                        for lane in 0..LANES {
                            sums[n][i][lane] += queries[n][element] * keys[lane];
                        }
                    }
                }
            }
            for (scores, sums) in scores.iter_mut().zip(&sums) {
                for (i, sums) in sums.iter().enumerate() {
                    scores[(block + i) * BLOCK + first..][..LANES].copy_from_slice(sums);
                }
            }
        }
    }
    scores
}

/// Computes `context += Σ_t weights[t] · v_t` of N queries, in order. Query i sums over its first `tokens[i]` tokens
/// and ignores later ones. Sums LANES elements of BLOCKS blocks at a time. `ahead` is prefetched.
pub(super) fn weighted_sums<const N: usize, const BLOCKS: usize, const LANES: usize>(
    weights: &[[f32; PAGE_TOKENS]; N],
    tokens: [usize; N],
    page: &[f32],
    ahead: &[f32],
    mut contexts: [&mut [f32]; N],
) {
    let head_dim = contexts[0].len();
    let common = tokens.into_iter().fold(PAGE_TOKENS, usize::min);
    let (values, rest) = page[head_dim * PAGE_TOKENS..].split_at(head_dim / BLOCK * BLOCK * PAGE_TOKENS);
    let mut values = values.as_chunks::<BLOCK>().0;
    let mut first = 0;
    while values.len() >= BLOCKS * PAGE_TOKENS {
        let (these, behind) = values.split_at(BLOCKS * PAGE_TOKENS);
        add_blocks::<N, BLOCKS, LANES>(weights, 0..common, these, ahead, &mut contexts, first);
        (values, first) = (behind, first + BLOCKS * BLOCK);
    }
    while !values.is_empty() {
        let (these, behind) = values.split_at(PAGE_TOKENS);
        add_blocks::<N, 1, LANES>(weights, 0..common, these, ahead, &mut contexts, first);
        (values, first) = (behind, first + BLOCK);
    }
    for ((context, weights), tokens) in contexts.iter_mut().zip(weights).zip(tokens) {
        // Tokens that only some queries see: a sum must not depend on tokens that its query does not see.
        if tokens > common {
            let blocks = page[head_dim * PAGE_TOKENS..].as_chunks::<BLOCK>().0.chunks_exact(PAGE_TOKENS);
            for (block, values) in blocks.take(head_dim / BLOCK).enumerate() {
                let weights = std::array::from_ref(weights);
                add_blocks::<1, 1, BLOCK>(weights, common..tokens, values, ahead, &mut [context], block * BLOCK);
            }
        }
        for (weight, values) in weights[..tokens].iter().zip(rest.chunks_exact((head_dim - first).max(1))) {
            for (sum, value) in context[first..].iter_mut().zip(values) {
                *sum += weight * value;
            }
        }
    }
}

/// Adds the tokens in a range to elements from `first` on, in whole blocks.
#[inline]
fn add_blocks<const N: usize, const BLOCKS: usize, const LANES: usize>(
    weights: &[[f32; PAGE_TOKENS]; N],
    tokens: Range<usize>,
    values: Blocks<'_>,
    ahead: &[f32],
    contexts: &mut [&mut [f32]; N],
    first: usize,
) {
    let values: [Blocks<'_>; BLOCKS] = std::array::from_fn(|i| &values[i * PAGE_TOKENS..][..PAGE_TOKENS]);
    for lane in (0..BLOCK).step_by(LANES) {
        let at = |i: usize| first + i * BLOCK + lane;
        let mut sums = [[[0.0f32; LANES]; BLOCKS]; N];
        for (sums, context) in sums.iter_mut().zip(&*contexts) {
            for (i, sums) in sums.iter_mut().enumerate() {
                sums.copy_from_slice(&context[at(i)..][..LANES]);
            }
        }
        for token in tokens.clone() {
            for (i, values) in values.iter().enumerate() {
                prefetch(ahead, (first + i * BLOCK) * PAGE_TOKENS + token * BLOCK);
                let Some(values) = values[token][lane..].first_chunk::<LANES>() else { break };
                for n in 0..N {
                    for lane in 0..LANES {
                        sums[n][i][lane] += weights[n][token] * values[lane];
                    }
                }
            }
        }
        for (sums, context) in sums.iter().zip(&mut *contexts) {
            for (i, sums) in sums.iter().enumerate() {
                context[at(i)..][..LANES].copy_from_slice(sums);
            }
        }
    }
}
