//! Matrices of the block types that have no kernels of their own: kept as in the file, and widened to f32 sixteen
//! outputs at a time when they are used.
//!
//! Published files use these types seldom, or for few of their tensors. A forward pass costs several times that of a
//! type with kernels.

use std::{collections::TryReserveError, ops::Range};

use half::f16;

use super::{
    format::{Format, LANES},
    isa::Isa,
    products::{Product, Rows},
};

/// Inputs that are widened at a time, whole blocks of every type: 16 KiB of a strip.
const CHUNK: usize = 256;

/// The most rows that a kernel computes together, in any instruction set.
const MOST_ROWS: usize = 8;

/// A block type that is widened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WidenedFormat {
    /// Blocks of 32: d, m, 32 half bytes; w = d·q + m.
    Q4_1,
    /// Blocks of 32: d, 32 high bits, 32 half bytes; w = d·(q − 16).
    Q5_0,
    /// Blocks of 32: d, m, 32 high bits, 32 half bytes; w = d·q + m.
    Q5_1,
    /// Blocks of 256: sixteen scales and minima of 4 bits, 256 values of 2 bits, d, dmin.
    Q2K,
    /// Blocks of 256: 256 high bits, 256 values of 2 bits, sixteen scales of 6 bits, d.
    Q3K,
    /// Blocks of 256: d, dmin, eight scales and minima of 6 bits, 256 high bits, 256 half bytes.
    Q5K,
}

