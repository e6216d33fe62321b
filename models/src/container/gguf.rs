//! GGUF container: header, metadata and tensor directory of an untrusted file.
//!
//! Specification: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. All integers are little-endian:
//!
//! ```text
//! "GGUF"  version u32  tensor count u64  metadata count u64
//! metadata: key string, type u32, value         string: length u64, bytes
//! tensors:  name string, dimension count u32, dimensions u64… (innermost first), type u32, offset u64
//! padding to the alignment, then the tensors' data, each at its offset from here
//! ```
//!
//! The bytes arrive in pieces that may end anywhere. They are parsed in items: a metadata entry without its array or
//! long text, the head of an array, the length of an array's element, a directory entry. A cut item is kept (at most 70
//! kB) and parsed again when its missing bytes arrive, at most once per field. Arrays and long texts are skipped.
//! Nothing is allocated from a length or count before the file has delivered that many bytes.

use std::collections::HashMap;

use super::{
    element::ElementType,
    gguf_fields::{Claim, Fields, Stop, check_magic, check_version, scalar_size},
    other_kind,
    plan::{Directory, Entry, Planned},
    stream::{Describes, Header, Progress},
};
use crate::{
    error::LoadError,
    family::{
        description::Description,
        gguf_settings::{CHAT_TEMPLATE, Metadata, Value},
        weights::Container,
    },
};

/// Longest text value to be stored; longer ones are skipped.
const LONGEST_TEXT: u64 = 4096;
/// Longest chat template to be stored, in bytes. Published ones have up to 20 kB.
const LONGEST_TEMPLATE: u64 = 48 << 10;
/// Maximum number of dimensions of a tensor.
const MOST_DIMENSIONS: u32 = 4;
/// Maximum nesting depth of arrays.
const DEEPEST_ARRAY: usize = 4;
/// Maximum alignment of tensor data, in bytes.
const LARGEST_ALIGNMENT: u64 = 1 << 16;
/// Type code of a string.
const TEXT: u32 = 8;
/// Type code of an array.
const ARRAY: u32 = 9;

/// Parser for the part of a GGUF file before its tensors.
pub(crate) struct GgufHeader {
    metadata: Metadata,
    /// Entries of the tensor directory. Offsets are relative to the data until the directory is complete, then to the
    /// file.
    tensors: HashMap<String, Entry>,
    total_bytes: Option<u64>,
    expects: Item,
    metadata_left: u64,
    tensors_left: u64,
    /// Key of the metadata entry in progress.
    key: String,
    /// Arrays in progress whose elements have individual lengths, outermost first.
    arrays: Vec<Array>,
    /// Bytes being skipped, and the number still to come.
    skipping: Option<(Claim, u64)>,
    /// Beginning of an item that was cut.
    cut: Vec<u8>,
    /// Bytes that the cut item lacks.
    lacks: Option<Claim>,
    /// Number of bytes consumed, excluding `cut`.
    position: u64,
}

/// Kind of the next item.
#[derive(Debug, Clone, Copy)]
enum Item {
    Magic,
    Version,
    Counts,
    Entries,
}

struct Array {
    element: u32,
    left: u64,
    /// Minimum size of the array's elements.
    claim: Claim,
}

impl GgufHeader {
    /// Creates a parser for a file of `total_bytes`, if its length is known.
    pub(crate) fn new(total_bytes: Option<u64>) -> Self {
        Self {
            metadata: HashMap::new(),
            tensors: HashMap::new(),
            total_bytes,
            expects: Item::Magic,
            metadata_left: 0,
            tensors_left: 0,
            key: String::new(),
            arrays: Vec::new(),
            skipping: None,
            cut: Vec::new(),
            lacks: None,
            position: 0,
        }
    }

