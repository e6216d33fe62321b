//! GGUF files, from the specification alone: the writer shares no code with the reader that it tests.
//!
//! ```text
//! "GGUF" version=3 tensors:u64 entries:u64
//! entries × { key, type:u32, value }             key and texts: length:u64, bytes
//! tensors × { name, dimensions:u32, sizes:u64…, type:u32, offset:u64 }
//! zeros to a multiple of 32, then the data, each tensor at a multiple of 32
//! ```
//!
//! Sizes stand innermost first: a matrix `[outputs, inputs]` has the sizes `inputs, outputs`. Small files are held as a
//! [`Gguf`]; large ones are streamed, none of their [`Tensor`]s held whole.

use std::io::{self, Write};

use outrider_models::ElementType;

/// A type with its code in GGUF files, and elements and bytes of a block.
pub type Row = (ElementType, u32, usize, usize);

/// All types that are read, as `enum ggml_type` numbers them.
pub const TYPES: [Row; 16] = [
    F32,
    (ElementType::F16, 1, 1, 2),
    (ElementType::BF16, 30, 1, 2),
    (ElementType::Q4_0, 2, 32, 18),
    (ElementType::Q4_1, 3, 32, 20),
    (ElementType::Q5_0, 6, 32, 22),
    (ElementType::Q5_1, 7, 32, 24),
    (ElementType::Q8_0, 8, 32, 34),
    (ElementType::Q2_K, 10, 256, 84),
    (ElementType::Q3_K, 11, 256, 110),
    (ElementType::Q4_K, 12, 256, 144),
    (ElementType::Q5_K, 13, 256, 176),
    (ElementType::Q6_K, 14, 256, 210),
    (ElementType::IQ4_NL, 20, 32, 18),
    (ElementType::IQ4_XS, 23, 256, 136),
    (ElementType::MXFP4, 39, 32, 17),
];

/// Plain floats of 32 bits.
pub const F32: Row = (ElementType::F32, 0, 1, 4);

/// The row of a type in [`TYPES`].
pub fn row(element: ElementType) -> Row {
    *TYPES.iter().find(|row| row.0 == element).unwrap()
}

/// Tensors begin at multiples of this number of bytes.
const ALIGNMENT: usize = 32;

/// A GGUF file in the making.
#[derive(Debug, Clone, Default)]
pub struct Gguf {
    metadata: Vec<u8>,
    metadata_count: u64,
    directory: Vec<Vec<u8>>,
    data: Vec<u8>,
}

impl Gguf {
    /// A file with the bytes of this number of metadata entries.
    pub(crate) fn with_metadata(metadata: Vec<u8>, metadata_count: u64) -> Self {
        Self { metadata, metadata_count, ..Self::default() }
    }

    /// Adds a metadata entry: its type's code and its value's bytes.
    pub fn entry(&mut self, key: &str, code: u32, value: &[u8]) -> &mut Self {
        self.metadata.extend([&text(key), code.to_le_bytes().as_slice(), value].concat());
        self.metadata_count += 1;
        self
    }

