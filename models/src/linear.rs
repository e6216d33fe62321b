//! Weight matrices: one type for embedding table, projections and output head.
//!
//! # Why candle's `QMatMul` is not called
//!
//! `QMatMul` chooses among kernels by the number of rows (repacked tiles, AMX, vector kernels), so that the
//! last bits of a row's product can depend on what else is in the batch; it also keeps a repacked copy of
//! the weights and dequantizes F16 to f32. Here every element is computed by the one dot product of its
//! type, for one row as for many: candle's SIMD kernels for block types, ours for the others. That gives
//! bit-identical logits for every grouping of tokens, and costs no tensor bookkeeping.

use candle_core::quantized::GgmlDType;

use crate::kernels::{
    blocks::{BlockMatrix, block_matrix},
    dense::DenseWeights,
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
    /// Unquantized weights; as many as `outputs × inputs`.
    pub(crate) fn dense(weights: DenseWeights, outputs: usize, inputs: usize) -> Self {
        Self { weights: Weights::Dense(weights), outputs, inputs }
    }

    /// Blocks as they stand in a GGUF file. The caller has checked that the first `size` bytes of `buffer` hold
    /// exactly `outputs × inputs` elements of `dtype`, and that rows are whole blocks. None if `dtype` is not
    /// a block type.
    pub(crate) fn blocks(
        dtype: GgmlDType,
        buffer: Vec<u64>,
        size: usize,
        outputs: usize,
        inputs: usize,
    ) -> Option<Self> {
        let weights = Weights::Blocks(block_matrix(dtype, buffer, size, inputs)?);
        Some(Self { weights, outputs, inputs })
    }

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
