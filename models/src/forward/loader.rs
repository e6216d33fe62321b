//! Loading a model from bytes as they come.
//!
//! A loader is pushed the pieces of a file in their order, wherever they were cut, and puts every weight where it
//! stays as soon as its bytes are there. So a download becomes a model without ever being a file in memory: beyond
//! the weights, a loader holds at most sixteen rows of one of them. What a file says of itself is checked before
//! its first weight: a file that cannot be run is refused while almost nothing of it has come.
//!
//! A stream does not show how long it is. Where the caller knows (`Content-Length`, a file's metadata), each weight
//! gets its memory at once, and a file that claims to be longer is refused. Where nobody knows, a weight gets at most
//! 64 MiB ahead of its bytes, or as much again as it has already; only then can it have to be moved.

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

/// Loads a model from the bytes of one file as they come: GGUF, or a whole checkpoint as
/// [`checkpoint_in_one_file`](crate::checkpoint_in_one_file) makes it.
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
    /// Starts with nothing. `total_bytes` is the length of the file, if it is known: a bound for what the file may
    /// claim.
    #[must_use]
    pub fn new(total_bytes: Option<u64>) -> Self {
        Self(Stream::new(FileHeader::new(total_bytes), total_bytes))
    }

    /// Takes the next bytes of the file, any number of them.
    ///
    /// # Errors
    /// [`LoadError`] as soon as the bytes show that they give no model; [`LoadError::AfterFailure`] from then on.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.0.push(bytes)
    }

    /// The model, if all its bytes have been pushed.
    ///
    /// # Errors
    /// [`LoadError::Truncated`] if not.
    pub fn finish(self) -> Result<Model, LoadError> {
        let (config, weights) = self.0.finish()?;
        Ok(Model::new(config, weights))
    }
}

/// Loads a Hugging Face checkpoint from the bytes of `model.safetensors` as they come, its settings being at hand.
pub struct SafetensorsLoader(Stream<ModelConfig, SafetensorsHeader<ModelConfig>, LinearBuilder>);

impl SafetensorsLoader {
    /// Starts with the bytes of `config.json`. `total_bytes` is the length of `model.safetensors`, if it is known: a
    /// bound for what the file may claim.
    ///
    /// # Errors
    /// If this `config.json` describes no model, or one that cannot be run.
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

    /// The model, if all its bytes have been pushed.
    ///
    /// # Errors
    /// [`LoadError::Truncated`] if not.
    pub fn finish(self) -> Result<Model, LoadError> {
        let (config, weights) = self.0.finish()?;
        Ok(Model::new(config, weights))
    }
}

impl Model {
    /// Loads a GGUF file, from the reader's position to its end, as a
    /// [`ModelLoader`](crate::ModelLoader) that does not know its length.
    ///
    /// Weights: F32, F16, BF16 and the block types Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS and
    /// MXFP4; norms F32, F16 or BF16. They go straight to where they stay; beyond them, memory is one piece of the
    /// file.
    ///
    /// # Errors
    /// Any file gives a model or a [`LoadError`], never a panic, and nothing is allocated that the file
    /// does not hold. Features that are not implemented are refused.
    pub fn from_gguf<R: Read>(reader: &mut R) -> Result<Self, LoadError> {
        let (config, weights) = read_gguf::<ModelConfig, LinearBuilder>(reader, None)?;
        Ok(Self::new(config, weights))
    }

    /// Loads a Hugging Face checkpoint from the bytes of `config.json` and `model.safetensors`.
    ///
    /// Weights: F32, F16 or BF16; products are computed in f32.
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf).
    pub fn from_safetensors(config_json: &[u8], weights: &[u8]) -> Result<Self, LoadError> {
        let total_bytes = Some(weights.len() as u64);
        let (config, weights) =
            read_safetensors::<ModelConfig, LinearBuilder>(config_json, &mut &*weights, total_bytes)?;
        Ok(Self::new(config, weights))
    }

    /// Opens a `.gguf` file, a `.safetensors` file with `config.json` next to it, or a folder that holds
    /// `model.safetensors` (or what its index names) and `config.json`.
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
    /// The same model on this processor's kernels.
    ///
    /// # Errors
    /// If there is no memory for it, or no kernel for one of its types.
    pub fn into_model(self) -> Result<Model, LoadError> {
        let mut arena = Arena::expecting(self.weights.multiplied().map(|matrix| matrix.bytes.len() as u64));
        Ok(Model::new(self.config, self.weights.map(|matrix| linear(matrix, &mut arena))?))
    }
}

fn linear(matrix: StoredMatrix, arena: &mut Arena) -> Result<Linear, LoadError> {
    let StoredMatrix { element, outputs, inputs, bytes } = matrix;
    let name = || "of a stored model".to_owned();
    let builder = LinearBuilder::new(element, outputs, inputs)
        .ok_or_else(|| LoadError::TensorType { name: name(), dtype: element.to_string() })?;
    builder.of(&bytes, arena).map_err(|_| LoadError::OutOfMemory { what: name(), needed: bytes.len() as u64 })
}
