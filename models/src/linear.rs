//! Weight matrices: one type for embedding table, projections and output head.
//!
//! # Why candle's `QMatMul` is not called
//!
//! `QMatMul` chooses among kernels by the number of rows (repacked tiles, AMX, vector kernels), so that the
//! last bits of a row's product can depend on what else is in the batch; it also keeps a repacked copy of
//! the weights and dequantizes F16 to f32. Here every element is computed by the one dot product of its
//! type, for one row as for many: candle's SIMD kernels for block types, ours for the others. That gives
//! bit-identical logits for every grouping of tokens, and costs no tensor bookkeeping.

use std::collections::TryReserveError;

use candle_core::quantized::GgmlDType;
use half::{bf16, f16};

use crate::{
    element::ElementType,
    kernels::{
        blocks::{BlockMatrix, block_matrix},
        dense::DenseWeights,
    },
};

/// A matrix of weights, `[outputs, inputs]`.
pub(crate) struct Linear {
    weights: Weights,
    outputs: usize,
    inputs: usize,
}

enum Weights {
    Dense(DenseWeights),
    Blocks(Box<dyn BlockMatrix>),
}

impl Linear {
    /// `out = x · weightsᵀ`, with `x`: `[rows, inputs]`, `out`: `[rows, outputs]`.
    ///
    /// A row of the result has the same bits whatever other rows there are.
    pub(crate) fn forward(&self, x: &[f32], out: &mut Vec<f32>) {
        out.resize(x.len() / self.inputs * self.outputs, 0.0);
        match &self.weights {
            Weights::Dense(weights) => weights.matmul(x, self.inputs, self.outputs, out),
            Weights::Blocks(weights) => weights.matmul(x, self.inputs, self.outputs, out),
        }
    }

    /// Multiplications for one row.
    pub(crate) fn multiplications(&self) -> usize {
        self.inputs * self.outputs
    }

    /// The rows of `ids`, widened to f32: `[ids, inputs]`. Every id is below `outputs`.
    pub(crate) fn embed(&self, ids: &[u32]) -> Vec<f32> {
        let mut out = vec![0.0; ids.len() * self.inputs];
        for (&id, out) in ids.iter().zip(out.chunks_exact_mut(self.inputs)) {
            match &self.weights {
                Weights::Dense(weights) => weights.widen_row(id as usize, out),
                Weights::Blocks(weights) => weights.widen_row(id as usize, out),
            }
        }
        out
    }
}

/// Rows of a strip.
const STRIP_ROWS: usize = 16;

/// A [`Linear`] that is being loaded: takes the bytes of a container, strip by strip, to where they stay.
///
/// A strip is 16 rows as they stand in the file, row after row; the last one is the rows that are left. Memory is
/// that of the matrix alone: nothing is allocated before [`try_reserve`](Self::try_reserve).
pub(crate) struct LinearBuilder {
    storage: Storage,
    element: ElementType,
    outputs: usize,
    inputs: usize,
    /// Rows pushed so far.
    rows: usize,
}

enum Storage {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    /// Bytes in the file's order, aligned to 8; the last word may be filled up with zeros.
    Blocks(GgmlDType, Vec<u64>),
}

impl LinearBuilder {
    /// A matrix of which nothing is there yet. Rows of `inputs` elements are whole blocks of `element`, and neither
    /// dimension is zero or above 2²⁴.
    ///
    /// None if there is no product for this element type.
    pub(crate) fn new(element: ElementType, outputs: usize, inputs: usize) -> Option<Self> {
        let blocks = |dtype| Storage::Blocks(dtype, Vec::new());
        let storage = match element {
            ElementType::F32 => Storage::F32(Vec::new()),
            ElementType::F16 => Storage::F16(Vec::new()),
            ElementType::BF16 => Storage::Bf16(Vec::new()),
            ElementType::Q4_0 => blocks(GgmlDType::Q4_0),
            ElementType::Q4_1 => blocks(GgmlDType::Q4_1),
            ElementType::Q5_0 => blocks(GgmlDType::Q5_0),
            ElementType::Q5_1 => blocks(GgmlDType::Q5_1),
            ElementType::Q8_0 => blocks(GgmlDType::Q8_0),
            ElementType::Q2_K => blocks(GgmlDType::Q2K),
            ElementType::Q3_K => blocks(GgmlDType::Q3K),
            ElementType::Q4_K => blocks(GgmlDType::Q4K),
            ElementType::Q5_K => blocks(GgmlDType::Q5K),
            ElementType::Q6_K => blocks(GgmlDType::Q6K),
        };
        Some(Self { storage, element, outputs, inputs, rows: 0 })
    }

