//! Huge pages for weights: a forward pass reads all of them, and with pages of 4 KiB the processor looks up a page for
//! every sixty-four lines. Seven percent of a one-row pass on the machine it was measured on.

use std::mem::MaybeUninit;

/// Asks the system to back memory that has not been touched with huge pages. A wish: nothing depends on its being
/// granted.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a system call on memory that is borrowed")]
pub(super) fn prefer_huge<T>(memory: &mut [MaybeUninit<T>]) {
    /// Of every system that this runs on, or a divisor of it; where it is not, the system refuses.
    const PAGE: usize = 4096;
    let range = memory.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(PAGE);
    let end = range.end.addr() / PAGE * PAGE;
    if start < end {
        // SAFETY: the pages lie wholly within `memory`, which is borrowed mutably; the advice changes no byte of them.
        unsafe { libc::madvise(range.start.with_addr(start).cast(), end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Elsewhere the system does as it likes.
#[cfg(not(target_os = "linux"))]
pub(super) fn prefer_huge<T>(_memory: &mut [MaybeUninit<T>]) {}
