//! Reading of whole containers, for any kind of matrix.

use std::io::{ErrorKind, Read};
#[cfg(not(target_arch = "wasm32"))]
use std::{
    fs::File,
    io::{self, BufReader, Seek},
    path::Path,
};

#[cfg(not(target_arch = "wasm32"))]
use super::{
    checkpoint::Checkpoint,
    gguf_parts::{GgufParts, gguf_part_names},
    safetensors::Shards,
};
use super::{
    gguf::GgufHeader,
    parts::MatrixBuilder,
    safetensors::SafetensorsHeader,
    stream::{Describes, Stream},
};
use crate::{error::LoadError, family::description::Description};

/// Size in bytes of the pieces read from a file.
const PIECE_BYTES: usize = 256 << 10;

/// Model description, and its weights in the form of a matrix builder.
pub(crate) type Loaded<D, B> = (D, <D as Description>::Weights<<B as MatrixBuilder>::Matrix>);

/// Loads a GGUF file from the reader's position to its end. `total_bytes` is its length, if known.
pub(crate) fn read_gguf<D: Description, B: MatrixBuilder>(
    reader: &mut impl Read,
    total_bytes: Option<u64>,
) -> Result<Loaded<D, B>, LoadError> {
    read::<D, B>(GgufHeader::new(total_bytes), reader, total_bytes)
}

/// Opens a model at a path of any kind that [`Model::open`](crate::Model::open) supports.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn open<D: Description, B: MatrixBuilder>(path: &Path) -> Result<Loaded<D, B>, LoadError> {
    if path.extension().is_none_or(|extension| extension != "gguf") || path.is_dir() {
        return read_checkpoint::<D, B>(&Checkpoint::at(path)?);
    }
    if let Some(names) = gguf_part_names(path).filter(|names| names.len() > 1) {
        return read_parts::<D, B>(path, &names);
    }
    let mut file = File::open(path)?;
    let total_bytes = Some(file.metadata()?.len());
    read_gguf::<D, B>(&mut file, total_bytes)
}

/// Loads a checkpoint from its files, in sequence.
#[cfg(not(target_arch = "wasm32"))]
fn read_checkpoint<D: Description, B: MatrixBuilder>(checkpoint: &Checkpoint) -> Result<Loaded<D, B>, LoadError> {
    let Some(config_json) = checkpoint.beside("config.json")? else {
        let mut file = checkpoint.only_file()?;
        let total_bytes = Some(file.metadata()?.len());
        let loaded = read::<D, B>(SafetensorsHeader::with_settings_within(total_bytes), &mut file, total_bytes);
        return loaded.map_err(|error| match error {
            LoadError::NoSettings => checkpoint.without_settings(),
            error => error,
        });
    };
    let (mut shards, mut files) = (Shards::new(&config_json)?, checkpoint.files()?);
    for (file, bytes) in &mut files {
        shards.add(&mut BufReader::new(&mut *file), *bytes)?;
        file.rewind()?;
    }
    let total_bytes = Some(shards.total_bytes());
    let mut stream: Stream<D, _, B> = Stream::new(shards, total_bytes);
    for (file, bytes) in files {
        read_to_end(&mut file.take(bytes), |piece| stream.push(piece))?;
    }
    let (mut description, weights) = stream.finish()?;
    description.amend(&|name| checkpoint.beside(name))?;
    Ok((description, weights))
}

/// Loads a split GGUF model that includes `path` from the files `names`.
#[cfg(not(target_arch = "wasm32"))]
fn read_parts<D: Description, B: MatrixBuilder>(path: &Path, names: &[String]) -> Result<Loaded<D, B>, LoadError> {
    let mut files = Vec::new();
    for name in names {
        let absent = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => LoadError::MissingPart { name: name.clone() },
            _ => error.into(),
        };
        let file = File::open(path.with_file_name(name)).map_err(absent)?;
        let bytes = file.metadata()?.len();
        files.push((file, bytes));
    }
    let mut parts: Option<GgufParts> = None;
    for (file, bytes) in &mut files {
        let mut reader = BufReader::new(&*file);
        match &mut parts {
            None => parts = Some(GgufParts::new(&mut reader, *bytes, names.len())?),
            Some(parts) => parts.add(&mut reader, *bytes)?,
        }
        file.rewind()?;
    }
    let Some(parts) = parts else { return Err(LoadError::UnknownFormat { path: path.display().to_string() }) };
    let total_bytes = Some(parts.total_bytes());
    let mut stream: Stream<D, _, B> = Stream::new(parts, total_bytes);
    for (file, bytes) in files {
        read_to_end(&mut file.take(bytes), |piece| stream.push(piece))?;
    }
    stream.finish()
}

/// Loads a checkpoint from its `config.json` and a reader of its weights. `total_bytes` is the length of the weights,
/// if known.
pub(crate) fn read_safetensors<D: Description, B: MatrixBuilder>(
    config_json: &[u8],
    reader: &mut impl Read,
    total_bytes: Option<u64>,
) -> Result<Loaded<D, B>, LoadError> {
    read::<D, B>(SafetensorsHeader::new(config_json, total_bytes)?, reader, total_bytes)
}

/// Loads a file that begins with a header of this kind.
fn read<D: Description, B: MatrixBuilder>(
    header: impl Describes<D>,
    reader: &mut impl Read,
    total_bytes: Option<u64>,
) -> Result<Loaded<D, B>, LoadError> {
    let mut stream: Stream<D, _, B> = Stream::new(header, total_bytes);
    read_to_end(reader, |piece| stream.push(piece))?;
    stream.finish()
}

/// Reads to the end and pushes each piece.
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
