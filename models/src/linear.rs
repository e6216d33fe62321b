//! Weight matrices: one type for embedding table, projections and output head.
//!
//! # Why candle's `QMatMul` is not called
//!
//! `QMatMul` chooses among kernels by the number of rows (repacked tiles, AMX, vector kernels), so that the
//! last bits of a row's product can depend on what else is in the batch; it also keeps a repacked copy of
//! the weights and dequantizes F16 to f32. One level below, [`QuantizedType::matmul_t`] works on
//! plain slices and computes every element by the same dot-product kernel of its type, for one row as for
//! many. That gives bit-identical logits for every grouping of tokens, from candle's own SIMD kernels for
//! x86-64, NEON and wasm32, and costs no tensor bookkeeping.

use candle_core::quantized::{GgmlDType, QuantizedType};
use std::borrow::Cow;

use crate::kernels::dense::DenseWeights;

/// A matrix of weights, `[outputs, inputs]`.
pub(crate) struct Linear {
    weights: Weights,
    outputs: usize,
    inputs: usize,
}

enum Weights {
    Dense(DenseWeights),
    Quantized(Box<dyn QuantizedType>),
}

impl Linear {
    /// Unquantized weights; as many as `outputs × inputs`.
    pub(crate) fn dense(weights: DenseWeights, outputs: usize, inputs: usize) -> Self {
        Self { weights: Weights::Dense(weights), outputs, inputs }
    }

    /// Blocks as they stand in a GGUF file. The caller has checked that `bytes` holds exactly
    /// `outputs × inputs` elements of `dtype`, that rows are whole blocks, and that it is aligned to 8 bytes.
    pub(crate) fn quantized(dtype: GgmlDType, bytes: &[u8], outputs: usize, inputs: usize) -> Self {
        let weights = Weights::Quantized(dtype.from_data(Cow::Borrowed(bytes)));
        Self { weights, outputs, inputs }
    }

    /// `out = x · weightsᵀ`, with `x`: `[rows, inputs]`, `out`: `[rows, outputs]`.
    ///
    /// A row of the result has the same bits whatever other rows there are.
    pub(crate) fn forward(&self, x: &[f32], out: &mut Vec<f32>) -> Result<(), candle_core::Error> {
        let rows = x.len() / self.inputs;
        out.resize(rows * self.outputs, 0.0);
        match &self.weights {
            Weights::Dense(weights) => weights.matmul(x, self.inputs, self.outputs, out),
            Weights::Quantized(weights) => {
                weights.matmul_t((rows, self.inputs, self.outputs), x, out)?;
            }
        }
        Ok(())
    }

    /// The rows of `ids`, widened to f32: `[ids, inputs]`. Every id is below `outputs`.
    pub(crate) fn embed(&self, ids: &[u32]) -> Result<Vec<f32>, candle_core::Error> {
        match &self.weights {
            Weights::Dense(weights) => {
                let mut scratch = vec![0.0; self.inputs];
                let mut out = Vec::with_capacity(ids.len() * self.inputs);
                for &id in ids {
                    out.extend_from_slice(weights.row(id as usize, self.inputs, &mut scratch));
                }
                Ok(out)
            }
            Weights::Quantized(weights) => match weights.embedding(ids, self.outputs, self.inputs)? {
                candle_core::CpuStorage::F32(rows) => Ok(rows),
                _ => Err(candle_core::Error::Msg("embedding rows are not f32".into())),
            },
        }
    }
}
