//! Arguments of products, and steps that all formats share.

use super::{format::Format, lanes::Lanes, rounded::RowGroup};

/// Consecutive strips and the rows they are multiplied with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) format: Format,
    pub(super) inputs: usize,
    /// First strip; the others follow it.
    pub(super) strip: *const u8,
    pub(super) rows: Rows,
    /// Output of the first row; that of the next row is `stride` elements later.
    pub(super) out: *mut f32,
    pub(super) stride: usize,
    /// Number of outputs: 16 per strip, fewer in the last.
    pub(super) outputs: usize,
}

/// Activations of a group of rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows {
    Rounded(RowGroup),
    /// Unrounded rows, `stride` elements from one to the next.
    Plain {
        first: *const f32,
        stride: usize,
    },
}

/// Returns `count`, hidden from the compiler if it should keep a loop.
#[inline(always)]
pub(super) fn quads<S: Lanes>(count: usize) -> usize {
    if S::UNROLL { count } else { std::hint::black_box(count) }
}

/// Computes sum + float(ints) · (scale · row_scale).
#[allow(unsafe_code, reason = "as `products::product`")]
#[inline(always)]
pub(super) unsafe fn accumulate<S: Lanes>(
    sum: S::Floats,
    ints: S::Ints,
    scale: S::Floats,
    row_scale: *const f32,
) -> S::Floats {
    // SAFETY: promised by the caller.
    unsafe { S::add(sum, S::mul(S::to_floats(ints), S::mul(scale, S::splat(*row_scale)))) }
}
