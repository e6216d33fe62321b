//! A GGUF model that is split into several files, as `gguf-split` makes them: `NAME-00001-of-00003.gguf` and so on.
//!
//! The first has the model's settings; each has a directory of its own tensors.

use std::{io::Read, path::Path};

use super::{
    gguf::GgufHeader,
    plan::Planned,
    stream::{Describes, Header, Progress, read_header},
};
use crate::{error::LoadError, family::description::Description};

/// The files of a model, as if they were one behind the other.
pub(crate) struct GgufParts {
    /// The first one's, with the tensors of all so far.
    whole: GgufHeader,
    /// Where each of them ends.
    ends: Vec<u64>,
}

/// The names of all files of a GGUF model of which `path` is one; none if it is whole by its name.
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

/// Reads what a file of `bytes` says before its tensors.
fn header(part: &mut impl Read, bytes: u64) -> Result<GgufHeader, LoadError> {
    let mut header = GgufHeader::new(Some(bytes));
    read_header(&mut header, part)?;
    Ok(header)
}

impl GgufParts {
    /// Begins with the first of `parts` files, which has so many bytes.
    pub(crate) fn new(first: &mut impl Read, bytes: u64, parts: usize) -> Result<Self, LoadError> {
        let mut whole = header(first, bytes)?;
        whole.join(parts)?;
        Ok(Self { whole, ends: vec![bytes] })
    }

    /// Adds the next.
    pub(crate) fn add(&mut self, part: &mut impl Read, bytes: u64) -> Result<(), LoadError> {
        let before = self.total_bytes();
        self.whole.adopt(header(part, bytes)?, before)?;
        self.ends.push(before + bytes);
        Ok(())
    }

    /// Bytes of all.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// All headers have been read: what is between tensors, headers too, is passed over.
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
