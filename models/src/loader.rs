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

use std::io::{ErrorKind, Read};

use crate::{
    error::LoadError,
    llama::Model,
    weights::{GgufHeader, SafetensorsHeader, Stream},
};

/// Bytes that are read from a file before they are pushed.
const PIECE_BYTES: usize = 256 << 10;

/// Loads a GGUF file of architecture `llama` from its bytes as they come.
///
/// ```no_run
/// # fn chunks() -> Vec<Vec<u8>> { Vec::new() }
/// # fn main() -> Result<(), outrider_models::LoadError> {
/// let mut loader = outrider_models::GgufLoader::new(Some(1_116_032));
/// for chunk in chunks() {
///     loader.push(&chunk)?;
/// }
/// let model = loader.finish()?;
/// # Ok(())
/// # }
/// ```
pub struct GgufLoader(Stream<GgufHeader>);

impl GgufLoader {
    /// Starts with nothing. `total_bytes` is the length of the file, if it is known: a bound for what the file may
    /// claim.
    #[must_use]
    pub fn new(total_bytes: Option<u64>) -> Self {
        Self(Stream::new(GgufHeader::new(total_bytes), total_bytes))
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

/// Loads a Hugging Face `LlamaForCausalLM` from the bytes of `model.safetensors` as they come.
pub struct SafetensorsLoader(Stream<SafetensorsHeader>);

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
    /// As for [`GgufLoader::push`].
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

/// Reads to the end, in pieces that are pushed.
pub(crate) fn read_to_end(
    reader: &mut impl Read,
    mut push: impl FnMut(&[u8]) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => push(&piece[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
