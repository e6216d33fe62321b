//! Memory of all sessions' KV caches: one pool per layer, divided into pages that sessions allocate and free.
//!
//! A page has space for [`PAGE_TOKENS`] tokens in every layer. A session's cache is a list of pages, so it grows
//! without being moved and rolls back in constant time. Token `i` of a session is in slot `pages[i / PAGE_TOKENS] ×
//! PAGE_TOKENS + i % PAGE_TOKENS` of the pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use outrider_models::{KvCache, ModelConfig, PAGE_TOKENS, PageSource};

use crate::error::DeviceError;

/// Memory of all sessions' KV caches.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Keys and values of each layer, `[slots, 2 × kv_heads × head_dim]`; a token's values follow its keys.
    pub(crate) layers: Vec<Tensor>,
    pub(crate) pages: DevicePages,
}

/// Allocator for pages of a device's pool.
#[derive(Debug, Clone)]
pub struct DevicePages {
    free: Arc<Mutex<Vec<u32>>>,
    page_bytes: usize,
}

/// Page owned by a session. Returns to the pool when dropped.
#[derive(Debug)]
pub struct DevicePage {
    number: u32,
    of: DevicePages,
}

/// KV cache of one session on a device.
pub type DeviceCache = KvCache<DevicePages>;

/// Size of a pool and of its pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSize {
    count: usize,
    page_bytes: usize,
    /// Number of elements in a token's keys and values in one layer.
    width: usize,
    dtype: DType,
}

impl PoolSize {
    /// Largest pool that fits into `bytes`.
    pub(crate) fn within(bytes: usize, config: &ModelConfig, dtype: DType) -> Self {
        let width = 2 * config.kv_heads * config.head_dim;
        let page_bytes = config.layers * width * dtype.size_in_bytes() * PAGE_TOKENS;
        // candle's kernels index a layer's elements with 32 bits.
        let most = u32::MAX as usize / (PAGE_TOKENS * width);
        Self { count: (bytes / page_bytes).min(most), page_bytes, width, dtype }
    }

    /// Size of all pages in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.page_bytes
    }
}

impl Pool {
    /// Allocates a pool of this size.
    pub(crate) fn new(layers: usize, size: PoolSize, device: &Device) -> Result<Self, DeviceError> {
        let PoolSize { count, page_bytes, width, dtype } = size;
        let slots = (count * PAGE_TOKENS).max(1);
        let layers = (0..layers)
            .map(|_| Tensor::zeros((slots, width), dtype, device))
            .collect::<candle_core::Result<_>>()
            .map_err(|error| DeviceError::Pool { tokens: count * PAGE_TOKENS, error: error.to_string() })?;
        let free = Arc::new(Mutex::new((0..count as u32).rev().collect()));
        Ok(Self { layers, pages: DevicePages { free, page_bytes } })
    }
}

impl DevicePages {
    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        // Every operation leaves the list consistent, so poisoning is harmless.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for DevicePages {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.free, &other.free)
    }
}

impl PageSource for DevicePages {
    type Page = DevicePage;
    type Error = DeviceError;

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn extend(&self, pages: &mut Vec<DevicePage>, count: usize) -> Result<(), DeviceError> {
        let mut free = self.free();
        let Some(rest) = free.len().checked_sub(count) else {
            return Err(DeviceError::OutOfPages { needed: count, free: free.len() });
        };
        pages.extend(free.drain(rest..).rev().map(|number| DevicePage { number, of: self.clone() }));
        Ok(())
    }
}

impl Drop for DevicePage {
    fn drop(&mut self) {
        self.of.free().push(self.number);
    }
}

/// Slot of a session's token at `index`, which must have a page.
pub(crate) fn slot(cache: &DeviceCache, index: usize) -> usize {
    cache.pages()[index / PAGE_TOKENS].number as usize * PAGE_TOKENS + index % PAGE_TOKENS
}

#[cfg(test)]
mod tests {
    use outrider_models::{Chunk, feed};

    use super::*;

    /// Appends `tokens` arbitrary tokens.
    fn grow(config: &ModelConfig, pool: &Pool, cache: &mut DeviceCache, tokens: usize) -> Result<(), DeviceError> {
        let chunk = Chunk { cache, tokens: &vec![0; tokens], positions: &[] };
        feed(config, &pool.pages, &mut [chunk], |_| Ok(()))
    }

    #[test]
    fn pages_are_taken_and_given_back_and_never_shared() {
        let gguf = include_bytes!("../../models/tests/golden/blocks-f32.gguf");
        let mut config = outrider_models::StoredModel::from_gguf(&mut gguf.as_slice()).unwrap().config;
        config.context_length = 3 * PAGE_TOKENS;
        let bytes = 2 * config.layers * config.kv_heads * config.head_dim * 4 * PAGE_TOKENS * 3;
        let size = PoolSize::within(bytes + 1, &config, DType::F32);
        assert_eq!(size.bytes(), bytes);
        let pool = Pool::new(config.layers, size, &Device::Cpu).unwrap();
        let grow = |cache: &mut DeviceCache, tokens| grow(&config, &pool, cache, tokens);
        let (mut first, mut second) = (KvCache::new(pool.pages.clone()), KvCache::new(pool.pages.clone()));
        grow(&mut first, PAGE_TOKENS + 1).unwrap();
        grow(&mut second, 1).unwrap();
        let slots: std::collections::BTreeSet<usize> =
            (0..=PAGE_TOKENS).map(|index| slot(&first, index)).chain([slot(&second, 0)]).collect();
        assert_eq!(slots.len(), PAGE_TOKENS + 2);
        let error = grow(&mut second, PAGE_TOKENS).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfPages { needed: 1, free: 0 }), "{error}");
        assert_eq!((first.bytes(), second.len()), (first.bytes_for(PAGE_TOKENS + 1), 1));
        first.truncate(1);
        assert_eq!((first.len(), first.bytes()), (1, first.bytes_for(2 * PAGE_TOKENS)));
        drop(first);
        grow(&mut second, 3 * PAGE_TOKENS - 1).unwrap();
        assert_eq!(second.bytes(), second.bytes_for(3 * PAGE_TOKENS));
    }
}