    /// Parses the next item from `cut` and `input`. Returns false if all of `input` is consumed and more is needed.
    fn next_item(&mut self, input: &mut &[u8]) -> Result<bool, LoadError> {
        loop {
            if let Some(lacks) = &self.lacks {
                // Take only bytes that are known to belong to the item.
                let wanted = lacks.offset.saturating_add(lacks.needed) - self.position();
                let (more, rest) = input.split_at(usize::try_from(wanted).map_or(input.len(), |n| n.min(input.len())));
                self.cut.extend_from_slice(more);
                *input = rest;
                if (more.len() as u64) < wanted {
                    return Ok(false);
                }
                self.lacks = None;
            }
            let cut = std::mem::take(&mut self.cut);
            let mut fields = Fields::new(if cut.is_empty() { input } else { &cut }, self.position);
            match self.item(&mut fields) {
                Ok(()) => {
                    let read = fields.read;
                    self.position += read as u64;
                    if cut.is_empty() {
                        *input = &input[read..];
                    }
                    return Ok(true);
                }
                Err(Stop::Refused(error)) => return Err(error),
                Err(Stop::Incomplete(claim)) => {
                    self.believe(&claim)?;
                    self.cut = cut;
                    if self.cut.is_empty() {
                        self.cut.extend_from_slice(input);
                        *input = &[];
                    }
                    self.lacks = Some(claim);
                }
            }
        }
    }

    /// Fails if the file is known to end before the claimed bytes do.
    fn believe(&self, claim: &Claim) -> Result<(), LoadError> {
        match self.total_bytes {
            Some(total) if claim.offset.saturating_add(claim.needed) > total => Err(claim.truncated(total)),
            _ => Ok(()),
        }
    }

    fn is_complete(&self) -> bool {
        let counts = matches!(self.expects, Item::Entries) && self.metadata_left == 0 && self.tensors_left == 0;
        counts && self.arrays.is_empty()
    }

    /// Parses one item and applies it, completely or not at all.
    fn item(&mut self, fields: &mut Fields<'_>) -> Result<(), Stop> {
        match self.expects {
            Item::Magic => {
                let magic = fields.bytes("magic")?;
                check_magic(magic)?;
                self.expects = Item::Version;
            }
            Item::Version => {
                let version = fields.u32("version")?;
                check_version(version)?;
                self.expects = Item::Counts;
            }
            Item::Counts => {
                let (tensors, metadata) = (fields.u64("tensor count")?, fields.u64("metadata count")?);
                // Each entry takes at least this many bytes, so a larger count cannot be true.
                self.believe(&fields.claim("tensor directory", tensors.saturating_mul(8 + 4 + 8 + 4 + 8)))?;
                self.believe(&fields.claim("metadata", metadata.saturating_mul(8 + 4 + 1)))?;
                (self.tensors_left, self.metadata_left) = (tensors, metadata);
                self.expects = Item::Entries;
            }
            Item::Entries if !self.arrays.is_empty() => self.array_element(fields)?,
            Item::Entries if self.metadata_left > 0 => self.metadata_entry(fields)?,
            Item::Entries => self.directory_entry(fields)?,
        }
        Ok(())
    }

    fn metadata_entry(&mut self, fields: &mut Fields<'_>) -> Result<(), Stop> {
        let key = fields.name("metadata key")?;
        let code = fields.u32("metadata type")?;
        let mut skip = None;
        let mut array = None;
        let value = match code {
            TEXT => match fields.u64(&key)? {
                len if len <= longest(&key) => Value::Text(fields.text(&key, len)?),
                len => {
                    skip = Some(fields.claim(&key, len));
                    Value::Skipped
                }
            },
            ARRAY => {
                array = Some((fields.u32(&key)?, fields.u64(&key)?));
                Value::Skipped
            }
            code => fields.scalar(&key, code)?,
        };
        // From here on the item is complete.
        self.key.clone_from(&key);
        if self.metadata.insert(key.clone(), value).is_some() {
            return Err(LoadError::Duplicate { name: key }.into());
        }
        self.metadata_left -= 1;
        match array {
            Some((element, count)) => self.enter_array(fields, element, count)?,
            None => self.skip(skip)?,
        }
        Ok(())
    }

