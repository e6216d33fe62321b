//! Kernel operations in plain Rust, for every processor.

use half::{bf16, f16};

use super::{
    format::{LANES, SCALE_BYTES},
    lanes::Lanes,
    rounded::QuadForm,
};

/// Arrays of 16 elements.
pub(super) struct Portable;

#[allow(unsafe_code, reason = "raw reads; see `Lanes`")]
// SAFETY of every block below: the caller promises valid pointers.
impl Lanes for Portable {
    type Ints = [i32; LANES];
    type Smalls = [i32; LANES];
    type Floats = [f32; LANES];
    type Weights = [i8; 4 * LANES];
    type Halves = [i8; 4 * LANES];
    type Bytes = [u8; 4 * LANES];
    type Factors = [i32; LANES];

    const FORM: QuadForm = QuadForm::Bytes;
    const SMALL_FORM: QuadForm = QuadForm::Bytes;
    const SIGN_FLIPS: u32 = 0;
    const ROWS: usize = 4;
    const UNROLL: bool = true;

    #[inline(always)]
    unsafe fn ints(start: i32) -> Self::Ints {
        [start; LANES]
    }

    #[inline(always)]
    unsafe fn signed(weights: *const u8) -> Self::Weights {
        unsafe { weights.cast::<Self::Weights>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn six_bits<const LOW: i32, const HIGH: i32>(low: *const u8, high: *const u8) -> Self::Weights {
        let (low, high) =
            unsafe { (low.cast::<[u8; 64]>().read_unaligned(), high.cast::<[u8; 64]>().read_unaligned()) };
        std::array::from_fn(|i| ((low[i] >> LOW & 15) | (high[i] >> HIGH & 3) << 4) as i8)
    }

    #[inline(always)]
    unsafe fn dot(mut sums: Self::Ints, weights: Self::Weights, x: *const u32, _: usize) -> Self::Ints {
        let x = unsafe { *x }.to_le_bytes().map(|x| i32::from(x as i8));
        for (sum, w) in sums.iter_mut().zip(weights.as_chunks::<4>().0) {
            let w = w.map(i32::from);
            *sum += w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
        }
        sums
    }

    #[inline(always)]
    unsafe fn halves(weights: *const u8) -> (Self::Halves, Self::Halves) {
        let weights = unsafe { weights.cast::<[u8; 64]>().read_unaligned() };
        (weights.map(|w| (w & 15) as i8), weights.map(|w| (w >> 4) as i8))
    }

    #[inline(always)]
    unsafe fn smalls(start: i32) -> Self::Smalls {
        [start; LANES]
    }

    #[inline(always)]
    unsafe fn dot_halves(sums: Self::Smalls, weights: Self::Halves, x: *const u32, g: usize) -> Self::Smalls {
        unsafe { Self::dot(sums, weights, x, g) }
    }

    #[inline(always)]
    unsafe fn finish(sums: Self::Smalls, ints: Self::Ints) -> Self::Ints {
        std::array::from_fn(|i| ints[i] + sums[i])
    }

    #[inline(always)]
    unsafe fn finish_scaled(sums: Self::Smalls, factors: Self::Factors, ints: Self::Ints) -> Self::Ints {
        std::array::from_fn(|i| ints[i] + sums[i] * factors[i])
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Self::Bytes {
        unsafe { from.cast::<Self::Bytes>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn field<const SHIFT: u32, const MASK: u8>(bytes: Self::Bytes) -> Self::Bytes {
        bytes.map(|byte| byte >> SHIFT & MASK)
    }

    #[inline(always)]
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    unsafe fn lookup(bytes: Self::Bytes, table: &[i8; 16]) -> Self::Bytes {
        bytes.map(|byte| table[usize::from(byte & 15)] as u8)
    }

    #[inline(always)]
    unsafe fn small(bytes: Self::Bytes) -> Self::Halves {
        bytes.map(|byte| byte as i8)
    }

    #[inline(always)]
    unsafe fn weights(bytes: Self::Bytes) -> Self::Weights {
        bytes.map(|byte| byte as i8)
    }

    #[inline(always)]
    unsafe fn factors<const BYTE: usize>(bytes: Self::Bytes) -> Self::Factors {
        std::array::from_fn(|i| i32::from(bytes[4 * i + BYTE] as i8))
    }

    #[inline(always)]
    unsafe fn dot_pair<const ODD: usize>(bytes: Self::Bytes, x: *const i32) -> Self::Ints {
        let x = unsafe { *x };
        let (low, high) = (i32::from(x as i16), x >> 16);
        std::array::from_fn(|i| i32::from(bytes[4 * i + ODD]) * low + i32::from(bytes[4 * i + 2 + ODD]) * high)
    }

    #[inline(always)]
    unsafe fn to_floats(sums: Self::Ints) -> Self::Floats {
        sums.map(|sum| sum as f32)
    }

    #[inline(always)]
    unsafe fn scales(scales: *const u8) -> Self::Floats {
        unsafe {
            match SCALE_BYTES {
                2 => Self::f16(scales),
                _ => Self::f32(scales),
            }
        }
    }

    #[inline(always)]
    unsafe fn f16(values: *const u8) -> Self::Floats {
        unsafe { values.cast::<[[u8; 2]; LANES]>().read_unaligned() }.map(|x| f16::from_le_bytes(x).to_f32())
    }

    #[inline(always)]
    unsafe fn bf16(values: *const u8) -> Self::Floats {
        unsafe { values.cast::<[[u8; 2]; LANES]>().read_unaligned() }.map(|x| bf16::from_le_bytes(x).to_f32())
    }

    #[inline(always)]
    unsafe fn f32(values: *const u8) -> Self::Floats {
        unsafe { values.cast::<[[u8; 4]; LANES]>().read_unaligned() }.map(f32::from_le_bytes)
    }

    #[inline(always)]
    unsafe fn unsigned_bytes(values: *const u8) -> Self::Floats {
        unsafe { values.cast::<[u8; LANES]>().read_unaligned() }.map(f32::from)
    }

    #[inline(always)]
    unsafe fn signed_bytes(values: *const u8) -> Self::Floats {
        unsafe { values.cast::<[i8; LANES]>().read_unaligned() }.map(f32::from)
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::Floats {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        std::array::from_fn(|i| a[i] - b[i])
    }

    #[inline(always)]
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        std::array::from_fn(|i| a[i] * b[i])
    }

    #[inline(always)]
    unsafe fn store(x: Self::Floats, to: *mut f32) {
        unsafe { to.cast::<Self::Floats>().write_unaligned(x) };
    }
}
