//! Kernel operations for aarch64 with dot product instructions: Cortex-A55, A75 and N1, Apple M1, and later.
//!
//! On other machines, test with qemu-user and the target `aarch64-unknown-linux-musl`, which needs no C compiler:
//!
//! ```text
//! CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
//! CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64 \
//!     cargo test --release -p outrider-models --target aarch64-unknown-linux-musl --lib kernels
//! ```

use std::arch::{aarch64::*, asm};

use super::{format::SCALE_BYTES, lanes::Lanes, rounded::QuadForm};

/// Four vectors of 128 bits: outputs 0 to 3, 4 to 7 and so on.
pub(super) struct Neon;

#[allow(unsafe_code, reason = "instructions that a processor may lack, and raw reads; see `Lanes`")]
// SAFETY of every block below: the caller promises the instruction set and valid pointers.
impl Lanes for Neon {
    type Ints = [int32x4_t; 4];
    type Smalls = [int32x4_t; 4];
    type Floats = [float32x4_t; 4];
    type Weights = [int8x16_t; 4];
    type Halves = [int8x16_t; 4];
    type Bytes = [uint8x16_t; 4];
    type Factors = [int32x4_t; 4];

    const FORM: QuadForm = QuadForm::Bytes;
    const SMALL_FORM: QuadForm = QuadForm::Bytes;
    const SIGN_FLIPS: u32 = 0;
    const ROWS: usize = 4;
    const UNROLL: bool = true;

    #[inline(always)]
    unsafe fn ints(start: i32) -> Self::Ints {
        unsafe { [vdupq_n_s32(start); 4] }
    }

    #[inline(always)]
    unsafe fn signed(weights: *const u8) -> Self::Weights {
        unsafe { load(weights).map(|w| vreinterpretq_s8_u8(w)) }
    }

    #[inline(always)]
    unsafe fn six_bits<const LOW: i32, const HIGH: i32>(low: *const u8, high: *const u8) -> Self::Weights {
        unsafe {
            let (low, high) = (load(low), load(high));
            std::array::from_fn(|i| {
                let low = if LOW == 0 { vandq_u8(low[i], vdupq_n_u8(15)) } else { vshrq_n_u8::<4>(low[i]) };
                let high = match HIGH {
                    0 => vshlq_n_u8::<4>(high[i]),
                    2 => vshlq_n_u8::<2>(high[i]),
                    4 => high[i],
                    _ => vshrq_n_u8::<2>(high[i]),
                };
                vreinterpretq_s8_u8(vorrq_u8(low, vandq_u8(high, vdupq_n_u8(0x30))))
            })
        }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Ints, weights: Self::Weights, x: *const u32, _: usize) -> Self::Ints {
        unsafe {
            let x = vreinterpretq_s8_u32(vld1q_dup_u32(x));
            std::array::from_fn(|i| dot(sums[i], weights[i], x))
        }
    }

