//! Matrices of F32, F16 and BF16 weights times f32 activations, accumulated in f32.
//!
//! candle multiplies F16 weights by activations rounded to F16, which overflows for the large
//! activations of some models, and sends F32 to a general matrix product that sums in another order for one
//! row than for many. Here each weight row is widened once and used for all rows of the batch, and every
//! product is the same fixed-order dot product.

use half::{bf16, f16, slice::HalfFloatSliceExt};

/// Unquantized weights, `[outputs, inputs]`, row-major.
#[derive(Debug)]
pub(crate) enum DenseWeights {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl DenseWeights {
    /// One row of weights as f32.
    pub(crate) fn widen_row(&self, index: usize, out: &mut [f32]) {
        let range = index * out.len()..(index + 1) * out.len();
        match self {
            Self::F32(weights) => out.copy_from_slice(&weights[range]),
            Self::F16(weights) => weights[range].convert_to_f32_slice(out),
            Self::Bf16(weights) => weights[range].convert_to_f32_slice(out),
        }
    }
}