    /// Adds a metadata entry of an unsigned number.
    pub fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.entry(key, 4, &value.to_le_bytes())
    }

    /// Adds a metadata entry of a floating-point number.
    pub fn f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.entry(key, 6, &value.to_le_bytes())
    }

    /// Adds a metadata entry of text.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.entry(key, 8, &text(value))
    }

    /// Adds an array of texts.
    pub fn texts(&mut self, key: &str, values: &[String]) -> &mut Self {
        self.array(key, 8, values.len(), values.iter().flat_map(|value| text(value)))
    }

    /// Adds an array of floating-point numbers.
    pub fn floats(&mut self, key: &str, values: &[f32]) -> &mut Self {
        self.array(key, 6, values.len(), bytes(values))
    }

    /// Adds an array of signed integers.
    pub fn integers(&mut self, key: &str, values: &[i32]) -> &mut Self {
        self.array(key, 5, values.len(), values.iter().flat_map(|value| value.to_le_bytes()))
    }

    fn array(&mut self, key: &str, code: u32, len: usize, values: impl IntoIterator<Item = u8>) -> &mut Self {
        let mut value = [code.to_le_bytes().as_slice(), &(len as u64).to_le_bytes()].concat();
        value.extend(values);
        self.entry(key, 9, &value)
    }

    /// Adds a tensor of this type code; `shape` is outermost dimension first. Its data goes to the next multiple of 32.
    pub fn tensor(&mut self, name: &str, shape: &[u64], code: u32, data: &[u8]) -> &mut Self {
        let offset = self.data.len() as u64;
        self.placed(name, shape, code, offset);
        self.data.extend(data);
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// Adds an entry of the directory, without data.
    pub fn placed(&mut self, name: &str, shape: &[u64], code: u32, offset: u64) -> &mut Self {
        let dimensions = shape.iter().rev().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let count = (shape.len() as u32).to_le_bytes();
        self.directory.push(
            [text(name), count.to_vec(), dimensions, code.to_le_bytes().to_vec(), offset.to_le_bytes().to_vec()]
                .concat(),
        );
        self
    }

    /// Adds data that no tensor has.
    pub fn gap(&mut self, bytes: usize) -> &mut Self {
        self.data.resize(self.data.len() + bytes, 0xff);
        self
    }

    /// Splits the tensors over a number of files; all metadata is in the first.
    pub fn split(self, parts: usize) -> Vec<Self> {
        let each = self.directory.len().div_ceil(parts);
        let offset = |entry: &[u8]| u64::from_le_bytes(entry[entry.len() - 8..].try_into().unwrap()) as usize;
        let mut starts: Vec<usize> = self.directory.iter().map(|entry| offset(entry)).collect();
        starts.push(self.data.len());
        let mut files = Vec::new();
        for first in (0..self.directory.len()).step_by(each) {
            let end = self.directory.len().min(first + each);
            let mut file = Self { data: self.data[starts[first]..starts[end]].to_vec(), ..Self::default() };
            for entry in &self.directory[first..end] {
                let moved = (offset(entry) - starts[first]) as u64;
                file.directory.push([&entry[..entry.len() - 8], &moved.to_le_bytes()].concat());
            }
            files.push(file);
        }
        files[0].metadata = self.metadata;
        files[0].metadata_count = self.metadata_count;
        files
    }

    /// Bytes of the whole file. Its directory is in the reverse order of the data.
    pub fn finish(&self) -> Vec<u8> {
        let mut file = self.head(self.directory.iter().rev());
        // The file may be large: no second copy of its data beside `self`.
        file.reserve_exact(self.data.len());
        file.extend(&self.data);
        file
    }

    /// Header, metadata and directory: the bytes before the data.
    fn head<'d>(&self, directory: impl Iterator<Item = &'d Vec<u8>>) -> Vec<u8> {
        let counts = [(self.directory.len() as u64).to_le_bytes(), self.metadata_count.to_le_bytes()].concat();
        let mut head = [b"GGUF\x03\0\0\0", &counts[..], &self.metadata].concat();
        head.extend(directory.flatten());
        head.resize(head.len().next_multiple_of(ALIGNMENT), 0);
        head
    }

    /// Writes a file with this metadata and `tensors`; `fill` is asked for each tensor's data, in order, and writes
    /// exactly [`Tensor::bytes`].
    pub fn stream<W: Write>(
        &self,
        out: &mut W,
        tensors: &[Tensor],
        mut fill: impl FnMut(&Tensor, &mut W) -> io::Result<()>,
    ) -> io::Result<()> {
        out.write_all(&self.head_of(tensors))?;
        for tensor in tensors {
            fill(tensor, out)?;
            out.write_all(&[0; ALIGNMENT][..(tensor.aligned_bytes() - tensor.bytes()) as usize])?;
        }
        Ok(())
    }

    /// Bytes of the whole file that [`Gguf::stream`] writes.
    pub fn streamed_bytes(&self, tensors: &[Tensor]) -> u64 {
        self.head_of(tensors).len() as u64 + tensors.iter().map(Tensor::aligned_bytes).sum::<u64>()
    }

    fn head_of(&self, tensors: &[Tensor]) -> Vec<u8> {
        let (mut file, mut offset) = (self.clone(), 0);
        for tensor in tensors {
            file.placed(&tensor.name, &tensor.shape, row(tensor.element).1, offset);
            offset += tensor.aligned_bytes();
        }
        file.head(file.directory.iter())
    }
}

/// A tensor of a file that is streamed.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Name in the directory.
    pub name: String,
    /// Dimensions, outermost first. The innermost is whole blocks.
    pub shape: Vec<u64>,
    /// Type of its elements.
    pub element: ElementType,
}

impl Tensor {
    /// Bytes of the data of this tensor.
    pub fn bytes(&self) -> u64 {
        let (_, _, len, bytes) = row(self.element);
        self.shape.iter().product::<u64>() / len as u64 * bytes as u64
    }

    fn aligned_bytes(&self) -> u64 {
        self.bytes().next_multiple_of(ALIGNMENT as u64)
    }
}

/// A string as GGUF writes it.
pub fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

/// Bytes of floating-point numbers.
pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
