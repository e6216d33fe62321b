//! GGUF files, written front to back: the directory first, then one tensor after the other, none of them held whole.
//!
//! ```text
//! "GGUF" version=3 tensors:u64 entries:u64
//! entries × { key, type:u32, value }             key and texts: length:u64, bytes
//! tensors × { name, dimensions:u32, sizes:u64…, type:u32, offset:u64 }
//! zeros to a multiple of 32, then the data, each tensor at a multiple of 32
//! ```
//!
//! Sizes stand innermost first: a matrix `[outputs, inputs]` has the sizes `inputs, outputs`.

use std::io::{self, Write};

use outrider_models::ElementType;

/// Tensors begin at multiples of this many bytes.
const ALIGNMENT: u64 = 32;

/// A tensor of the directory.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    /// Outermost first. The innermost is whole blocks.
    pub shape: Vec<u64>,
    pub element: ElementType,
}

impl Tensor {
    /// Bytes of the data.
    pub fn bytes(&self) -> u64 {
        let (elements, bytes) = (self.element.block_len() as u64, self.element.block_bytes() as u64);
        self.shape.iter().product::<u64>() / elements * bytes
    }
}

/// What the file says about its model.
#[derive(Debug, Default)]
pub struct Metadata {
    entries: u64,
    bytes: Vec<u8>,
}

impl Metadata {
    pub fn unsigned(&mut self, key: &str, value: u32) {
        self.entry(key, 4, &value.to_le_bytes());
    }

    pub fn float(&mut self, key: &str, value: f32) {
        self.entry(key, 6, &value.to_le_bytes());
    }

    pub fn text(&mut self, key: &str, value: &str) {
        self.entry(key, 8, &text(value));
    }

    pub fn texts(&mut self, key: &str, values: &[String]) {
        self.array(key, 8, values.len(), values.iter().flat_map(|value| text(value)));
    }

    pub fn floats(&mut self, key: &str, values: &[f32]) {
        self.array(key, 6, values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    pub fn integers(&mut self, key: &str, values: &[i32]) {
        self.array(key, 5, values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn entry(&mut self, key: &str, code: u32, value: &[u8]) {
        self.entries += 1;
        self.bytes.extend(text(key));
        self.bytes.extend(code.to_le_bytes());
        self.bytes.extend(value);
    }

    fn array(&mut self, key: &str, code: u32, len: usize, values: impl Iterator<Item = u8>) {
        let mut value = code.to_le_bytes().to_vec();
        value.extend((len as u64).to_le_bytes());
        value.extend(values);
        self.entry(key, 9, &value);
    }
}

/// Writes the file; `fill` is asked for each tensor's data, in order, and writes exactly [`Tensor::bytes`].
pub fn write<W: Write>(
    out: &mut W,
    metadata: &Metadata,
    tensors: &[Tensor],
    mut fill: impl FnMut(&Tensor, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    let directory = directory(metadata, tensors);
    out.write_all(&directory)?;
    pad(out, directory.len() as u64)?;
    for tensor in tensors {
        fill(tensor, out)?;
        pad(out, tensor.bytes())?;
    }
    Ok(())
}

/// Bytes of the whole file.
pub fn file_size(metadata: &Metadata, tensors: &[Tensor]) -> u64 {
    let aligned = |bytes: u64| bytes.next_multiple_of(ALIGNMENT);
    aligned(directory(metadata, tensors).len() as u64)
        + tensors.iter().map(|tensor| aligned(tensor.bytes())).sum::<u64>()
}

fn directory(metadata: &Metadata, tensors: &[Tensor]) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend(metadata.entries.to_le_bytes());
    bytes.extend(&metadata.bytes);
    let mut offset = 0u64;
    for tensor in tensors {
        bytes.extend(text(&tensor.name));
        bytes.extend((tensor.shape.len() as u32).to_le_bytes());
        bytes.extend(tensor.shape.iter().rev().flat_map(|size| size.to_le_bytes()));
        bytes.extend(tensor.element.gguf_code().to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        offset += tensor.bytes().next_multiple_of(ALIGNMENT);
    }
    bytes
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn pad(out: &mut impl Write, written: u64) -> io::Result<()> {
    let missing = written.next_multiple_of(ALIGNMENT) - written;
    out.write_all(&[0; ALIGNMENT as usize][..missing as usize])
}
