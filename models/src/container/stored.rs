//! Weights in the form of their file, for backends that compute on another device.

use std::{collections::TryReserveError, io::Read};

use super::{
    element::ElementType,
    file::FileHeader,
    parts::MatrixBuilder,
    read::{read_gguf, read_safetensors},
    stream::Stream,
};
use crate::{
    error::LoadError,
    family::{config::ModelConfig, weights::ModelWeights},
};

/// Maximum number of bytes copied at a time.
const STRIP_BYTES: usize = 1 << 20;

/// Weight matrix, `[outputs, inputs]`, stored row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMatrix {
    /// Element type; rows are whole blocks.
    pub element: ElementType,
    /// Number of rows (outputs).
    pub outputs: usize,
    /// Number of elements per row.
    pub inputs: usize,
    /// Data: `outputs` rows of [`ElementType::row_bytes`] bytes, little-endian.
    pub bytes: Vec<u8>,
}

/// Model in the form of its file: shape and unconverted weights, except that norms are widened to f32.
///
/// It takes as much memory as the file. Callers that copy the weights to a device can drop each matrix afterwards.
#[derive(Debug)]
pub struct StoredModel {
    /// Shape and constants of the model.
    pub config: ModelConfig,
    /// All weights of the model.
    pub weights: ModelWeights<StoredMatrix>,
}

impl StoredModel {
    /// Opens a model at the same paths as [`Model::open`](crate::Model::open).
    ///
    /// # Errors
    /// As for [`Model::open`](crate::Model::open).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<Self, LoadError> {
        let (config, weights) = super::read::open::<ModelConfig, StoredBuilder>(path)?;
        Ok(Self { config, weights })
    }

    /// Loads a GGUF file, from the reader's position to its end.
    ///
    /// # Errors
    /// As for [`Model::from_gguf`](crate::Model::from_gguf).
    pub fn from_gguf<R: Read>(reader: &mut R) -> Result<Self, LoadError> {
        let (config, weights) = read_gguf::<ModelConfig, StoredBuilder>(reader, None)?;
        Ok(Self { config, weights })
    }

    /// Loads a Hugging Face checkpoint from the bytes of `config.json` and `model.safetensors`.
    ///
    /// # Errors
    /// As for [`Model::from_safetensors`](crate::Model::from_safetensors).
    pub fn from_safetensors(config_json: &[u8], weights: &[u8]) -> Result<Self, LoadError> {
        let total_bytes = Some(weights.len() as u64);
        let (config, weights) =
            read_safetensors::<ModelConfig, StoredBuilder>(config_json, &mut &*weights, total_bytes)?;
        Ok(Self { config, weights })
    }
}

/// Loader for a [`StoredModel`] from a stream of the files that [`ModelLoader`](crate::ModelLoader) accepts.
pub struct StoredLoader(Stream<ModelConfig, FileHeader<ModelConfig>, StoredBuilder>);

impl StoredLoader {
    /// Creates an empty loader. `total_bytes` is the length of the file, if known; it bounds what the file may claim.
    #[must_use]
    pub fn new(total_bytes: Option<u64>) -> Self {
        Self(Stream::new(FileHeader::new(total_bytes), total_bytes))
    }

    /// Takes the next bytes of the file, any number of them.
    ///
    /// # Errors
    /// As for [`ModelLoader::push`](crate::ModelLoader::push).
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.0.push(bytes)
    }

    /// Returns the model, once all bytes have been pushed.
    ///
    /// # Errors
    /// [`LoadError::Truncated`] if bytes are missing.
    pub fn finish(self) -> Result<StoredModel, LoadError> {
        let (config, weights) = self.0.finish()?;
        Ok(StoredModel { config, weights })
    }
}

/// Builder of a [`StoredMatrix`].
struct StoredBuilder {
    matrix: StoredMatrix,
    /// Final size in bytes.
    size: usize,
}

impl MatrixBuilder for StoredBuilder {
    type Matrix = StoredMatrix;
    type Memory = ();

    fn new(element: ElementType, outputs: usize, inputs: usize) -> Option<Self> {
        let size = outputs.checked_mul(element.row_bytes(inputs))?;
        Some(Self { matrix: StoredMatrix { element, outputs, inputs, bytes: Vec::new() }, size })
    }

    fn strip_bytes(&self) -> usize {
        (self.size - self.matrix.bytes.len()).min(STRIP_BYTES)
    }

    fn try_reserve(&mut self, strips: usize, (): &mut ()) -> Result<(), TryReserveError> {
        let left = self.size - self.matrix.bytes.len();
        self.matrix.bytes.try_reserve_exact(strips.saturating_mul(STRIP_BYTES).min(left))
    }

    fn push_strip(&mut self, bytes: &[u8]) {
        self.matrix.bytes.extend_from_slice(bytes);
    }

    fn finish(self) -> StoredMatrix {
        self.matrix
    }
}
