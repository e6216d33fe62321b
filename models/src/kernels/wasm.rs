//! WebAssembly with 128-bit vectors: `simd128`, and what `relaxed-simd` adds to it.
//!
//! There is no product of bytes in simd128, only one of 16-bit numbers, so that signed bytes are multiplied as in AVX2:
//! two to a word ([`QuadForm::Words`]).
//!
//! Relaxed SIMD has dot products of signed bytes with bytes of 7 bits. What the 8th bit means, and whether the sum of
//! two products may saturate, is up to the engine; nothing here depends on it, because no operand has that bit set.
//! What it does depend on is speed: x86-64 before AVX-VNNI makes the sums of four out of three instructions, of which
//! one saturates, everybody else has an instruction for it. So a product whose result is up to the engine tells them
//! apart, see [`dot_is_one_instruction`].

use std::arch::wasm32::*;
use std::marker::PhantomData;

use super::{format::SCALE_BYTES, lanes::Lanes, rounded::QuadForm};

/// Four vectors of 128 bits: outputs 0 to 3, 4 to 7 and so on. `P` multiplies bytes.
pub(super) struct Wasm<P>(PhantomData<P>);

/// Products of four outputs' bytes.
#[allow(unsafe_code, reason = "raw reads; see `Lanes`")]
pub(super) trait Products {
    /// Four weights for each of four outputs.
    type Weights: Copy;
    /// A quad of activations, for every output.
    type Quad: Copy;
    /// Sums of four outputs.
    type Ints: Copy;
    /// The same with half bytes.
    type SmallQuad: Copy;
    /// The same with half bytes.
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
    unsafe fn small_quad(x: *const u32, g: usize) -> Self::SmallQuad;
    fn dot_halves(sums: v128, weights: Self::Halves, x: Self::SmallQuad) -> v128;
    fn finish(sums: v128, start: i32) -> Self::Ints;
}

/// Products of words alone.
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
    fn finish(sums: v128, start: i32) -> v128 {
        i32x4_add(sums, i32x4_splat(start))
    }
}

/// Relaxed products of half bytes, added up in 16 bits: |eight quads · 2 · 15 · 127| < 2¹⁵.
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
    fn finish(sums: v128, start: i32) -> v128 {
        i32x4_add(i32x4_extadd_pairwise_i16x8(sums), i32x4_splat(start))
    }
}

/// Relaxed products throughout: of signed bytes with the positive and with the negative part of activations.
#[cfg(target_feature = "relaxed-simd")]
pub(super) struct RelaxedDot;

#[cfg(target_feature = "relaxed-simd")]
#[allow(unsafe_code, reason = "as the trait")]
impl Products for RelaxedDot {
    type Weights = v128;
    type Quad = [v128; 2];
    /// What is to be added, and what is to be subtracted.
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
    fn finish(sums: v128, start: i32) -> [v128; 2] {
        [i32x4_add(sums, i32x4_splat(start)), i32x4_splat(0)]
    }
}

/// Whether the engine has an instruction for a relaxed dot product of four bytes.
///
/// Where it makes it out of several, the sum of two products saturates at 2¹⁵ − 1 once a byte has its 8th bit set. It
/// does not in the single instructions of AVX-VNNI and of ARM.
#[cfg(target_feature = "relaxed-simd")]
pub(super) fn dot_is_one_instruction() -> bool {
    // `black_box`, so that the engine answers, not the compiler.
    let (left, right) = std::hint::black_box((i8x16_splat(127), i8x16_splat(-1)));
    let sums = i32x4_relaxed_dot_i8x16_i7x16_add(left, right, i32x4_splat(0));
    i32x4_extract_lane::<0>(sums) != 2 * i32::from(i16::MAX)
}

#[allow(unsafe_code, reason = "raw reads; see `Lanes`")]
// SAFETY of every block below: the caller promises valid pointers.
impl<P: Products> Lanes for Wasm<P> {
    type Ints = [P::Ints; 4];
    type Smalls = [v128; 4];
    type Floats = [v128; 4];
    type Weights = [P::Weights; 4];
    type Halves = [P::Halves; 4];

    const FORM: QuadForm = P::FORM;
    const SMALL_FORM: QuadForm = P::SMALL_FORM;
    const SIGN_FLIPS: u32 = P::SIGN_FLIPS;
    const ROWS: usize = P::ROWS;
    // The compiler orders a longer run by outputs, not by quads, and engines have sixteen registers: unrolled, a third
    // of the instructions move values to the stack and back.
    const UNROLL: bool = false;

    #[inline(always)]
    unsafe fn ints(start: i32) -> Self::Ints {
        [P::ints(start); 4]
    }

    #[inline(always)]
    unsafe fn signed(weights: *const u8) -> Self::Weights {
        unsafe { load(weights) }.map(P::weights)
    }

