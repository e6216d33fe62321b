//! Products with numbers that must be unpacked first: two, three or five bits, or half bytes that index a table. The
//! arithmetic is defined in [`products`](super::products), the position of bits in [`fields`](super::fields).

use super::{
    format::{FP4_VALUES, Format, IQ4_VALUES, LANES, SCALE_BYTES},
    lanes::Lanes,
    operands::{Product, accumulate, quads},
    rounded::RowGroup,
};

/// Size of a vector of values: a byte for each of 16 outputs and four inputs.
const VECTOR: usize = 4 * LANES;

/// Returns `values`, hidden from the compiler so that it does not start before the preceding work is done. As in
/// [`quads`], interleaved work would not fit into registers.
#[inline(always)]
fn apart<S: Lanes>(values: *const u8) -> *const u8 {
    if S::UNROLL { values } else { std::hint::black_box(values) }
}

/// Loads the vector of values at `index`.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn vector<S: Lanes>(values: *const u8, index: usize) -> S::Bytes {
    // SAFETY: promised by the caller.
    unsafe { S::bytes(values.add(index * VECTOR)) }
}

/// Adds the products of a block's quad with each row. `x` is the start of the block's activations.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn dot<S: Lanes, const R: usize>(sums: &mut [S::Smalls; R], x: *const u32, quad: usize, numbers: S::Bytes) {
    // SAFETY: promised by the caller.
    unsafe {
        let weights = S::small(numbers);
        let x = x.add(quad * S::SMALL_FORM.words() * R);
        for (row, sums) in sums.iter_mut().enumerate() {
            *sums = S::dot_halves(*sums, weights, x.add(row), R);
        }
    }
}

/// Unpacking of numbers small enough that four quads of them can be summed: see [`Lanes::smalls`].
pub(super) trait Unpack {
    /// Adds the products of a block's first 16 inputs or, if `SECOND`, of the other 16.
    ///
    /// # Safety
    /// As for [`Lanes`]; `values` must point to the values of a block of 32, `x` to its activations.
    #[allow(unsafe_code, reason = "as `product`")]
    unsafe fn dot_half<S: Lanes, const R: usize, const SECOND: bool>(
        sums: &mut [S::Smalls; R],
        values: *const u8,
        x: *const u32,
    );
}

/// Unpacking of five-bit numbers.
pub(super) struct FiveBits;

#[allow(unsafe_code, reason = "as `product`")]
impl Unpack for FiveBits {
    #[inline(always)]
    unsafe fn dot_half<S: Lanes, const R: usize, const SECOND: bool>(
        sums: &mut [S::Smalls; R],
        values: *const u8,
        x: *const u32,
    ) {
        // SAFETY: promised by the caller.
        unsafe {
            if SECOND {
                let values = apart::<S>(values);
                let (c, d) = (vector::<S>(values, 2), vector::<S>(values, 3));
                dot::<S, R>(sums, x, 4, S::field::<0, 31>(d));
                dot::<S, R>(sums, x, 6, S::or(S::field::<5, 7>(c), S::field::<2, 24>(d)));
                let e = vector::<S>(values, 4);
                dot::<S, R>(sums, x, 5, S::field::<0, 31>(e));
                let low = S::or(S::field::<5, 7>(e), S::field::<4, 8>(d));
                dot::<S, R>(sums, x, 7, S::or(low, S::field::<3, 16>(vector::<S>(values, 1))));
            } else {
                let (a, b) = (vector::<S>(values, 0), vector::<S>(values, 1));
                dot::<S, R>(sums, x, 0, S::field::<0, 31>(a));
                dot::<S, R>(sums, x, 1, S::field::<0, 31>(b));
                dot::<S, R>(sums, x, 3, S::or(S::field::<5, 7>(a), S::field::<2, 24>(b)));
                dot::<S, R>(sums, x, 2, S::field::<0, 31>(vector::<S>(values, 2)));
            }
        }
    }
}

/// Unpacking of 4-bit floats to twice their value plus 12.
pub(super) struct Fp4;

