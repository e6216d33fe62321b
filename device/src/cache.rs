//! The memory of all sessions' KV caches: one pool a layer, of pages that sessions take and give back.
//!
//! A page has room for [`PAGE_TOKENS`] tokens in every layer. A session's cache is a list of pages, so that it grows
//! without being moved, rolls back in constant time, and lies where a gather finds it: token `i` of a session is in
//! slot `pages[i / PAGE_TOKENS] × PAGE_TOKENS + i % PAGE_TOKENS` of the pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use outrider_models::{KvCache, ModelConfig, PAGE_TOKENS, PageSource};

use crate::error::DeviceError;

/// The memory of all sessions' KV caches.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Of each layer: a token's keys and behind them its values, `[slots, 2 × kv_heads × head_dim]`.
    pub(crate) layers: Vec<Tensor>,
    pub(crate) pages: DevicePages,
}

/// The pages of a device's pool.
#[derive(Debug, Clone)]
pub struct DevicePages {
    free: Arc<Mutex<Vec<u32>>>,
    page_bytes: usize,
}

/// A page that a session has. Goes back to the pool when dropped.
#[derive(Debug)]
pub struct DevicePage {
    number: u32,
    of: DevicePages,
}

/// The KV cache of one session on a device.
pub type DeviceCache = KvCache<DevicePages>;

/// How many pages a pool has, and what they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSize {
    count: usize,
    page_bytes: usize,
    /// Elements of a token's keys and values in a layer.
    width: usize,
    dtype: DType,
}

impl PoolSize {
    /// As many as `bytes` have room for.
    pub(crate) fn within(bytes: usize, config: &ModelConfig, dtype: DType) -> Self {
        let width = 2 * config.kv_heads * config.head_dim;
        let page_bytes = config.layers * width * dtype.size_in_bytes() * PAGE_TOKENS;
        // candle's kernels number a layer's elements in 32 bits.
        let most = u32::MAX as usize / (PAGE_TOKENS * width);
        Self { count: (bytes / page_bytes).min(most), page_bytes, width, dtype }
    }

    /// What they take together.
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.page_bytes
    }
}

impl Pool {
    /// A pool of this size.
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
        // The list is whole between any two operations on it.
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

/// The slot of a session's `index`-th token, for which there is a page.
pub(crate) fn slot(cache: &DeviceCache, index: usize) -> usize {
    cache.pages()[index / PAGE_TOKENS].number as usize * PAGE_TOKENS + index % PAGE_TOKENS
}

#[cfg(test)]
mod tests {
    use outrider_models::{Chunk, feed};

    use super::*;

    /// Holds `tokens` more, whatever they are.
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