    /// Skips `count` elements: at once if they have a fixed size, otherwise one by one.
    fn enter_array(&mut self, fields: &Fields<'_>, element: u32, count: u64) -> Result<(), LoadError> {
        if self.arrays.len() >= DEEPEST_ARRAY {
            return Err(LoadError::OverLimit {
                what: format!("nesting of {}", self.key),
                found: self.arrays.len() as u64 + 1,
                limit: DEEPEST_ARRAY as u64,
            });
        }
        match scalar_size(element) {
            Some(size) => self.skip(Some(fields.claim(&self.key, count.saturating_mul(size)))),
            None if element == TEXT || element == ARRAY => {
                // Every element takes at least the bytes of its length.
                let claim = fields.claim(&self.key, count.saturating_mul(8));
                self.believe(&claim)?;
                self.arrays.push(Array { element, left: count, claim });
                self.leave_arrays();
                Ok(())
            }
            None => Err(LoadError::MetadataTypeCode { key: self.key.clone(), code: element }),
        }
    }

    fn array_element(&mut self, fields: &mut Fields<'_>) -> Result<(), Stop> {
        let Some(array) = self.arrays.last() else { return Ok(()) };
        if array.element == TEXT {
            let len = fields.u64(&self.key)?;
            if !fields.skip(len) {
                self.skip(Some(fields.claim(&self.key, len)))?;
            }
            self.count_element();
        } else {
            let (element, count) = (fields.u32(&self.key)?, fields.u64(&self.key)?);
            self.count_element();
            self.enter_array(fields, element, count)?;
        }
        self.leave_arrays();
        Ok(())
    }

    fn count_element(&mut self) {
        if let Some(array) = self.arrays.last_mut() {
            array.left -= 1;
        }
    }

    fn leave_arrays(&mut self) {
        while self.arrays.last().is_some_and(|array| array.left == 0) {
            self.arrays.pop();
        }
    }

    fn skip(&mut self, claim: Option<Claim>) -> Result<(), LoadError> {
        if let Some(claim) = claim {
            self.believe(&claim)?;
            let left = claim.needed;
            self.skipping = Some((claim, left));
        }
        Ok(())
    }

    fn directory_entry(&mut self, fields: &mut Fields<'_>) -> Result<(), Stop> {
        let name = fields.name("tensor name")?;
        let dimensions = fields.u32("dimension count")?;
        if dimensions > MOST_DIMENSIONS {
            return Err(LoadError::OverLimit {
                what: "number of tensor dimensions".to_owned(),
                found: dimensions.into(),
                limit: MOST_DIMENSIONS.into(),
            }
            .into());
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(fields.u64("dimension")?);
        }
        shape.reverse();
        let code = fields.u32("tensor type")?;
        let element = ElementType::from_gguf_code(code).ok_or_else(|| format!("GGUF code {code}"));
        let start = fields.u64("tensor offset")?;
        if self.tensors.insert(name.clone(), Entry { shape, element, start, taken: 0 }).is_some() {
            return Err(LoadError::Duplicate { name }.into());
        }
        self.tensors_left -= 1;
        Ok(())
    }

    /// Alignment of tensor data, in bytes.
    fn alignment(&self) -> Result<u64, LoadError> {
        match self.metadata.get("general.alignment") {
            None => Ok(32),
            Some(Value::Unsigned(n)) if n.is_power_of_two() && *n <= LARGEST_ALIGNMENT => Ok(*n),
            Some(other) => Err(LoadError::InvalidSetting {
                key: "general.alignment".to_owned(),
                found: other.to_string(),
                expected: "a power of two up to 65536",
            }),
        }
    }

    /// Rejects gaps between tensors that are larger than alignment padding: a tensor's declared type or shape must be
    /// wrong. `ends` are the ends of the model's files, if known. A file ends without padding, and the next one begins
    /// with its header.
    fn refuse_gaps(&self, plan: &[Planned], ends: &[u64]) -> Result<(), LoadError> {
        let alignment = self.alignment()?;
        let mut order: Vec<&Planned> = plan.iter().collect();
        order.sort_by_key(|tensor| tensor.start);
        let nexts = order.iter().skip(1).map(|tensor| Some(tensor.start)).chain([None]);
        let mut end = 0;
        for (tensor, next) in order.iter().zip(nexts) {
            // Overlapping tensors are rejected later.
            end = end.max(tensor.start.saturating_add(tensor.size));
            let file_end = ends.iter().copied().find(|&file_end| file_end >= end);
            let bytes = next.into_iter().chain(file_end).min().map_or(0, |next| next.saturating_sub(end));
            if bytes >= alignment {
                return Err(LoadError::Gap { name: tensor.name.clone(), bytes });
            }
        }
        Ok(())
    }