#[allow(unsafe_code, reason = "as `product`")]
impl Unpack for Fp4 {
    #[inline(always)]
    unsafe fn dot_half<S: Lanes, const R: usize, const SECOND: bool>(
        sums: &mut [S::Smalls; R],
        values: *const u8,
        x: *const u32,
    ) {
        // SAFETY: promised by the caller.
        unsafe {
            for quad in 0..quads::<S>(4) {
                let bytes = vector::<S>(values, quad);
                let (first, codes) = match SECOND {
                    false => (0, S::field::<0, 15>(bytes)),
                    true => (4, S::field::<4, 15>(bytes)),
                };
                dot::<S, R>(sums, x, first + quad, S::lookup(codes, &FP4_TABLE));
            }
        }
    }
}

/// Values of [`FP4_VALUES`] plus 12.
const FP4_TABLE: [i8; 16] = {
    let mut table = FP4_VALUES;
    let mut i = 0;
    while i < table.len() {
        table[i] += 12;
        i += 1;
    }
    table
};

/// Product with blocks of 32 that have a scale and, in some formats, a minimum. `format` is the product's.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
pub(super) unsafe fn small<S: Lanes, U: Unpack, const R: usize>(
    product: &Product,
    rows: RowGroup,
    format: Format,
) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let quad_words = S::SMALL_FORM.words() * R;
        let parts = format.block().0 / 32;
        let mut sums = [S::splat(0.0); R];
        for block in 0..product.inputs / 32 {
            let (whole, part) = (block / parts, block % parts);
            let offsets = format.offsets(whole);
            let scales = product.strip.add(offsets.scales);
            let values = product.strip.add(offsets.values + part * format.values_bytes() / parts);
            let x = rows.quads.add(block * 8 * quad_words);
            let mut ints = [S::ints(0); R];
            let mut smalls = [S::smalls(0); R];
            U::dot_half::<S, R, false>(&mut smalls, values, x);
            for (row, (ints, smalls)) in ints.iter_mut().zip(smalls).enumerate() {
                *ints = S::finish(smalls, S::ints(*rows.starts.add(block * R + row)));
            }
            let mut smalls = [S::smalls(0); R];
            U::dot_half::<S, R, true>(&mut smalls, values, x);
            let second = scales.add(LANES * SCALE_BYTES);
            let bytes = scales.add(2 * LANES * SCALE_BYTES + part * LANES);
            let (scale, minimum) = match format {
                Format::Q5K => (
                    S::mul(S::scales(scales), S::unsigned_bytes(bytes)),
                    Some(S::mul(S::scales(second), S::unsigned_bytes(bytes.add(8 * LANES)))),
                ),
                Format::Q5_1 => (S::scales(scales), Some(S::scales(second))),
                Format::Mxfp4 => (S::f32(scales), None),
                _ => (S::scales(scales), None),
            };
            for (row, sum) in sums.iter_mut().enumerate() {
                let ints = S::finish(smalls[row], ints[row]);
                *sum = accumulate::<S>(*sum, ints, scale, rows.scales.add(block * R + row));
                if let Some(minimum) = minimum {
                    *sum = S::sub(*sum, S::mul(minimum, S::splat(*rows.sums.add(block * R + row))));
                }
            }
        }
        sums
    }
}

/// Product with half bytes that index a table of signed bytes. `format` is the product's.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
pub(super) unsafe fn iq4<S: Lanes, const R: usize>(
    product: &Product,
    rows: RowGroup,
    format: Format,
) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let quad_words = S::FORM.words() * R;
        let parts = format.block().0 / 32;
        let mut sums = [S::splat(0.0); R];
        let quads = quads::<S>(4);
        for block in 0..product.inputs / 32 {
            let (whole, part) = (block / parts, block % parts);
            let offsets = format.offsets(whole);
            let scales = product.strip.add(offsets.scales);
            let values = product.strip.add(offsets.values + part * 4 * VECTOR);
            let x = rows.quads.add(block * 8 * quad_words);
            let mut ints = [S::ints(0); R];
            for (row, ints) in ints.iter_mut().enumerate() {
                *ints = S::ints(*rows.starts.add(block * R + row));
            }
            for quad in 0..quads {
                let bytes = S::bytes(values.add(quad * VECTOR));
                let low = S::weights(S::lookup(S::field::<0, 15>(bytes), &IQ4_VALUES));
                for (row, ints) in ints.iter_mut().enumerate() {
                    *ints = S::dot(*ints, low, x.add(quad * quad_words + row), R);
                }
                let high = S::weights(S::lookup(S::field::<4, 15>(bytes), &IQ4_VALUES));
                for (row, ints) in ints.iter_mut().enumerate() {
                    *ints = S::dot(*ints, high, x.add((quad + 4) * quad_words + row), R);
                }
            }
            let mut scale = S::scales(scales);
            if format == Format::Iq4Xs {
                scale = S::mul(scale, S::signed_bytes(scales.add(LANES * SCALE_BYTES + part * LANES)));
            }
            for (row, (sum, ints)) in sums.iter_mut().zip(ints).enumerate() {
                *sum = accumulate::<S>(*sum, ints, scale, rows.scales.add(block * R + row));
            }
        }
        sums
    }
}

