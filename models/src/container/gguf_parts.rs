//! Split GGUF models, as written by `gguf-split`: `NAME-00001-of-00003.gguf` and so on.
//!
//! The first file has the model's settings; each has a directory of its own tensors.

use std::{io::Read, path::Path};

use super::{
    gguf::GgufHeader,
    plan::Planned,
    stream::{Describes, Header, Progress, read_header},
};
use crate::{error::LoadError, family::description::Description};

/// Headers of a split model, treated as one concatenated file.
pub(crate) struct GgufParts {
    /// Header of the first file, with the tensors of all files added so far.
    whole: GgufHeader,
    /// End offset of each file in the concatenation.
    ends: Vec<u64>,
}

/// Names of all files of the split GGUF model that includes `path`; `None` if the name is not that of a part.
#[must_use]
pub fn gguf_part_names(path: &Path) -> Option<Vec<String>> {
    let stem = path.file_stem()?.to_str()?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (name, number) = rest.rsplit_once('-')?;
    let is_number = |digits: &str| digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(number) || !is_number(count) {
        return None;
    }
    let parts: u32 = count.parse().ok()?;
    Some((1..=parts).map(|number| format!("{name}-{number:05}-of-{count}.gguf")).collect())
}

/// Parses the header of a file of `bytes` bytes.
fn header(part: &mut impl Read, bytes: u64) -> Result<GgufHeader, LoadError> {
    let mut header = GgufHeader::new(Some(bytes));
    read_header(&mut header, part)?;
    Ok(header)
}

impl GgufParts {
    /// Starts with the first of `parts` files, whose size is `bytes`.
    pub(crate) fn new(first: &mut impl Read, bytes: u64, parts: usize) -> Result<Self, LoadError> {
        let mut whole = header(first, bytes)?;
        whole.join(parts)?;
        Ok(Self { whole, ends: vec![bytes] })
    }

    /// Adds the next file, whose size is `bytes`.
    pub(crate) fn add(&mut self, part: &mut impl Read, bytes: u64) -> Result<(), LoadError> {
        let before = self.total_bytes();
        self.whole.adopt(header(part, bytes)?, before)?;
        self.ends.push(before + bytes);
        Ok(())
    }

    /// Total size of all files in bytes.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// Header that is already complete: bytes between tensors, including other headers, are skipped.
impl Header for GgufParts {
    fn push(&mut self, _: &mut &[u8]) -> Result<Progress, LoadError> {
        Ok(Progress::Complete)
    }

    fn position(&self) -> u64 {
        0
    }

    fn truncated(&self) -> LoadError {
        LoadError::Truncated { what: "model".to_owned(), offset: 0, needed: self.total_bytes(), remaining: 0 }
    }
}

impl<D: Description> Describes<D> for GgufParts {
    fn plan(self) -> Result<(D, Vec<Planned>), LoadError> {
        self.whole.plan_until(&self.ends)
    }
}