impl WidenedFormat {
    /// All of them.
    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) const ALL: [Self; 6] = [Self::Q4_1, Self::Q5_0, Self::Q5_1, Self::Q2K, Self::Q3K, Self::Q5K];

    /// Weights of a block, and its bytes.
    pub(crate) const fn block(self) -> (usize, usize) {
        match self {
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q5K => (256, 176),
        }
    }

    /// The `i`-th weight of a block.
    fn weight(self, block: &[u8], i: usize) -> f32 {
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let bit = |at: usize, index: usize| block[at + index / 8] >> (index % 8) & 1;
        // The i-th of 32 half bytes from `at` on: low halves first.
        let nibble = |at: usize| if i < 16 { block[at + i] & 15 } else { block[at + i - 16] >> 4 };
        match self {
            Self::Q4_1 => half(0) * f32::from(nibble(4)) + half(2),
            Self::Q5_0 => half(0) * (f32::from(nibble(6) | bit(2, i) << 4) - 16.0),
            Self::Q5_1 => half(0) * f32::from(nibble(8) | bit(4, i) << 4) + half(2),
            Self::Q2K => {
                let q = block[16 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
                let part = block[i / 16];
                half(80) * f32::from(part & 15) * f32::from(q) - half(82) * f32::from(part >> 4)
            }
            Self::Q3K => {
                let q = block[32 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
                let high = block[i % 32] >> (i / 32) & 1;
                let part = i / 16;
                let low = if part < 8 { block[96 + part] & 15 } else { block[96 + part - 8] >> 4 };
                let scale = low | (block[104 + part % 4] >> (part / 4 * 2) & 3) << 4;
                half(108) * (f32::from(scale) - 32.0) * (f32::from(q) - if high == 0 { 4.0 } else { 0.0 })
            }
            Self::Q5K => {
                let (scale, minimum) = super::format::q4k_part(&block[4..16], i / 32);
                let byte = block[48 + i / 64 * 32 + i % 32];
                let q = if (i / 32).is_multiple_of(2) { byte & 15 } else { byte >> 4 };
                let q = q | (block[16 + i % 32] >> (i / 32) & 1) << 4;
                half(0) * f32::from(scale) * f32::from(q) - half(2) * f32::from(minimum)
            }
        }
    }
}

/// A matrix `[outputs, inputs]`, rows as in the file.
pub(crate) struct WidenedMatrix {
    rows: Vec<u8>,
    format: WidenedFormat,
    inputs: usize,
    row_bytes: usize,
}

impl WidenedMatrix {
    /// A matrix without rows. `inputs` is a multiple of the format's block length.
    pub(crate) fn new(format: WidenedFormat, inputs: usize) -> Self {
        let (len, bytes) = format.block();
        Self { rows: Vec::new(), format, inputs, row_bytes: inputs / len * bytes }
    }

    /// Makes room for `outputs` more outputs, without room to spare.
    ///
    /// # Errors
    /// If the allocator does not have the memory.
    pub(crate) fn try_reserve(&mut self, outputs: usize) -> Result<(), TryReserveError> {
        self.rows.try_reserve_exact(outputs.saturating_mul(self.row_bytes))
    }

    /// Appends whole rows.
    pub(crate) fn push(&mut self, rows: &[u8]) {
        self.rows.extend_from_slice(rows);
    }

    /// Outputs so far.
    pub(crate) fn outputs(&self) -> usize {
        self.rows.len() / self.row_bytes
    }

    /// Inputs of each.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// One row of weights as f32.
    pub(crate) fn widen_row(&self, index: usize, out: &mut [f32]) {
        self.widen(index, 0..self.inputs, |i, weight| out[i] = weight);
    }

    /// Gives the weights of some inputs, whole blocks, counted from the first of them.
    fn widen(&self, row: usize, inputs: Range<usize>, mut put: impl FnMut(usize, f32)) {
        let (len, bytes) = self.format.block();
        let row = &self.rows[row * self.row_bytes..][..self.row_bytes];
        let blocks = row[inputs.start / len * bytes..inputs.end / len * bytes].chunks_exact(bytes);
        for (index, block) in blocks.enumerate() {
            for i in 0..len {
                put(index * len + i, self.format.weight(block, i));
            }
        }
    }

    /// Computes the outputs of one strip for all rows of `x`: sums over [`CHUNK`] inputs, as F32 weights have them,
    /// added up in order.
    ///
    /// # Safety
    /// `out` points to `[rows, outputs]` elements, of which nobody else uses those of this strip.
    #[allow(unsafe_code, reason = "see above")]
    pub(super) unsafe fn strip(&self, index: usize, x: &[f32], isa: Isa, out: *mut f32) {
        let (outputs, inputs) = (self.outputs(), self.inputs);
        let count = LANES.min(outputs - index * LANES);
        let mut wide = [0.0f32; CHUNK * LANES];
        for first in (0..inputs).step_by(CHUNK) {
            let chunk = CHUNK.min(inputs - first);
            for lane in 0..count {
                self.widen(index * LANES + lane, first..first + chunk, |i, weight| wide[i * LANES + lane] = weight);
            }
            for (group, x) in x.chunks(isa.rows() * inputs).enumerate() {
                let rows = x.len() / inputs;
                let mut sums = [0.0f32; MOST_ROWS * LANES];
                let product = Product {
                    format: Format::F32,
                    inputs: chunk,
                    strip: wide.as_ptr().cast(),
                    rows: Rows::Plain { first: x[first..].as_ptr(), stride: inputs },
                    out: sums.as_mut_ptr(),
                    stride: LANES,
                    outputs: LANES,
                };
                // SAFETY: `wide` is a strip of F32 weights; `x` has as many rows as are told, and `sums` has room for
                // them.
                unsafe { isa.run(&product, rows) };
                for (row, sums) in sums.as_chunks::<LANES>().0[..rows].iter().enumerate() {
                    for (lane, sum) in sums[..count].iter().enumerate() {
                        // SAFETY: the row and the output are within `out`, the caller's promise.
                        let out = unsafe { &mut *out.add((group * isa.rows() + row) * outputs + index * LANES + lane) };
                        *out = if first == 0 { *sum } else { *out + sum };
                    }
                }
            }
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use candle_core::quantized::{GgmlDType, QStorage, QTensor};

    use super::*;

    #[test]
    fn weights_are_those_of_the_reference_implementation() {
        for format in WidenedFormat::ALL {
            let dtype = match format {
                WidenedFormat::Q4_1 => GgmlDType::Q4_1,
                WidenedFormat::Q5_0 => GgmlDType::Q5_0,
                WidenedFormat::Q5_1 => GgmlDType::Q5_1,
                WidenedFormat::Q2K => GgmlDType::Q2K,
                WidenedFormat::Q3K => GgmlDType::Q3K,
                WidenedFormat::Q5K => GgmlDType::Q5K,
            };
            let (len, bytes) = format.block();
            let (outputs, inputs) = (5, 2 * len);
            // No byte above 0x3b: no f16 among them is NaN or infinite, whatever it is a part of.
            let rows: Vec<u8> = (0..outputs * 2 * bytes).map(|i| (i * i * 7 + i / 3) as u8 % 0x3c).collect();
            let storage = QStorage::from_data(rows.clone().into(), &candle_core::Device::Cpu, dtype).unwrap();
            let reference = QTensor::new(storage, (outputs, inputs)).unwrap();
            let reference = reference.dequantize(&candle_core::Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
            let mut matrix = WidenedMatrix::new(format, inputs);
            matrix.push(&rows);
            for (index, reference) in reference.iter().enumerate() {
                let mut row = vec![f32::NAN; inputs];
                matrix.widen_row(index, &mut row);
                for (actual, expected) in row.iter().zip(reference) {
                    assert!((actual - expected).abs() <= 1e-6 * expected.abs(), "{format:?}: {actual} ≠ {expected}");
                }
            }
        }
    }
}