/// Computes sum + float(ints) · row_scale.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn add_scaled<S: Lanes>(sum: S::Floats, ints: S::Ints, row_scale: *const f32) -> S::Floats {
    // SAFETY: promised by the caller.
    unsafe { S::add(sum, S::mul(S::to_floats(ints), S::splat(*row_scale))) }
}

/// Adds to `ints` 16 inputs of `Q2_K`, the four quads of a vector. Their scale is byte `SCALE` of `scales`.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn q2k_part<S: Lanes, const R: usize, const SCALE: usize>(
    ints: &mut [S::Ints; R],
    values: *const u8,
    x: *const u32,
    scales: S::Bytes,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let bytes = S::bytes(apart::<S>(values));
        let mut smalls = [S::smalls(0); R];
        dot::<S, R>(&mut smalls, x, 0, S::field::<0, 3>(bytes));
        dot::<S, R>(&mut smalls, x, 1, S::field::<2, 3>(bytes));
        dot::<S, R>(&mut smalls, x, 2, S::field::<4, 3>(bytes));
        dot::<S, R>(&mut smalls, x, 3, S::field::<6, 3>(bytes));
        let factors = S::factors::<SCALE>(scales);
        for (ints, smalls) in ints.iter_mut().zip(smalls) {
            *ints = S::finish_scaled(smalls, factors, *ints);
        }
    }
}

/// Adds 32 inputs of `Q2_K`, block `block` of the row, to the sums of products and of minima. Its minima are the even
/// or (`ODD`) the odd bytes.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn q2k_block<S: Lanes, const R: usize, const ODD: usize, const FIRST: usize, const SECOND: usize>(
    (parts, least): &mut (&mut [S::Floats; R], &mut [S::Floats; R]),
    rows: RowGroup,
    block: usize,
    values: *const u8,
    (scales, minima): (S::Bytes, S::Bytes),
) {
    // SAFETY: promised by the caller.
    unsafe {
        let quad_words = S::SMALL_FORM.words() * R;
        let x = rows.quads.add(block * 8 * quad_words);
        let mut ints = [S::ints(0); R];
        q2k_part::<S, R, FIRST>(&mut ints, values, x, scales);
        q2k_part::<S, R, SECOND>(&mut ints, values.add(VECTOR), x.add(4 * quad_words), scales);
        for row in 0..R {
            let at = block * R + row;
            let row_scale = rows.scales.add(at);
            parts[row] = add_scaled::<S>(parts[row], ints[row], row_scale);
            least[row] = add_scaled::<S>(least[row], S::dot_pair::<ODD>(minima, rows.starts.add(at)), row_scale);
        }
    }
}

#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
pub(super) unsafe fn q2k<S: Lanes, const R: usize>(product: &Product, rows: RowGroup) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let unit = S::splat(S::SMALL_FORM.unit() as f32);
        let mut sums = [S::splat(0.0); R];
        for whole in 0..product.inputs / 256 {
            let offsets = Format::Q2K.offsets(whole);
            let scales = product.strip.add(offsets.scales);
            let values = product.strip.add(offsets.values);
            let mut parts = [S::splat(0.0); R];
            let mut least = [S::splat(0.0); R];
            for pair in 0..quads::<S>(4) {
                let packed = S::bytes(scales.add(2 * LANES * SCALE_BYTES + pair * VECTOR));
                let (factors, minima) = (S::field::<0, 15>(packed), S::field::<4, 15>(packed));
                let (values, block) = (values.add(pair * 4 * VECTOR), 8 * whole + 2 * pair);
                let sums = &mut (&mut parts, &mut least);
                q2k_block::<S, R, 0, 0, 2>(sums, rows, block, values, (factors, minima));
                q2k_block::<S, R, 1, 1, 3>(sums, rows, block + 1, values.add(2 * VECTOR), (factors, minima));
            }
            let d = S::scales(scales);
            // Sums of activations are in units of 1, unlike the rows' scales.
            let dmin = S::mul(S::scales(scales.add(LANES * SCALE_BYTES)), unit);
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum = S::add(*sum, S::mul(parts[row], d));
                *sum = S::sub(*sum, S::mul(least[row], dmin));
            }
        }
        sums
    }
}

