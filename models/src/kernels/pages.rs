//! Pages of KV caches in main memory. Several share a slab, because attention reads a few KiB of each in turn.
//!
//! A slab is freed with the last of its pages. When sessions come and go, slabs occupy at most the peak of all
//! sessions.

use std::{
    alloc::{Layout, handle_alloc_error},
    collections::TryReserveError,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use super::memory::{ALIGNED, HAS_HUGE_PAGES, Slab};

/// Maximum number of pages in a slab: one bit each.
const MOST_PAGES: usize = u64::BITS as usize;

/// Allocator of KV cache pages.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Number of f32 values in a page.
    len: usize,
    /// Slabs with pages in use, and some that have been freed.
    slabs: Mutex<Vec<Weak<SlabOfPages>>>,
}

impl Pages {
    pub(crate) fn new(len: usize) -> Arc<Self> {
        Arc::new(Self { len, slabs: Mutex::default() })
    }

    /// Allocates a page of zeros.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn page(self: &Arc<Self>) -> Result<Page, TryReserveError> {
        let (slab, index) = self.place()?;
        let page = Page { of: self.clone(), slab, index };
        // SAFETY: the page has no other owner. Zeros are valid numbers, which it holds from now on.
        #[allow(unsafe_code, reason = "writes to memory that may not have been written")]
        unsafe {
            page.numbers().cast::<f32>().write_bytes(0, self.len);
        }
        Ok(page)
    }

    /// Finds or allocates a slab with a free page, and takes that page.
    fn place(&self) -> Result<(Arc<SlabOfPages>, usize), TryReserveError> {
        let mut slabs = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        slabs.retain(|slab| slab.strong_count() > 0);
        for slab in slabs.iter().filter_map(Weak::upgrade) {
            if let Some(index) = slab.take() {
                return Ok((slab, index));
            }
        }
        let slab = Arc::new(SlabOfPages::new(self.len)?);
        slabs.push(Arc::downgrade(&slab));
        Ok((slab, 0))
    }
}

/// Page of a KV cache in main memory.
#[derive(Debug)]
pub struct Page {
    of: Arc<Pages>,
    slab: Arc<SlabOfPages>,
    /// Index in the slab, unique among its pages.
    index: usize,
}

impl Page {
    fn numbers(&self) -> NonNull<[f32]> {
        let len = self.of.len;
        NonNull::slice_from_raw_parts(self.slab.memory.at(self.index * len * size_of::<f32>()).cast(), len)
    }
}

impl Deref for Page {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: the slab outlives this value; `Pages::page` initialized all of this part, which has no other owner.
        #[allow(unsafe_code, reason = "a part of a slab")]
        unsafe {
            self.numbers().as_ref()
        }
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and `self` is borrowed mutably.
        #[allow(unsafe_code, reason = "a part of a slab")]
        unsafe {
            self.numbers().as_mut()
        }
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        // Aborts like the clone of a vector when out of memory.
        let full = |_| handle_alloc_error(Layout::new::<f32>());
        let mut page = self.of.page().unwrap_or_else(full);
        page.copy_from_slice(self);
        page
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Orders writes to this page before those of its next owner.
        self.slab.free.fetch_or(1 << self.index, Release);
    }
}

/// Slab that is divided into pages. Freed with the last of them.
#[derive(Debug)]
struct SlabOfPages {
    memory: Slab,
    /// One bit per page, set if it is free.
    free: AtomicU64,
}

impl SlabOfPages {
    /// Allocates a slab for pages of `len` numbers and takes the first of them.
    fn new(len: usize) -> Result<Self, TryReserveError> {
        let bytes = len.saturating_mul(size_of::<f32>()).max(1);
        let pages = if HAS_HUGE_PAGES { ALIGNED.div_ceil(bytes).min(MOST_PAGES) } else { 1 };
        let memory = Slab::new(pages.saturating_mul(bytes))?;
        Ok(Self { memory, free: AtomicU64::new((u64::MAX >> (MOST_PAGES - pages)) & !1) })
    }

    /// Takes a free page, if there is one. The caller must hold the lock on the list of slabs.
    fn take(&self) -> Option<usize> {
        let index = self.free.load(Acquire).trailing_zeros() as usize;
        (index < MOST_PAGES).then(|| {
            self.free.fetch_and(!(1 << index), Relaxed);
            index
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    const LEN: usize = 96;

    fn slabs(pages: &Pages) -> usize {
        pages.slabs.lock().unwrap().iter().filter(|slab| slab.strong_count() > 0).count()
    }

    #[test]
    fn pages_have_one_owner_and_begin_as_zeros() {
        let source = Pages::new(LEN);
        let mut pages: Vec<_> = (0..3 * MOST_PAGES).map(|_| source.page().unwrap()).collect();
        for (number, page) in pages.iter_mut().enumerate() {
            assert_eq!(page.len(), LEN);
            assert!(page.iter().all(|x| *x == 0.0), "page {number} has been written");
            page.fill(number as f32 + 1.0);
        }
        for (number, page) in pages.iter().enumerate() {
            assert!(page.iter().all(|x| *x == number as f32 + 1.0), "page {number} has another owner, too");
        }
        let copy = pages[5].clone();
        pages[5].fill(-1.0);
        assert!(copy.iter().all(|x| *x == 6.0));
        pages.drain(10..100);
        pages.extend((0..90).map(|_| source.page().unwrap()));
        let (old, again) = pages.split_at(3 * MOST_PAGES - 90);
        assert!(
            again.iter().all(|page| page.iter().all(|x| *x == 0.0)),
            "a page that is taken again begins as another"
        );
        assert!(old.iter().all(|page| page.iter().all(|x| *x != 0.0)), "a page that somebody has was given away");
    }

    #[test]
    fn a_page_that_is_too_large_is_an_error() {
        // At four bytes each, the size in bytes wraps to zero.
        assert!(Pages::new(1 << (usize::BITS - 2)).page().is_err());
        assert!(Pages::new(usize::MAX).page().is_err());
    }

    #[test]
    fn slabs_go_with_their_last_page() {
        let source = Pages::new(LEN);
        let mut pages: Vec<_> = (0..2 * MOST_PAGES).map(|_| source.page().unwrap()).collect();
        let all = slabs(&source);
        // A freed page is reused before a new slab is allocated.
        drop(pages.swap_remove(MOST_PAGES / 2));
        pages.push(source.page().unwrap());
        assert_eq!(slabs(&source), all);
        pages.truncate(1);
        assert_eq!(slabs(&source), 1);
        pages.clear();
        assert_eq!(slabs(&source), 0);
    }
}
