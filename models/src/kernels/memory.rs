//! Memory in huge pages, for weights and KV caches. With pages of 4 KiB, a processor translates an address for every 64
//! cache lines it reads. On the virtual machine of the measurement, a one-row pass of 135M Q8_0 took 1.6 times as long
//! with pages of 4 KiB.
//!
//! Systems back aligned memory of a single allocation with huge pages (2 MiB). Most matrices and KV cache pages are
//! smaller than that, so several of them share a [`Slab`].

use std::{
    collections::TryReserveError,
    mem::{ManuallyDrop, MaybeUninit},
    ptr::NonNull,
    sync::Arc,
};

use super::format::ALIGNMENT;

/// Size of a huge page in bytes.
const HUGE: usize = 2 << 20;
/// Size in bytes from which slabs are aligned to huge pages. For smaller ones the padding would be too large.
pub(super) const ALIGNED: usize = 8 * HUGE;
/// Minimum alignment: a cache line.
const LINE: usize = ALIGNMENT;
/// True if the system gives huge pages on request.
pub(super) const HAS_HUGE_PAGES: bool = cfg!(target_os = "linux");
/// Size in bytes above which a matrix gets its own allocation, which is mostly huge pages.
const SHARED_BYTES: usize = 8 << 20;
/// Size in bytes of a slab that matrices share.
const SLAB_BYTES: usize = 64 << 20;

/// Single allocation, uninitialized at first. Systems commit memory on the first write, so an unused slab costs
/// nothing.
#[derive(Debug)]
pub(super) struct Slab {
    memory: NonNull<u8>,
    capacity: usize,
    /// Offset of the first cache line or huge page.
    offset: usize,
}

// SAFETY: a slab does not access its memory; each part of it has one owner.
#[allow(unsafe_code, reason = "a pointer to memory that is divided among owners")]
unsafe impl Send for Slab {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "as above")]
unsafe impl Sync for Slab {}

impl Slab {
    /// Allocates a slab of at least `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Result<Self, TryReserveError> {
        let boundary = if HAS_HUGE_PAGES && bytes >= ALIGNED { HUGE } else { LINE };
        let mut memory = Vec::<u8>::new();
        memory.try_reserve_exact(bytes.saturating_add(boundary - 1))?;
        prefer_huge(memory.spare_capacity_mut());
        let mut memory = ManuallyDrop::new(memory);
        let capacity = memory.capacity();
        // The pointer of a vector is never null.
        let memory = NonNull::new(memory.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let offset = memory.addr().get().next_multiple_of(boundary) - memory.addr().get();
        Ok(Self { memory, capacity, offset })
    }

    /// Address at offset `bytes`, which must not exceed the size.
    pub(super) fn at(&self, bytes: usize) -> NonNull<u8> {
        assert!(bytes <= self.capacity - self.offset);
        // SAFETY: the allocation has at least this many bytes.
        #[allow(unsafe_code, reason = "an address within an allocation")]
        unsafe {
            self.memory.add(self.offset + bytes)
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: `new` took the pointer from an empty vector with this capacity.
        #[allow(unsafe_code, reason = "what was leaked is given back")]
        drop(unsafe { Vec::from_raw_parts(self.memory.as_ptr(), 0, self.capacity) });
    }
}

/// Asks the system to back untouched memory with huge pages. This is a hint: correctness does not depend on it.
#[cfg(target_os = "linux")]
fn prefer_huge(memory: &mut [MaybeUninit<u8>]) {
    /// Page size of the supported systems, or a divisor of it. If it is neither, the system rejects the call.
    const PAGE: usize = 4096;
    let range = memory.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(PAGE);
    let end = range.end.addr() / PAGE * PAGE;
    if start < end {
        // SAFETY: the pages lie wholly within `memory`, which is borrowed mutably; the advice changes no byte of them.
        #[allow(unsafe_code, reason = "a system call on memory that is borrowed")]
        unsafe {
            libc::madvise(range.start.with_addr(start).cast(), end - start, libc::MADV_HUGEPAGE)
        };
    }
}

/// Does nothing on other systems.
#[cfg(not(target_os = "linux"))]
fn prefer_huge(_memory: &mut [MaybeUninit<u8>]) {}

/// Prefetches the cache line of `numbers[at]`. This is a hint: correctness does not depend on it.
#[inline]
pub(super) fn prefetch(numbers: &[f32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, which does not access memory, whatever the address.
        #[allow(unsafe_code, reason = "an instruction")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(numbers.as_ptr().wrapping_add(at).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (numbers, at);
}

/// Allocator for the matrices of a model. Small ones are adjacent in the order of allocation; large ones get their own
/// slab.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    slab: Option<Arc<Slab>>,
    /// Size of the slab and its used part, in bytes.
    size: usize,
    taken: usize,
    /// Estimated size of the small matrices still to come, in bytes.
    expected: u64,
}

impl Arena {
    /// Creates an allocator for matrices of these approximate sizes in bytes.
    pub(crate) fn expecting(sizes: impl Iterator<Item = u64>) -> Self {
        Self { expected: sizes.filter(|size| *size <= SHARED_BYTES as u64).sum(), ..Self::default() }
    }

