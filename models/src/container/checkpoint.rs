//! Files of a Hugging Face checkpoint, and their combination into one file.
//!
//! A checkpoint is a folder with settings in `config.json` and other files, and weights in `model.safetensors` or in
//! several files named by an index. Clients that download a model as one stream get it [in one
//! file](checkpoint_in_one_file): safetensors whose metadata holds the texts of the settings files under their names.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use safetensors::tensor::Metadata;

use super::{
    other_kind,
    safetensors::SafetensorsHeader,
    stream::{Header, read_header},
};
use crate::{error::LoadError, family::config::ModelConfig};

/// Settings files: computation, end-of-text tokens, and begin-of-sequence token.
const TEXTS: [&str; 3] = ["config.json", "generation_config.json", "tokenizer_config.json"];
/// File that maps each tensor to its weight file.
const INDEX: &str = "model.safetensors.index.json";
/// Number of bytes that determine the kind of a file that is no model.
const TELLING_BYTES: u64 = 32;
/// Alignment of the length of a safetensors header, in bytes.
const ALIGNMENT: usize = 8;

/// Checkpoint folder and its existing weight files.
pub(super) struct Checkpoint {
    folder: PathBuf,
    weights: Vec<PathBuf>,
}

impl Checkpoint {
    /// Finds the checkpoint in the folder `path`, or the one with the single weight file `path`.
    pub(super) fn at(path: &Path) -> Result<Self, LoadError> {
        let is_safetensors = path.extension().is_some_and(|extension| extension == "safetensors");
        if !is_safetensors && !path.is_dir() {
            return Err(no_model(path));
        }
        let (folder, whole) = match path.is_dir() {
            true => (path, path.join("model.safetensors")),
            false => (path.parent().unwrap_or(Path::new("")), path.to_owned()),
        };
        let index = folder.join(INDEX);
        let weights = if whole.exists() {
            vec![whole]
        } else if path.is_dir() && index.exists() {
            shard_names(&fs::read(index)?)?.into_iter().map(|name| shard(folder, name)).collect::<Result<_, _>>()?
        } else {
            return Err(incomplete(folder));
        };
        Ok(Self { folder: folder.to_owned(), weights })
    }

    /// Contents of a file next to the weights, if it exists.
    pub(super) fn beside(&self, name: &str) -> Result<Option<Vec<u8>>, LoadError> {
        match fs::read(self.folder.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opened weight files, with their sizes in bytes.
    pub(super) fn files(&self) -> Result<Vec<(File, u64)>, LoadError> {
        let open = |path: &PathBuf| {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        };
        self.weights.iter().map(open).collect()
    }

    /// Opened weight file of a checkpoint that has exactly one.
    pub(super) fn only_file(&self) -> Result<File, LoadError> {
        match &self.weights[..] {
            [path] => Ok(File::open(path)?),
            _ => Err(self.without_settings()),
        }
    }

    /// Error for a checkpoint without `config.json`.
    pub(super) fn without_settings(&self) -> LoadError {
        incomplete(&self.folder)
    }
}

/// Combines a checkpoint into the bytes of a single file for [`ModelLoader`](crate::ModelLoader). `path` is as in
/// [`Model::open`](crate::Model::open).
///
/// # Errors
/// As for [`Model::open`](crate::Model::open), except that tensor data are not checked.
pub fn checkpoint_in_one_file(path: &Path) -> Result<Vec<u8>, LoadError> {
    let checkpoint = Checkpoint::at(path)?;
    let mut texts = HashMap::new();
    for name in TEXTS {
        if let Some(bytes) = checkpoint.beside(name)? {
            let wrong = |_| LoadError::NotUtf8 { what: name.to_owned(), offset: 0 };
            texts.insert(name.to_owned(), String::from_utf8(bytes).map_err(wrong)?);
        }
    }
    if !texts.contains_key("config.json") {
        let mut bytes = Vec::new();
        checkpoint.only_file()?.read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    let (mut tensors, mut files, mut end) = (Vec::new(), checkpoint.files()?, 0);
    for (file, bytes) in &mut files {
        let mut header: SafetensorsHeader<ModelConfig> = SafetensorsHeader::with_settings_within(Some(*bytes));
        read_header(&mut header, &mut BufReader::new(&mut *file))?;
        let metadata = header.metadata()?;
        // Tensors in the order of their data, as the container requires.
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            let mut info = info.clone();
            info.data_offsets.0 += end;
            info.data_offsets.1 += end;
            tensors.push((name, info));
        }
        end += metadata.data_len();
        file.seek(SeekFrom::Start(header.position()))?;
    }
    let mut json = serde_json::to_vec(&Metadata::new(Some(texts), tensors)?)?;
    json.resize(json.len().next_multiple_of(ALIGNMENT), b' ');
    // Holds one copy of the weights, which may be most of the memory.
    let mut bytes = Vec::with_capacity(size_of::<u64>() + json.len() + end);
    bytes.extend((json.len() as u64).to_le_bytes());
    bytes.extend(json);
    for (mut file, _) in files {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Weight files named by an index.
fn shard_names(index: &[u8]) -> Result<BTreeSet<String>, LoadError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    let Index { weight_map } = serde_json::from_slice(index)?;
    Ok(weight_map.into_values().collect())
}

/// Path of a weight file. An untrusted index may only name files in its own folder.
fn shard(folder: &Path, name: String) -> Result<PathBuf, LoadError> {
    let path = folder.join(&name);
    let is_plain = Path::new(&name).file_name().is_some_and(|plain| plain == &*name);
    if is_plain && path.is_file() { Ok(path) } else { Err(LoadError::MissingShard { name }) }
}

/// Error for a file without the name of a model's, by its first bytes.
fn no_model(path: &Path) -> LoadError {
    let mut start = Vec::new();
    // A file that cannot be read is of no known kind.
    let _ = File::open(path).and_then(|file| file.take(TELLING_BYTES).read_to_end(&mut start));
    match other_kind::refuse(&start) {
        Err(error) => error,
        Ok(()) => LoadError::UnknownFormat { path: path.display().to_string() },
    }
}

/// Error that lists the weights found in a folder without a complete checkpoint.
fn incomplete(folder: &Path) -> LoadError {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let other_kind = || names.iter().find_map(|name| Some((name, other_kind::of_name(name)?)));
    let ending = |ending: &str| names.iter().find(|name| name.ends_with(ending));
    let is_shard = |name: &&String| name.ends_with(".safetensors") && name.contains("-of-");
    let found = if names.iter().any(|name| name == "model.safetensors") {
        "there is no config.json beside model.safetensors".to_owned()
    } else if let Some(shard) = names.iter().find(is_shard) {
        format!("it has {shard}, but no {INDEX}, which says what is in which file")
    } else if let Some(gguf) = ending(".gguf") {
        format!("it has {gguf}, which can be named itself")
    } else if let Some((name, (kind, advice))) = other_kind() {
        format!("it has {name}, {kind}; {advice}")
    } else if let Some(weights) = ending(".bin").or(ending(".pth")).or(ending(".pt")) {
        format!("it has {weights}, a pickled file, which is not read; convert it to safetensors")
    } else {
        "it has neither of them".to_owned()
    };
    LoadError::IncompleteFolder { path: folder.display().to_string(), found }
}
