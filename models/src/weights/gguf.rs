//! The GGUF container: header, metadata and tensor directory of a file that is not trusted.
//!
//! Specification: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. All integers are
//! little-endian:
//!
//! ```text
//! "GGUF"  version u32  tensor count u64  metadata count u64
//! metadata: key string, type u32, value         string: length u64, bytes
//! tensors:  name string, dimension count u32, dimensions u64… (innermost first), type u32, offset u64
//! padding to the alignment, then the tensors' data, each at its offset from here
//! ```
//!
//! Nothing is allocated by a length before the file is known to hold that many bytes.

use std::{
    collections::HashMap,
    io::{BufReader, Read, Seek, SeekFrom},
};

use candle_core::quantized::GgmlDType;

use crate::error::LoadError;

/// Longest key or tensor name, in bytes. The specification says 65535 for keys.
const LONGEST_NAME: u64 = 65_535;
/// Longest text value that is kept; longer ones (chat templates) are skipped.
const LONGEST_TEXT: u64 = 4096;
/// Most dimensions of a tensor.
const MOST_DIMENSIONS: u32 = 4;
/// Deepest nesting of arrays.
const DEEPEST_ARRAY: u32 = 4;
/// Largest alignment of tensor data, in bytes.
const LARGEST_ALIGNMENT: u64 = 1 << 16;

/// An opened GGUF file.
pub(super) struct Gguf<'r, R> {
    reader: Reader<'r, R>,
    pub(super) metadata: HashMap<String, Value>,
    pub(super) tensors: HashMap<String, TensorInfo>,
    data_start: u64,
}

/// A metadata value. Arrays are only counted: none of those that matter here is an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Skipped,
}

/// Where a tensor is and what it looks like.
#[derive(Debug, Clone)]
pub(super) struct TensorInfo {
    /// Outermost dimension first.
    pub(super) shape: Vec<u64>,
    type_code: u32,
    offset: u64,
}

impl<'r, R: Read + Seek> Gguf<'r, R> {
    /// Reads everything before the tensor data.
    pub(super) fn open(reader: &'r mut R) -> Result<Self, LoadError> {
        let mut reader = Reader::new(reader)?;
        let magic = reader.bytes("magic")?;
        if magic != *b"GGUF" {
            return Err(LoadError::NotGguf { found: magic });
        }
        let version = reader.u32("version")?;
        if version != 2 && version != 3 {
            return Err(LoadError::GgufVersion { found: version });
        }
        let tensor_count = reader.u64("tensor count")?;
        let metadata_count = reader.u64("metadata count")?;
        // Each entry takes at least this many bytes, so a larger count cannot be true.
        reader.demand("tensor directory", tensor_count.saturating_mul(8 + 4 + 8 + 4 + 8))?;
        reader.demand("metadata", metadata_count.saturating_mul(8 + 4 + 1))?;

        let mut metadata = HashMap::new();
        for _ in 0..metadata_count {
            let key = reader.name("metadata key")?;
            let code = reader.u32("metadata type")?;
            let value = reader.value(&key, code, 0)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(LoadError::Duplicate { name: key });
            }
        }
        let mut tensors = HashMap::new();
        for _ in 0..tensor_count {
            let name = reader.name("tensor name")?;
            let info = reader.tensor_info()?;
            if tensors.insert(name.clone(), info).is_some() {
                return Err(LoadError::Duplicate { name });
            }
        }
        let alignment = match metadata.get("general.alignment") {
            None => 32,
            Some(Value::Unsigned(n)) if n.is_power_of_two() && *n <= LARGEST_ALIGNMENT => *n,
            Some(other) => {
                return Err(LoadError::InvalidSetting {
                    key: "general.alignment".to_owned(),
                    found: format!("{other:?}"),
                    expected: "a power of two up to 65536",
                });
            }
        };
        // Cannot overflow: the position is within a file.
        let data_start = reader.position.next_multiple_of(alignment);
        Ok(Self { reader, metadata, tensors, data_start })
    }

    /// The bytes of a tensor with `elements` elements of `dtype`, in a buffer aligned to 8 bytes, and their
    /// number.
    pub(super) fn data(
        &mut self,
        name: &str,
        info: &TensorInfo,
        dtype: GgmlDType,
        elements: usize,
    ) -> Result<(Vec<u64>, usize), LoadError> {
        let needed = (elements / dtype.block_size()) as u64 * dtype.type_size() as u64;
        let start = self.data_start.saturating_add(info.offset);
        let remaining = self.reader.len.saturating_sub(start);
        if needed > remaining {
            let what = format!("data of tensor {name}");
            return Err(LoadError::Truncated { what, offset: start, needed, remaining });
        }
        let size = usize::try_from(needed).map_err(|_| LoadError::OverLimit {
            what: format!("size of tensor {name}"),
            found: needed,
            limit: usize::MAX as u64,
        })?;
        let mut buffer = vec![0u64; size.div_ceil(8)];
        self.reader.inner.seek(SeekFrom::Start(self.reader.base + start))?;
        self.reader.inner.read_exact(&mut bytemuck::cast_slice_mut(&mut buffer)[..size])?;
        Ok((buffer, size))
    }
}

