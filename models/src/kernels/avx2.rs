//! Kernel operations for x86-64 with AVX2 and F16C: Haswell, Zen and later.

use std::arch::x86_64::*;

use super::{lanes::Lanes, rounded::QuadForm};

/// Two vectors of 256 bits: outputs 0 to 7 and 8 to 15.
pub(super) struct Avx2;

/// Pair of vectors: bytes 0–31 and 32–63.
type Pair = [__m256i; 2];

#[allow(unsafe_code, reason = "instructions that a processor may lack, and raw reads; see `Lanes`")]
// SAFETY of every block below: the caller promises the instruction set and valid pointers.
impl Lanes for Avx2 {
    type Ints = Pair;
    /// Two partial sums of 16 bits per output.
    type Smalls = Pair;
    type Floats = [__m256; 2];
    /// Words of two bytes, and their low bytes.
    type Weights = [Pair; 2];
    type Halves = Pair;
    type Bytes = Pair;
    /// Factor of 16 bits, stored twice per output.
    type Factors = Pair;

    const FORM: QuadForm = QuadForm::Words;
    const SMALL_FORM: QuadForm = QuadForm::Bytes;
    // The low byte of each word has 128 added.
    const SIGN_FLIPS: u32 = 0x0080_0080;
    const ROWS: usize = 4;
    const UNROLL: bool = true;

    #[inline(always)]
    unsafe fn ints(start: i32) -> Self::Ints {
        unsafe { [_mm256_set1_epi32(start); 2] }
    }

    #[inline(always)]
    unsafe fn signed(weights: *const u8) -> Self::Weights {
        unsafe { words(load(weights)) }
    }

