//! Weight matrices on the GPU, in the type of their file.

use outrider_models::{ElementType, ModelWeights, StoredMatrix};
use wgpu::Buffer;

use crate::{element::Element, error::GpuError, gpu::Gpu};

/// Matrix in a buffer that it may share with others.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    pub(crate) buffer: Buffer,
    pub(crate) element: ElementType,
    /// Number of rows in the buffer before this matrix.
    pub(crate) first_row: usize,
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
}

/// Planned buffer: type of its weights, elements per row, and number of rows.
struct Plan {
    element: ElementType,
    inputs: usize,
    rows: usize,
}

impl Plan {
    fn bytes(&self) -> usize {
        self.rows * self.element.row_bytes(self.inputs)
    }

    /// Returns whether another matrix fits after those in the buffer.
    fn takes(&self, matrix: &StoredMatrix, most: u64) -> bool {
        let together = (self.bytes() + matrix.bytes.len()) as u64;
        // Writes must start at whole words.
        self.element == matrix.element
            && self.inputs == matrix.inputs
            && self.bytes().is_multiple_of(4)
            && together <= most
    }
}

impl Matrix {
    /// Copies all matrices to the GPU. Consecutive matrices with the same type and row length share a buffer, up to the
    /// GPU's limit. Matrices with the same input can then be multiplied in one product.
    pub(crate) fn load(gpu: &Gpu, weights: &ModelWeights<StoredMatrix>) -> Result<ModelWeights<Self>, GpuError> {
        let most = gpu.most_bytes();
        let mut plans: Vec<Plan> = Vec::new();
        let planned = weights.by_ref().map(|matrix| {
            let StoredMatrix { element, outputs, inputs, .. } = *matrix;
            if !inputs.is_multiple_of(Element::of(element)?.unit) {
                return Err(GpuError::Shape {
                    what: "a row of weights",
                    found: inputs,
                    expected: "whole units of its type",
                });
            }
            if !plans.last().is_some_and(|plan| plan.takes(matrix, most)) {
                plans.push(Plan { element, inputs, rows: 0 });
            }
            let number = plans.len() - 1;
            let first_row = plans[number].rows;
            plans[number].rows += outputs;
            Ok((matrix, number, first_row))
        })?;
        let buffers = plans.iter().map(|plan| gpu.room_for("matrices of weights", plan.bytes()));
        let buffers = buffers.collect::<Result<Vec<Buffer>, GpuError>>()?;
        planned.map(|(matrix, number, first_row)| {
            let StoredMatrix { element, outputs, inputs, ref bytes } = *matrix;
            let buffer = buffers[number].clone();
            gpu.write(&buffer, (first_row * element.row_bytes(inputs)) as u64, bytes);
            Ok(Self { buffer, element, first_row, outputs, inputs })
        })
    }

    /// Concatenation of matrices, if they are contiguous in one buffer.
    pub(crate) fn joined(parts: &[&Self]) -> Option<Self> {
        let (first, rest) = parts.split_first()?;
        let mut joined = (*first).clone();
        for part in rest {
            if part.buffer != joined.buffer || part.first_row != joined.first_row + joined.outputs {
                return None;
            }
            joined.outputs += part.outputs;
        }
        Some(joined)
    }

    /// Number of units in a row, and its size in bytes.
    pub(crate) fn row(&self) -> Result<(u32, u32), GpuError> {
        let units = self.inputs / Element::of(self.element)?.unit;
        Ok((units as u32, self.element.row_bytes(self.inputs) as u32))
    }
}
