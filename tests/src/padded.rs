//! The pair's files with rows behind the last token, as published models have them. The logits of these rows are
//! huge, so that who looks at them errs.

/// Bytes of a row's blocks that scale all of it: a half float, in files of F16 and of Q8_0.
const SCALE_BYTES: usize = 2;

struct Tensor {
    name: Vec<u8>,
    /// Innermost first.
    sizes: Vec<u64>,
    code: u32,
    offset: u64,
    data: Vec<u8>,
}

/// A GGUF file of this repository's pair whose embedding table, and output head if it has one, have `rows` more rows.
pub fn padded(file: &[u8], rows: usize) -> Vec<u8> {
    let four = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let eight = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    // Behind the settings comes the first name of a tensor, with its length before it.
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
            let name = take(length);
            let dimensions = four(take(4));
            Tensor {
                name: file[name..name + length].to_vec(),
                sizes: (0..dimensions).map(|_| eight(take(8))).collect(),
                code: four(take(4)),
                offset: eight(take(8)),
                data: Vec::new(),
            }
        })
        .collect();
    let data = at.next_multiple_of(32);
    tensors.sort_by_key(|tensor| tensor.offset);
    let ends: Vec<usize> = tensors.iter().skip(1).map(|next| data + next.offset as usize).chain([file.len()]).collect();
    for (tensor, end) in tensors.iter_mut().zip(ends) {
        tensor.data = file[data + tensor.offset as usize..end].to_vec();
        if tensor.name == b"token_embd.weight" || tensor.name == b"output.weight" {
            tensor.pad(rows);
        }
    }
    let mut settings = file[..directory].to_vec();
    let key = b"llama.vocab_size";
    let stated = settings.windows(key.len()).position(|bytes| bytes == key).unwrap() + key.len() + 4;
    let vocab_size = four(stated) + rows as u32;
    settings[stated..stated + 4].copy_from_slice(&vocab_size.to_le_bytes());
    write(settings, &tensors)
}

impl Tensor {
    /// Appends rows that are 16 times as large as others, every other one with its sign turned.
    fn pad(&mut self, rows: usize) {
        let (inputs, tokens) = (self.sizes[0] as usize, self.sizes[1] as usize);
        let (block, row_bytes) = match self.code {
            1 => (2, 2 * inputs),
            8 => (34, 34 * inputs / 32),
            code => panic!("the pair has no tensors of type {code} here"),
        };
        self.data.truncate(tokens * row_bytes);
        for row in 0..rows {
            let like = row / 2 * 37 % tokens;
            let mut bytes = self.data[like * row_bytes..][..row_bytes].to_vec();
            for block in bytes.chunks_exact_mut(block) {
                let half = u16::from_le_bytes([block[0], block[1]]);
                // Four more in the exponent, unless it is 0.
                let larger = if half & 0x7c00 == 0 { half } else { half + (4 << 10) };
                let turned = larger ^ if row % 2 == 0 { 0 } else { 0x8000 };
                block[..SCALE_BYTES].copy_from_slice(&turned.to_le_bytes());
            }
            self.data.extend(bytes);
        }
        self.sizes[1] += rows as u64;
    }
}

fn write(mut file: Vec<u8>, tensors: &[Tensor]) -> Vec<u8> {
    let mut offset = 0;
    for Tensor { name, sizes, code, data, .. } in tensors {
        file.extend((name.len() as u64).to_le_bytes());
        file.extend(name);
        file.extend((sizes.len() as u32).to_le_bytes());
        file.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        file.extend(code.to_le_bytes());
        file.extend((offset as u64).to_le_bytes());
        offset += data.len().next_multiple_of(32);
    }
    for Tensor { data, .. } in tensors {
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(data);
    }
    file
}
