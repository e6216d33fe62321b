//! Products of bytes in WebAssembly: by words in `simd128`, and directly in `relaxed-simd`.
//!
//! simd128 has no product of bytes, only one of 16-bit numbers. Signed bytes are therefore multiplied as in AVX2, two
//! per word ([`QuadForm::Words`]).
//!
//! Relaxed SIMD has dot products of signed bytes with 7-bit bytes. The meaning of the 8th bit, and saturation of the
//! sum of two products, depend on the engine; results here do not, because no operand has that bit set. The speed does
//! depend on the engine: x86-64 before AVX-VNNI computes sums of four with three instructions, one of which saturates,
//! while other processors have a single instruction. They are distinguished by a product with an engine-dependent
//! result, see [`dot_is_one_instruction`].

use std::arch::wasm32::*;

use super::rounded::QuadForm;

/// Products of bytes for four outputs.
#[allow(unsafe_code, reason = "raw reads; see `Lanes`")]
pub(super) trait Products {
    /// Four weights for each of four outputs.
    type Weights: Copy;
    /// Quad of activations, shared by all outputs.
    type Quad: Copy;
    /// Sums of four outputs.
    type Ints: Copy;
    /// Quad of activations for products with half bytes.
    type SmallQuad: Copy;
    /// Half bytes: four small weights for each of four outputs.
    type Halves: Copy;

    const FORM: QuadForm;
    const SMALL_FORM: QuadForm;
    const SIGN_FLIPS: u32;
    const ROWS: usize;

    fn ints(start: i32) -> Self::Ints;
    fn weights(bytes: v128) -> Self::Weights;
    unsafe fn quad(x: *const u32, g: usize) -> Self::Quad;
    fn dot(sums: Self::Ints, weights: Self::Weights, x: Self::Quad) -> Self::Ints;
    fn total(sums: Self::Ints) -> v128;

    fn halves(bytes: v128) -> Self::Halves;
    /// Start value of partial sums.
    #[inline(always)]
    fn start(start: i32) -> v128 {
        i32x4_splat(start)
    }
    unsafe fn small_quad(x: *const u32, g: usize) -> Self::SmallQuad;
    fn dot_halves(sums: v128, weights: Self::Halves, x: Self::SmallQuad) -> v128;
    fn finish(sums: v128, ints: Self::Ints) -> Self::Ints;
    fn factors<const BYTE: usize>(bytes: v128) -> v128;
    fn finish_scaled(sums: v128, factors: v128, ints: Self::Ints) -> Self::Ints;
    fn dot_pair(words: v128, x: v128) -> Self::Ints;
    /// Looks up indices of 0 to 15 in `table`.
    #[inline(always)]
    fn swizzle(table: v128, indices: v128) -> v128 {
        #[cfg(target_feature = "relaxed-simd")]
        return i8x16_relaxed_swizzle(table, indices);
        #[cfg(not(target_feature = "relaxed-simd"))]
        i8x16_swizzle(table, indices)
    }
}

/// Products by 16-bit words, in plain `simd128`.
pub(super) struct Simd128;

#[allow(unsafe_code, reason = "as the trait")]
impl Products for Simd128 {
    /// Words of two bytes, and their low bytes.
    type Weights = [v128; 2];
    type Quad = [v128; 2];
    type Ints = v128;
    type SmallQuad = [v128; 2];
    type Halves = [v128; 2];

    const FORM: QuadForm = QuadForm::Words;
    const SMALL_FORM: QuadForm = QuadForm::Words;
    // The low byte of each word has 128 added.
    const SIGN_FLIPS: u32 = 0x0080_0080;
    const ROWS: usize = 2;

    #[inline(always)]
    fn ints(start: i32) -> v128 {
        i32x4_splat(start)
    }

    #[inline(always)]
    fn weights(bytes: v128) -> [v128; 2] {
        [bytes, v128_and(bytes, i16x8_splat(0x00ff))]
    }

    #[inline(always)]
    unsafe fn quad(x: *const u32, g: usize) -> [v128; 2] {
        // SAFETY: promised by the caller.
        unsafe { [v128_load32_splat(x), v128_load32_splat(x.add(g))] }
    }

    #[inline(always)]
    fn dot(sums: v128, [word, low]: [v128; 2], [with_word, with_low]: [v128; 2]) -> v128 {
        i32x4_add(i32x4_add(sums, i32x4_dot_i16x8(word, with_word)), i32x4_dot_i16x8(low, with_low))
    }

