//! The KV cache of one sequence, with rollback: pages of keys and values, wherever a backend has its memory.

use std::{fmt::Debug, ops::Range, sync::Arc};

use super::branches::Branches;
use crate::{
    error::ModelError,
    family::config::{LARGEST_DIMENSION, ModelConfig},
    kernels::{
        head_page::{self, PAGE_TOKENS},
        pages::{Page, Pages},
    },
};

/// The memory that a backend's KV caches take pages from. Caches of equal sources can be exchanged.
pub trait PageSource: Debug + Clone + PartialEq {
    /// Keys and values of [`PAGE_TOKENS`] tokens in every layer, or the right to them; given back when dropped.
    type Page: Debug;
    /// The errors of the backend's forward passes.
    type Error: From<ModelError>;
    /// Whether its forward passes read [branches](KvCache::branch).
    const BRANCHES: bool = false;

    /// The size of a page in bytes.
    fn page_bytes(&self) -> usize;

    /// Adds `count` more pages, all or none.
    ///
    /// # Errors
    /// If there is no memory for them.
    fn extend(&self, pages: &mut Vec<Self::Page>, count: usize) -> Result<(), Self::Error>;
}

/// The KV cache of one sequence, for every layer.
///
/// Memory grows by pages of [`PAGE_TOKENS`] tokens and never moves. [`truncate`](Self::truncate) discards tokens in
/// constant time and keeps the memory for those that follow.
///
/// Positions at and above [`len`](Self::len) may hold values of a forward pass that failed or of tokens that were
/// rolled back; they are always written again before they are read.
#[derive(Debug, Clone)]
pub struct KvCache<S: PageSource = HostPages> {
    pub(super) source: S,
    pub(super) pages: Vec<S::Page>,
    pub(super) len: usize,
    pub(super) branches: Branches<S::Page>,
}

impl<S: PageSource> KvCache<S> {
    /// An empty cache that takes its pages from `source`.
    #[must_use]
    pub fn new(source: S) -> Self {
        Self { source, pages: Vec::new(), len: 0, branches: Branches::default() }
    }

    /// The number of tokens held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no token is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Discards all but the first `len` tokens, of which there may be no more, and all branches.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.branches.discard();
    }

    /// The bytes of its pages at present, those of its branches included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.pages.len() + self.branches.pages()) * self.source.page_bytes()
    }

    /// The bytes of a cache of this kind once it holds `tokens`, if it never held more.
    #[must_use]
    pub fn bytes_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(PAGE_TOKENS) * self.source.page_bytes()
    }

    /// Makes sure that there are pages for `added` tokens more, and for the branches that the next pass reads.
    pub(super) fn make_room(&mut self, added: usize) -> Result<(), S::Error> {
        self.branches.forget_read();
        self.make_room_for_branches()?;
        let pages = (self.len + added).div_ceil(PAGE_TOKENS);
        match pages.checked_sub(self.pages.len()) {
            Some(missing @ 1..) => self.source.extend(&mut self.pages, missing),
            _ => Ok(()),
        }
    }

    /// Counts `added` tokens more, which have been staged in every layer, as the branches have.
    pub(super) fn grow(&mut self, added: usize) {
        self.len += added;
        self.branches.grow();
    }

    /// Whether it takes its pages from such a source.
    pub(super) fn is_of(&self, source: &S) -> bool {
        self.source == *source
    }

    /// The pages of the tokens, in order; the last ones may be spare.
    #[must_use]
    pub fn pages(&self) -> &[S::Page] {
        &self.pages
    }
}

/// One sequence's part in a batch.
#[derive(Debug)]
pub struct Chunk<'a, S: PageSource = HostPages> {
    /// The sequence's past. Grows by `tokens` if the forward pass succeeds.
    pub cache: &'a mut KvCache<S>,
    /// Tokens that follow those in the cache. May be empty.
    pub tokens: &'a [u32],
    /// Indices into `tokens` after which next-token logits are wanted; strictly ascending, may be empty.
    pub positions: &'a [usize],
}

