//! Detection of a file's format by its first bytes: GGUF, or a checkpoint in one file.

use super::{
    gguf::GgufHeader,
    plan::Planned,
    safetensors::SafetensorsHeader,
    stream::{Describes, Header, Progress},
};
use crate::{error::LoadError, family::description::Description};

/// Number of bytes that determine the format: the length of a safetensors header as a u64, and its opening brace. The
/// magic bytes of GGUF would be the length of a header of more than a gigabyte.
const TELLING_BYTES: usize = 9;

/// Header of a file in either format.
pub(crate) enum FileHeader<D> {
    /// Format still unknown, with the first bytes of the file.
    Unknown {
        beginning: Vec<u8>,
        total_bytes: Option<u64>,
    },
    Gguf(Box<GgufHeader>),
    Safetensors(SafetensorsHeader<D>),
}

impl<D: Description> FileHeader<D> {
    /// Creates a header for a file of `total_bytes`, if its length is known.
    pub(crate) fn new(total_bytes: Option<u64>) -> Self {
        Self::Unknown { beginning: Vec::new(), total_bytes }
    }

    /// Header for a file with these first bytes. A file in neither format fails as GGUF.
    fn told_by(beginning: &[u8], total_bytes: Option<u64>) -> Self {
        match beginning.get(TELLING_BYTES - 1) {
            Some(b'{') if !beginning.starts_with(b"GGUF") => {
                Self::Safetensors(SafetensorsHeader::with_settings_within(total_bytes))
            }
            _ => Self::Gguf(Box::new(GgufHeader::new(total_bytes))),
        }
    }
}

impl<D: Description> Header for FileHeader<D> {
    fn push(&mut self, input: &mut &[u8]) -> Result<Progress, LoadError> {
        match self {
            Self::Gguf(header) => header.push(input),
            Self::Safetensors(header) => header.push(input),
            Self::Unknown { beginning, total_bytes } => {
                let (more, rest) = input.split_at((TELLING_BYTES - beginning.len()).min(input.len()));
                beginning.extend_from_slice(more);
                *input = rest;
                if beginning.len() < TELLING_BYTES {
                    return Ok(Progress::Incomplete);
                }
                let (mut known, beginning) = (Self::told_by(beginning, *total_bytes), std::mem::take(beginning));
                let progress = known.push(&mut &beginning[..])?;
                *self = known;
                match progress {
                    Progress::Complete => Ok(progress),
                    Progress::Incomplete => self.push(input),
                }
            }
        }
    }

    fn position(&self) -> u64 {
        match self {
            Self::Unknown { beginning, .. } => beginning.len() as u64,
            Self::Gguf(header) => header.position(),
            Self::Safetensors(header) => header.position(),
        }
    }

    fn truncated(&self) -> LoadError {
        match self {
            Self::Unknown { beginning, total_bytes } => {
                let mut header = Self::told_by(beginning, *total_bytes);
                match header.push(&mut &beginning[..]) {
                    Ok(_) => header.truncated(),
                    Err(error) => error,
                }
            }
            Self::Gguf(header) => header.truncated(),
            Self::Safetensors(header) => header.truncated(),
        }
    }
}

impl<D: Description> Describes<D> for FileHeader<D> {
    fn plan(self) -> Result<(D, Vec<Planned>), LoadError> {
        match self {
            Self::Unknown { .. } => Err(self.truncated()),
            Self::Gguf(header) => header.plan(),
            Self::Safetensors(header) => header.plan(),
        }
    }
}
