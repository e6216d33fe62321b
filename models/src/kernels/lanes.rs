//! Interface to an instruction set: vectors of 16 lanes, one output each.

use super::rounded::QuadForm;

/// Operations from which [`products`](super::products) are built.
///
/// Floating-point operations are those of IEEE 754, never fused, and integer operations are exact. All implementations
/// therefore give the same bits.
///
/// # Safety
/// Functions may only be called on processors that support the instruction set, and pointers must be valid for all
/// bytes read or written. They are inlined into a function for which the instruction set is enabled.
#[allow(unsafe_code, reason = "instructions that a processor may lack, and raw reads")]
pub(super) trait Lanes {
    /// Sixteen sums of 32 bits.
    type Ints: Copy;
    /// Partial sums of products with small numbers.
    type Smalls: Copy;
    /// Sixteen values of f32.
    type Floats: Copy;
    /// Four weights for each of 16 outputs.
    type Weights: Copy;
    /// Four numbers of up to five bits for each of 16 outputs.
    type Halves: Copy;
    /// Vector of 64 bytes, four for each of 16 outputs.
    type Bytes: Copy;
    /// Factor of eight bits for each of 16 outputs, for partial sums.
    type Factors: Copy;

    /// Form of activations for [`dot`](Self::dot).
    const FORM: QuadForm;
    /// Form of activations for [`dot_halves`](Self::dot_halves).
    const SMALL_FORM: QuadForm;
    /// Mask to xor to four signed bytes when they are packed for [`signed`](Self::signed).
    const SIGN_FLIPS: u32;
    /// Maximum number of rows that a kernel computes at a time.
    const ROWS: usize;
    /// True if the loop over the quads of a block should be unrolled.
    const UNROLL: bool;

    /// Sets every lane to `start`.
    unsafe fn ints(start: i32) -> Self::Ints;
    /// Loads 64 signed bytes, packed with [`SIGN_FLIPS`](Self::SIGN_FLIPS).
    unsafe fn signed(weights: *const u8) -> Self::Weights;
    /// Loads 64 numbers of six bits: `low >> LOW & 15 | (high >> HIGH & 3) << 4`, LOW 0 or 4, HIGH 0, 2, 4 or 6.
    unsafe fn six_bits<const LOW: i32, const HIGH: i32>(low: *const u8, high: *const u8) -> Self::Weights;
    /// Adds to each output its products with the quad at `x`, whose words are `g` apart.
    unsafe fn dot(sums: Self::Ints, weights: Self::Weights, x: *const u32, g: usize) -> Self::Ints;

    /// Loads the low halves of 64 bytes, and the high halves.
    unsafe fn halves(weights: *const u8) -> (Self::Halves, Self::Halves);
    /// Sets partial sums to `start`. They must stay in 16 bits: |start| + 254·n·q < 2¹⁵ for n quads of numbers up to q,
    /// in units of [`SMALL_FORM`](Self::SMALL_FORM). This allows eight quads of half bytes from 0, four of five bits,
    /// or 16 inputs of three bits with their bias.
    unsafe fn smalls(start: i32) -> Self::Smalls;
    /// Adds to each output its products with the quad at `x`, whose words are `g` apart.
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, g: usize) -> Self::Smalls;
    /// Adds partial sums to `ints`.
    unsafe fn finish(sums: Self::Smalls, ints: Self::Ints) -> Self::Ints;
    /// Adds partial sums, times their output's factor, to `ints`.
    unsafe fn finish_scaled(sums: Self::Smalls, factors: Self::Factors, ints: Self::Ints) -> Self::Ints;

    /// Loads 64 bytes unchanged.
    unsafe fn bytes(from: *const u8) -> Self::Bytes;
    /// Computes `byte >> SHIFT & MASK` of each byte, SHIFT 0 to 7.
    unsafe fn field<const SHIFT: u32, const MASK: u8>(bytes: Self::Bytes) -> Self::Bytes;
    /// Computes the bitwise `a | b`.
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Looks up each byte, 0 to 15, in `table`.
    unsafe fn lookup(bytes: Self::Bytes, table: &[i8; 16]) -> Self::Bytes;
    /// Converts bytes to numbers of up to five bits.
    unsafe fn small(bytes: Self::Bytes) -> Self::Halves;
    /// Converts signed bytes, packed without [`SIGN_FLIPS`](Self::SIGN_FLIPS), to weights.
    unsafe fn weights(bytes: Self::Bytes) -> Self::Weights;
    /// Selects the signed byte `BYTE`, 0 to 3, of each output's four.
    unsafe fn factors<const BYTE: usize>(bytes: Self::Bytes) -> Self::Factors;
    /// Multiplies the even (`ODD` 0) or odd (1) ones of each output's four unsigned bytes with the two 16-bit numbers
    /// at `x`, and adds the products. The unit is 1 in every form.
    unsafe fn dot_pair<const ODD: usize>(bytes: Self::Bytes, x: *const i32) -> Self::Ints;

    /// Converts each sum to the nearest f32.
    unsafe fn to_floats(sums: Self::Ints) -> Self::Floats;
    /// Loads scales as stored by [`format`](super::format).
    unsafe fn scales(scales: *const u8) -> Self::Floats;
    /// Loads sixteen f16 values.
    unsafe fn f16(values: *const u8) -> Self::Floats;
    /// Loads sixteen bf16 values.
    unsafe fn bf16(values: *const u8) -> Self::Floats;
    /// Loads sixteen f32 values.
    unsafe fn f32(values: *const u8) -> Self::Floats;
    /// Loads sixteen unsigned bytes.
    unsafe fn unsigned_bytes(values: *const u8) -> Self::Floats;
    /// Loads sixteen signed bytes.
    unsafe fn signed_bytes(values: *const u8) -> Self::Floats;
    /// Sets every lane to `x`.
    unsafe fn splat(x: f32) -> Self::Floats;
    /// Computes the sum a + b.
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Computes the difference a − b.
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Computes the product a · b.
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Stores sixteen f32 values.
    unsafe fn store(x: Self::Floats, to: *mut f32);
}
