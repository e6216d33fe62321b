//! Products of one strip of 16 outputs with a group of rows, for each format.
//!
//! The arithmetic per output and row is the same in every instruction set and for every number of rows:
//!
//! ```text
//! Q8_0, Q4_0, Q5_0, IQ4_NL, MXFP4
//!              sum ← 0; for each block b in order:   sum ← sum + float(Σ qᵢ·xᵢ) · (d_b · e_b)
//! Q6_K         as above over blocks of 16, with d_b = d · s_b
//! IQ4_XS       as above over blocks of 32, with d_b = d · s_b
//! Q4_K, Q5_K   as above over blocks of 32, with d_b = d · s_b, then sum ← sum − (dmin · m_b) · (e_b · Σ xᵢ)
//! Q4_1, Q5_1   as above over blocks of 32, then sum ← sum + m_b · (e_b · Σ xᵢ)
//! Q3_K         for each 256: part ← 0; for each b of its eight blocks of 32, with a scale s per 16 inputs:
//!              part ← part + float(Σ s·Σ qᵢ·xᵢ) · e_b; then sum ← sum + part · d
//! Q2_K         as Q3_K, and for minima m: least ← least + float(Σ m·Σ xᵢ) · e_b; then sum ← sum − least · dmin
//! F16 etc.     sums of the even inputs and of the odd ones, each in order, then even + odd
//! ```
//!
//! Here e_b is the scale of the activations' block. Σ is exact, every other operation is rounded to f32, and no
//! operations are fused.

pub(super) use super::operands::{Product, Rows};
use super::{
    format::{Format, LANES, SCALE_BYTES},
    lanes::Lanes,
    operands::{accumulate, quads},
    packed::{FiveBits, Fp4, iq4, q2k, q3k, small},
    rounded::RowGroup,
};

/// Computes a product with `R` rows.
///
/// # Safety
/// As for [`Lanes`]; the pointers of `product` must be valid for its format, `inputs` and `R` rows.
#[allow(unsafe_code, reason = "see above")]
#[inline(always)]
pub(super) unsafe fn product<S: Lanes, const R: usize>(product: &Product) {
    let mut strip = *product;
    let strip_bytes = product.format.strip_bytes(product.inputs);
    // SAFETY: promised by the caller.
    unsafe {
        loop {
            let sums = match strip.rows {
                Rows::Rounded(rows) => match strip.format {
                    Format::Q8_0 => q8_0::<S, R>(&strip, rows),
                    Format::Q4_0 => q4_0::<S, R, false>(&strip, rows),
                    Format::Q4_1 => q4_0::<S, R, true>(&strip, rows),
                    Format::Q5_0 => small::<S, FiveBits, R>(&strip, rows, Format::Q5_0),
                    Format::Q5_1 => small::<S, FiveBits, R>(&strip, rows, Format::Q5_1),
                    Format::Q5K => small::<S, FiveBits, R>(&strip, rows, Format::Q5K),
                    Format::Mxfp4 => small::<S, Fp4, R>(&strip, rows, Format::Mxfp4),
                    Format::Iq4Nl => iq4::<S, R>(&strip, rows, Format::Iq4Nl),
                    Format::Iq4Xs => iq4::<S, R>(&strip, rows, Format::Iq4Xs),
                    Format::Q2K => q2k::<S, R>(&strip, rows),
                    Format::Q3K => q3k::<S, R>(&strip, rows),
                    Format::Q4K => q4k::<S, R>(&strip, rows),
                    _ => q6k::<S, R>(&strip, rows),
                },
                Rows::Plain { first, stride } => match strip.format {
                    Format::F16 => dense::<S, R>(&strip, first, stride, 2, |at| S::f16(at)),
                    Format::Bf16 => dense::<S, R>(&strip, first, stride, 2, |at| S::bf16(at)),
                    _ => dense::<S, R>(&strip, first, stride, 4, |at| S::f32(at)),
                },
            };
            for (row, sums) in sums.into_iter().enumerate() {
                let out = strip.out.add(row * strip.stride);
                if strip.outputs >= LANES {
                    S::store(sums, out);
                } else {
                    let mut all = [0.0; LANES];
                    S::store(sums, all.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(all.as_ptr(), out, strip.outputs);
                }
            }
            if strip.outputs <= LANES {
                break;
            }
            strip.outputs -= LANES;
            strip.out = strip.out.add(LANES);
            strip.strip = strip.strip.add(strip_bytes);
        }
    }
}

#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn q8_0<S: Lanes, const R: usize>(product: &Product, rows: RowGroup) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let quad_words = S::FORM.words() * R;
        let mut sums = [S::splat(0.0); R];
        let quads = quads::<S>(8);
        for block in 0..product.inputs / 32 {
            let offsets = Format::Q8_0.offsets(block);
            let values = product.strip.add(offsets.values);
            let x = rows.quads.add(block * 8 * quad_words);
            let mut ints = [S::ints(0); R];
            for (row, ints) in ints.iter_mut().enumerate() {
                *ints = S::ints(*rows.starts.add(block * R + row));
            }
            for quad in 0..quads {
                let weights = S::signed(values.add(quad * 4 * LANES));
                for (row, ints) in ints.iter_mut().enumerate() {
                    *ints = S::dot(*ints, weights, x.add(quad * quad_words + row), R);
                }
            }
            let scale = S::scales(product.strip.add(offsets.scales));
            for (row, (sum, ints)) in sums.iter_mut().zip(ints).enumerate() {
                *sum = accumulate::<S>(*sum, ints, scale, rows.scales.add(block * R + row));
            }
        }
        sums
    }
}