    /// Converts offsets within the data to offsets within the file.
    fn locate_tensors(&mut self) -> Result<(), LoadError> {
        let alignment = self.alignment()?;
        // Cannot overflow, because this many bytes have been read.
        let data_start = self.position.next_multiple_of(alignment);
        for entry in self.tensors.values_mut() {
            entry.start = entry.start.saturating_add(data_start);
        }
        Ok(())
    }
}

impl Header for GgufHeader {
    fn position(&self) -> u64 {
        self.position + self.cut.len() as u64
    }

    fn push(&mut self, input: &mut &[u8]) -> Result<Progress, LoadError> {
        loop {
            if let Some((_, left)) = &mut self.skipping {
                let count = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *input = &input[count..];
                self.position += count as u64;
                *left -= count as u64;
                if *left > 0 {
                    return Ok(Progress::Incomplete);
                }
                self.skipping = None;
            }
            if self.is_complete() {
                self.locate_tensors()?;
                return Ok(Progress::Complete);
            }
            if !self.next_item(input)? {
                return Ok(Progress::Incomplete);
            }
        }
    }

    fn truncated(&self) -> LoadError {
        let end = self.position();
        // The claim of an array is more informative than that of the element at which the file ends.
        let array = self.arrays.first().map(|array| &array.claim);
        let array = array.filter(|claim| claim.needed > end.saturating_sub(claim.offset));
        let skipped = self.skipping.as_ref().map(|(claim, _)| claim);
        let magic = Claim { what: "magic".to_owned(), offset: 0, needed: 4 };
        array.or(skipped).or(self.lacks.as_ref()).unwrap_or(&magic).truncated(end)
    }
}

impl<D: Description> Describes<D> for GgufHeader {
    fn plan(self) -> Result<(D, Vec<Planned>), LoadError> {
        let ends: Vec<u64> = self.total_bytes.into_iter().collect();
        self.plan_until(&ends)
    }
}

/// Conversion of a complete header into a model description.
impl GgufHeader {
    /// Checks that this is the first of `parts` files, and removes the split settings.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn join(&mut self, parts: usize) -> Result<(), LoadError> {
        let (count, number) = (self.metadata.remove("split.count"), self.metadata.remove("split.no"));
        match (count, number) {
            (Some(Value::Unsigned(count)), None | Some(Value::Unsigned(0))) if count == parts as u64 => Ok(()),
            (count, _) => Err(LoadError::InvalidSetting {
                key: "split.count".to_owned(),
                found: count.map_or("absent".to_owned(), |count| count.to_string()),
                expected: "the number of files that the file's name says, in the first of them",
            }),
        }
    }

    /// Adds the tensors of another file of the model, whose data start after `before` bytes.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn adopt(&mut self, other: Self, before: u64) -> Result<(), LoadError> {
        for (name, mut entry) in other.tensors {
            entry.start = entry.start.saturating_add(before);
            if self.tensors.insert(name.clone(), entry).is_some() {
                return Err(LoadError::Duplicate { name });
            }
        }
        Ok(())
    }

    /// Variant of [`Describes::plan`] for files that end at `ends`.
    pub(super) fn plan_until<D: Description>(mut self, ends: &[u64]) -> Result<(D, Vec<Planned>), LoadError> {
        let shape_of = |name: &str| self.tensors.get(name).map(|entry| entry.shape.as_slice());
        if let Some(&Value::Unsigned(parts)) = self.metadata.get("split.count")
            && parts > 1
        {
            return Err(LoadError::SplitGguf { parts });
        }
        if let Some(Value::Text(kind)) = self.metadata.get("general.type") {
            other_kind::refuse_gguf_type(kind)?;
        }
        let (spelling, description) = D::of_gguf(&self.metadata, &shape_of)?;
        let directory = Directory::new(std::mem::take(&mut self.tensors), spelling, Container::Gguf);
        let (description, plan) = directory.plan(description)?;
        self.refuse_gaps(&plan, ends)?;
        Ok((description, plan))
    }
}

/// Longest text to be stored for a key, in bytes.
fn longest(key: &str) -> u64 {
    if key == CHAT_TEMPLATE { LONGEST_TEMPLATE } else { LONGEST_TEXT }
}
