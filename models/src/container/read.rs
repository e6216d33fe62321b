//! Reading whole containers, for any kind of matrix.

use std::io::{ErrorKind, Read};

use super::{gguf::GgufHeader, parts::MatrixBuilder, safetensors::SafetensorsHeader, stream::Stream};
use crate::{
    error::LoadError,
    family::{config::ModelConfig, weights::ModelWeights},
};

/// Bytes that are read from a file before they are pushed.
const PIECE_BYTES: usize = 256 << 10;

/// A model's shape, and its weights as a kind of builder leaves them.
pub(crate) type Loaded<B> = (ModelConfig, ModelWeights<<B as MatrixBuilder>::Matrix>);

/// Loads a GGUF file from the reader's position to its end. `total_bytes` is its length, if it is known.
pub(crate) fn read_gguf<B: MatrixBuilder>(
    reader: &mut impl Read,
    total_bytes: Option<u64>,
) -> Result<Loaded<B>, LoadError> {
    let mut stream: Stream<_, B> = Stream::new(GgufHeader::new(total_bytes), total_bytes);
    read_to_end(reader, |piece| stream.push(piece))?;
    stream.finish()
}

/// Opens what a path names, as [`Model::open`] says.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn open<B: MatrixBuilder>(path: &std::path::Path) -> Result<Loaded<B>, LoadError> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let (config, weights) = match extension {
        _ if path.is_dir() => (path.join("config.json"), path.join("model.safetensors")),
        Some("safetensors") => (path.with_file_name("config.json"), path.to_owned()),
        Some("gguf") => {
            let mut file = std::fs::File::open(path)?;
            let total_bytes = Some(file.metadata()?.len());
            return read_gguf::<B>(&mut file, total_bytes);
        }
        _ => return Err(LoadError::UnknownFormat { path: path.display().to_string() }),
    };
    let config = std::fs::read(config)?;
    let mut file = std::fs::File::open(weights)?;
    let total_bytes = Some(file.metadata()?.len());
    read_safetensors::<B>(&config, &mut file, total_bytes)
}

/// Loads a checkpoint from its `config.json` and the reader's position to its end. `total_bytes` is the latter's
/// length, if it is known.
pub(crate) fn read_safetensors<B: MatrixBuilder>(
    config_json: &[u8],
    reader: &mut impl Read,
    total_bytes: Option<u64>,
) -> Result<Loaded<B>, LoadError> {
    let mut stream: Stream<_, B> = Stream::new(SafetensorsHeader::new(config_json, total_bytes)?, total_bytes);
    read_to_end(reader, |piece| stream.push(piece))?;
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