/// Runs a forward pass over a batch that has been checked, whose caches come from `source` and have room for its
/// tokens. They hold these tokens if the forward pass succeeds, and are as they were if not, without the branches that
/// it was to read.
///
/// # Errors
/// [`ModelError`] names the chunk that cannot be fed and says why; what `pass` or the memory fails with.
pub fn feed<'a, S: PageSource, T>(
    config: &ModelConfig,
    source: &S,
    batch: &mut [Chunk<'a, S>],
    pass: impl FnOnce(&mut [Chunk<'a, S>]) -> Result<T, S::Error>,
) -> Result<T, S::Error> {
    let result = feed_checked(config, source, batch, pass);
    for chunk in batch.iter_mut() {
        match result {
            Ok(_) => chunk.cache.grow(chunk.tokens.len()),
            Err(_) => chunk.cache.branches.discard(),
        }
    }
    result
}

fn feed_checked<'a, S: PageSource, T>(
    config: &ModelConfig,
    source: &S,
    batch: &mut [Chunk<'a, S>],
    pass: impl FnOnce(&mut [Chunk<'a, S>]) -> Result<T, S::Error>,
) -> Result<T, S::Error> {
    for (index, chunk) in batch.iter().enumerate() {
        chunk.check(index, config.context_length, config.vocab_size, source)?;
        chunk.check_branches(index, config.context_length, config.vocab_size)?;
    }
    for chunk in batch.iter_mut() {
        chunk.cache.make_room(chunk.tokens.len())?;
    }
    pass(batch)
}

impl<S: PageSource> Chunk<'_, S> {
    /// Whether the model can be fed with it.
    pub(super) fn check(
        &self,
        chunk: usize,
        context_length: usize,
        vocab_size: usize,
        source: &S,
    ) -> Result<(), ModelError> {
        let (cached, added) = (self.cache.len, self.tokens.len());
        if !self.cache.is_of(source) {
            return Err(ModelError::CacheMismatch { chunk });
        }
        if added > context_length - cached {
            return Err(ModelError::ContextExceeded { chunk, cached, added, context_length });
        }
        if let Some(index) = self.tokens.iter().position(|&token| token as usize >= vocab_size) {
            return Err(ModelError::TokenOutOfRange { chunk, index, token: self.tokens[index], vocab_size });
        }
        let mut lowest = 0;
        for &position in self.positions {
            if position < lowest || position >= added {
                return Err(ModelError::Position { chunk, position, tokens: added });
            }
            lowest = position + 1;
        }
        Ok(())
    }
}

/// Main memory, for models of one shape.
///
/// A page is, for each layer and each head of it, keys and values of its tokens, in f32.
#[derive(Debug, Clone)]
pub struct HostPages {
    shape: Shape,
    pages: Arc<Pages>,
}

/// What pages and their caches have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
    context_length: usize,
}

impl Shape {
    fn page_len(self) -> usize {
        // Beyond what can be addressed there is no memory for a page, which is told when one is wanted.
        head_page::len(self.head_dim).saturating_mul(self.kv_heads).saturating_mul(self.layers)
    }
}

/// Whether their caches can be exchanged.
impl PartialEq for HostPages {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape
    }
}

impl PageSource for HostPages {
    type Page = Page;
    type Error = ModelError;
    const BRANCHES: bool = true;

    fn page_bytes(&self) -> usize {
        self.shape.page_len().saturating_mul(size_of::<f32>())
    }

    fn extend(&self, pages: &mut Vec<Page>, count: usize) -> Result<(), ModelError> {
        let before = pages.len();
        for _ in 0..count {
            match self.pages.page() {
                Ok(page) => pages.push(page),
                Err(_) => {
                    pages.truncate(before);
                    return Err(ModelError::OutOfMemory { needed: self.page_bytes().saturating_mul(count) });
                }
            }
        }
        Ok(())
    }
}

impl HostPages {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let ModelConfig { layers, kv_heads, head_dim, context_length, .. } = *config;
        Self::of(Shape { layers, kv_heads, head_dim, context_length })
    }

    /// Those of layers with so many heads, for any number of tokens.
    pub(super) fn of_heads(layers: usize, kv_heads: usize, head_dim: usize) -> Self {
        Self::of(Shape { layers, kv_heads, head_dim, context_length: LARGEST_DIMENSION })
    }

    fn of(shape: Shape) -> Self {
        Self { shape, pages: Pages::new(shape.page_len()) }
    }

    /// The part of a page that is a layer's.
    pub(super) fn layer(&self, layer: usize) -> Range<usize> {
        let part = self.shape.kv_heads * head_page::len(self.shape.head_dim);
        layer * part..(layer + 1) * part
    }

    /// Writes `keys` and `values`, each `[new, kv_heads, head_dim]`, into a layer of some pages, from the `first`-th
    /// token of these on.
    pub(super) fn write(&self, pages: &mut [Page], first: usize, layer: usize, keys: &[f32], values: &[f32]) {
        let Shape { kv_heads, head_dim, .. } = self.shape;
        let width = kv_heads * head_dim;
        let tokens = keys.chunks_exact(width).zip(values.chunks_exact(width));
        for (index, (key, value)) in (first..).zip(tokens) {
            let page = &mut pages[index / PAGE_TOKENS][self.layer(layer)];
            let heads = key.chunks_exact(head_dim).zip(value.chunks_exact(head_dim));
            for (page, (key, value)) in page.chunks_exact_mut(head_page::len(head_dim)).zip(heads) {
                head_page::store(page, index % PAGE_TOKENS, key, value);
            }
        }
    }
}

impl KvCache {
    /// A copy of the first `len` tokens, of which there may be no more.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn prefix(&self, len: usize) -> Result<Self, ModelError> {
        let mut copy = Self::new(self.source.clone());
        copy.len = self.len.min(len);
        copy.source.extend(&mut copy.pages, copy.len.div_ceil(PAGE_TOKENS))?;
        copy.pages.iter_mut().zip(&self.pages).for_each(|(to, from)| to.copy_from_slice(from));
        Ok(copy)
    }

    /// Writes `keys` and `values`, each `[new, kv_heads, head_dim]`, behind the tokens of `layer`, for which there are
    /// pages. They count only once the forward pass has succeeded.
    pub(crate) fn stage(&mut self, layer: usize, keys: &[f32], values: &[f32]) {
        self.source.write(&mut self.pages, self.len, layer, keys, values);
    }

    /// A head's part of the `page`-th page, staged tokens included.
    pub(crate) fn page(&self, page: usize, layer: usize, kv_head: usize) -> &[f32] {
        self.page_of(0, page, layer, kv_head)
    }

    /// The same of a line: the cache's own, 0, or one of its branches, counted from 1.
    pub(crate) fn page_of(&self, line: usize, page: usize, layer: usize, kv_head: usize) -> &[f32] {
        let len = head_page::len(self.source.shape.head_dim);
        &self.line_page(line, page)[self.source.layer(layer)][kv_head * len..][..len]
    }
}
