//! Reading whole containers, for any kind of matrix.

use std::io::{ErrorKind, Read};
#[cfg(not(target_arch = "wasm32"))]
use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    io::{self, BufReader, Seek},
    path::Path,
};

use super::{gguf::GgufHeader, parts::MatrixBuilder, safetensors::SafetensorsHeader, stream::Stream};
#[cfg(not(target_arch = "wasm32"))]
use super::{
    gguf_parts::{GgufParts, gguf_part_names},
    safetensors::Shards,
};
use crate::{error::LoadError, family::description::Description};

/// Bytes that are read from a file before they are pushed.
const PIECE_BYTES: usize = 256 << 10;

/// A model's description, and its weights as a kind of builder leaves them.
pub(crate) type Loaded<D, B> = (D, <D as Description>::Weights<<B as MatrixBuilder>::Matrix>);

/// Loads a GGUF file from the reader's position to its end. `total_bytes` is its length, if it is known.
pub(crate) fn read_gguf<D: Description, B: MatrixBuilder>(
    reader: &mut impl Read,
    total_bytes: Option<u64>,
) -> Result<Loaded<D, B>, LoadError> {
    let mut stream: Stream<D, _, B> = Stream::new(GgufHeader::new(total_bytes), total_bytes);
    read_to_end(reader, |piece| stream.push(piece))?;
    stream.finish()
}

/// Opens what a path names, as [`Model::open`](crate::Model::open) says.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn open<D: Description, B: MatrixBuilder>(path: &Path) -> Result<Loaded<D, B>, LoadError> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let weights = match extension {
        _ if path.is_dir() => path.join("model.safetensors"),
        Some("safetensors") => path.to_owned(),
        Some("gguf") => {
            if let Some(names) = gguf_part_names(path).filter(|names| names.len() > 1) {
                return read_parts::<D, B>(path, &names);
            }
            let mut file = File::open(path)?;
            let total_bytes = Some(file.metadata()?.len());
            return read_gguf::<D, B>(&mut file, total_bytes);
        }
        _ => return Err(LoadError::UnknownFormat { path: path.display().to_string() }),
    };
    let folder = weights.parent().unwrap_or(Path::new(""));
    let absent = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => incomplete(folder),
        _ => error.into(),
    };
    let config = fs::read(folder.join("config.json")).map_err(absent)?;
    let index = folder.join(INDEX);
    let (mut description, weights) = if path.is_dir() && !weights.exists() && index.exists() {
        read_shards::<D, B>(&config, folder, &fs::read(index)?)?
    } else {
        let mut file = File::open(&weights).map_err(absent)?;
        let total_bytes = Some(file.metadata()?.len());
        read_safetensors::<D, B>(&config, &mut file, total_bytes)?
    };
    description.amend(folder)?;
    Ok((description, weights))
}

/// Loads a GGUF model from its files, of which `path` is one.
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

/// What says in which files the weights of a checkpoint are.
#[cfg(not(target_arch = "wasm32"))]
const INDEX: &str = "model.safetensors.index.json";

/// Loads a checkpoint from the files that its index names, one after the other.
#[cfg(not(target_arch = "wasm32"))]
fn read_shards<D: Description, B: MatrixBuilder>(
    config_json: &[u8],
    folder: &Path,
    index: &[u8],
) -> Result<Loaded<D, B>, LoadError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    let Index { weight_map } = serde_json::from_slice(index)?;
    let names: BTreeSet<String> = weight_map.into_values().collect();
    let mut shards: Shards<D> = Shards::new(config_json)?;
    let mut files = Vec::new();
    for name in names {
        // An index that is not trusted names files of its folder only.
        let is_plain = Path::new(&name).file_name().is_some_and(|plain| plain == &*name);
        let path = folder.join(&name);
        if !is_plain || !path.is_file() {
            return Err(LoadError::MissingShard { name });
        }
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        shards.add(&mut BufReader::new(&mut file), bytes)?;
        file.rewind()?;
        files.push(file.take(bytes));
    }
    let total_bytes = Some(shards.total_bytes());
    let mut stream: Stream<D, _, B> = Stream::new(shards, total_bytes);
    for file in &mut files {
        read_to_end(file, |piece| stream.push(piece))?;
    }
    stream.finish()
}

/// Says what a folder has in place of a checkpoint.
#[cfg(not(target_arch = "wasm32"))]
fn incomplete(folder: &Path) -> LoadError {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let ending = |ending: &str| names.iter().find(|name| name.ends_with(ending));
    let is_shard = |name: &&String| name.ends_with(".safetensors") && name.contains("-of-");
    let found = if let Some(shard) = names.iter().find(is_shard) {
        format!("it has {shard}, but no {INDEX}, which says what is in which file")
    } else if let Some(gguf) = ending(".gguf") {
        format!("it has {gguf}, which can be named itself")
    } else if let Some(weights) = ending(".bin").or(ending(".pth")).or(ending(".pt")) {
        format!("it has {weights}, a pickled file, which is not read; convert it to safetensors")
    } else if names.iter().any(|name| name == "model.safetensors") {
        "there is no config.json beside model.safetensors".to_owned()
    } else {
        "it has neither of them".to_owned()
    };
    LoadError::IncompleteFolder { path: folder.display().to_string(), found }
}

/// Loads a checkpoint from its `config.json` and the reader's position to its end. `total_bytes` is the latter's
/// length, if it is known.
pub(crate) fn read_safetensors<D: Description, B: MatrixBuilder>(
    config_json: &[u8],
    reader: &mut impl Read,
    total_bytes: Option<u64>,
) -> Result<Loaded<D, B>, LoadError> {
    let header: SafetensorsHeader<D> = SafetensorsHeader::new(config_json, total_bytes)?;
    let mut stream: Stream<D, _, B> = Stream::new(header, total_bytes);
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