    /// Bytes of the next strip; 0 once all rows are there.
    pub(crate) fn strip_bytes(&self) -> usize {
        (self.outputs - self.rows).min(STRIP_ROWS) * self.element.row_bytes(self.inputs)
    }

    /// Makes room for exactly the next `strips`, or what is left of them. Pushing as many then allocates nothing.
    ///
    /// # Errors
    /// If the allocator does not have the memory. The rows that are there stay.
    pub(crate) fn try_reserve(&mut self, strips: usize) -> Result<(), TryReserveError> {
        let rows = strips.saturating_mul(STRIP_ROWS).min(self.outputs - self.rows);
        let elements = rows.saturating_mul(self.inputs);
        match &mut self.storage {
            Storage::F32(weights) => weights.try_reserve_exact(elements),
            Storage::F16(weights) => weights.try_reserve_exact(elements),
            Storage::Bf16(weights) => weights.try_reserve_exact(elements),
            Storage::Blocks(_, words) => {
                let bytes = rows.saturating_mul(self.element.row_bytes(self.inputs));
                words.try_reserve_exact(bytes.div_ceil(8))
            }
        }
    }

    /// Puts the next strip in its place; `bytes` are [`strip_bytes`](Self::strip_bytes), with any alignment.
    pub(crate) fn push_strip(&mut self, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), self.strip_bytes());
        match &mut self.storage {
            Storage::F32(weights) => {
                weights.extend(bytes.as_chunks().0.iter().map(|&element| f32::from_le_bytes(element)));
            }
            Storage::F16(weights) => {
                weights.extend(bytes.as_chunks().0.iter().map(|&element| f16::from_le_bytes(element)));
            }
            Storage::Bf16(weights) => {
                weights.extend(bytes.as_chunks().0.iter().map(|&element| bf16::from_le_bytes(element)));
            }
            Storage::Blocks(_, words) => {
                // Sixteen rows are whole words, whatever a row is; so only the last strip leaves a rest.
                let (whole, rest) = bytes.as_chunks();
                words.extend(whole.iter().map(|&word| u64::from_ne_bytes(word)));
                if !rest.is_empty() {
                    let mut word = [0; 8];
                    word[..rest.len()].copy_from_slice(rest);
                    words.push(u64::from_ne_bytes(word));
                }
            }
        }
        self.rows += STRIP_ROWS.min(self.outputs - self.rows);
    }

    /// The matrix. All strips have been pushed.
    pub(crate) fn finish(self) -> Linear {
        let Self { storage, element, outputs, inputs, rows } = self;
        assert_eq!(rows, outputs, "strips are missing");
        let dense = |weights| Linear { weights: Weights::Dense(weights), outputs, inputs };
        match storage {
            Storage::F32(weights) => dense(DenseWeights::F32(weights)),
            Storage::F16(weights) => dense(DenseWeights::F16(weights)),
            Storage::Bf16(weights) => dense(DenseWeights::Bf16(weights)),
            Storage::Blocks(dtype, words) => {
                let blocks = block_matrix(dtype, words, outputs * element.row_bytes(inputs), inputs);
                #[expect(clippy::expect_used, reason = "`new` makes block storage for block types only")]
                let weights = Weights::Blocks(blocks.expect("a block type"));
                Linear { weights, outputs, inputs }
            }
        }
    }
}
