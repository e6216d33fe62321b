//! Weights on their way from a file to a model.

use std::collections::{BTreeMap, TryReserveError};

use super::element::ElementType;
use crate::{
    error::LoadError,
    family::weights::{WeightName, WeightSource},
};

/// A matrix that is being loaded: takes the bytes of a container, strip by strip, to where they stay.
pub(crate) trait MatrixBuilder: Sized {
    /// What comes of it.
    type Matrix;
    /// Where matrices of one file lie.
    type Memory: Default;

    /// The matrix, of all its bytes.
    ///
    /// # Errors
    /// If the allocator does not have the memory.
    fn of(mut self, mut bytes: &[u8], memory: &mut Self::Memory) -> Result<Self::Matrix, TryReserveError> {
        self.try_reserve(usize::MAX, memory)?;
        while self.strip_bytes() > 0 {
            let (strip, behind) = bytes.split_at(self.strip_bytes());
            self.push_strip(strip);
            bytes = behind;
        }
        Ok(self.finish())
    }

    /// The memory for matrices of these sizes, in bytes.
    fn memory(_sizes: impl Iterator<Item = u64>) -> Self::Memory {
        Self::Memory::default()
    }

    /// A matrix of which nothing is there yet. Rows of `inputs` elements are whole blocks of `element`, and neither
    /// dimension is zero or above 2²⁴. None if nothing can be done with this element type.
    fn new(element: ElementType, outputs: usize, inputs: usize) -> Option<Self>;

    /// Bytes of the next strip; 0 once all rows are there.
    fn strip_bytes(&self) -> usize;

    /// Makes room for exactly the next `strips`, or what is left of them. Pushing as many then allocates nothing.
    ///
    /// # Errors
    /// If the allocator does not have the memory. What is there stays.
    fn try_reserve(&mut self, strips: usize, memory: &mut Self::Memory) -> Result<(), TryReserveError>;

    /// Takes the next strip; `bytes` are [`strip_bytes`](Self::strip_bytes), with any alignment.
    fn push_strip(&mut self, bytes: &[u8]);

    /// The matrix. All strips have been pushed.
    fn finish(self) -> Self::Matrix;
}

/// Weights that have been loaded, by their numbers in the order in which a model asks for them.
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
