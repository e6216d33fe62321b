//! Keys and values: one pool a layer, of pages that sessions take and give back.
//!
//! A page has room for [`PAGE_TOKENS`] tokens in every layer. A session's cache is a list of pages, so that it grows without being
//! moved, rolls back in constant time, and lies where a gather finds it: token `i` of a session is in slot
//! `pages[i / PAGE_TOKENS] × PAGE_TOKENS + i % PAGE_TOKENS` of the pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use outrider_models::ModelConfig;

use crate::error::DeviceError;

/// Tokens of a page.
pub const PAGE_TOKENS: usize = 32;

/// Memory for keys and values of all sessions.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Of each layer: a token's keys and behind them its values, `[slots, 2 × kv_heads × head_dim]`.
    pub(crate) layers: Vec<Tensor>,
    pages: Arc<Pages>,
}

/// Which pages nobody has.
#[derive(Debug)]
struct Pages {
    free: Mutex<Vec<u32>>,
    page_bytes: usize,
}

/// The keys and values of one session, for every layer. Gives its pages back when dropped.
///
/// Slots at and above [`len`](Self::len) may hold what was rolled back or what a failed pass left; they are written before they are
/// read.
#[derive(Debug)]
pub struct DeviceCache {
    pages: Vec<u32>,
    len: usize,
    of: Arc<Pages>,
}

impl Pool {
    /// As many pages as `bytes` have room for.
    pub(crate) fn new(config: &ModelConfig, dtype: DType, bytes: usize, device: &Device) -> Result<Self, DeviceError> {
        let width = 2 * config.kv_heads * config.head_dim;
        let page_bytes = config.layers * width * dtype.size_in_bytes() * PAGE_TOKENS;
        // candle's kernels number a layer's elements in 32 bits.
        let most = u32::MAX as usize / (PAGE_TOKENS * width);
        let count = (bytes / page_bytes).min(most);
        let slots = (count * PAGE_TOKENS).max(1);
        let layers = (0..config.layers)
            .map(|_| Tensor::zeros((slots, width), dtype, device))
            .collect::<candle_core::Result<_>>()
            .map_err(|error| DeviceError::Pool { tokens: count * PAGE_TOKENS, error: error.to_string() })?;
        let free = Mutex::new((0..count as u32).rev().collect());
        Ok(Self { layers, pages: Arc::new(Pages { free, page_bytes }) })
    }

    pub(crate) fn new_cache(&self) -> DeviceCache {
        DeviceCache { pages: Vec::new(), len: 0, of: Arc::clone(&self.pages) }
    }

    /// Whether the cache's pages are of this pool.
    pub(crate) fn owns(&self, cache: &DeviceCache) -> bool {
        Arc::ptr_eq(&self.pages, &cache.of)
    }
}

impl Pages {
    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        // The list is whole between any two operations on it.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceCache {
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

    /// Forgets all but the first `len` tokens, in constant time. Does nothing if there are no more than that.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Bytes of the pages it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pages.len() * self.of.page_bytes
    }

    /// Bytes of the pages that a cache of this pool has once it holds `tokens`, if it never held more.
    #[must_use]
    pub fn bytes_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(PAGE_TOKENS) * self.of.page_bytes
    }

    /// Takes pages for `new` tokens behind those that are held.
    pub(crate) fn reserve(&mut self, new: usize) -> Result<(), DeviceError> {
        let needed = (self.len + new).div_ceil(PAGE_TOKENS).saturating_sub(self.pages.len());
        let mut free = self.of.free();
        let Some(rest) = free.len().checked_sub(needed) else {
            return Err(DeviceError::OutOfPages { needed, free: free.len() });
        };
        self.pages.extend(free.drain(rest..).rev());
        Ok(())
    }

    /// Where the `index`-th token is. Pages have been taken for it.
    pub(crate) fn slot(&self, index: usize) -> usize {
        self.pages[index / PAGE_TOKENS] as usize * PAGE_TOKENS + index % PAGE_TOKENS
    }

    /// Makes `tokens` that were written part of the cache.
    pub(crate) fn commit(&mut self, tokens: usize) {
        self.len += tokens;
    }
}

impl Drop for DeviceCache {
    fn drop(&mut self) {
        self.of.free().append(&mut self.pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(pages: usize) -> Pool {
        let gguf = include_bytes!("../../models/tests/golden/blocks-f32.gguf");
        let config = outrider_models::StoredModel::from_gguf(&mut gguf.as_slice()).unwrap().config;
        let bytes = 2 * config.layers * config.kv_heads * config.head_dim * 4 * PAGE_TOKENS * pages;
        Pool::new(&config, DType::F32, bytes + 1, &Device::Cpu).unwrap()
    }

    #[test]
    fn pages_are_taken_and_given_back_and_never_shared() {
        let pool = pool(3);
        let (mut first, mut second) = (pool.new_cache(), pool.new_cache());
        first.reserve(PAGE_TOKENS + 1).unwrap();
        first.commit(PAGE_TOKENS + 1);
        second.reserve(1).unwrap();
        let slots: std::collections::BTreeSet<usize> =
            (0..=PAGE_TOKENS).map(|index| first.slot(index)).chain([second.slot(0)]).collect();
        assert_eq!(slots.len(), PAGE_TOKENS + 2);
        let error = second.reserve(PAGE_TOKENS + 1).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfPages { needed: 1, free: 0 }), "{error}");
        assert_eq!(first.bytes(), first.bytes_for(PAGE_TOKENS + 1));
        first.truncate(1);
        assert_eq!((first.len(), first.bytes()), (1, first.bytes_for(2 * PAGE_TOKENS)));
        drop(first);
        second.reserve(3 * PAGE_TOKENS).unwrap();
        assert_eq!(second.bytes(), second.bytes_for(3 * PAGE_TOKENS));
    }
}
