//! Kernel operations for x86-64 with AVX-512 and VNNI: Ice Lake, Zen 4 and later.

use std::arch::x86_64::*;

use super::{lanes::Lanes, rounded::QuadForm};

/// One vector of 512 bits.
pub(super) struct Avx512;

#[allow(unsafe_code, reason = "instructions that a processor may lack, and raw reads; see `Lanes`")]
// SAFETY of every block below: the caller promises the instruction set and valid pointers.
impl Lanes for Avx512 {
    type Ints = __m512i;
    type Smalls = __m512i;
    type Floats = __m512;
    type Weights = __m512i;
    type Halves = __m512i;
    type Bytes = __m512i;
    /// Factor of 16 bits; the upper half of each output is zero, because partial sums fit into 16 bits.
    type Factors = __m512i;

    const FORM: QuadForm = QuadForm::Bytes;
    const SMALL_FORM: QuadForm = QuadForm::Bytes;
    // VNNI multiplies unsigned bytes with signed ones, so weights have 128 added.
    const SIGN_FLIPS: u32 = 0x8080_8080;
    const ROWS: usize = 8;
    const UNROLL: bool = true;

    #[inline(always)]
    unsafe fn ints(start: i32) -> Self::Ints {
        unsafe { _mm512_set1_epi32(start) }
    }

    #[inline(always)]
    unsafe fn signed(weights: *const u8) -> Self::Weights {
        unsafe { _mm512_loadu_si512(weights.cast()) }
    }

    #[inline(always)]
    unsafe fn six_bits<const LOW: i32, const HIGH: i32>(low: *const u8, high: *const u8) -> Self::Weights {
        unsafe {
            let low = _mm512_loadu_si512(low.cast());
            let high = _mm512_loadu_si512(high.cast());
            let low = _mm512_and_si512(if LOW == 0 { low } else { _mm512_srli_epi16::<4>(low) }, _mm512_set1_epi8(15));
            let high = match HIGH {
                0 => _mm512_slli_epi16::<4>(high),
                2 => _mm512_slli_epi16::<2>(high),
                4 => high,
                _ => _mm512_srli_epi16::<2>(high),
            };
            _mm512_or_si512(low, _mm512_and_si512(high, _mm512_set1_epi8(0x30)))
        }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Ints, weights: Self::Weights, x: *const u32, _: usize) -> Self::Ints {
        unsafe { _mm512_dpbusd_epi32(sums, weights, _mm512_set1_epi32(*x as i32)) }
    }

    #[inline(always)]
    unsafe fn halves(weights: *const u8) -> (Self::Halves, Self::Halves) {
        unsafe {
            let weights = _mm512_loadu_si512(weights.cast());
            let mask = _mm512_set1_epi8(15);
            (_mm512_and_si512(weights, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(weights), mask))
        }
    }

    #[inline(always)]
    unsafe fn smalls(start: i32) -> Self::Smalls {
        unsafe { _mm512_set1_epi32(start) }
    }

    #[inline(always)]
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, g: usize) -> Self::Smalls {
        unsafe { Self::dot(sums, weights, x, g) }
    }

    #[inline(always)]
    unsafe fn finish(sums: Self::Smalls, ints: Self::Ints) -> Self::Ints {
        unsafe { _mm512_add_epi32(ints, sums) }
    }

    #[inline(always)]
    unsafe fn finish_scaled(sums: Self::Smalls, factors: Self::Factors, ints: Self::Ints) -> Self::Ints {
        unsafe { _mm512_add_epi32(ints, _mm512_madd_epi16(sums, factors)) }
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Self::Bytes {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn field<const SHIFT: u32, const MASK: u8>(bytes: Self::Bytes) -> Self::Bytes {
        unsafe {
            let shifted = if SHIFT == 0 { bytes } else { _mm512_srli_epi16::<SHIFT>(bytes) };
            _mm512_and_si512(shifted, _mm512_set1_epi8(MASK as i8))
        }
    }

    #[inline(always)]
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn lookup(bytes: Self::Bytes, table: &[i8; 16]) -> Self::Bytes {
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, bytes)
        }
    }

    #[inline(always)]
    unsafe fn small(bytes: Self::Bytes) -> Self::Halves {
        bytes
    }

    #[inline(always)]
    unsafe fn weights(bytes: Self::Bytes) -> Self::Weights {
        unsafe { _mm512_xor_si512(bytes, _mm512_set1_epi32(Self::SIGN_FLIPS as i32)) }
    }

    #[inline(always)]
    unsafe fn factors<const BYTE: usize>(bytes: Self::Bytes) -> Self::Factors {
        unsafe {
            // Moves the byte to the upper half of a word; zeros elsewhere.
            let shuffle = _mm_add_epi8(
                _mm_set1_epi32(const { u32::from_le_bytes([0x80, BYTE as u8, 0x80, 0x80]) } as i32),
                _mm_set_epi32(0x0c00, 0x0800, 0x0400, 0),
            );
            let words = _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(shuffle));
            _mm512_srai_epi16::<8>(words)
        }
    }

    #[inline(always)]
    unsafe fn dot_pair<const ODD: usize>(bytes: Self::Bytes, x: *const i32) -> Self::Ints {
        unsafe {
            let words = match ODD {
                0 => _mm512_and_si512(bytes, _mm512_set1_epi16(0x00ff)),
                _ => _mm512_srli_epi16::<8>(bytes),
            };
            _mm512_madd_epi16(words, _mm512_set1_epi32(*x))
        }
    }

    #[inline(always)]
    unsafe fn to_floats(sums: Self::Ints) -> Self::Floats {
        unsafe { _mm512_cvtepi32_ps(sums) }
    }

    #[inline(always)]
    unsafe fn scales(scales: *const u8) -> Self::Floats {
        unsafe { Self::f16(scales) }
    }

    #[inline(always)]
    unsafe fn f16(values: *const u8) -> Self::Floats {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(values.cast())) }
    }

    #[inline(always)]
    unsafe fn bf16(values: *const u8) -> Self::Floats {
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(values.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    unsafe fn f32(values: *const u8) -> Self::Floats {
        unsafe { _mm512_loadu_ps(values.cast()) }
    }

    #[inline(always)]
    unsafe fn unsigned_bytes(values: *const u8) -> Self::Floats {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(values.cast()))) }
    }

    #[inline(always)]
    unsafe fn signed_bytes(values: *const u8) -> Self::Floats {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(values.cast()))) }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::Floats {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn store(x: Self::Floats, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, x) };
    }
}
