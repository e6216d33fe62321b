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
    config::ModelConfig,
    error::LoadError,
    linear::LinearBuilder,
    llama::Model,
    weights::{GgufHeader, MatrixBuilder, ModelWeights, SafetensorsHeader, Stream},
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
pub struct GgufLoader(Stream<GgufHeader, LinearBuilder>);

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
pub struct SafetensorsLoader(Stream<SafetensorsHeader, LinearBuilder>);

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

/// A model's shape, and its weights as a kind of builder leaves them.
pub(crate) type Loaded<B> = (ModelConfig, ModelWeights<<B as MatrixBuilder>::Matrix>);

/// Loads a GGUF file from the reader's position to its end. `total_bytes` is its length, if it is known.
pub(crate) fn load_gguf<B: MatrixBuilder>(
    reader: &mut impl Read,
    total_bytes: Option<u64>,
) -> Result<Loaded<B>, LoadError> {
    let mut stream: Stream<_, B> = Stream::new(GgufHeader::new(total_bytes), total_bytes);
    read_to_end(reader, |piece| stream.push(piece))?;
    stream.finish()
}

/// Opens what a path names, as [`Model::open`] says.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn load<B: MatrixBuilder>(path: &std::path::Path) -> Result<Loaded<B>, LoadError> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let (config, weights) = match extension {
        _ if path.is_dir() => (path.join("config.json"), path.join("model.safetensors")),
        Some("safetensors") => (path.with_file_name("config.json"), path.to_owned()),
        Some("gguf") => {
            let mut file = std::fs::File::open(path)?;
            let total_bytes = Some(file.metadata()?.len());
            return load_gguf::<B>(&mut file, total_bytes);
        }
        _ => return Err(LoadError::UnknownFormat { path: path.display().to_string() }),
    };
    let config = std::fs::read(config)?;
    let mut file = std::fs::File::open(weights)?;
    let total_bytes = Some(file.metadata()?.len());
    let mut stream: Stream<_, B> = Stream::new(SafetensorsHeader::new(&config, total_bytes)?, total_bytes);
    read_to_end(&mut file, |piece| stream.push(piece))?;
    stream.finish()
}

/// Reads to the end, in pieces that are pushed.
fn read_to_end(reader: &mut impl Read, mut push: impl FnMut(&[u8]) -> Result<(), LoadError>) -> Result<(), LoadError> {
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
