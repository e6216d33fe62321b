//! Kernel operations for WebAssembly with 128-bit vectors: `simd128`, optionally with `relaxed-simd`.
//!
//! The products of bytes are in [`wasm_products`](super::wasm_products).

use std::arch::wasm32::*;
use std::marker::PhantomData;

use super::{format::SCALE_BYTES, lanes::Lanes, rounded::QuadForm, wasm_products::Products};

/// Four vectors of 128 bits: outputs 0 to 3, 4 to 7 and so on. `P` multiplies bytes.
pub(super) struct Wasm<P>(PhantomData<P>);

#[allow(unsafe_code, reason = "raw reads; see `Lanes`")]
// SAFETY of every block below: the caller promises valid pointers.
impl<P: Products> Lanes for Wasm<P> {
    type Ints = [P::Ints; 4];
    type Smalls = [v128; 4];
    type Floats = [v128; 4];
    type Weights = [P::Weights; 4];
    type Halves = [P::Halves; 4];
    type Bytes = [v128; 4];
    type Factors = [v128; 4];

    const FORM: QuadForm = P::FORM;
    const SMALL_FORM: QuadForm = P::SMALL_FORM;
    const SIGN_FLIPS: u32 = P::SIGN_FLIPS;
    const ROWS: usize = P::ROWS;
    // The compiler would order an unrolled loop by outputs instead of quads. Engines have 16 registers, so a third of
    // the instructions would move values to and from the stack.
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
    unsafe fn smalls(start: i32) -> Self::Smalls {
        [P::start(start); 4]
    }

    #[inline(always)]
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, g: usize) -> Self::Smalls {
        let x = unsafe { P::small_quad(x, g) };
        std::array::from_fn(|i| P::dot_halves(sums[i], weights[i], x))
    }

    #[inline(always)]
    unsafe fn finish(sums: Self::Smalls, ints: Self::Ints) -> Self::Ints {
        std::array::from_fn(|i| P::finish(sums[i], ints[i]))
    }

    #[inline(always)]
    unsafe fn finish_scaled(sums: Self::Smalls, factors: Self::Factors, ints: Self::Ints) -> Self::Ints {
        std::array::from_fn(|i| P::finish_scaled(sums[i], factors[i], ints[i]))
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Self::Bytes {
        unsafe { load(from) }
    }

    #[inline(always)]
    unsafe fn field<const SHIFT: u32, const MASK: u8>(bytes: Self::Bytes) -> Self::Bytes {
        bytes.map(|b| v128_and(if SHIFT == 0 { b } else { u16x8_shr(b, SHIFT) }, u8x16_splat(MASK)))
    }

    #[inline(always)]
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        std::array::from_fn(|i| v128_or(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn lookup(bytes: Self::Bytes, table: &[i8; 16]) -> Self::Bytes {
        let table = unsafe { v128_load(table.as_ptr().cast()) };
        bytes.map(|b| P::swizzle(table, b))
    }

    #[inline(always)]
    unsafe fn small(bytes: Self::Bytes) -> Self::Halves {
        bytes.map(P::halves)
    }

    #[inline(always)]
    unsafe fn weights(bytes: Self::Bytes) -> Self::Weights {
        bytes.map(|b| P::weights(if P::SIGN_FLIPS == 0 { b } else { v128_xor(b, u32x4_splat(P::SIGN_FLIPS)) }))
    }

    #[inline(always)]
    unsafe fn factors<const BYTE: usize>(bytes: Self::Bytes) -> Self::Factors {
        bytes.map(P::factors::<BYTE>)
    }

    #[inline(always)]
    unsafe fn dot_pair<const ODD: usize>(bytes: Self::Bytes, x: *const i32) -> Self::Ints {
        let x = unsafe { v128_load32_splat(x.cast()) };
        bytes.map(|b| P::dot_pair(if ODD == 0 { v128_and(b, u16x8_splat(0x00ff)) } else { u16x8_shr(b, 8) }, x))
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

    /// Converts finite values; infinities become 65536.
    #[inline(always)]
    unsafe fn f16(values: *const u8) -> Self::Floats {
        // The bits of |x| · 2⁻¹¹², whose exponent is as far below f32's bias as it was below f16's; also for
        // subnormals.
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
