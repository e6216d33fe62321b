//! How weights are laid out in memory: strips of sixteen outputs.
//!
//! A matrix `[outputs, inputs]` is cut into strips of [`LANES`] rows, and a strip into blocks, each of which holds its
//! scales and then its quantized values, interleaved by groups of four consecutive inputs:
//!
//! ```text
//! 64 bytes:  output 0: inputs 0 1 2 3 | output 1: inputs 0 1 2 3 | … | output 15: inputs 0 1 2 3
//! ```
//!
//! so that one vector meets four activations in all sixteen outputs, a lane each, and no sum ever runs across
//! lanes. A matrix is read from its first byte to its last without a gap: processors fetch ahead along a line, and
//! where all scales of a strip stood before all its values, every strip cost them a new start (with 576 inputs half the
//! speed). A strip takes the bytes of the file, plus what is said here:
//!
//! | | inputs | scales | values | bytes, in those of the file |
//! |---|---|---|---|---|
//! | `Q8_0` | 32 | 16 d; where they are f16, those of two blocks, then both blocks' values | 512 | 1 (1.06 where scales are f32) |
//! | `Q4_0` | 32 | the same | 256; the low halves are inputs 0–15, the high ones 16–31 | 1 (1.11) |
//! | `Q4_K` | 256 | 16 d, 16 dmin, 8 × 16 scales, 8 × 16 minima | 2048 | 1.03 (1.06) |
//! | `Q6_K` | 256 | 16 d, 16 × 16 scales | twice 512 of high pairs, 1024 of low halves | 1.01 |
//! | F16, BF16, F32 | 1 | | 16 values | 1 |
//!
//! The last strip of a matrix is filled up with zeros.

use half::{bf16, f16};

/// Outputs of a strip: one lane each.
pub(crate) const LANES: usize = 16;

/// Bytes of a block's scale in memory. Where the processor widens f16 in one instruction they stay f16.
pub(super) const SCALE_BYTES: usize = if cfg!(target_arch = "x86_64") { 2 } else { 4 };

/// The boundary on which strips, blocks and their values begin, in bytes.
pub(super) const ALIGNMENT: usize = 64;

/// Element types that have kernels of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Blocks of 32: d, 32 signed bytes; w = d·q.
    Q8_0,
    /// Blocks of 32: d, 32 half bytes; w = d·(q − 8).
    Q4_0,
    /// Blocks of 256: d, dmin, eight scales s and minima m of 6 bits, 256 half bytes; w = d·s·q − dmin·m.
    Q4K,
    /// Blocks of 256: 256 values of 6 bits, sixteen signed scales s, d; w = d·s·(q − 32).
    Q6K,
    /// IEEE half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// IEEE single precision.
    F32,
}

/// Blocks of 32 whose scales are neighbours, so that they fill a multiple of [`ALIGNMENT`].
const SPAN: usize = ALIGNMENT / (LANES * SCALE_BYTES);

/// Where a block is in a strip, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockOffsets {
    pub(super) scales: usize,
    pub(super) values: usize,
}

impl Format {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 7] = [Self::Q8_0, Self::Q4_0, Self::Q4K, Self::Q6K, Self::F16, Self::Bf16, Self::F32];

    /// Weights of a block, and bytes of one in a file.
    pub(crate) const fn block(self) -> (usize, usize) {
        match self {
            Self::Q8_0 => (32, 34),
            Self::Q4_0 => (32, 18),
            Self::Q4K => (256, 144),
            Self::Q6K => (256, 210),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::F32 => (1, 4),
        }
    }

    /// Bytes of a row in a file.
    pub(crate) const fn row_bytes(self, inputs: usize) -> usize {
        let (len, bytes) = self.block();
        inputs / len * bytes
    }

    /// Bytes of a strip of `inputs` inputs, a multiple of the block's length; a multiple of [`ALIGNMENT`].
    pub(super) const fn strip_bytes(self, inputs: usize) -> usize {
        match inputs / self.block().0 {
            0 => 0,
            blocks => (self.offsets(blocks - 1).values + self.values_bytes()).next_multiple_of(ALIGNMENT),
        }
    }

    /// Where the `block`-th block of a strip is.
    #[allow(clippy::modulo_one, reason = "where scales are f32, a span is one block")]
    #[inline(always)]
    pub(super) const fn offsets(self, block: usize) -> BlockOffsets {
        let values_bytes = self.values_bytes();
        match self {
            Self::Q8_0 | Self::Q4_0 => {
                let span = block / SPAN;
                let within = block - span * SPAN;
                let start = span * (ALIGNMENT + SPAN * values_bytes);
                BlockOffsets {
                    scales: start + within * LANES * SCALE_BYTES,
                    values: start + ALIGNMENT + within * values_bytes,
                }
            }
            Self::Q4K => {
                let scales_bytes = LANES * (2 * SCALE_BYTES + 2 * 8);
                let scales = block * (scales_bytes + values_bytes);
                BlockOffsets { scales, values: scales + scales_bytes }
            }
            Self::Q6K => {
                let scales_bytes = (LANES * (SCALE_BYTES + 16)).next_multiple_of(ALIGNMENT);
                let scales = block * (scales_bytes + values_bytes);
                BlockOffsets { scales, values: scales + scales_bytes }
            }
            Self::F16 | Self::Bf16 | Self::F32 => BlockOffsets { scales: 0, values: block * values_bytes },
        }
    }

    /// Bytes of the values of a block of sixteen outputs.
    const fn values_bytes(self) -> usize {
        LANES
            * match self {
                Self::Q8_0 => 32,
                Self::Q4_0 => 16,
                Self::Q4K => 128,
                Self::Q6K => 192,
                Self::F16 | Self::Bf16 => 2,
                Self::F32 => 4,
            }
    }

    /// Brings rows as they are in a file, up to sixteen of them, into `strip`, which is zero.
    ///
    /// `sign_flips` is what the instruction set wants xor'ed to each four signed bytes.
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
                    Self::Q4_0 => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        put_quads(values, 0, lane, &block[2..], 0);
                    }
                    Self::Q4K => {
                        put_scale(scales, lane, [block[0], block[1]]);
                        put_scale(scales, LANES + lane, [block[2], block[3]]);
                        let parts = &mut scales[2 * LANES * SCALE_BYTES..];
                        for part in 0..8 {
                            let (scale, minimum) = q4k_part(&block[4..16], part);
                            parts[part * LANES + lane] = scale;
                            parts[(8 + part) * LANES + lane] = minimum;
                        }
                        put_quads(values, 0, lane, &block[16..], 0);
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

    /// One row of a strip as f32, `inputs` of them.
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
                        let q = byte(values, 0, lane, i % 16) >> (4 * (i / 16)) & 15;
                        *out = d * (f32::from(q) - 8.0);
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

/// Writes the `index`-th scale, an f16 of the file.
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

/// Writes `bytes` as quads from the `first` on, in their lane.
fn put_quads(values: &mut [u8], first: usize, lane: usize, bytes: &[u8], flips: u32) {
    for (quad, bytes) in bytes.as_chunks::<4>().0.iter().enumerate() {
        let at = 4 * ((first + quad) * LANES + lane);
        values[at..at + 4].copy_from_slice(&(u32::from_le_bytes(*bytes) ^ flips).to_le_bytes());
    }
}

/// The `index`-th byte of a lane, counted from quad `first`.
fn byte(values: &[u8], first: usize, lane: usize, index: usize) -> u8 {
    values[4 * ((first + index / 4) * LANES + lane) + index % 4]
}
