//! Incremental loading of models from a stream of bytes.
//!
//! A loader takes a file in pieces of any size and copies every weight to its final place as soon as its bytes arrive.
//! A download therefore becomes a model without the file ever being in memory: in addition to the weights, a loader
//! holds at most 16 rows of one of them. Exceptions are tensors whose columns are outputs, which are held whole, and
//! MXFP4 in checkpoints, of which the half that comes first is held until the other arrives. Settings are checked
//! before the first weight, so an unsupported file is rejected early.
//!
//! A stream does not reveal its length. If the caller knows it (`Content-Length`, file metadata), each weight is
//! allocated at once, and a file that claims to be longer is rejected. Otherwise a weight is allocated at most 64 MiB,
//! or its present size, ahead of its bytes; only then may it have to be moved.

use std::io::Read;

use super::{
    linear::{Linear, LinearBuilder},
    model::Model,
};
#[cfg(not(target_arch = "wasm32"))]
use crate::container::read;
use crate::{
    container::{
        file::FileHeader,
        parts::MatrixBuilder,
        read::{read_gguf, read_safetensors},
        safetensors::SafetensorsHeader,
        stored::{StoredMatrix, StoredModel},
        stream::Stream,
    },
    error::LoadError,
    family::config::ModelConfig,
    kernels::memory::Arena,
};

/// Loader for a model in one file: GGUF, or a whole checkpoint as written by
/// [`checkpoint_in_one_file`](crate::checkpoint_in_one_file).
///
/// ```no_run
/// # fn chunks() -> Vec<Vec<u8>> { Vec::new() }
/// # fn main() -> Result<(), outrider_models::LoadError> {
/// let mut loader = outrider_models::ModelLoader::new(Some(1_116_032));
/// for chunk in chunks() {
///     loader.push(&chunk)?;
/// }
/// let model = loader.finish()?;
/// # Ok(())
/// # }
/// ```
pub struct ModelLoader(Stream<ModelConfig, FileHeader<ModelConfig>, LinearBuilder>);

impl ModelLoader {
    /// Creates an empty loader. `total_bytes` is the length of the file, if known; it bounds what the file may claim.
    #[must_use]
    pub fn new(total_bytes: Option<u64>) -> Self {
        Self(Stream::new(FileHeader::new(total_bytes), total_bytes))
    }

    /// Takes the next bytes of the file, any number of them.
    ///
    /// # Errors
    /// [`LoadError`] as soon as the bytes cannot give a model; [`LoadError::AfterFailure`] in later calls.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.0.push(bytes)
    }

    /// Returns the model, once all bytes have been pushed.
    ///
    /// # Errors
    /// [`LoadError::Truncated`] if bytes are missing.
    pub fn finish(self) -> Result<Model, LoadError> {
        let (config, weights) = self.0.finish()?;
        Ok(Model::new(config, weights))
    }
}

/// Loader for a Hugging Face checkpoint whose settings are known: takes the bytes of `model.safetensors`.
pub struct SafetensorsLoader(Stream<ModelConfig, SafetensorsHeader<ModelConfig>, LinearBuilder>);

impl SafetensorsLoader {
    /// Creates a loader from the bytes of `config.json`. `total_bytes` is the length of `model.safetensors`, if known;
    /// it bounds what the file may claim.
    ///
    /// # Errors
    /// [`LoadError`] if `config.json` is invalid or describes an unsupported model.
    pub fn new(config_json: &[u8], total_bytes: Option<u64>) -> Result<Self, LoadError> {
        Ok(Self(Stream::new(SafetensorsHeader::new(config_json, total_bytes)?, total_bytes)))
    }

    /// Takes the next bytes of `model.safetensors`, any number of them.
    ///
    /// # Errors
    /// As for [`ModelLoader::push`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.0.push(bytes)
    }

    /// Returns the model, once all bytes have been pushed.
    ///
    /// # Errors
    /// [`LoadError::Truncated`] if bytes are missing.
    pub fn finish(self) -> Result<Model, LoadError> {
        let (config, weights) = self.0.finish()?;
        Ok(Model::new(config, weights))
    }
}

impl Model {
    /// Loads a GGUF file, from the reader's position to its end, like a [`ModelLoader`](crate::ModelLoader) of unknown
    /// length.
    ///
    /// Weights may be F32, F16, BF16 or one of the block types Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL,
    /// IQ4_XS and MXFP4; norms may be F32, F16 or BF16. Weights are copied to their final place; additional memory is
    /// one piece of the file.
    ///
    /// # Errors
    /// Any file gives a model or a [`LoadError`], never a panic. Allocations are bounded by the bytes of the file.
    /// Features that are not implemented are rejected.
    pub fn from_gguf<R: Read>(reader: &mut R) -> Result<Self, LoadError> {
        let (config, weights) = read_gguf::<ModelConfig, LinearBuilder>(reader, None)?;
        Ok(Self::new(config, weights))
    }

    /// Loads a Hugging Face checkpoint from the bytes of `config.json` and `model.safetensors`.
    ///
    /// Weights may be F32, F16 or BF16, whose products are computed in f32. Experts of gpt-oss may be MXFP4.
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf).
    pub fn from_safetensors(config_json: &[u8], weights: &[u8]) -> Result<Self, LoadError> {
        let total_bytes = Some(weights.len() as u64);
        let (config, weights) =
            read_safetensors::<ModelConfig, LinearBuilder>(config_json, &mut &*weights, total_bytes)?;
        Ok(Self::new(config, weights))
    }

    /// Opens a `.gguf` file, a `.safetensors` file with `config.json` next to it, or a folder that holds `config.json`
    /// and `model.safetensors` (or the files named in its index).
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf), and [`LoadError::UnknownFormat`] for other paths.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<Self, LoadError> {
        let (config, weights) = read::open::<ModelConfig, LinearBuilder>(path)?;
        Ok(Self::new(config, weights))
    }
}

impl StoredModel {
    /// Converts the weights for this processor's kernels.
    ///
    /// # Errors
    /// [`LoadError::OutOfMemory`], or [`LoadError::TensorType`] for a type without a kernel.
    pub fn into_model(self) -> Result<Model, LoadError> {
        let mut arena = Arena::expecting(self.weights.multiplied().map(|matrix| matrix.bytes.len() as u64));
        Ok(Model::new(self.config, self.weights.map(|matrix| linear(matrix, &mut arena))?))
    }
}

fn linear(matrix: StoredMatrix, arena: &mut Arena) -> Result<Linear, LoadError> {
    let StoredMatrix { element, outputs, inputs, bytes } = matrix;
    let builder = LinearBuilder::new(element, outputs, inputs)
        .ok_or_else(|| LoadError::TensorType { name: "of a stored model".to_owned(), dtype: element.to_string() })?;
    let what = || "a tensor of a stored model".to_owned();
    builder.of(&bytes, arena).map_err(|_| LoadError::OutOfMemory { what: what(), needed: bytes.len() as u64 })
}
