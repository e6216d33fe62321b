//! Memory layout of weights: strips of 16 outputs.
//!
//! A matrix `[outputs, inputs]` is divided into strips of [`LANES`] rows, and each strip into blocks. A block holds its
//! scales, then its quantized values, interleaved in groups of four consecutive inputs:
//!
//! ```text
//! 64 bytes:  output 0: inputs 0 1 2 3 | output 1: inputs 0 1 2 3 | … | output 15: inputs 0 1 2 3
//! ```
//!
//! One vector thus multiplies four activations for all 16 outputs, one per lane, and no sum crosses lanes. A matrix is
//! read sequentially without gaps, for the benefit of hardware prefetching. If all scales of a strip preceded all of
//! its values, prefetching would restart with every strip (half the speed at 576 inputs). The size of a strip is that
//! in the file, except as stated here:
//!
//! | | inputs | scales | values | size relative to the file |
//! |---|---|---|---|---|
//! | `Q8_0` | 32 | 16 d; if stored as f16, those of two blocks, then the values of both | 512 | 1 (1.06 if scales are f32) |
//! | `Q4_0` | 32 | as `Q8_0` | 256; low halves are inputs 0–15, high ones 16–31 | 1 (1.11) |
//! | `Q4_1` | 32 | 16 d, 16 −m | 256, as `Q4_0` | 1 (1.2) |
//! | `Q5_0` | 32 | as `Q4_0` | 320: five bits | 1 (1.09) |
//! | `Q5_1` | 32 | 16 d, 16 −m | 320: five bits | 1 (1.17) |
//! | `Q2_K` | 256 | 16 d, 16 dmin, 16 × 16 scales and minima | 1024: two bits | 1 (1.05) |
//! | `Q3_K` | 256 | 16 d, 16 × 16 scales | 1536: three bits | 1.05 |
//! | `Q4_K` | 256 | 16 d, 16 dmin, 8 × 16 scales, 8 × 16 minima | 2048 | 1.03 (1.06) |
//! | `Q5_K` | 256 | as `Q4_K` | 2560: five bits | 1.02 (1.05) |
//! | `Q6_K` | 256 | 16 d, 16 × 16 scales | twice 512 of high pairs, 1024 of low halves | 1.01 |
//! | `IQ4_NL` | 32 | as `Q4_0` | 256, as `Q4_0` | 1 (1.11) |
//! | `IQ4_XS` | 256 | 16 d, 8 × 16 scales | 2048, as `Q4_0` | 1.03 |
//! | `MXFP4` | 32 | 16 d, f32 | 256, as `Q4_0` | 1.18 |
//! | F16, BF16, F32 | 1 | | 16 values | 1 |
//!
//! The layout of two, three and five bits is in `fields`. The scales of `Q2_K` and `Q3_K` are grouped in quads of
//! parts, like values in quads of inputs; a quad of `Q2_K` has its parts in the order 0, 2, 1, 3.
//!
//! The last strip of a matrix is padded with zeros.

use half::{bf16, f16};

pub(crate) use super::fields::LANES;
use super::fields::{
    FIVE_BITS, THREE_BITS, TWO_BITS, iq4xs_scale, q3k_numbers, q3k_scale, q5_numbers, q5k_numbers, two_bit_numbers,
};

/// Size of a block's scale in memory, in bytes. Scales stay f16 where the processor converts f16 in one instruction.
pub(super) const SCALE_BYTES: usize = if cfg!(target_arch = "x86_64") { 2 } else { 4 };

/// Alignment of strips, blocks and their values, in bytes.
pub(super) const ALIGNMENT: usize = 64;