    #[inline(always)]
    fn total(sums: v128) -> v128 {
        sums
    }

    #[inline(always)]
    fn halves(bytes: v128) -> [v128; 2] {
        Self::weights(bytes)
    }

    #[inline(always)]
    unsafe fn small_quad(x: *const u32, g: usize) -> [v128; 2] {
        // SAFETY: promised by the caller.
        unsafe { Self::quad(x, g) }
    }

    #[inline(always)]
    fn dot_halves(sums: v128, weights: [v128; 2], x: [v128; 2]) -> v128 {
        Self::dot(sums, weights, x)
    }

    #[inline(always)]
    fn finish(sums: v128, ints: v128) -> v128 {
        i32x4_add(ints, sums)
    }

    #[inline(always)]
    fn factors<const BYTE: usize>(bytes: v128) -> v128 {
        i32x4_shr(i8x16_swizzle(bytes, const { spread([16, 16, 16, BYTE as u8]) }), 24)
    }

    #[inline(always)]
    fn finish_scaled(sums: v128, factors: v128, ints: v128) -> v128 {
        i32x4_add(ints, i32x4_mul(sums, factors))
    }

    #[inline(always)]
    fn dot_pair(words: v128, x: v128) -> v128 {
        i32x4_dot_i16x8(words, x)
    }
}

/// Relaxed products of small numbers, summed in 16 bits.
#[cfg(target_feature = "relaxed-simd")]
pub(super) struct Relaxed;

#[cfg(target_feature = "relaxed-simd")]
#[allow(unsafe_code, reason = "as the trait")]
impl Products for Relaxed {
    type Weights = [v128; 2];
    type Quad = [v128; 2];
    type Ints = v128;
    type SmallQuad = v128;
    type Halves = v128;

    const FORM: QuadForm = Simd128::FORM;
    const SMALL_FORM: QuadForm = QuadForm::Bytes;
    const SIGN_FLIPS: u32 = Simd128::SIGN_FLIPS;
    const ROWS: usize = 2;

    #[inline(always)]
    fn ints(start: i32) -> v128 {
        Simd128::ints(start)
    }

    #[inline(always)]
    fn weights(bytes: v128) -> [v128; 2] {
        Simd128::weights(bytes)
    }

    #[inline(always)]
    unsafe fn quad(x: *const u32, g: usize) -> [v128; 2] {
        // SAFETY: promised by the caller.
        unsafe { Simd128::quad(x, g) }
    }

    #[inline(always)]
    fn dot(sums: v128, weights: [v128; 2], x: [v128; 2]) -> v128 {
        Simd128::dot(sums, weights, x)
    }

    #[inline(always)]
    fn total(sums: v128) -> v128 {
        sums
    }

    #[inline(always)]
    fn halves(bytes: v128) -> v128 {
        bytes
    }

    #[inline(always)]
    unsafe fn small_quad(x: *const u32, _: usize) -> v128 {
        // SAFETY: promised by the caller.
        unsafe { v128_load32_splat(x) }
    }

    #[inline(always)]
    fn dot_halves(sums: v128, weights: v128, x: v128) -> v128 {
        i16x8_add(sums, i16x8_relaxed_dot_i8x16_i7x16(x, weights))
    }

    #[inline(always)]
    fn start(start: i32) -> v128 {
        // Only one of the two partial sums starts from it.
        i32x4_splat(start & 0xffff)
    }

    #[inline(always)]
    fn finish(sums: v128, ints: v128) -> v128 {
        i32x4_add(ints, i32x4_extadd_pairwise_i16x8(sums))
    }

    #[inline(always)]
    fn factors<const BYTE: usize>(bytes: v128) -> v128 {
        // Duplicated for both partial sums.
        i16x8_shr(i8x16_swizzle(bytes, const { spread([16, BYTE as u8, 16, BYTE as u8]) }), 8)
    }

    #[inline(always)]
    fn finish_scaled(sums: v128, factors: v128, ints: v128) -> v128 {
        i32x4_add(ints, i32x4_dot_i16x8(sums, factors))
    }

    #[inline(always)]
    fn dot_pair(words: v128, x: v128) -> v128 {
        Simd128::dot_pair(words, x)
    }
}

/// Relaxed products throughout: signed bytes times the positive and the negative parts of activations.
#[cfg(target_feature = "relaxed-simd")]
pub(super) struct RelaxedDot;

