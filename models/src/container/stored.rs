//! Weights as they are in their file, for who computes with them elsewhere than on this processor.

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

/// Most bytes that are taken at a time.
const STRIP_BYTES: usize = 1 << 20;

/// A matrix of weights, `[outputs, inputs]`, row after row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMatrix {
    /// How its elements are stored; rows are whole blocks.
    pub element: ElementType,
    /// Rows.
    pub outputs: usize,
    /// Elements of a row.
    pub inputs: usize,
    /// `outputs` rows of [`ElementType::row_bytes`], little-endian.
    pub bytes: Vec<u8>,
}

/// A model as its file has it: shape, and weights that nothing has been done with but for norms, which are widened to
/// f32.
///
/// It takes as much memory as the file. Whoever moves the weights elsewhere can drop each matrix as soon as it is
/// there.
#[derive(Debug)]
pub struct StoredModel {
    /// Shape and constants.
    pub config: ModelConfig,
    /// Every weight that the shape wants.
    pub weights: ModelWeights<StoredMatrix>,
}

impl StoredModel {
    /// Opens what [`Model::open`](crate::Model::open) opens.
    ///
    /// # Errors
    /// The same.
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

/// A [`StoredModel`] from the bytes of one file as they come: what [`ModelLoader`](crate::ModelLoader) takes.
pub struct StoredLoader(Stream<ModelConfig, FileHeader<ModelConfig>, StoredBuilder>);

impl StoredLoader {
    /// Starts with nothing. `total_bytes` is the length of the file, if it is known: a bound for what the file may
    /// claim.
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

    /// The model, if all its bytes have been pushed.
    ///
    /// # Errors
    /// [`LoadError::Truncated`] if not.
    pub fn finish(self) -> Result<StoredModel, LoadError> {
        let (config, weights) = self.0.finish()?;
        Ok(StoredModel { config, weights })
    }
}

/// A [`StoredMatrix`] whose bytes come.
struct StoredBuilder {
    matrix: StoredMatrix,
    /// Bytes of the whole.
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