/// Adds to `parts` 32 inputs of `Q3_K`, block `block` of the row, with bytes `FIRST` and `SECOND` of `scales`.
#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
unsafe fn q3k_block<S: Lanes, const R: usize, const FIRST: usize, const SECOND: usize>(
    parts: &mut [S::Floats; R],
    rows: RowGroup,
    block: usize,
    values: *const u8,
    scales: S::Bytes,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let quad_words = S::SMALL_FORM.words() * R;
        let x = rows.quads.add(block * 8 * quad_words);
        let values = apart::<S>(values);
        let (a, b) = (vector::<S>(values, 0), vector::<S>(values, 1));
        let starts = rows.starts.add(2 * block * R);
        let mut smalls = [S::smalls(0); R];
        for (row, smalls) in smalls.iter_mut().enumerate() {
            *smalls = S::smalls(*starts.add(row));
        }
        dot::<S, R>(&mut smalls, x, 0, S::field::<0, 7>(a));
        dot::<S, R>(&mut smalls, x, 1, S::field::<3, 7>(a));
        dot::<S, R>(&mut smalls, x, 2, S::field::<0, 7>(b));
        dot::<S, R>(&mut smalls, x, 3, S::field::<3, 7>(b));
        let factors = S::factors::<FIRST>(scales);
        let mut ints = [S::ints(0); R];
        for (row, (ints, smalls)) in ints.iter_mut().zip(&mut smalls).enumerate() {
            *ints = S::finish_scaled(*smalls, factors, *ints);
            *smalls = S::smalls(*starts.add(R + row));
        }
        let values = apart::<S>(values);
        let (a, b, c) = (vector::<S>(values, 0), vector::<S>(values, 1), vector::<S>(values, 2));
        dot::<S, R>(&mut smalls, x, 4, S::field::<0, 7>(c));
        dot::<S, R>(&mut smalls, x, 5, S::field::<3, 7>(c));
        dot::<S, R>(&mut smalls, x, 6, S::or(S::field::<6, 3>(a), S::field::<4, 4>(c)));
        dot::<S, R>(&mut smalls, x, 7, S::or(S::field::<6, 3>(b), S::field::<5, 4>(c)));
        let factors = S::factors::<SECOND>(scales);
        for (row, part) in parts.iter_mut().enumerate() {
            let ints = S::finish_scaled(smalls[row], factors, ints[row]);
            *part = add_scaled::<S>(*part, ints, rows.scales.add(block * R + row));
        }
    }
}

#[allow(unsafe_code, reason = "as `product`")]
#[inline(always)]
pub(super) unsafe fn q3k<S: Lanes, const R: usize>(product: &Product, rows: RowGroup) -> [S::Floats; R] {
    // SAFETY: promised by the caller.
    unsafe {
        let mut sums = [S::splat(0.0); R];
        for whole in 0..product.inputs / 256 {
            let offsets = Format::Q3K.offsets(whole);
            let scales = product.strip.add(offsets.scales);
            let values = product.strip.add(offsets.values);
            let mut parts = [S::splat(0.0); R];
            for pair in 0..quads::<S>(4) {
                let factors = S::bytes(scales.add(LANES * SCALE_BYTES + pair * VECTOR));
                let (values, block) = (values.add(pair * 6 * VECTOR), 8 * whole + 2 * pair);
                q3k_block::<S, R, 0, 1>(&mut parts, rows, block, values, factors);
                q3k_block::<S, R, 2, 3>(&mut parts, rows, block + 1, values.add(3 * VECTOR), factors);
            }
            let d = S::scales(scales);
            for (sum, part) in sums.iter_mut().zip(parts) {
                *sum = S::add(*sum, S::mul(part, d));
            }
        }
        sums
    }
}
