//! Fields of a GGUF file, parsed from bytes that may end anywhere.

use super::other_kind;
use crate::{error::LoadError, family::gguf_settings::Value};

/// Longest key or tensor name, in bytes. The specification says 65535 for keys.
const LONGEST_NAME: u64 = 65_535;

/// Checks the first four bytes of a GGUF file.
///
/// # Errors
/// [`LoadError::OtherKind`] or [`LoadError::NotGguf`].
pub(super) fn check_magic(magic: [u8; 4]) -> Result<(), LoadError> {
    if magic == *b"GGUF" {
        return Ok(());
    }
    other_kind::refuse(&magic)?;
    Err(LoadError::NotGguf { found: magic })
}

/// Checks the version after these bytes, read as little-endian.
///
/// # Errors
/// [`LoadError::BigEndian`] or [`LoadError::GgufVersion`].
pub(super) fn check_version(version: u32) -> Result<(), LoadError> {
    match version {
        2 | 3 => Ok(()),
        _ if matches!(version.swap_bytes(), 2 | 3) => Err(LoadError::BigEndian),
        _ => Err(LoadError::GgufVersion { found: version }),
    }
}

/// Range of bytes that a file claims to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// Description of the bytes, for errors.
    pub(super) what: String,
    /// Offset of the first byte in the file.
    pub(super) offset: u64,
    /// Length of the range in bytes.
    pub(super) needed: u64,
}

impl Claim {
    /// Error for a file that ends at `end`.
    pub(super) fn truncated(&self, end: u64) -> LoadError {
        let Self { what, offset, needed } = self;
        let remaining = end.saturating_sub(*offset);
        LoadError::Truncated { what: what.clone(), offset: *offset, needed: *needed, remaining }
    }
}

/// Reason why a field could not be read.
#[derive(Debug)]
pub(super) enum Stop {
    /// The bytes end within the field.
    Incomplete(Claim),
    Refused(LoadError),
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Self {
        Self::Refused(error)
    }
}

/// Reader of consecutive fields. Nothing is allocated for a field before it is complete.
pub(super) struct Fields<'b> {
    bytes: &'b [u8],
    /// Offset of `bytes` in the file.
    base: u64,
    /// Number of bytes read so far.
    pub(super) read: usize,
}

impl<'b> Fields<'b> {
    pub(super) fn new(bytes: &'b [u8], base: u64) -> Self {
        Self { bytes, base, read: 0 }
    }

    /// Offset of the next field in the file.
    pub(super) fn position(&self) -> u64 {
        self.base + self.read as u64
    }

    pub(super) fn claim(&self, what: &str, needed: u64) -> Claim {
        Claim { what: what.to_owned(), offset: self.position(), needed }
    }

    fn slice(&mut self, what: &str, len: u64) -> Result<&'b [u8], Stop> {
        let rest = &self.bytes[self.read..];
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(field) => {
                self.read += field.len();
                Ok(field)
            }
            None => Err(Stop::Incomplete(self.claim(what, len))),
        }
    }

    /// Skips a field if it is complete, and returns whether it is.
    pub(super) fn skip(&mut self, len: u64) -> bool {
        let there = len <= (self.bytes.len() - self.read) as u64;
        self.read += if there { len as usize } else { 0 };
        there
    }

    pub(super) fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.slice(what, N as u64)?);
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Stop> {
        Ok(u32::from_le_bytes(self.bytes(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Stop> {
        Ok(u64::from_le_bytes(self.bytes(what)?))
    }

    /// Reads a key or the name of a tensor.
    pub(super) fn name(&mut self, what: &str) -> Result<String, Stop> {
        let len = self.u64(what)?;
        if len > LONGEST_NAME {
            let what = format!("length of {what}");
            return Err(LoadError::OverLimit { what, found: len, limit: LONGEST_NAME }.into());
        }
        self.text(what, len)
    }

    /// Reads a string; `len` must be bounded by the caller.
    pub(super) fn text(&mut self, what: &str, len: u64) -> Result<String, Stop> {
        let offset = self.position();
        let bytes = self.slice(what, len)?;
        let text = str::from_utf8(bytes).map_err(|_| LoadError::NotUtf8 { what: what.to_owned(), offset })?;
        Ok(text.to_owned())
    }

    /// Reads a number or boolean of the type with this code.
    pub(super) fn scalar(&mut self, key: &str, code: u32) -> Result<Value, Stop> {
        Ok(match code {
            0 => Value::Unsigned(u8::from_le_bytes(self.bytes(key)?).into()),
            1 => Value::Signed(i8::from_le_bytes(self.bytes(key)?).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.bytes(key)?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.bytes(key)?).into()),
            4 => Value::Unsigned(u32::from_le_bytes(self.bytes(key)?).into()),
            5 => Value::Signed(i32::from_le_bytes(self.bytes(key)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.bytes(key)?).into()),
            7 => match self.bytes::<1>(key)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [found] => {
                    let (key, found) = (key.to_owned(), found.to_string());
                    return Err(LoadError::InvalidSetting { key, found, expected: "0 or 1" }.into());
                }
            },
            10 => Value::Unsigned(u64::from_le_bytes(self.bytes(key)?)),
            11 => Value::Signed(i64::from_le_bytes(self.bytes(key)?)),
            12 => Value::Float(f64::from_le_bytes(self.bytes(key)?)),
            code => return Err(LoadError::MetadataTypeCode { key: key.to_owned(), code }.into()),
        })
    }
}

/// Size in bytes of a number or boolean of the type with this code.
pub(super) fn scalar_size(code: u32) -> Option<u64> {
    match code {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}