/// Values of the half bytes of `IQ4_NL` and `IQ4_XS` (`kvalues_iq4nl` of `ggml-common.h`).
pub(super) const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Values of the half bytes of `MXFP4` (sign, two bits of exponent, one of fraction), times two.
pub(super) const FP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Element types that have kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Blocks of 32: d, 32 signed bytes; w = d·q.
    Q8_0,
    /// Blocks of 32: d, 32 half bytes; w = d·(q − 8).
    Q4_0,
    /// Blocks of 32: d, m, 32 half bytes; w = d·q + m.
    Q4_1,
    /// Blocks of 32: d, 32 high bits, 32 half bytes; w = d·(q − 16).
    Q5_0,
    /// Blocks of 32: d, m, 32 high bits, 32 half bytes; w = d·q + m.
    Q5_1,
    /// Blocks of 256: sixteen scales s and minima m of 4 bits, 256 values of 2 bits, d, dmin; w = d·s·q − dmin·m.
    Q2K,
    /// Blocks of 256: 256 high bits, 256 values of 2 bits, sixteen scales s of 6 bits, d; w = d·(s − 32)·(q − 4).
    Q3K,
    /// Blocks of 256: d, dmin, eight scales s and minima m of 6 bits, 256 half bytes; w = d·s·q − dmin·m.
    Q4K,
    /// Blocks of 256: as `Q4K`, with 256 high bits before the half bytes.
    Q5K,
    /// Blocks of 256: 256 values of 6 bits, sixteen signed scales s, d; w = d·s·(q − 32).
    Q6K,
    /// Blocks of 32: d, 32 half bytes; w = d·v(q), [`IQ4_VALUES`].
    Iq4Nl,
    /// Blocks of 256: d, eight scales s of 6 bits, 256 half bytes; w = d·(s − 32)·v(q), [`IQ4_VALUES`].
    Iq4Xs,
    /// Blocks of 32: an exponent e, 32 half bytes; w = 2^(e − 128)·v(q), [`FP4_VALUES`].
    Mxfp4,
    /// Half precision (IEEE 16-bit float).
    F16,
    /// Upper half of an f32 (bfloat16).
    Bf16,
    /// Single precision (IEEE 32-bit float).
    F32,
}

/// Number of blocks of 32 with adjacent scales, such that these fill a multiple of [`ALIGNMENT`].
const SPAN: usize = ALIGNMENT / (LANES * SCALE_BYTES);

/// Position of a block in a strip, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockOffsets {
    pub(super) scales: usize,
    pub(super) values: usize,
}

