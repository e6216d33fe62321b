//! Weight matrices: one type for embedding table, projections and output head.

use std::collections::TryReserveError;

use crate::{
    container::{element::ElementType, parts::MatrixBuilder},
    kernels::{
        format::{Format, LANES},
        isa::Isa,
        matrix::Matrix,
        memory::Arena,
        multiply::{Factor, multiply},
        rounded::Activations,
    },
};

/// Weight matrix, `[outputs, inputs]`.
pub(crate) struct Linear {
    weights: Matrix,
    outputs: usize,
    inputs: usize,
}

/// Builder of a [`Linear`] that copies the bytes of a container, strip by strip, to their final place.
///
/// A strip is 16 consecutive rows in file order; the last strip may be shorter. Nothing is allocated beyond the matrix
/// itself, and not before space is reserved.
pub(crate) struct LinearBuilder {
    linear: Linear,
    row_bytes: usize,
    /// Number of rows pushed so far.
    rows: usize,
}

impl MatrixBuilder for LinearBuilder {
    type Matrix = Linear;
    type Memory = Arena;

    fn new(element: ElementType, outputs: usize, inputs: usize) -> Option<Self> {
        let format = match element {
            ElementType::F32 => Format::F32,
            ElementType::F16 => Format::F16,
            ElementType::BF16 => Format::Bf16,
            ElementType::Q4_0 => Format::Q4_0,
            ElementType::Q4_1 => Format::Q4_1,
            ElementType::Q5_0 => Format::Q5_0,
            ElementType::Q5_1 => Format::Q5_1,
            ElementType::Q8_0 => Format::Q8_0,
            ElementType::Q2_K => Format::Q2K,
            ElementType::Q3_K => Format::Q3K,
            ElementType::Q4_K => Format::Q4K,
            ElementType::Q5_K => Format::Q5K,
            ElementType::Q6_K => Format::Q6K,
            ElementType::IQ4_NL => Format::Iq4Nl,
            ElementType::IQ4_XS => Format::Iq4Xs,
            ElementType::MXFP4 => Format::Mxfp4,
            ElementType::I32 | ElementType::I64 => return None,
        };
        let weights = Matrix::new(format, inputs, Isa::current());
        let row_bytes = element.row_bytes(inputs);
        Some(Self { linear: Linear { weights, outputs, inputs }, row_bytes, rows: 0 })
    }

    fn strip_bytes(&self) -> usize {
        (self.linear.outputs - self.rows).min(LANES) * self.row_bytes
    }

    fn memory(sizes: impl Iterator<Item = u64>) -> Arena {
        Arena::expecting(sizes)
    }

    fn try_reserve(&mut self, strips: usize, arena: &mut Arena) -> Result<(), TryReserveError> {
        let rows = strips.saturating_mul(LANES).min(self.linear.outputs - self.rows);
        self.linear.weights.try_reserve(rows, arena)
    }

    fn push_strip(&mut self, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), self.strip_bytes());
        self.rows += LANES.min(self.linear.outputs - self.rows);
        self.linear.weights.push_strip(bytes);
    }

    fn finish(self) -> Linear {
        assert_eq!(self.rows, self.linear.outputs, "strips are missing");
        self.linear
    }
}

impl Linear {
    /// Multiplications per input row.
    pub(crate) fn multiplications(&self) -> usize {
        self.inputs * self.outputs
    }

    /// Writes the rows of `ids`, widened to f32, to `out`: `[ids, inputs]`. Every id must be below `outputs`.
    pub(crate) fn embed(&self, ids: &[u32], out: &mut Vec<f32>) {
        out.resize(ids.len() * self.inputs, 0.0);
        for (&id, out) in ids.iter().zip(out.chunks_exact_mut(self.inputs)) {
            self.weights.widen_row(id as usize, out);
        }
    }
}

/// Computes `out = x · weightsᵀ` for matrices with the same input; `x`: `[rows, inputs]`, each `out`: `[rows,
/// outputs]`.
///
/// Elements have the same bits on every machine, for every number of rows and of threads.
pub(crate) fn products<const N: usize>(
    x: &[f32],
    activations: &mut Activations,
    mut linears: [(&Linear, &mut Vec<f32>); N],
) {
    let factors = linears.each_mut().map(|(linear, out)| {
        out.resize(x.len() / linear.inputs * linear.outputs, 0.0);
        Factor { matrix: &linear.weights, out }
    });
    multiply(x, activations, factors);
}
