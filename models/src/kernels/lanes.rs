//! What an instruction set has to offer: vectors of sixteen lanes, one output each.

use super::rounded::QuadForm;

/// The operations from which [`products`](super::products) are made.
///
/// Floating-point operations are the IEEE ones, never fused, and integer ones are exact, so that every implementation
/// gives the same bits.
///
/// # Safety
/// All functions may be called on processors that have the instruction set only; pointers must be valid for what
/// is read or written. They are inlined into a function for which the instruction set is enabled.
#[allow(unsafe_code, reason = "instructions that a processor may lack, and raw reads")]
pub(super) trait Lanes {
    /// Sixteen sums of 32 bits.
    type Ints: Copy;
    /// Partial sums of products with half bytes: up to eight quads of them.
    type Smalls: Copy;
    /// Sixteen f32.
    type Floats: Copy;
    /// Four weights for each of sixteen outputs.
    type Weights: Copy;
    /// Four half bytes for each of sixteen outputs.
    type Halves: Copy;

    /// The form of activations that [`dot`](Self::dot) takes.
    const FORM: QuadForm;
    /// The form of activations that [`dot_halves`](Self::dot_halves) takes.
    const SMALL_FORM: QuadForm;
    /// What has to be xor'ed to four signed bytes when they are packed, for [`signed`](Self::signed).
    const SIGN_FLIPS: u32;
    /// The most rows that a kernel computes together.
    const ROWS: usize;
    /// Whether the quads of a block are better computed without a loop.
    const UNROLL: bool;

    /// `start` in every lane.
    unsafe fn ints(start: i32) -> Self::Ints;
    /// 64 signed bytes, packed with [`SIGN_FLIPS`](Self::SIGN_FLIPS).
    unsafe fn signed(weights: *const u8) -> Self::Weights;
    /// 64 numbers of six bits: `low >> LOW & 15 | (high >> HIGH & 3) << 4`, LOW 0 or 4, HIGH 0, 2, 4 or 6.
    unsafe fn six_bits<const LOW: i32, const HIGH: i32>(low: *const u8, high: *const u8) -> Self::Weights;
    /// Adds each output's products with the quad at `x`, words `g` apart.
    unsafe fn dot(sums: Self::Ints, weights: Self::Weights, x: *const u32, g: usize) -> Self::Ints;

    /// The low halves of 64 bytes, and the high halves.
    unsafe fn halves(weights: *const u8) -> (Self::Halves, Self::Halves);
    /// Nothing summed yet.
    unsafe fn smalls() -> Self::Smalls;
    /// Adds each output's products with the quad at `x`, words `g` apart. At most eight times.
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, g: usize) -> Self::Smalls;
    /// The sums, plus `start`.
    unsafe fn finish(sums: Self::Smalls, start: i32) -> Self::Ints;

    /// The nearest f32 of each sum.
    unsafe fn to_floats(sums: Self::Ints) -> Self::Floats;
    /// Scales as [`format`](super::format) stores them.
    unsafe fn scales(scales: *const u8) -> Self::Floats;
    /// Sixteen f16.
    unsafe fn f16(values: *const u8) -> Self::Floats;
    /// Sixteen bf16.
    unsafe fn bf16(values: *const u8) -> Self::Floats;
    /// Sixteen f32.
    unsafe fn f32(values: *const u8) -> Self::Floats;
    /// Sixteen unsigned bytes.
    unsafe fn unsigned_bytes(values: *const u8) -> Self::Floats;
    /// Sixteen signed bytes.
    unsafe fn signed_bytes(values: *const u8) -> Self::Floats;
    /// `x` in every lane.
    unsafe fn splat(x: f32) -> Self::Floats;
    /// a + b
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a − b
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a · b
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Writes sixteen f32.
    unsafe fn store(x: Self::Floats, to: *mut f32);
}