#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn q4_0<S: Lanes, const R: usize, const MINIMA: bool>(product: &Product, rows: RowGroup) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let format = if MINIMA { Format::Q4_1 } else { Format::Q4_0 };
        let quad_words = S::SMALL_FORM.words() * R;
        let mut sums = [S::splat(0.0); R];
        let quads = quads::<S>(4);
        for block in 0..product.inputs / 32 {
            let offsets = format.offsets(block);
            let values = product.strip.add(offsets.values);
            let x = rows.quads.add(block * 8 * quad_words);
            let mut smalls = [S::smalls(0); R];
            for quad in 0..quads {
                let (low, high) = S::halves(values.add(quad * 4 * LANES));
                for (row, smalls) in smalls.iter_mut().enumerate() {
                    *smalls = S::dot_halves(*smalls, low, x.add(quad * quad_words + row), R);
                    *smalls = S::dot_halves(*smalls, high, x.add((quad + 4) * quad_words + row), R);
                }
            }
            let scale = S::scales(product.strip.add(offsets.scales));
            for (row, (sum, smalls)) in sums.iter_mut().zip(smalls).enumerate() {
                let ints = S::finish(smalls, S::ints(*rows.starts.add(block * R + row)));
                *sum = accumulate::<S>(*sum, ints, scale, rows.scales.add(block * R + row));
            }
            if MINIMA {
                let minimum = S::scales(product.strip.add(offsets.scales + LANES * SCALE_BYTES));
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = S::sub(*sum, S::mul(minimum, S::splat(*rows.sums.add(block * R + row))));
                }
            }
        }
        sums
    }
}

#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn q4k<S: Lanes, const R: usize>(product: &Product, rows: RowGroup) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let quad_words = S::SMALL_FORM.words() * R;
        let mut sums = [S::splat(0.0); R];
        let quads = quads::<S>(8);
        for block in 0..product.inputs / 256 {
            let offsets = Format::Q4K.offsets(block);
            let scales = product.strip.add(offsets.scales);
            let d = S::scales(scales);
            let dmin = S::scales(scales.add(LANES * SCALE_BYTES));
            let parts = scales.add(2 * LANES * SCALE_BYTES);
            for pair in 0..4 {
                let values = product.strip.add(offsets.values + pair * 32 * LANES);
                let (low_block, high_block) = (block * 8 + 2 * pair, block * 8 + 2 * pair + 1);
                let x = rows.quads.add(low_block * 8 * quad_words);
                let mut lows = [S::smalls(0); R];
                let mut highs = [S::smalls(0); R];
                for quad in 0..quads {
                    let (low, high) = S::halves(values.add(quad * 4 * LANES));
                    for row in 0..R {
                        lows[row] = S::dot_halves(lows[row], low, x.add(quad * quad_words + row), R);
                        highs[row] = S::dot_halves(highs[row], high, x.add((quad + 8) * quad_words + row), R);
                    }
                }
                for (part, smalls) in [(low_block, lows), (high_block, highs)] {
                    let scale = S::mul(d, S::unsigned_bytes(parts.add(part % 8 * LANES)));
                    let minimum = S::mul(dmin, S::unsigned_bytes(parts.add((8 + part % 8) * LANES)));
                    for (row, (sum, smalls)) in sums.iter_mut().zip(smalls).enumerate() {
                        let ints = S::finish(smalls, S::ints(*rows.starts.add(part * R + row)));
                        *sum = accumulate::<S>(*sum, ints, scale, rows.scales.add(part * R + row));
                        *sum = S::sub(*sum, S::mul(minimum, S::splat(*rows.sums.add(part * R + row))));
                    }
                }
            }
        }
        sums
    }
}

