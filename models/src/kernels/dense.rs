//! Matrices of F32, F16 and BF16 weights times f32 activations, accumulated in f32.
//!
//! candle multiplies F16 weights by activations rounded to F16, which overflows for the large
//! activations of some models, and sends F32 to a general matrix product that sums in another order for one
//! row than for many. Here each weight row is widened once and used for all rows of the batch, and every
//! product is the same fixed-order dot product.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use super::{columns::by_columns, dot};

/// Unquantized weights, `[outputs, inputs]`, row-major.
#[derive(Debug)]
pub(crate) enum DenseWeights {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl DenseWeights {
    /// The `inputs` weights of one output, widened into `scratch` if they are not f32.
    fn row<'a>(&'a self, index: usize, inputs: usize, scratch: &'a mut [f32]) -> &'a [f32] {
        if let Self::F32(weights) = self {
            return &weights[index * inputs..(index + 1) * inputs];
        }
        self.widen_row(index, scratch);
        scratch
    }

    /// One row of weights as f32.
    pub(crate) fn widen_row(&self, index: usize, out: &mut [f32]) {
        let range = index * out.len()..(index + 1) * out.len();
        match self {
            Self::F32(weights) => out.copy_from_slice(&weights[range]),
            Self::F16(weights) => weights[range].convert_to_f32_slice(out),
            Self::Bf16(weights) => weights[range].convert_to_f32_slice(out),
        }
    }

    /// `out = x · weightsᵀ`.
    ///
    /// `x`: `[rows, inputs]`, `out`: `[rows, outputs]`, both row-major.
    pub(crate) fn matmul(&self, x: &[f32], inputs: usize, outputs: usize, out: &mut [f32]) {
        let rows = x.len() / inputs;
        by_columns(rows, outputs, x.len() * outputs, out, |first, products| {
            let mut scratch = match self {
                Self::F32(_) => Vec::new(),
                Self::F16(_) | Self::Bf16(_) => vec![0.0; inputs],
            };
            for (offset, products) in products.chunks_exact_mut(rows).enumerate() {
                let weights = self.row(first + offset, inputs, &mut scratch);
                for (product, x) in products.iter_mut().zip(x.chunks_exact(inputs)) {
                    *product = dot::<32>(weights, x);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    /// Small multiples of 1/8: exact in every type and in every order of addition.
    fn values(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 + seed * 3) % 17) as f32 / 8.0 - 1.0).collect()
    }

    #[test]
    fn matches_the_definition_around_unit_sizes() {
        for (rows, inputs, outputs) in [(1, 1, 1), (1, 33, 15), (2, 31, 16), (3, 64, 17), (9, 96, 300)] {
            let weights = values(inputs * outputs, 1);
            let x = values(rows * inputs, 2);
            let mut expected = Vec::new();
            for x in x.chunks_exact(inputs) {
                for w in weights.chunks_exact(inputs) {
                    expected.push(x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>());
                }
            }
            for weights in [
                DenseWeights::F16(weights.iter().map(|&w| f16::from_f32(w)).collect()),
                DenseWeights::Bf16(weights.iter().map(|&w| bf16::from_f32(w)).collect()),
                DenseWeights::F32(weights.clone()),
            ] {
                let mut out = vec![f32::NAN; rows * outputs];
                weights.matmul(&x, inputs, outputs, &mut out);
                assert_eq!(out, expected, "{rows} × {inputs} × {outputs}");
            }
        }
    }
}
