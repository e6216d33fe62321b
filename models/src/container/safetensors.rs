//! Hugging Face checkpoints: `config.json` and `model.safetensors`.
//!
//! The container (<https://huggingface.co/docs/safetensors>) is the length of its header as a little-endian u64, the
//! header as JSON, and the tensors' data without gaps.

use std::collections::HashMap;

use safetensors::{
    Dtype, SafeTensorError,
    tensor::{Metadata, TensorInfo},
};

#[cfg(not(target_arch = "wasm32"))]
use super::stream::read_header;
use super::{
    element::ElementType,
    plan::{Directory, Entry, Planned},
    stream::{Describes, Header, Progress},
};
use crate::{
    error::LoadError,
    family::{description::Description, spelling::Spelling, weights::Container},
};

/// Bytes of the header's length.
const LENGTH_BYTES: usize = 8;
/// Longest header, in bytes: the limit of the reference implementation.
const LONGEST_HEADER: u64 = 100_000_000;

/// What a checkpoint says before its tensors.
pub(crate) struct SafetensorsHeader<D> {
    spelling: Spelling,
    description: D,
    total_bytes: Option<u64>,
    /// The length and the JSON text, as far as they have come.
    bytes: Vec<u8>,
}

impl<D: Description> SafetensorsHeader<D> {
    /// `total_bytes` is the length of the safetensors file, if it is known.
    pub(crate) fn new(config_json: &[u8], total_bytes: Option<u64>) -> Result<Self, LoadError> {
        let (spelling, description) = D::of_config_json(config_json)?;
        Ok(Self { spelling, description, total_bytes, bytes: Vec::new() })
    }

    /// What the header lists, once all of it is there.
    fn tensors(&self) -> Result<HashMap<String, Entry>, LoadError> {
        let data_start = self.position();
        let json = self.bytes.get(LENGTH_BYTES..).unwrap_or_default();
        // Makes sure that the tensors follow each other, and that each is as long as its shape says.
        let metadata: Metadata = serde_json::from_slice(json).map_err(SafeTensorError::InvalidHeaderDeserialization)?;
        if self.total_bytes.is_some_and(|total| data_start + metadata.data_len() as u64 != total) {
            return Err(SafeTensorError::MetadataIncompleteBuffer.into());
        }
        Ok(metadata.tensors().into_iter().map(|(name, info)| (name, entry(info, data_start))).collect())
    }

    /// Where the header ends, once its length is there.
    fn end(&self) -> Option<u64> {
        let length = self.bytes.first_chunk::<LENGTH_BYTES>()?;
        Some(u64::from_le_bytes(*length).saturating_add(LENGTH_BYTES as u64))
    }

    /// Takes bytes off `input` until `end` of them are there.
    fn fill(&mut self, input: &mut &[u8], end: usize) -> Progress {
        let missing = end.saturating_sub(self.bytes.len());
        let (more, rest) = input.split_at(missing.min(input.len()));
        self.bytes.extend_from_slice(more);
        *input = rest;
        if more.len() == missing { Progress::Complete } else { Progress::Incomplete }
    }
}

impl<D: Description> Header for SafetensorsHeader<D> {
    fn push(&mut self, input: &mut &[u8]) -> Result<Progress, LoadError> {
        if self.fill(input, LENGTH_BYTES) == Progress::Incomplete {
            return Ok(Progress::Incomplete);
        }
        let end = self.end().unwrap_or(0);
        if end > LONGEST_HEADER + LENGTH_BYTES as u64 {
            return Err(SafeTensorError::HeaderTooLarge.into());
        }
        if self.total_bytes.is_some_and(|total| end > total) {
            return Err(SafeTensorError::InvalidHeaderLength.into());
        }
        Ok(self.fill(input, end as usize))
    }

    fn position(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn truncated(&self) -> LoadError {
        let needed = self.end().unwrap_or(LENGTH_BYTES as u64);
        let remaining = self.position();
        LoadError::Truncated { what: "safetensors header".to_owned(), offset: 0, needed, remaining }
    }
}

impl<D: Description> Describes<D> for SafetensorsHeader<D> {
    fn plan(self) -> Result<(D, Vec<Planned>), LoadError> {
        let tensors = self.tensors()?;
        Directory::new(tensors, self.spelling, Container::HuggingFace).plan(self.description)
    }
}

/// The files of a checkpoint that is stored in several, as if they were one behind the other.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) struct Shards<D> {
    spelling: Spelling,
    description: D,
    tensors: HashMap<String, Entry>,
    /// Bytes of those so far.
    total_bytes: u64,
}

#[cfg(not(target_arch = "wasm32"))]
impl<D: Description> Shards<D> {
    /// None yet.
    pub(crate) fn new(config_json: &[u8]) -> Result<Self, LoadError> {
        let (spelling, description) = D::of_config_json(config_json)?;
        Ok(Self { spelling, description, tensors: HashMap::new(), total_bytes: 0 })
    }

    /// Adds what the next one says before its tensors, of which it has so many bytes.
    pub(crate) fn add(&mut self, shard: &mut impl std::io::Read, bytes: u64) -> Result<(), LoadError> {
        let (spelling, description) = (self.spelling, self.description.clone());
        let mut header = SafetensorsHeader { spelling, description, total_bytes: Some(bytes), bytes: Vec::new() };
        read_header(&mut header, shard)?;
        for (name, mut entry) in header.tensors()? {
            entry.start += self.total_bytes;
            if self.tensors.insert(name.clone(), entry).is_some() {
                return Err(LoadError::Duplicate { name });
            }
        }
        self.total_bytes += bytes;
        Ok(())
    }

    /// Bytes of all.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }
}

/// All headers have been read: what is between tensors, headers too, is passed over.
#[cfg(not(target_arch = "wasm32"))]
impl<D: Description> Header for Shards<D> {
    fn push(&mut self, _: &mut &[u8]) -> Result<Progress, LoadError> {
        Ok(Progress::Complete)
    }

    fn position(&self) -> u64 {
        0
    }

    fn truncated(&self) -> LoadError {
        LoadError::Truncated { what: "checkpoint".to_owned(), offset: 0, needed: self.total_bytes, remaining: 0 }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl<D: Description> Describes<D> for Shards<D> {
    fn plan(self) -> Result<(D, Vec<Planned>), LoadError> {
        Directory::new(self.tensors, self.spelling, Container::HuggingFace).plan(self.description)
    }
}

fn entry(info: &TensorInfo, data_start: u64) -> Entry {
    let element = match info.dtype {
        Dtype::F32 => Ok(ElementType::F32),
        Dtype::F16 => Ok(ElementType::F16),
        Dtype::BF16 => Ok(ElementType::BF16),
        other => Err(format!("{other:?}")),
    };
    let shape = info.shape.iter().map(|&n| n as u64).collect();
    Entry { shape, element, start: data_start + info.data_offsets.0 as u64, taken: 0 }
}
