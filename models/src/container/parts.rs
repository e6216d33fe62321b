//! Weights between file and model.

use std::collections::{BTreeMap, TryReserveError};

use super::element::ElementType;
use crate::{
    error::LoadError,
    family::weights::{WeightName, WeightSource},
};

/// Builder of a matrix that copies the bytes of a container, strip by strip, to their final place.
pub(crate) trait MatrixBuilder: Sized {
    /// Type of the finished matrix.
    type Matrix;
    /// Allocator shared by the matrices of one file.
    type Memory: Default;

    /// Builds a matrix from all of its bytes.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    fn of(mut self, mut bytes: &[u8], memory: &mut Self::Memory) -> Result<Self::Matrix, TryReserveError> {
        self.try_reserve(usize::MAX, memory)?;
        while self.strip_bytes() > 0 {
            let (strip, behind) = bytes.split_at(self.strip_bytes());
            self.push_strip(strip);
            bytes = behind;
        }
        Ok(self.finish())
    }

    /// Creates an allocator for matrices of these sizes, in bytes.
    fn memory(_sizes: impl Iterator<Item = u64>) -> Self::Memory {
        Self::Memory::default()
    }

    /// Creates an empty matrix. `inputs` is a whole number of blocks of `element`; dimensions are between 1 and 2²⁴.
    /// Returns `None` if the element type is not supported.
    fn new(element: ElementType, outputs: usize, inputs: usize) -> Option<Self>;

    /// Size of the next strip in bytes; 0 once all rows are present.
    fn strip_bytes(&self) -> usize;

    /// Reserves exactly the next `strips` strips, or the remaining ones if fewer. Pushing these does not allocate.
    ///
    /// # Errors
    /// Fails if there is not enough memory; existing rows are kept.
    fn try_reserve(&mut self, strips: usize, memory: &mut Self::Memory) -> Result<(), TryReserveError>;

    /// Appends the next strip. `bytes` has length [`strip_bytes`](Self::strip_bytes) and any alignment.
    fn push_strip(&mut self, bytes: &[u8]);

    /// Returns the matrix, after all strips have been pushed.
    fn finish(self) -> Self::Matrix;
}

/// Loaded weights, by their number in the order in which a model requests them.
pub(super) struct Parts<M> {
    pub(super) matrices: BTreeMap<usize, M>,
    pub(super) vectors: BTreeMap<usize, Vec<f32>>,
}

impl<M> WeightSource for Parts<M> {
    type Matrix = M;
    type Error = LoadError;

    fn matrix(&mut self, name: WeightName, _: [usize; 2]) -> Result<M, LoadError> {
        let next = self.matrices.pop_first();
        next.map(|(_, matrix)| matrix).ok_or_else(|| LoadError::MissingTensor { name: name.gguf() })
    }

    fn vector(&mut self, name: WeightName, _: [usize; 1]) -> Result<Vec<f32>, LoadError> {
        let next = self.vectors.pop_first();
        next.map(|(_, vector)| vector).ok_or_else(|| LoadError::MissingTensor { name: name.gguf() })
    }
}