    #[inline(always)]
    unsafe fn six_bits<const LOW: i32, const HIGH: i32>(low: *const u8, high: *const u8) -> Self::Weights {
        unsafe {
            let (low, high) = (load(low), load(high));
            words(std::array::from_fn(|i| {
                let low = if LOW == 0 { low[i] } else { _mm256_srli_epi16::<4>(low[i]) };
                let low = _mm256_and_si256(low, _mm256_set1_epi8(15));
                let high = match HIGH {
                    0 => _mm256_slli_epi16::<4>(high[i]),
                    2 => _mm256_slli_epi16::<2>(high[i]),
                    4 => high[i],
                    _ => _mm256_srli_epi16::<2>(high[i]),
                };
                _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(0x30)))
            }))
        }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Ints, [word, low]: Self::Weights, x: *const u32, g: usize) -> Self::Ints {
        unsafe {
            let (with_word, with_low) = (_mm256_set1_epi32(*x as i32), _mm256_set1_epi32(*x.add(g) as i32));
            std::array::from_fn(|i| {
                let sum = _mm256_add_epi32(sums[i], _mm256_madd_epi16(word[i], with_word));
                _mm256_add_epi32(sum, _mm256_madd_epi16(low[i], with_low))
            })
        }
    }

    #[inline(always)]
    unsafe fn halves(weights: *const u8) -> (Self::Halves, Self::Halves) {
        unsafe {
            let (weights, mask) = (load(weights), _mm256_set1_epi8(15));
            (
                weights.map(|w| _mm256_and_si256(w, mask)),
                weights.map(|w| _mm256_and_si256(_mm256_srli_epi16::<4>(w), mask)),
            )
        }
    }

    #[inline(always)]
    unsafe fn smalls(start: i32) -> Self::Smalls {
        unsafe { [_mm256_set1_epi32(start & 0xffff); 2] }
    }

    #[inline(always)]
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, _: usize) -> Self::Smalls {
        unsafe {
            let x = _mm256_set1_epi32(*x as i32);
            std::array::from_fn(|i| _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(weights[i], x)))
        }
    }

    #[inline(always)]
    unsafe fn finish(sums: Self::Smalls, ints: Self::Ints) -> Self::Ints {
        unsafe { Self::finish_scaled(sums, [_mm256_set1_epi16(1); 2], ints) }
    }

    #[inline(always)]
    unsafe fn finish_scaled(sums: Self::Smalls, factors: Self::Factors, ints: Self::Ints) -> Self::Ints {
        unsafe { std::array::from_fn(|i| _mm256_add_epi32(_mm256_madd_epi16(sums[i], factors[i]), ints[i])) }
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Self::Bytes {
        unsafe { load(from) }
    }

    #[inline(always)]
    unsafe fn field<const SHIFT: u32, const MASK: u8>(bytes: Self::Bytes) -> Self::Bytes {
        unsafe {
            let shift = _mm_cvtsi32_si128(const { SHIFT as i32 });
            let mask = _mm256_set1_epi8(MASK as i8);
            bytes.map(|b| _mm256_and_si256(if SHIFT == 0 { b } else { _mm256_srl_epi16(b, shift) }, mask))
        }
    }

    #[inline(always)]
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        unsafe { std::array::from_fn(|i| _mm256_or_si256(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn lookup(bytes: Self::Bytes, table: &[i8; 16]) -> Self::Bytes {
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            bytes.map(|b| _mm256_shuffle_epi8(table, b))
        }
    }

    #[inline(always)]
    unsafe fn small(bytes: Self::Bytes) -> Self::Halves {
        bytes
    }

    #[inline(always)]
    unsafe fn weights(bytes: Self::Bytes) -> Self::Weights {
        unsafe { words(bytes.map(|b| _mm256_xor_si256(b, _mm256_set1_epi32(Self::SIGN_FLIPS as i32)))) }
    }

    #[inline(always)]
    unsafe fn factors<const BYTE: usize>(bytes: Self::Bytes) -> Self::Factors {
        unsafe {
            // Moves the byte to the upper half of both words.
            let shuffle = _mm_add_epi8(
                _mm_set1_epi32(const { u32::from_le_bytes([0x80, BYTE as u8, 0x80, BYTE as u8]) } as i32),
                _mm_set_epi32(0x0c00_0c00, 0x0800_0800, 0x0400_0400, 0),
            );
            let shuffle = _mm256_broadcastsi128_si256(shuffle);
            bytes.map(|b| _mm256_srai_epi16::<8>(_mm256_shuffle_epi8(b, shuffle)))
        }
    }

    #[inline(always)]
    unsafe fn dot_pair<const ODD: usize>(bytes: Self::Bytes, x: *const i32) -> Self::Ints {
        unsafe {
            let x = _mm256_set1_epi32(*x);
            let words = bytes.map(|b| match ODD {
                0 => _mm256_and_si256(b, _mm256_set1_epi16(0x00ff)),
                _ => _mm256_srli_epi16::<8>(b),
            });
            words.map(|words| _mm256_madd_epi16(words, x))
        }
    }

    #[inline(always)]
    unsafe fn to_floats(sums: Self::Ints) -> Self::Floats {
        unsafe { sums.map(|sum| _mm256_cvtepi32_ps(sum)) }
    }

    #[inline(always)]
    unsafe fn scales(scales: *const u8) -> Self::Floats {
        unsafe { Self::f16(scales) }
    }

    #[inline(always)]
    unsafe fn f16(values: *const u8) -> Self::Floats {
        unsafe { std::array::from_fn(|i| _mm256_cvtph_ps(_mm_loadu_si128(values.add(16 * i).cast()))) }
    }

    #[inline(always)]
    unsafe fn bf16(values: *const u8) -> Self::Floats {
        unsafe {
            std::array::from_fn(|i| {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(values.add(16 * i).cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            })
        }
    }

    #[inline(always)]
    unsafe fn f32(values: *const u8) -> Self::Floats {
        unsafe { std::array::from_fn(|i| _mm256_loadu_ps(values.add(32 * i).cast())) }
    }

    #[inline(always)]
    unsafe fn unsigned_bytes(values: *const u8) -> Self::Floats {
        unsafe {
            std::array::from_fn(|i| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(values.add(8 * i).cast()))))
        }
    }

    #[inline(always)]
    unsafe fn signed_bytes(values: *const u8) -> Self::Floats {
        unsafe {
            std::array::from_fn(|i| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(values.add(8 * i).cast()))))
        }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::Floats {
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { std::array::from_fn(|i| _mm256_add_ps(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { std::array::from_fn(|i| _mm256_sub_ps(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        unsafe { std::array::from_fn(|i| _mm256_mul_ps(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn store(x: Self::Floats, to: *mut f32) {
        unsafe {
            _mm256_storeu_ps(to, x[0]);
            _mm256_storeu_ps(to.add(8), x[1]);
        }
    }
}

#[allow(unsafe_code, reason = "a raw read of 64 bytes")]
#[inline(always)]
unsafe fn load(bytes: *const u8) -> Pair {
    unsafe { [_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast())] }
}

#[allow(unsafe_code, reason = "instructions that a processor may lack")]
#[inline(always)]
unsafe fn words(words: Pair) -> [Pair; 2] {
    unsafe {
        let mask = _mm256_set1_epi16(0x00ff);
        [words, words.map(|word| _mm256_and_si256(word, mask))]
    }
}
