//! Hugging Face checkpoints: `config.json` and `model.safetensors`.
//!
//! The container (<https://huggingface.co/docs/safetensors>) consists of the header length as a little-endian u64, the
//! header as JSON, and the tensor data without gaps. The header may hold named texts. A checkpoint [in one
//! file](super::checkpoint) stores its settings files there.

#[cfg(not(target_arch = "wasm32"))]
use std::collections::HashMap;

use safetensors::{
    Dtype, SafeTensorError,
    tensor::{Metadata, TensorInfo},
};

#[cfg(not(target_arch = "wasm32"))]
use super::stream::read_header;
use super::{
    element::ElementType,
    other_kind,
    plan::{Directory, Entry, Planned},
    stream::{Describes, Header, Progress},
};
use crate::{
    error::LoadError,
    family::{description::Description, spelling::Spelling, weights::Container},
};

/// Size in bytes of the header's length field.
const LENGTH_BYTES: usize = 8;
/// Maximum header length in bytes, that of the reference implementation.
const LONGEST_HEADER: u64 = 100_000_000;

/// Parser for the header of a safetensors file.
pub(crate) struct SafetensorsHeader<D> {
    /// Description from a separate `config.json`. If absent, the header must hold one.
    described: Option<(Spelling, D)>,
    total_bytes: Option<u64>,
    /// Length field and JSON text received so far.
    bytes: Vec<u8>,
}

impl<D: Description> SafetensorsHeader<D> {
    /// Creates a parser for a safetensors file of `total_bytes`, if its length is known.
    pub(crate) fn new(config_json: &[u8], total_bytes: Option<u64>) -> Result<Self, LoadError> {
        let described = Some(D::of_config_json(config_json)?);
        Ok(Self { described, ..Self::with_settings_within(total_bytes) })
    }

    /// Creates a parser for a checkpoint in one file.
    pub(crate) fn with_settings_within(total_bytes: Option<u64>) -> Self {
        Self { described: None, total_bytes, bytes: Vec::new() }
    }

    /// Parsed header, once it is complete.
    pub(super) fn metadata(&self) -> Result<Metadata, LoadError> {
        let json = self.bytes.get(LENGTH_BYTES..).unwrap_or_default();
        // Deserialization checks that tensors are contiguous, and that each has the size of its shape.
        let metadata: Metadata = serde_json::from_slice(json).map_err(SafeTensorError::InvalidHeaderDeserialization)?;
        if self.total_bytes.is_some_and(|total| self.position() + metadata.data_len() as u64 != total) {
            return Err(SafeTensorError::MetadataIncompleteBuffer.into());
        }
        other_kind::refuse_adapter(metadata.tensors().keys())?;
        Ok(metadata)
    }

    /// Offset of the header's end, once its length has been received.
    fn end(&self) -> Option<u64> {
        let length = self.bytes.first_chunk::<LENGTH_BYTES>()?;
        Some(u64::from_le_bytes(*length).saturating_add(LENGTH_BYTES as u64))
    }

    /// Takes bytes from `input` until `end` bytes are present.
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
            other_kind::refuse(&self.bytes)?;
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
        let metadata = self.metadata()?;
        let (spelling, description) = match self.described {
            Some(described) => described,
            None => described_within(&metadata)?,
        };
        let tensors = entries(&metadata, self.bytes.len() as u64).collect();
        Directory::new(tensors, spelling, Container::HuggingFace).plan(description)
    }
}

/// Description in the texts of a header.
fn described_within<D: Description>(metadata: &Metadata) -> Result<(Spelling, D), LoadError> {
    let texts = metadata.metadata().as_ref();
    let text = |name: &str| Ok(texts.and_then(|texts| texts.get(name)).map(|text| text.clone().into_bytes()));
    let config = text("config.json")?.ok_or(LoadError::NoSettings)?;
    let (spelling, mut description) = D::of_config_json(&config)?;
    description.amend(&text)?;
    Ok((spelling, description))
}

/// Headers of a sharded checkpoint, treated as one concatenated file.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) struct Shards<D> {
    described: (Spelling, D),
    tensors: HashMap<String, Entry>,
    /// Total size in bytes of the shards added so far.
    total_bytes: u64,
}

#[cfg(not(target_arch = "wasm32"))]
impl<D: Description> Shards<D> {
    /// Creates a checkpoint without shards.
    pub(crate) fn new(config_json: &[u8]) -> Result<Self, LoadError> {
        let described = D::of_config_json(config_json)?;
        Ok(Self { described, tensors: HashMap::new(), total_bytes: 0 })
    }

    /// Adds the header of the next shard, whose size is `bytes`.
    pub(crate) fn add(&mut self, shard: &mut impl std::io::Read, bytes: u64) -> Result<(), LoadError> {
        let mut header: SafetensorsHeader<D> = SafetensorsHeader::with_settings_within(Some(bytes));
        read_header(&mut header, shard)?;
        for (name, mut entry) in entries(&header.metadata()?, header.position()) {
            entry.start += self.total_bytes;
            if self.tensors.insert(name.clone(), entry).is_some() {
                return Err(LoadError::Duplicate { name });
            }
        }
        self.total_bytes += bytes;
        Ok(())
    }

    /// Total size of all shards in bytes.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }
}

/// Header that is already complete: bytes between tensors, including other headers, are skipped.
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
        let (spelling, description) = self.described;
        Directory::new(self.tensors, spelling, Container::HuggingFace).plan(description)
    }
}

/// Tensors listed in a header; their data start at byte `data_start`.
fn entries(metadata: &Metadata, data_start: u64) -> impl Iterator<Item = (String, Entry)> {
    metadata.tensors().into_iter().map(move |(name, info)| (name, entry(info, data_start)))
}

fn entry(info: &TensorInfo, data_start: u64) -> Entry {
    let element = match info.dtype {
        Dtype::F32 => Ok(ElementType::F32),
        Dtype::F16 => Ok(ElementType::F16),
        Dtype::BF16 => Ok(ElementType::BF16),
        Dtype::I32 => Ok(ElementType::I32),
        Dtype::I64 => Ok(ElementType::I64),
        other => Err(format!("{other:?}")),
    };
    let shape = info.shape.iter().map(|&n| n as u64).collect();
    Entry { shape, element, start: data_start + info.data_offsets.0 as u64, taken: 0 }
}