impl Format {
    /// List of all formats.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 16] = [
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Iq4Nl,
        Self::Iq4Xs,
        Self::Mxfp4,
        Self::F16,
        Self::Bf16,
        Self::F32,
    ];

    /// Number of weights in a block, and its size in a file in bytes.
    pub(crate) const fn block(self) -> (usize, usize) {
        match self {
            Self::Q8_0 => (32, 34),
            Self::Q4_0 | Self::Iq4Nl => (32, 18),
            Self::Mxfp4 => (32, 17),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Iq4Xs => (256, 136),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::F32 => (1, 4),
        }
    }

    /// Size of a row in a file, in bytes.
    pub(crate) const fn row_bytes(self, inputs: usize) -> usize {
        let (len, bytes) = self.block();
        inputs / len * bytes
    }

    /// Size of a strip in bytes, a multiple of [`ALIGNMENT`]. `inputs` must be a multiple of the block length.
    pub(super) const fn strip_bytes(self, inputs: usize) -> usize {
        match inputs / self.block().0 {
            0 => 0,
            blocks => (self.offsets(blocks - 1).values + self.values_bytes()).next_multiple_of(ALIGNMENT),
        }
    }

    /// Position of a block in a strip.
    #[allow(clippy::modulo_one, reason = "where scales are f32, a span is one block")]
    #[inline(always)]
    pub(super) const fn offsets(self, block: usize) -> BlockOffsets {
        let values_bytes = self.values_bytes();
        match self {
            Self::Q8_0 | Self::Q4_0 | Self::Q5_0 | Self::Iq4Nl => {
                let span = block / SPAN;
                let within = block - span * SPAN;
                let start = span * (ALIGNMENT + SPAN * values_bytes);
                BlockOffsets {
                    scales: start + within * LANES * SCALE_BYTES,
                    values: start + ALIGNMENT + within * values_bytes,
                }
            }
            _ => {
                let scales_bytes = (LANES * self.scale_bytes()).next_multiple_of(ALIGNMENT);
                let scales = block * (scales_bytes + values_bytes);
                BlockOffsets { scales, values: scales + scales_bytes }
            }
        }
    }

    /// Size in bytes of an output's scales in a block.
    const fn scale_bytes(self) -> usize {
        match self {
            Self::Q8_0 | Self::Q4_0 | Self::Q5_0 | Self::Iq4Nl => SCALE_BYTES,
            Self::Q4_1 | Self::Q5_1 => 2 * SCALE_BYTES,
            Self::Q2K | Self::Q4K | Self::Q5K => 2 * SCALE_BYTES + 16,
            Self::Q3K | Self::Q6K => SCALE_BYTES + 16,
            Self::Iq4Xs => SCALE_BYTES + 8,
            Self::Mxfp4 => 4,
            Self::F16 | Self::Bf16 | Self::F32 => 0,
        }
    }

    /// Size in bytes of the values in a block of 16 outputs.
    pub(super) const fn values_bytes(self) -> usize {
        LANES
            * match self {
                Self::Q8_0 => 32,
                Self::Q4_0 | Self::Q4_1 | Self::Iq4Nl | Self::Mxfp4 => 16,
                Self::Q5_0 | Self::Q5_1 => 20,
                Self::Q2K => 64,
                Self::Q3K => 96,
                Self::Q4K | Self::Iq4Xs => 128,
                Self::Q5K => 160,
                Self::Q6K => 192,
                Self::F16 | Self::Bf16 => 2,
                Self::F32 => 4,
            }
    }

    /// Packs up to 16 rows of a file into `strip`, which must be zero.
    ///
    /// `sign_flips` is the instruction set's mask to xor to four signed bytes.
    pub(super) fn pack(self, rows: &[u8], inputs: usize, sign_flips: u32, strip: &mut [u8]) {
        let (_, block_bytes) = self.block();
        for (lane, row) in rows.chunks_exact(self.row_bytes(inputs)).enumerate() {
            for (index, block) in row.chunks_exact(block_bytes).enumerate() {
                let offsets = self.offsets(index);
                let (scales, values) = strip[offsets.scales..].split_at_mut(offsets.values - offsets.scales);
                match self {
                    Self::Q8_0 => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        put_quads(values, 0, lane, &block[2..], sign_flips);
                    }
                    Self::Q4_0 | Self::Iq4Nl => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        put_quads(values, 0, lane, &block[2..], 0);
                    }
                    Self::Q4_1 => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        put_scale(scales, LANES + lane, [block[2], block[3] ^ SIGN]);
                        put_quads(values, 0, lane, &block[4..], 0);
                    }
                    Self::Q5_0 => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        FIVE_BITS.put(values, lane, &q5_numbers(&block[2..]));
                    }
                    Self::Q5_1 => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        put_scale(scales, LANES + lane, [block[2], block[3] ^ SIGN]);
                        FIVE_BITS.put(values, lane, &q5_numbers(&block[4..]));
                    }
                    Self::Q2K => {
                        put_scale(scales, lane, [block[80], block[81]]);
                        put_scale(scales, LANES + lane, [block[82], block[83]]);
                        let parts = &mut scales[2 * LANES * SCALE_BYTES..];
                        for (group, &[a, b, c, d]) in block[..16].as_chunks::<4>().0.iter().enumerate() {
                            put_quads(parts, group, lane, &[a, c, b, d], 0);
                        }
                        for part in 0..8 {
                            let numbers = two_bit_numbers(&block[16..80], part);
                            TWO_BITS.put(&mut values[part * 8 * LANES..], lane, &numbers);
                        }
                    }
                    Self::Q3K => {
                        put_scale(scales, lane, [block[108], block[109]]);
                        let parts: [u8; 16] = std::array::from_fn(|part| q3k_scale(block, part) as u8);
                        put_quads(&mut scales[LANES * SCALE_BYTES..], 0, lane, &parts, 0);
                        for part in 0..8 {
                            THREE_BITS.put(&mut values[part * 12 * LANES..], lane, &q3k_numbers(block, part));
                        }
                    }
                    Self::Q4K | Self::Q5K => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        put_scale(scales, LANES + lane, [block[2], block[3]]);
                        let parts = &mut scales[2 * LANES * SCALE_BYTES..];
                        for part in 0..8 {
                            let (scale, minimum) = q4k_part(&block[4..16], part);
                            parts[part * LANES + lane] = scale;
                            parts[(8 + part) * LANES + lane] = minimum;
                        }
                        if self == Self::Q4K {
                            put_quads(values, 0, lane, &block[16..], 0);
                        } else {
                            for part in 0..8 {
                                FIVE_BITS.put(&mut values[part * 20 * LANES..], lane, &q5k_numbers(block, part));
                            }
                        }
                    }
                    Self::Iq4Xs => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        for part in 0..8 {
                            scales[LANES * SCALE_BYTES + part * LANES + lane] = iq4xs_scale(block, part) as u8;
                        }
                        put_quads(values, 0, lane, &block[8..], 0);
                    }
                    Self::Mxfp4 => {
                        scales[4 * lane..][..4].copy_from_slice(&power_of_two(block[0]).to_le_bytes());
                        put_quads(values, 0, lane, &block[1..], 0);
                    }
                    Self::Q6K => {
                        put_scale(scales, lane, [block[208], block[209]]);
                        let parts = &mut scales[LANES * SCALE_BYTES..];
                        for (part, &scale) in block[192..208].iter().enumerate() {
                            parts[part * LANES + lane] = scale;
                        }
                        for half in 0..2 {
                            put_quads(values, 24 * half, lane, &block[128 + 32 * half..][..32], 0);
                            put_quads(values, 24 * half + 8, lane, &block[64 * half..][..64], 0);
                        }
                    }
                    Self::F16 | Self::Bf16 => values[2 * lane..][..2].copy_from_slice(block),
                    Self::F32 => values[4 * lane..][..4].copy_from_slice(block),
                }
            }
        }
    }

    /// Unpacks one row of a strip to f32, `inputs` of them.
    pub(super) fn widen(self, strip: &[u8], lane: usize, sign_flips: u32, out: &mut [f32]) {
        for (index, out) in out.chunks_exact_mut(self.block().0).enumerate() {
            let offsets = self.offsets(index);
            let (scales, values) = strip[offsets.scales..].split_at(offsets.values - offsets.scales);
            match self {
                Self::Q8_0 => {
                    let d = scale(scales, lane);
                    for (i, out) in out.iter_mut().enumerate() {
                        let flip = (sign_flips >> (8 * (i % 4))) as u8;
                        *out = d * f32::from((byte(values, 0, lane, i) ^ flip) as i8);
                    }
                }
                Self::Q4_0 => {
                    let d = scale(scales, lane);
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = d * (f32::from(half_byte(values, lane, i)) - 8.0);
                    }
                }
                Self::Iq4Nl => {
                    let d = scale(scales, lane);
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = d * f32::from(IQ4_VALUES[usize::from(half_byte(values, lane, i))]);
                    }
                }
                Self::Mxfp4 => {
                    let d = f32::from_le_bytes(scales.as_chunks::<4>().0[lane]);
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = d * f32::from(FP4_VALUES[usize::from(half_byte(values, lane, i))]);
                    }
                }
                Self::Q4_1 => {
                    let (d, minimum) = (scale(scales, lane), scale(scales, LANES + lane));
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = d * f32::from(half_byte(values, lane, i)) - minimum;
                    }
                }
                Self::Q5_0 => {
                    let d = scale(scales, lane);
                    put_each(out, &FIVE_BITS.get(values, lane), |q| d * (q - 16.0));
                }
                Self::Q5_1 => {
                    let (d, minimum) = (scale(scales, lane), scale(scales, LANES + lane));
                    put_each(out, &FIVE_BITS.get(values, lane), |q| d * q - minimum);
                }
                Self::Q2K => {
                    let (d, dmin) = (scale(scales, lane), scale(scales, LANES + lane));
                    let parts = &scales[2 * LANES * SCALE_BYTES..];
                    for (part, out) in out.chunks_exact_mut(16).enumerate() {
                        let packed = byte(parts, part / 4, lane, [0, 2, 1, 3][part % 4]);
                        let (step, minimum) = (d * f32::from(packed & 15), dmin * f32::from(packed >> 4));
                        let numbers = TWO_BITS.get(&values[part / 2 * 8 * LANES..], lane);
                        put_each(out, &numbers[part % 2 * 16..], |q| step * q - minimum);
                    }
                }
                Self::Q3K => {
                    let d = scale(scales, lane);
                    for (part, out) in out.chunks_exact_mut(16).enumerate() {
                        let step = d * f32::from(byte(&scales[LANES * SCALE_BYTES..], 0, lane, part) as i8);
                        let numbers = THREE_BITS.get(&values[part / 2 * 12 * LANES..], lane);
                        put_each(out, &numbers[part % 2 * 16..], |q| step * (q - 4.0));
                    }
                }
                Self::Q5K => {
                    let (d, dmin) = (scale(scales, lane), scale(scales, LANES + lane));
                    let parts = &scales[2 * LANES * SCALE_BYTES..];
                    for (part, out) in out.chunks_exact_mut(32).enumerate() {
                        let step = d * f32::from(parts[part * LANES + lane]);
                        let minimum = dmin * f32::from(parts[(8 + part) * LANES + lane]);
                        let numbers = FIVE_BITS.get(&values[part * 20 * LANES..], lane);
                        put_each(out, &numbers, |q| step * q - minimum);
                    }
                }
                Self::Iq4Xs => {
                    let d = scale(scales, lane);
                    for (part, out) in out.chunks_exact_mut(32).enumerate() {
                        let step = d * f32::from(scales[LANES * SCALE_BYTES + part * LANES + lane] as i8);
                        for (i, out) in out.iter_mut().enumerate() {
                            let q = half_byte(&values[part * 16 * LANES..], lane, i);
                            *out = step * f32::from(IQ4_VALUES[usize::from(q)]);
                        }
                    }
                }
                Self::Q4K => {
                    let (d, dmin) = (scale(scales, lane), scale(scales, LANES + lane));
                    let parts = &scales[2 * LANES * SCALE_BYTES..];
                    for (i, out) in out.iter_mut().enumerate() {
                        let (part, pair) = (i / 32, i / 64);
                        let q = byte(values, 8 * pair, lane, i % 32) >> (4 * (part % 2)) & 15;
                        let step = d * f32::from(parts[part * LANES + lane]);
                        let minimum = dmin * f32::from(parts[(8 + part) * LANES + lane]);
                        *out = step * f32::from(q) - minimum;
                    }
                }
                Self::Q6K => {
                    let d = scale(scales, lane);
                    let parts = &scales[LANES * SCALE_BYTES..];
                    for (i, out) in out.iter_mut().enumerate() {
                        let (half, quarter, index) = (i / 128, i / 32 % 4, i % 32);
                        let high = byte(values, 24 * half, lane, index);
                        let low = byte(values, 24 * half + 8 + 8 * (quarter % 2), lane, index);
                        let q = (low >> (4 * (quarter / 2)) & 15) | (high >> (2 * quarter) & 3) << 4;
                        *out = d * f32::from(parts[i / 16 * LANES + lane] as i8) * (f32::from(q) - 32.0);
                    }
                }
                Self::F16 => out[0] = f16::from_le_bytes([values[2 * lane], values[2 * lane + 1]]).to_f32(),
                Self::Bf16 => out[0] = bf16::from_le_bytes([values[2 * lane], values[2 * lane + 1]]).to_f32(),
                Self::F32 => {
                    let at = 4 * lane;
                    out[0] = f32::from_le_bytes([values[at], values[at + 1], values[at + 2], values[at + 3]]);
                }
            }
        }
    }
}