impl TensorInfo {
    /// The element type, if weights of it can be multiplied.
    pub(super) fn dtype(&self, name: &str) -> Result<GgmlDType, LoadError> {
        let dtype = match self.type_code {
            0 => GgmlDType::F32,
            1 => GgmlDType::F16,
            2 => GgmlDType::Q4_0,
            3 => GgmlDType::Q4_1,
            6 => GgmlDType::Q5_0,
            7 => GgmlDType::Q5_1,
            8 => GgmlDType::Q8_0,
            10 => GgmlDType::Q2K,
            11 => GgmlDType::Q3K,
            12 => GgmlDType::Q4K,
            13 => GgmlDType::Q5K,
            14 => GgmlDType::Q6K,
            30 => GgmlDType::BF16,
            code => {
                return Err(LoadError::TensorType { name: name.to_owned(), dtype: format!("GGUF code {code}") });
            }
        };
        Ok(dtype)
    }
}

/// A reader that knows where it is and how much there is.
struct Reader<'r, R> {
    inner: BufReader<&'r mut R>,
    /// Where the file begins in the underlying reader.
    base: u64,
    /// Bytes from `base` to the end.
    len: u64,
    /// Bytes read or skipped since `base`.
    position: u64,
}

impl<'r, R: Read + Seek> Reader<'r, R> {
    fn new(reader: &'r mut R) -> Result<Self, LoadError> {
        let base = reader.stream_position()?;
        let end = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(base))?;
        let len = end.saturating_sub(base);
        Ok(Self { inner: BufReader::new(reader), base, len, position: 0 })
    }

    /// Fails unless `needed` bytes remain.
    fn demand(&self, what: &str, needed: u64) -> Result<(), LoadError> {
        let remaining = self.len - self.position;
        if needed <= remaining {
            return Ok(());
        }
        Err(LoadError::Truncated { what: what.to_owned(), offset: self.position, needed, remaining })
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], LoadError> {
        self.demand(what, N as u64)?;
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.position += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self, what: &str) -> Result<u32, LoadError> {
        Ok(u32::from_le_bytes(self.bytes(what)?))
    }

    fn u64(&mut self, what: &str) -> Result<u64, LoadError> {
        Ok(u64::from_le_bytes(self.bytes(what)?))
    }

    fn skip(&mut self, what: &str, count: u64) -> Result<(), LoadError> {
        self.demand(what, count)?;
        // No more bytes remain than an i64 counts: `len` came from a seek.
        self.inner.seek_relative(count as i64)?;
        self.position += count;
        Ok(())
    }

    fn name(&mut self, what: &str) -> Result<String, LoadError> {
        let len = self.u64(what)?;
        if len > LONGEST_NAME {
            return Err(LoadError::OverLimit { what: format!("length of {what}"), found: len, limit: LONGEST_NAME });
        }
        self.text(what, len)
    }

    /// `len` is small.
    fn text(&mut self, what: &str, len: u64) -> Result<String, LoadError> {
        self.demand(what, len)?;
        let offset = self.position;
        let mut bytes = vec![0; len as usize];
        self.inner.read_exact(&mut bytes)?;
        self.position += len;
        String::from_utf8(bytes).map_err(|_| LoadError::NotUtf8 { what: what.to_owned(), offset })
    }

    fn value(&mut self, key: &str, code: u32, depth: u32) -> Result<Value, LoadError> {
        let value = match code {
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
                    return Err(LoadError::InvalidSetting {
                        key: key.to_owned(),
                        found: found.to_string(),
                        expected: "0 or 1",
                    });
                }
            },
            8 => match self.u64(key)? {
                len if len <= LONGEST_TEXT => Value::Text(self.text(key, len)?),
                len => {
                    self.skip(key, len)?;
                    Value::Skipped
                }
            },
            9 => {
                self.skip_array(key, depth)?;
                Value::Skipped
            }
            10 => Value::Unsigned(u64::from_le_bytes(self.bytes(key)?)),
            11 => Value::Signed(i64::from_le_bytes(self.bytes(key)?)),
            12 => Value::Float(f64::from_le_bytes(self.bytes(key)?)),
            code => {
                return Err(LoadError::MetadataTypeCode { key: key.to_owned(), code });
            }
        };
        Ok(value)
    }

    fn skip_array(&mut self, key: &str, depth: u32) -> Result<(), LoadError> {
        if depth >= DEEPEST_ARRAY {
            return Err(LoadError::OverLimit {
                what: format!("nesting of {key}"),
                found: u64::from(depth) + 1,
                limit: DEEPEST_ARRAY.into(),
            });
        }
        let code = self.u32(key)?;
        let count = self.u64(key)?;
        let fixed_size = match code {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 | 9 => {
                // Every element takes at least its length; the loop cannot outrun the file.
                self.demand(key, count.saturating_mul(8))?;
                for _ in 0..count {
                    if code == 8 {
                        let len = self.u64(key)?;
                        self.skip(key, len)?;
                    } else {
                        self.skip_array(key, depth + 1)?;
                    }
                }
                return Ok(());
            }
            code => {
                return Err(LoadError::MetadataTypeCode { key: key.to_owned(), code });
            }
        };
        self.skip(key, count.saturating_mul(fixed_size))
    }

    fn tensor_info(&mut self) -> Result<TensorInfo, LoadError> {
        let dimensions = self.u32("dimension count")?;
        if dimensions > MOST_DIMENSIONS {
            return Err(LoadError::OverLimit {
                what: "number of tensor dimensions".to_owned(),
                found: dimensions.into(),
                limit: MOST_DIMENSIONS.into(),
            });
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(self.u64("dimension")?);
        }
        shape.reverse();
        Ok(TensorInfo { shape, type_code: self.u32("tensor type")?, offset: self.u64("tensor offset")? })
    }
}
