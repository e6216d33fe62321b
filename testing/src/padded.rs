//! The pair's files with rows after the last token, as published models have them. The logits of these rows are huge,
//! so that a program that looks at them errs.

use crate::gguf::Gguf;

/// Bytes of a row's blocks that scale all of it: a half float, in files of F16 and of Q8_0.
const SCALE_BYTES: usize = 2;

struct Tensor {
    name: String,
    /// Dimensions, outermost first.
    shape: Vec<u64>,
    code: u32,
    offset: u64,
}

/// A GGUF file of this repository's pair whose embedding table, and output head if it has one, have `rows` more rows.
pub fn padded(file: &[u8], rows: usize) -> Vec<u8> {
    let four = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let eight = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    // The settings are followed by the first name of a tensor, with its length before it.
    let end = file.windows(7).position(|bytes| bytes == b".weight").unwrap() + 7;
    let directory = (0..end - 8).rev().find(|&at| eight(at) == (end - at - 8) as u64).unwrap();
    let mut at = directory;
    let mut take = |bytes: usize| {
        at += bytes;
        at - bytes
    };
    let mut tensors: Vec<Tensor> = (0..eight(8))
        .map(|_| {
            let length = eight(take(8)) as usize;
            let name = String::from_utf8(file[take(length)..][..length].to_vec()).unwrap();
            let dimensions = four(take(4));
            let mut shape: Vec<u64> = (0..dimensions).map(|_| eight(take(8))).collect();
            shape.reverse();
            Tensor { name, shape, code: four(take(4)), offset: eight(take(8)) }
        })
        .collect();
    let data = at.next_multiple_of(32);
    tensors.sort_by_key(|tensor| tensor.offset);
    let ends: Vec<usize> = tensors.iter().skip(1).map(|next| data + next.offset as usize).chain([file.len()]).collect();
    let mut metadata = file[24..directory].to_vec();
    let key = b"llama.vocab_size";
    let stated = metadata.windows(key.len()).position(|bytes| bytes == key).unwrap() + key.len() + 4;
    let vocab_size = four(24 + stated) + rows as u32;
    metadata[stated..stated + 4].copy_from_slice(&vocab_size.to_le_bytes());
    let mut padded = Gguf::with_metadata(metadata, eight(16));
    for (tensor, end) in tensors.iter_mut().zip(ends) {
        let mut data = file[data + tensor.offset as usize..end].to_vec();
        if tensor.name == "token_embd.weight" || tensor.name == "output.weight" {
            tensor.pad(&mut data, rows);
        }
        padded.tensor(&tensor.name, &tensor.shape, tensor.code, &data);
    }
    padded.finish()
}

impl Tensor {
    /// Appends rows that are 16 times as large as others, every other one with its sign turned.
    fn pad(&mut self, data: &mut Vec<u8>, rows: usize) {
        let [tokens, inputs] = [0, 1].map(|dimension| self.shape[dimension] as usize);
        let (block, row_bytes) = match self.code {
            1 => (2, 2 * inputs),
            8 => (34, 34 * inputs / 32),
            code => panic!("the pair has no tensors of type {code} here"),
        };
        data.truncate(tokens * row_bytes);
        for row in 0..rows {
            let like = row / 2 * 37 % tokens;
            let mut bytes = data[like * row_bytes..][..row_bytes].to_vec();
            for block in bytes.chunks_exact_mut(block) {
                let half = u16::from_le_bytes([block[0], block[1]]);
                // Four more in the exponent, unless it is 0.
                let larger = if half & 0x7c00 == 0 { half } else { half + (4 << 10) };
                let turned = larger ^ if row % 2 == 0 { 0 } else { 0x8000 };
                block[..SCALE_BYTES].copy_from_slice(&turned.to_le_bytes());
            }
            data.extend(bytes);
        }
        self.shape[0] += rows as u64;
    }
}