/// Scale and minimum of the `part`-th 32 weights of a `Q4_K` block: six bits each, packed into twelve bytes.
pub(super) fn q4k_part(packed: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        return (packed[part] & 63, packed[part + 4] & 63);
    }
    let (low, high) = (packed[part + 4], (packed[part - 4] >> 6, packed[part] >> 6));
    (low & 15 | high.0 << 4, low >> 4 | high.1 << 4)
}

/// Sign bit of an f16, in its second byte.
const SIGN: u8 = 0x80;

/// Scale of an `MXFP4` block for doubled values: 2^(exponent − 128). Exact; two of the results are subnormal.
fn power_of_two(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        _ => u32::from(exponent - 1) << 23,
    })
}

/// Sets each element to `weight` of its number.
fn put_each(out: &mut [f32], numbers: &[u8], weight: impl Fn(f32) -> f32) {
    for (out, &number) in out.iter_mut().zip(numbers) {
        *out = weight(number.into());
    }
}

/// Half byte `i` of 32 of a lane, in the layout of `Q4_0`.
fn half_byte(values: &[u8], lane: usize, i: usize) -> u8 {
    byte(values, 0, lane, i % 16) >> (4 * (i / 16)) & 15
}

/// Stores the scale at `index`, given as an f16 of the file.
fn put_scale(scales: &mut [u8], index: usize, half: [u8; 2]) {
    let at = index * SCALE_BYTES;
    match SCALE_BYTES {
        2 => scales[at..at + 2].copy_from_slice(&half),
        _ => scales[at..at + 4].copy_from_slice(&f16::from_le_bytes(half).to_f32().to_le_bytes()),
    }
}

fn scale(scales: &[u8], index: usize) -> f32 {
    let at = index * SCALE_BYTES;
    match SCALE_BYTES {
        2 => f16::from_le_bytes([scales[at], scales[at + 1]]).to_f32(),
        _ => f32::from_le_bytes([scales[at], scales[at + 1], scales[at + 2], scales[at + 3]]),
    }
}

/// Stores `bytes` as quads of a lane, starting at quad `first`.
fn put_quads(values: &mut [u8], first: usize, lane: usize, bytes: &[u8], flips: u32) {
    for (quad, bytes) in bytes.as_chunks::<4>().0.iter().enumerate() {
        let at = 4 * ((first + quad) * LANES + lane);
        values[at..at + 4].copy_from_slice(&(u32::from_le_bytes(*bytes) ^ flips).to_le_bytes());
    }
}

/// Byte `index` of a lane, counted from quad `first`.
fn byte(values: &[u8], first: usize, lane: usize, index: usize) -> u8 {
    values[4 * ((first + index / 4) * LANES + lane) + index % 4]
}