#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn q6k<S: Lanes, const R: usize>(product: &Product, rows: RowGroup) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let mut sums = [S::splat(0.0); R];
        for half in 0..product.inputs / 128 {
            let offsets = Format::Q6K.offsets(half / 2);
            let scales = product.strip.add(offsets.scales);
            let d = S::scales(scales);
            let parts = scales.add(LANES * SCALE_BYTES + half % 2 * 8 * LANES);
            let values = product.strip.add(offsets.values);
            let high = values.add(half % 2 * 96 * LANES);
            let low = high.add(32 * LANES);
            q6k_quarter::<S, R, 0, 0>(&mut sums, rows, 4 * half, d, parts, low, high);
            q6k_quarter::<S, R, 0, 2>(&mut sums, rows, 4 * half + 1, d, parts, low.add(32 * LANES), high);
            q6k_quarter::<S, R, 4, 4>(&mut sums, rows, 4 * half + 2, d, parts, low, high);
            q6k_quarter::<S, R, 4, 6>(&mut sums, rows, 4 * half + 3, d, parts, low.add(32 * LANES), high);
        }
        sums
    }
}

/// Adds 32 inputs of Q6_K, block `block` of the row.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn q6k_quarter<S: Lanes, const R: usize, const LOW: i32, const HIGH: i32>(
    sums: &mut [S::Floats; R],
    rows: RowGroup,
    block: usize,
    d: S::Floats,
    parts: *const u8,
    low: *const u8,
    high: *const u8,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let quad_words = S::FORM.words() * R;
        for part in 0..2 {
            let mut ints = [S::ints(0); R];
            for (row, ints) in ints.iter_mut().enumerate() {
                *ints = S::ints(*rows.starts.add((2 * block + part) * R + row));
            }
            for quad in 4 * part..4 * part + 4 {
                let at = quad * 4 * LANES;
                let weights = S::six_bits::<LOW, HIGH>(low.add(at), high.add(at));
                for (row, ints) in ints.iter_mut().enumerate() {
                    *ints = S::dot(*ints, weights, rows.quads.add((block * 8 + quad) * quad_words + row), R);
                }
            }
            let scale = S::mul(d, S::signed_bytes(parts.add((block % 4 * 2 + part) * LANES)));
            for (row, (sum, ints)) in sums.iter_mut().zip(ints).enumerate() {
                *sum = accumulate::<S>(*sum, ints, scale, rows.scales.add(block * R + row));
            }
        }
    }
}

#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn dense<S: Lanes, const R: usize>(
    product: &Product,
    x: *const f32,
    stride: usize,
    bytes: usize,
    load: impl Fn(*const u8) -> S::Floats,
) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let inputs = product.inputs;
        let at = |input: usize| load(product.strip.add(input * bytes * LANES));
        let mut even = [S::splat(0.0); R];
        let mut odd = [S::splat(0.0); R];
        for pair in 0..inputs / 2 {
            let weights = (at(2 * pair), at(2 * pair + 1));
            for row in 0..R {
                let x = x.add(row * stride + 2 * pair);
                even[row] = S::add(even[row], S::mul(weights.0, S::splat(*x)));
                odd[row] = S::add(odd[row], S::mul(weights.1, S::splat(*x.add(1))));
            }
        }
        if inputs % 2 == 1 {
            let weights = at(inputs - 1);
            for (row, even) in even.iter_mut().enumerate() {
                *even = S::add(*even, S::mul(weights, S::splat(*x.add(row * stride + inputs - 1))));
            }
        }
        let mut sums = even;
        for (sum, odd) in sums.iter_mut().zip(odd) {
            *sum = S::add(*sum, odd);
        }
        sums
    }
}
