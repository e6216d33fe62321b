//! Weight matrices: one type for embedding table, projections and output head.

use std::collections::TryReserveError;

use crate::{
    container::{element::ElementType, parts::MatrixBuilder},
    kernels::{
        format::{Format, LANES},
        isa::Isa,
        matrix::Matrix,
        multiply::{Factor, multiply},
        rounded::Activations,
        widened::{WidenedFormat, WidenedMatrix},
    },
};

/// A matrix of weights, `[outputs, inputs]`.
pub(crate) struct Linear {
    weights: Weights,
    outputs: usize,
    inputs: usize,
}

enum Weights {
    Strips(Matrix),
    Widened(WidenedMatrix),
}

/// A [`Linear`] that is being loaded: takes the bytes of a container, strip by strip, to where they stay.
///
/// A strip is 16 rows as they are in the file, row after row; the last one is the rows that are left. Memory is
/// that of the matrix alone: nothing is allocated before room is made.
pub(crate) struct LinearBuilder {
    linear: Linear,
    row_bytes: usize,
    /// Rows pushed so far.
    rows: usize,
}

impl MatrixBuilder for LinearBuilder {
    type Matrix = Linear;

    fn new(element: ElementType, outputs: usize, inputs: usize) -> Option<Self> {
        let strips = |format| Weights::Strips(Matrix::new(format, inputs, Isa::current()));
        let widened = |format| Weights::Widened(WidenedMatrix::new(format, inputs));
        let weights = match element {
            ElementType::F32 => strips(Format::F32),
            ElementType::F16 => strips(Format::F16),
            ElementType::BF16 => strips(Format::Bf16),
            ElementType::Q4_0 => strips(Format::Q4_0),
            ElementType::Q8_0 => strips(Format::Q8_0),
            ElementType::Q4_K => strips(Format::Q4K),
            ElementType::Q6_K => strips(Format::Q6K),
            ElementType::Q4_1 => widened(WidenedFormat::Q4_1),
            ElementType::Q5_0 => widened(WidenedFormat::Q5_0),
            ElementType::Q5_1 => widened(WidenedFormat::Q5_1),
            ElementType::Q2_K => widened(WidenedFormat::Q2K),
            ElementType::Q3_K => widened(WidenedFormat::Q3K),
            ElementType::Q5_K => widened(WidenedFormat::Q5K),
        };
        let row_bytes = element.row_bytes(inputs);
        Some(Self { linear: Linear { weights, outputs, inputs }, row_bytes, rows: 0 })
    }

    fn strip_bytes(&self) -> usize {
        (self.linear.outputs - self.rows).min(LANES) * self.row_bytes
    }

    fn try_reserve(&mut self, strips: usize) -> Result<(), TryReserveError> {
        let rows = strips.saturating_mul(LANES).min(self.linear.outputs - self.rows);
        match &mut self.linear.weights {
            Weights::Strips(matrix) => matrix.try_reserve(rows),
            Weights::Widened(matrix) => matrix.try_reserve(rows),
        }
    }

    fn push_strip(&mut self, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), self.strip_bytes());
        self.rows += LANES.min(self.linear.outputs - self.rows);
        match &mut self.linear.weights {
            Weights::Strips(matrix) => matrix.push_strip(bytes),
            Weights::Widened(matrix) => matrix.push(bytes),
        }
    }

    fn finish(self) -> Linear {
        assert_eq!(self.rows, self.linear.outputs, "strips are missing");
        self.linear
    }
}

impl Linear {
    /// Multiplications for one row.
    pub(crate) fn multiplications(&self) -> usize {
        self.inputs * self.outputs
    }

    /// Writes the rows of `ids`, widened to f32, to `out`: `[ids, inputs]`. Every id is below `outputs`.
    pub(crate) fn embed(&self, ids: &[u32], out: &mut Vec<f32>) {
        out.resize(ids.len() * self.inputs, 0.0);
        for (&id, out) in ids.iter().zip(out.chunks_exact_mut(self.inputs)) {
            match &self.weights {
                Weights::Strips(matrix) => matrix.widen_row(id as usize, out),
                Weights::Widened(matrix) => matrix.widen_row(id as usize, out),
            }
        }
    }
}

/// `out = x · weightsᵀ` for matrices that share their input: `x`: `[rows, inputs]`, each `out`: `[rows, outputs]`.
///
/// An element has the same bits whatever other rows there are, on every machine and with every number of threads.
pub(crate) fn products<const N: usize>(
    x: &[f32],
    activations: &mut Activations,
    mut linears: [(&Linear, &mut Vec<f32>); N],
) {
    let factors = linears.each_mut().map(|(linear, out)| {
        out.resize(x.len() / linear.inputs * linear.outputs, 0.0);
        match &linear.weights {
            Weights::Strips(matrix) => Factor::Strips(matrix, out),
            Weights::Widened(matrix) => Factor::Widened(matrix, out),
        }
    });
    multiply(x, activations, factors);
}