#[cfg(target_feature = "relaxed-simd")]
#[allow(unsafe_code, reason = "as the trait")]
impl Products for RelaxedDot {
    type Weights = v128;
    type Quad = [v128; 2];
    /// Sums to be added, and sums to be subtracted.
    type Ints = [v128; 2];
    type SmallQuad = v128;
    type Halves = v128;

    const FORM: QuadForm = QuadForm::Signs;
    const SMALL_FORM: QuadForm = QuadForm::Bytes;
    const SIGN_FLIPS: u32 = 0;
    const ROWS: usize = 2;

    #[inline(always)]
    fn ints(start: i32) -> [v128; 2] {
        [i32x4_splat(start), i32x4_splat(0)]
    }

    #[inline(always)]
    fn weights(bytes: v128) -> v128 {
        bytes
    }

    #[inline(always)]
    unsafe fn quad(x: *const u32, g: usize) -> [v128; 2] {
        // SAFETY: promised by the caller.
        unsafe { [v128_load32_splat(x), v128_load32_splat(x.add(g))] }
    }

    #[inline(always)]
    fn dot([plus, minus]: [v128; 2], weights: v128, [x_plus, x_minus]: [v128; 2]) -> [v128; 2] {
        [
            i32x4_relaxed_dot_i8x16_i7x16_add(weights, x_plus, plus),
            i32x4_relaxed_dot_i8x16_i7x16_add(weights, x_minus, minus),
        ]
    }

    #[inline(always)]
    fn total([plus, minus]: [v128; 2]) -> v128 {
        i32x4_sub(plus, minus)
    }

    #[inline(always)]
    fn halves(bytes: v128) -> v128 {
        bytes
    }

    #[inline(always)]
    unsafe fn small_quad(x: *const u32, _: usize) -> v128 {
        // SAFETY: promised by the caller.
        unsafe { v128_load32_splat(x) }
    }

    #[inline(always)]
    fn dot_halves(sums: v128, weights: v128, x: v128) -> v128 {
        i32x4_relaxed_dot_i8x16_i7x16_add(x, weights, sums)
    }

    #[inline(always)]
    fn finish(sums: v128, [plus, minus]: [v128; 2]) -> [v128; 2] {
        [i32x4_add(plus, sums), minus]
    }

    #[inline(always)]
    fn factors<const BYTE: usize>(bytes: v128) -> v128 {
        // Sums fit into 16 bits, and their upper halves are multiplied by zero.
        i16x8_shr(i8x16_swizzle(bytes, const { spread([16, BYTE as u8, 16, 16]) }), 8)
    }

    #[inline(always)]
    fn finish_scaled(sums: v128, factors: v128, [plus, minus]: [v128; 2]) -> [v128; 2] {
        [i32x4_add(plus, i32x4_dot_i16x8(sums, factors)), minus]
    }

    #[inline(always)]
    fn dot_pair(words: v128, x: v128) -> [v128; 2] {
        [Simd128::dot_pair(words, x), i32x4_splat(0)]
    }
}

/// Returns whether the engine has a single instruction for a relaxed dot product of four bytes.
///
/// Engines that use several instructions saturate the sum of two products at 2¹⁵ − 1 if a byte has its 8th bit set. The
/// single instructions of AVX-VNNI and of ARM do not.
#[cfg(target_feature = "relaxed-simd")]
pub(super) fn dot_is_one_instruction() -> bool {
    // `black_box` makes the engine compute this at run time, instead of the compiler.
    let (left, right) = std::hint::black_box((i8x16_splat(127), i8x16_splat(-1)));
    let sums = i32x4_relaxed_dot_i8x16_i7x16_add(left, right, i32x4_splat(0));
    i32x4_extract_lane::<0>(sums) != 2 * i32::from(i16::MAX)
}

/// Indices that move bytes of each output's four to the positions in `bytes`; 16 gives zero.
///
/// Use this only in constants: at run time it would cost more than the product.
const fn spread(bytes: [u8; 4]) -> v128 {
    let mut indices = [0; 4];
    let mut at = 0;
    while at < 16 {
        let byte = bytes[at % 4];
        let index = if byte < 4 { 4 * (at / 4) as u32 + byte as u32 } else { 0x80 };
        indices[at / 4] |= index << (8 * (at % 4));
        at += 1;
    }
    u32x4(indices[0], indices[1], indices[2], indices[3])
}