    /// Allocates space for `lines` cache lines.
    fn room(&mut self, lines: usize) -> Result<Room, TryReserveError> {
        let bytes = lines.saturating_mul(LINE);
        if !HAS_HUGE_PAGES || bytes > SHARED_BYTES {
            return Ok(Room { slab: Arc::new(Slab::new(bytes)?), first: 0, lines });
        }
        let slab = match self.slab.take().filter(|_| self.size - self.taken >= bytes) {
            Some(slab) => slab,
            None => {
                self.size = bytes.max(self.expected.min(SLAB_BYTES as u64) as usize);
                self.taken = 0;
                Arc::new(Slab::new(self.size)?)
            }
        };
        self.slab = Some(slab.clone());
        self.expected = self.expected.saturating_sub(bytes as u64);
        let first = self.taken;
        self.taken += bytes;
        Ok(Room { slab, first, lines })
    }
}

/// Part of a slab that belongs to one matrix.
struct Room {
    slab: Arc<Slab>,
    /// Offset of its first byte.
    first: usize,
    lines: usize,
}

/// Cache line of 64 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u8; LINE]);

/// Consecutive cache lines of a matrix.
#[derive(Default)]
pub(super) struct Lines {
    room: Option<Room>,
    len: usize,
}

impl Lines {
    /// Reserves exactly `more` additional lines.
    pub(super) fn try_reserve(&mut self, more: usize, arena: &mut Arena) -> Result<(), TryReserveError> {
        let lines = self.len.saturating_add(more);
        if self.room.as_ref().map_or(0, |room| room.lines) < lines {
            let room = arena.room(lines)?;
            let start = room.slab.at(room.first);
            // SAFETY: the new space is at least as large as the current contents and has no other owner.
            #[allow(unsafe_code, reason = "a copy to memory that has not been written")]
            unsafe {
                start.cast::<Line>().copy_from_nonoverlapping(self.start(), self.len);
            }
            self.room = Some(room);
        }
        Ok(())
    }

    /// Appends `bytes` zero bytes and returns them. They must be whole lines for which space is reserved.
    pub(super) fn push_zeros(&mut self, bytes: usize) -> &mut [u8] {
        let (first, more) = (self.len, bytes / LINE);
        assert!(self.room.as_ref().map_or(0, |room| room.lines) - first >= more, "there is no room");
        // SAFETY: these lines are within the reserved space and have no other owner; zeros are valid lines.
        #[allow(unsafe_code, reason = "writes to memory that has not been written")]
        unsafe {
            let added = self.start().add(first);
            added.write_bytes(0, more);
            self.len += more;
            NonNull::slice_from_raw_parts(added.cast(), more * LINE).as_mut()
        }
    }

    fn start(&self) -> NonNull<Line> {
        self.room.as_ref().map_or(NonNull::dangling(), |room| room.slab.at(room.first).cast())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` lines have been written; a line is an array of bytes without padding.
        #[allow(unsafe_code, reason = "a part of a slab, as the bytes it is")]
        unsafe {
            NonNull::slice_from_raw_parts(self.start().cast(), self.len * LINE).as_ref()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    /// Appends `bytes` bytes with this value.
    fn push(lines: &mut Lines, bytes: usize, value: u8) {
        let added = lines.push_zeros(bytes);
        assert!(added.iter().all(|byte| *byte == 0), "memory is not what it was said to be");
        added.fill(value);
    }

    #[test]
    fn matrices_share_slabs_and_nothing_else() {
        let mut arena = Arena::expecting([3 * LINE as u64; 10].into_iter());
        let mut all: Vec<Lines> = (0..10).map(|_| Lines::default()).collect();
        for (number, lines) in all.iter_mut().enumerate() {
            lines.try_reserve(3, &mut arena).unwrap();
            push(lines, 2 * LINE, number as u8 + 1);
        }
        for (number, lines) in all.iter_mut().enumerate() {
            push(lines, LINE, number as u8 + 101);
        }
        for (number, lines) in all.iter().enumerate() {
            let (first, last) = lines.bytes().split_at(2 * LINE);
            assert_eq!(lines.bytes().as_ptr().addr() % LINE, 0);
            assert!(first.iter().all(|byte| *byte == number as u8 + 1));
            assert!(last.len() == LINE && last.iter().all(|byte| *byte == number as u8 + 101));
        }
        let slab = |lines: &Lines| Arc::as_ptr(&lines.room.as_ref().unwrap().slab);
        assert_eq!(all.iter().all(|lines| slab(lines) == slab(&all[0])), HAS_HUGE_PAGES);
    }

    #[test]
    fn what_grows_beyond_its_room_is_moved() {
        let mut arena = Arena::default();
        let (mut lines, mut other) = (Lines::default(), Lines::default());
        lines.try_reserve(1, &mut arena).unwrap();
        push(&mut lines, LINE, 7);
        other.try_reserve(1, &mut arena).unwrap();
        push(&mut other, LINE, 8);
        lines.try_reserve(SHARED_BYTES / LINE, &mut arena).unwrap();
        push(&mut lines, SHARED_BYTES, 9);
        assert!(lines.bytes()[..LINE].iter().all(|byte| *byte == 7));
        assert!(lines.bytes()[LINE..].iter().all(|byte| *byte == 9));
        assert!(other.bytes().iter().all(|byte| *byte == 8));
        assert!(lines.try_reserve(usize::MAX, &mut arena).is_err());
        assert_eq!(lines.bytes().len(), LINE + SHARED_BYTES);
    }
}
