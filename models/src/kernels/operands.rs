//! What a product is of, and the steps that all formats have.

use super::{format::Format, lanes::Lanes, rounded::RowGroup};

/// Consecutive strips and what they are multiplied with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) format: Format,
    pub(super) inputs: usize,
    /// The first strip; the next ones follow.
    pub(super) strip: *const u8,
    pub(super) rows: Rows,
    /// Where the first row's outputs go; the next row's are `stride` elements on.
    pub(super) out: *mut f32,
    pub(super) stride: usize,
    /// Outputs that are wanted: sixteen of each strip, fewer of the last.
    pub(super) outputs: usize,
}

/// The activations of a group.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows {
    Rounded(RowGroup),
    /// As they are, `stride` elements from one row to the next.
    Plain {
        first: *const f32,
        stride: usize,
    },
}

/// `count`; what the compiler need not know if it should keep a loop.
#[inline(always)]
pub(super) fn quads<S: Lanes>(count: usize) -> usize {
    if S::UNROLL { count } else { std::hint::black_box(count) }
}

/// sum + float(ints) · (scale · row_scale)
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
