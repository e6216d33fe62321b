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
    /// Partial sums of products with small numbers.
    type Smalls: Copy;
    /// Sixteen f32.
    type Floats: Copy;
    /// Four weights for each of sixteen outputs.
    type Weights: Copy;
    /// Four numbers of up to five bits for each of sixteen outputs.
    type Halves: Copy;
    /// 64 bytes, four for each of sixteen outputs.
    type Bytes: Copy;
    /// A number of eight bits for each of sixteen outputs, to multiply partial sums by.
    type Factors: Copy;

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
    /// What sums start from: with q the largest number of n quads, |start| + 254·n·q < 2¹⁵ in units of
    /// [`SMALL_FORM`](Self::SMALL_FORM), so eight quads of half bytes from 0, four of five bits, or 16 inputs of three
    /// bits with their bias.
    unsafe fn smalls(start: i32) -> Self::Smalls;
    /// Adds each output's products with the quad at `x`, words `g` apart.
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, g: usize) -> Self::Smalls;
    /// The sums, added to `ints`.
    unsafe fn finish(sums: Self::Smalls, ints: Self::Ints) -> Self::Ints;
    /// The sums times their output's factor, added to `ints`.
    unsafe fn finish_scaled(sums: Self::Smalls, factors: Self::Factors, ints: Self::Ints) -> Self::Ints;

    /// 64 bytes as they are.
    unsafe fn bytes(from: *const u8) -> Self::Bytes;
    /// `byte >> SHIFT & MASK` of each, SHIFT 0 to 7.
    unsafe fn field<const SHIFT: u32, const MASK: u8>(bytes: Self::Bytes) -> Self::Bytes;
    /// `a | b`
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// The entry of `table` that each byte, 0 to 15, names.
    unsafe fn lookup(bytes: Self::Bytes, table: &[i8; 16]) -> Self::Bytes;
    /// Numbers of up to five bits.
    unsafe fn small(bytes: Self::Bytes) -> Self::Halves;
    /// Signed bytes, packed without [`SIGN_FLIPS`](Self::SIGN_FLIPS).
    unsafe fn weights(bytes: Self::Bytes) -> Self::Weights;
    /// The signed byte `BYTE`, 0 to 3, of each output's four.
    unsafe fn factors<const BYTE: usize>(bytes: Self::Bytes) -> Self::Factors;
    /// Of each output's four unsigned bytes, the even ones (`ODD` 0) or the odd ones (1), times the two 16-bit numbers
    /// at `x`, added up. In units of 1, whatever the forms are.
    unsafe fn dot_pair<const ODD: usize>(bytes: Self::Bytes, x: *const i32) -> Self::Ints;

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