    #[inline(always)]
    unsafe fn halves(weights: *const u8) -> (Self::Halves, Self::Halves) {
        unsafe {
            let weights = load(weights);
            (
                weights.map(|w| vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15)))),
                weights.map(|w| vreinterpretq_s8_u8(vshrq_n_u8::<4>(w))),
            )
        }
    }

    #[inline(always)]
    unsafe fn smalls(start: i32) -> Self::Smalls {
        unsafe { [vdupq_n_s32(start); 4] }
    }

    #[inline(always)]
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, g: usize) -> Self::Smalls {
        unsafe { Self::dot(sums, weights, x, g) }
    }

    #[inline(always)]
    unsafe fn finish(sums: Self::Smalls, ints: Self::Ints) -> Self::Ints {
        unsafe { std::array::from_fn(|i| vaddq_s32(ints[i], sums[i])) }
    }

    #[inline(always)]
    unsafe fn finish_scaled(sums: Self::Smalls, factors: Self::Factors, ints: Self::Ints) -> Self::Ints {
        unsafe { std::array::from_fn(|i| vmlaq_s32(ints[i], sums[i], factors[i])) }
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Self::Bytes {
        unsafe { load(from) }
    }

    #[inline(always)]
    unsafe fn field<const SHIFT: u32, const MASK: u8>(bytes: Self::Bytes) -> Self::Bytes {
        unsafe {
            let shift = vdupq_n_s8(const { -(SHIFT as i8) });
            bytes.map(|b| vandq_u8(if SHIFT == 0 { b } else { vshlq_u8(b, shift) }, vdupq_n_u8(MASK)))
        }
    }

    #[inline(always)]
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        unsafe { std::array::from_fn(|i| vorrq_u8(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn lookup(bytes: Self::Bytes, table: &[i8; 16]) -> Self::Bytes {
        unsafe {
            let table = vld1q_u8(table.as_ptr().cast());
            bytes.map(|b| vqtbl1q_u8(table, b))
        }
    }

    #[inline(always)]
    unsafe fn small(bytes: Self::Bytes) -> Self::Halves {
        unsafe { bytes.map(|b| vreinterpretq_s8_u8(b)) }
    }

    #[inline(always)]
    unsafe fn weights(bytes: Self::Bytes) -> Self::Weights {
        unsafe { Self::small(bytes) }
    }

    #[inline(always)]
    unsafe fn factors<const BYTE: usize>(bytes: Self::Bytes) -> Self::Factors {
        unsafe {
            let to_top = vdupq_n_s32(const { 24 - 8 * BYTE as i32 });
            bytes.map(|b| vshrq_n_s32::<24>(vshlq_s32(vreinterpretq_s32_u8(b), to_top)))
        }
    }

    #[inline(always)]
    unsafe fn dot_pair<const ODD: usize>(bytes: Self::Bytes, x: *const i32) -> Self::Ints {
        unsafe {
            let x = vreinterpretq_s16_s32(vld1q_dup_s32(x));
            bytes.map(|b| {
                let b = vreinterpretq_u16_u8(b);
                let words = if ODD == 0 { vandq_u16(b, vdupq_n_u16(0x00ff)) } else { vshrq_n_u16::<8>(b) };
                let words = vreinterpretq_s16_u16(words);
                let products = vmull_s16(vget_low_s16(words), vget_low_s16(x));
                vpaddq_s32(products, vmull_high_s16(words, x))
            })
        }
    }

    #[inline(always)]
    unsafe fn to_floats(sums: Self::Ints) -> Self::Floats {
        unsafe { sums.map(|sums| vcvtq_f32_s32(sums)) }
    }

    #[inline(always)]
    unsafe fn scales(scales: *const u8) -> Self::Floats {
        const { assert!(SCALE_BYTES == 4) }
        unsafe { Self::f32(scales) }
    }

    #[inline(always)]
    unsafe fn f16(values: *const u8) -> Self::Floats {
        unsafe { std::array::from_fn(|i| widen_f16(vld1_u16(values.add(8 * i).cast()))) }
    }

    #[inline(always)]
    unsafe fn bf16(values: *const u8) -> Self::Floats {
        unsafe { std::array::from_fn(|i| vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(values.add(8 * i).cast())))) }
    }

    #[inline(always)]
    unsafe fn f32(values: *const u8) -> Self::Floats {
        unsafe { std::array::from_fn(|i| vld1q_f32(values.add(16 * i).cast())) }
    }

    #[inline(always)]
    unsafe fn unsigned_bytes(values: *const u8) -> Self::Floats {
        unsafe {
            let bytes = vld1q_u8(values);
            let words = [vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes)];
            [
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(words[0]))),
                vcvtq_f32_u32(vmovl_high_u16(words[0])),
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(words[1]))),
                vcvtq_f32_u32(vmovl_high_u16(words[1])),
            ]
        }
    }

    #[inline(always)]
    unsafe fn signed_bytes(values: *const u8) -> Self::Floats {
        unsafe {
            let bytes = vld1q_s8(values.cast());
            let words = [vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)];
            [
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(words[0]))),
                vcvtq_f32_s32(vmovl_high_s16(words[0])),
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(words[1]))),
                vcvtq_f32_s32(vmovl_high_s16(words[1])),
            ]
        }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::Floats {
        unsafe { [vdupq_n_f32(x); 4] }
    }

    #[inline(always)]
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { std::array::from_fn(|i| vaddq_f32(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { std::array::from_fn(|i| vsubq_f32(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { std::array::from_fn(|i| vmulq_f32(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn store(x: Self::Floats, to: *mut f32) {
        unsafe {
            for (i, x) in x.into_iter().enumerate() {
                vst1q_f32(to.add(4 * i), x);
            }
        }
    }
}

#[allow(unsafe_code, reason = "a raw read of 64 bytes")]
#[inline(always)]
unsafe fn load(bytes: *const u8) -> [uint8x16_t; 4] {
    unsafe { std::array::from_fn(|i| vld1q_u8(bytes.add(16 * i))) }
}

/// Computes sums + w · x, four signed bytes per lane. The standard library's intrinsic is not stable yet.
#[allow(unsafe_code, reason = "an instruction that a processor may lack")]
#[inline(always)]
unsafe fn dot(mut sums: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: it only accesses the named registers; the caller promises that the processor has the instruction.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {sums:v}.4s, {weights:v}.16b, {x:v}.16b",
            sums = inout(vreg) sums,
            weights = in(vreg) weights,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// Converts f16 to f32, on every aarch64. The standard library's intrinsic is not stable yet.
#[allow(unsafe_code, reason = "inline assembly")]
#[inline(always)]
unsafe fn widen_f16(x: uint16x4_t) -> float32x4_t {
    let wide;
    // SAFETY: it only accesses the named registers.
    unsafe {
        asm!(
            "fcvtl {wide:v}.4s, {x:v}.4h",
            wide = lateout(vreg) wide,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    wide
}