    #[inline(always)]
    unsafe fn six_bits<const LOW: i32, const HIGH: i32>(low: *const u8, high: *const u8) -> Self::Weights {
        let (low, high) = unsafe { (load(low), load(high)) };
        std::array::from_fn(|i| {
            let low = if LOW == 0 { low[i] } else { u16x8_shr(low[i], 4) };
            let high = match HIGH {
                0 => i16x8_shl(high[i], 4),
                2 => i16x8_shl(high[i], 2),
                4 => high[i],
                _ => u16x8_shr(high[i], 2),
            };
            P::weights(v128_or(v128_and(low, u8x16_splat(15)), v128_and(high, u8x16_splat(0x30))))
        })
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Ints, weights: Self::Weights, x: *const u32, g: usize) -> Self::Ints {
        let x = unsafe { P::quad(x, g) };
        std::array::from_fn(|i| P::dot(sums[i], weights[i], x))
    }

    #[inline(always)]
    unsafe fn halves(weights: *const u8) -> (Self::Halves, Self::Halves) {
        let (weights, mask) = (unsafe { load(weights) }, u8x16_splat(15));
        (weights.map(|w| P::halves(v128_and(w, mask))), weights.map(|w| P::halves(v128_and(u16x8_shr(w, 4), mask))))
    }

    #[inline(always)]
    unsafe fn smalls() -> Self::Smalls {
        [i32x4_splat(0); 4]
    }

    #[inline(always)]
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, g: usize) -> Self::Smalls {
        let x = unsafe { P::small_quad(x, g) };
        std::array::from_fn(|i| P::dot_halves(sums[i], weights[i], x))
    }

    #[inline(always)]
    unsafe fn finish(sums: Self::Smalls, start: i32) -> Self::Ints {
        sums.map(|sums| P::finish(sums, start))
    }

    #[inline(always)]
    unsafe fn to_floats(sums: Self::Ints) -> Self::Floats {
        sums.map(|sums| f32x4_convert_i32x4(P::total(sums)))
    }

    #[inline(always)]
    unsafe fn scales(scales: *const u8) -> Self::Floats {
        const { assert!(SCALE_BYTES == 4) }
        unsafe { load(scales) }
    }

    /// Of finite ones: infinities become 65536.
    #[inline(always)]
    unsafe fn f16(values: *const u8) -> Self::Floats {
        // The bits of |x| · 2⁻¹¹², whose exponent is as far below f32's bias as it was below f16's; subnormals too.
        std::array::from_fn(|i| {
            let wide = unsafe { i32x4_load_extend_i16x4(values.add(8 * i).cast()) };
            let bits = v128_and(i32x4_shl(wide, 13), i32x4_splat(0x8fff_e000_u32 as i32));
            f32x4_mul(bits, f32x4_splat(f32::from_bits((127 + 112) << 23)))
        })
    }

    #[inline(always)]
    unsafe fn bf16(values: *const u8) -> Self::Floats {
        std::array::from_fn(|i| i32x4_shl(unsafe { u32x4_load_extend_u16x4(values.add(8 * i).cast()) }, 16))
    }

    #[inline(always)]
    unsafe fn f32(values: *const u8) -> Self::Floats {
        unsafe { load(values) }
    }

    #[inline(always)]
    unsafe fn unsigned_bytes(values: *const u8) -> Self::Floats {
        let words = unsafe { [u16x8_load_extend_u8x8(values), u16x8_load_extend_u8x8(values.add(8))] };
        [
            f32x4_convert_i32x4(u32x4_extend_low_u16x8(words[0])),
            f32x4_convert_i32x4(u32x4_extend_high_u16x8(words[0])),
            f32x4_convert_i32x4(u32x4_extend_low_u16x8(words[1])),
            f32x4_convert_i32x4(u32x4_extend_high_u16x8(words[1])),
        ]
    }

    #[inline(always)]
    unsafe fn signed_bytes(values: *const u8) -> Self::Floats {
        let words = unsafe { [i16x8_load_extend_i8x8(values.cast()), i16x8_load_extend_i8x8(values.add(8).cast())] };
        [
            f32x4_convert_i32x4(i32x4_extend_low_i16x8(words[0])),
            f32x4_convert_i32x4(i32x4_extend_high_i16x8(words[0])),
            f32x4_convert_i32x4(i32x4_extend_low_i16x8(words[1])),
            f32x4_convert_i32x4(i32x4_extend_high_i16x8(words[1])),
        ]
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::Floats {
        [f32x4_splat(x); 4]
    }

    #[inline(always)]
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        std::array::from_fn(|i| f32x4_add(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        std::array::from_fn(|i| f32x4_sub(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        std::array::from_fn(|i| f32x4_mul(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn store(x: Self::Floats, to: *mut f32) {
        for (i, x) in x.into_iter().enumerate() {
            unsafe { v128_store(to.add(4 * i).cast(), x) };
        }
    }
}

#[allow(unsafe_code, reason = "a raw read of 64 bytes")]
#[inline(always)]
unsafe fn load(bytes: *const u8) -> [v128; 4] {
    std::array::from_fn(|i| unsafe { v128_load(bytes.add(16 * i).cast()) })
}
