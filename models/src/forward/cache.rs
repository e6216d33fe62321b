//! KV cache of one sequence, with rollback: pages of keys and values in a backend's memory.

use std::{fmt::Debug, ops::Range, sync::Arc};

use super::branches::Branches;
use crate::{
    error::ModelError,
    family::config::ModelConfig,
    kernels::{
        head_page::{self, PAGE_TOKENS},
        pages::{Page, Pages},
    },
};

/// Source of pages for a backend's KV caches. Caches of equal sources are interchangeable.
pub trait PageSource: Debug + Clone + PartialEq {
    /// Keys and values of [`PAGE_TOKENS`] tokens in every layer, or a handle to them; freed on drop.
    type Page: Debug;
    /// Error type of the backend's forward passes.
    type Error: From<ModelError>;
    /// True if the backend's forward passes read [branches](KvCache::branch).
    const BRANCHES: bool = false;

    /// Size of a page in bytes.
    fn page_bytes(&self) -> usize;

    /// Appends `count` pages, all or none.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    fn extend(&self, pages: &mut Vec<Self::Page>, count: usize) -> Result<(), Self::Error>;
}

/// KV cache of one sequence, for every layer.
///
/// Memory grows in pages of [`PAGE_TOKENS`] tokens and never moves. [`truncate`](Self::truncate) discards tokens in
/// constant time and keeps their pages for later tokens.
///
/// Positions from [`len`](Self::len) on may hold values of a failed forward pass or of rolled-back tokens. They are
/// always overwritten before they are read.
#[derive(Debug, Clone)]
pub struct KvCache<S: PageSource = HostPages> {
    pub(super) source: S,
    pub(super) pages: Vec<S::Page>,
    pub(super) len: usize,
    pub(super) branches: Branches<S::Page>,
}

impl<S: PageSource> KvCache<S> {
    /// Creates an empty cache that takes its pages from `source`.
    #[must_use]
    pub fn new(source: S) -> Self {
        Self { source, pages: Vec::new(), len: 0, branches: Branches::default() }
    }

    /// Number of cached tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the cache holds no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Discards all branches, and all tokens except the first `len`. Has no effect on tokens if there are fewer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.branches.discard();
    }

    /// Size of the allocated pages in bytes, including those of branches.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.pages.len() + self.branches.pages()) * self.source.page_bytes()
    }

    /// Size in bytes of a cache that holds `tokens` and never held more.
    #[must_use]
    pub fn bytes_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(PAGE_TOKENS) * self.source.page_bytes()
    }

    /// Allocates pages for `added` more tokens, and for the branches of the next pass.
    pub(super) fn make_room(&mut self, added: usize) -> Result<(), S::Error> {
        self.branches.forget_read();
        self.make_room_for_branches()?;
        let pages = (self.len + added).div_ceil(PAGE_TOKENS);
        match pages.checked_sub(self.pages.len()) {
            Some(missing @ 1..) => self.source.extend(&mut self.pages, missing),
            _ => Ok(()),
        }
    }

    /// Counts `added` more tokens, after they and the branches have been staged in every layer.
    pub(super) fn grow(&mut self, added: usize) {
        self.len += added;
        self.branches.grow();
    }

    /// Returns whether the cache takes its pages from an equal source.
    pub(super) fn is_of(&self, source: &S) -> bool {
        self.source == *source
    }

    /// Pages of the cached tokens, in order; the last ones may be spare.
    #[must_use]
    pub fn pages(&self) -> &[S::Page] {
        &self.pages
    }
}

/// Part of one sequence in a batch.
#[derive(Debug)]
pub struct Chunk<'a, S: PageSource = HostPages> {
    /// Cache of the sequence. Grows by `tokens` if the forward pass succeeds.
    pub cache: &'a mut KvCache<S>,
    /// Tokens that follow those in the cache. May be empty.
    pub tokens: &'a [u32],
    /// Indices into `tokens` after which next-token logits are wanted; strictly ascending, may be empty.
    pub positions: &'a [usize],
}

/// Runs a forward pass over a batch: checks the chunks, allocates pages, calls `pass`, and updates the caches. On
/// success the caches hold the new tokens. On failure they are unchanged, except that branches of the pass are
/// discarded.
///
/// # Errors
/// [`ModelError`] for an invalid chunk, and errors of `pass` or of the allocation.
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
    /// Checks the chunk against the model.
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

/// Pages in main memory, for models of one shape.
///
/// A page holds keys and values of its tokens for each layer and head, in f32.
#[derive(Debug, Clone)]
pub struct HostPages {
    shape: Shape,
    pages: Arc<Pages>,
}

/// Properties that pages and caches must share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
    context_length: usize,
}

impl Shape {
    fn page_len(self) -> usize {
        // Saturates beyond the address space; allocation then fails when a page is requested.
        head_page::len(self.head_dim).saturating_mul(self.kv_heads).saturating_mul(self.layers)
    }
}

/// Equality of shapes, which makes caches interchangeable.
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

    fn of(shape: Shape) -> Self {
        Self { shape, pages: Pages::new(shape.page_len()) }
    }

    /// Range of a layer within a page.
    pub(super) fn layer(&self, layer: usize) -> Range<usize> {
        let part = self.shape.kv_heads * head_page::len(self.shape.head_dim);
        layer * part..(layer + 1) * part
    }

    /// Writes `keys` and `values`, each `[new, kv_heads, head_dim]`, into a layer of `pages`, starting at token `first`
    /// of these pages.
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
    /// A copy of the first `len` tokens, or of all if there are fewer.
    ///
    /// # Errors
    /// [`ModelError::OutOfMemory`] if there is no memory for the pages.
    pub fn prefix(&self, len: usize) -> Result<Self, ModelError> {
        let mut copy = Self::new(self.source.clone());
        copy.len = self.len.min(len);
        copy.source.extend(&mut copy.pages, copy.len.div_ceil(PAGE_TOKENS))?;
        copy.pages.iter_mut().zip(&self.pages).for_each(|(to, from)| to.copy_from_slice(from));
        Ok(copy)
    }

    /// Writes `keys` and `values`, each `[new, kv_heads, head_dim]`, after the tokens of `layer`. The pages must be
    /// allocated. The rows only count once the forward pass has succeeded.
    pub(crate) fn stage(&mut self, layer: usize, keys: &[f32], values: &[f32]) {
        self.source.write(&mut self.pages, self.len, layer, keys, values);
    }

    /// Part of a page that belongs to a layer's head, including staged tokens, on a line: 0 for the cache's own, n for
    /// its n-th branch.
    pub(crate) fn page_of(&self, line: usize, page: usize, layer: usize, kv_head: usize) -> &[f32] {
        let len = head_page::len(self.source.shape.head_dim);
        &self.line_page(line, page)[self.source.layer(layer)][kv_head * len..][..len]
    }
}
