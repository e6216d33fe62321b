//! Element types of GGUF files, from `ggml-common.h` and `ggml-quants.c`: an oracle for the weights of a block, and
//! files of random blocks. It shares no code with the crate that it tests.

use half::{bf16, f16};
use outrider_models::ElementType;

use crate::{
    gguf::{F32, bytes, row},
    llama::{Shape, random},
};

/// Inputs of every matrix: whole blocks of each type.
pub const WIDTH: usize = 256;
/// The models of [`files`]: heads of 64, and a context of 64 tokens.
const SHAPE: Shape = Shape { vocab: 70, hidden: WIDTH as u64, inner: WIDTH as u64, layers: 1, heads: 4 };

/// The values of IQ4 types, `kvalues_iq4nl`.
const IQ4: [f32; 16] = [-127., -104., -83., -65., -49., -35., -22., -10., 1., 13., 25., 38., 53., 69., 89., 113.];
/// E2M1: sign, two bits of exponent, one of fraction.
const E2M1: [f32; 16] = [0., 0.5, 1., 1.5, 2., 3., 4., 6., -0., -0.5, -1., -1.5, -2., -3., -4., -6.];

/// The weights that blocks stand for.
pub fn widened(element: ElementType, blocks: &[u8]) -> Vec<f32> {
    blocks.chunks_exact(row(element).3).flat_map(|block| weights(element, block)).collect()
}

fn weights(element: ElementType, block: &[u8]) -> Vec<f32> {
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    match element {
        ElementType::F32 => vec![f32::from_le_bytes(block.try_into().unwrap())],
        ElementType::F16 => vec![half(0)],
        ElementType::BF16 => vec![bf16::from_le_bytes([block[0], block[1]]).to_f32()],
        ElementType::Q4_0 => nibbles(&block[2..]).map(|q| (q as f32 - 8.0) * half(0)).collect(),
        ElementType::Q4_1 => nibbles(&block[4..]).map(|q| q as f32 * half(0) + half(2)).collect(),
        ElementType::Q5_0 => fifths(&block[2..]).map(|q| (q as f32 - 16.0) * half(0)).collect(),
        ElementType::Q5_1 => fifths(&block[4..]).map(|q| q as f32 * half(0) + half(2)).collect(),
        ElementType::Q8_0 => block[2..].iter().map(|&q| f32::from(q as i8) * half(0)).collect(),
        ElementType::Q2_K => (0..256)
            .map(|i| {
                let scale = block[i / 16];
                let q = block[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
                half(80) * f32::from(scale & 15) * f32::from(q) - half(82) * f32::from(scale >> 4)
            })
            .collect(),
        ElementType::Q3_K => (0..256)
            .map(|i| {
                let high = block[i % 32] >> (i / 32) & 1;
                let q = block[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
                let (j, scales) = (i / 16, &block[96..108]);
                let low = if j < 8 { scales[j] & 15 } else { scales[j - 8] >> 4 };
                let scale = low | (scales[8 + j % 4] >> (j / 4 * 2) & 3) << 4;
                half(108) * (f32::from(scale) - 32.0) * (f32::from(q) - if high == 1 { 0.0 } else { 4.0 })
            })
            .collect(),
        ElementType::Q4_K => (0..256)
            .map(|i| {
                let q = block[16 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
                let (scale, minimum) = scale_and_minimum(&block[4..16], i / 32);
                half(0) * scale * f32::from(q) - half(2) * minimum
            })
            .collect(),
        ElementType::Q5_K => (0..256)
            .map(|i| {
                let high = block[16 + i % 32] >> (i / 32) & 1;
                let q = block[48 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15 | high << 4;
                let (scale, minimum) = scale_and_minimum(&block[4..16], i / 32);
                half(0) * scale * f32::from(q) - half(2) * minimum
            })
            .collect(),
        ElementType::Q6_K => (0..256)
            .map(|i| {
                let (part, quarter, l) = (i / 128, i % 128 / 32, i % 32);
                let low = block[part * 64 + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15;
                let high = block[128 + part * 32 + l] >> (quarter * 2) & 3;
                half(208) * f32::from(block[192 + i / 16] as i8) * (f32::from(low | high << 4) - 32.0)
            })
            .collect(),
        ElementType::IQ4_NL => nibbles(&block[2..]).map(|q| half(0) * IQ4[q]).collect(),
        ElementType::MXFP4 => nibbles(&block[1..]).map(|q| 2f32.powi(i32::from(block[0]) - 127) * E2M1[q]).collect(),
        ElementType::I32 | ElementType::I64 => panic!("{element} is no type of weights"),
        ElementType::IQ4_XS => (0..256)
            .map(|i| {
                let ib = i / 32;
                let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * ib) & 3;
                let low = block[4 + ib / 2] >> (4 * (ib % 2)) & 15;
                let q = block[8 + 16 * ib + i % 16] >> (i % 32 / 16 * 4) & 15;
                half(0) * (f32::from(low | (high as u8) << 4) - 32.0) * IQ4[usize::from(q)]
            })
            .collect(),
    }
}

/// Scale and minimum of a sub-block, `get_scale_min_k4`.
fn scale_and_minimum(packed: &[u8], j: usize) -> (f32, f32) {
    let (scale, minimum) = match j {
        0..4 => (packed[j] & 63, packed[j + 4] & 63),
        _ => (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4),
    };
    (f32::from(scale), f32::from(minimum))
}

/// The half bytes of each 16 bytes: low ones first.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let low = bytes.iter().map(|byte| byte & 15);
    low.chain(bytes.iter().map(|byte| byte >> 4)).map(usize::from)
}

/// Half bytes with a fifth bit each, from four bytes before them.
fn fifths(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let high = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    nibbles(&bytes[4..]).enumerate().map(move |(i, low)| low | ((high >> i & 1) as usize) << 4)
}

/// Blocks of random bits, with scales under which weights are about 0.05 and their mean is about 0.
fn drawn(element: ElementType, weights: usize, seed: &mut u64) -> Vec<u8> {
    let (_, _, len, bytes) = row(element);
    let mut drawn: Vec<u8> = (0..weights / len * bytes).map(|_| (random(seed) >> 11) as u8).collect();
    for block in drawn.chunks_exact_mut(bytes) {
        let larger = 1.0 + f32::from(block[0]) / 256.0;
        // Halves and where they stand in the block.
        let scales: &[(usize, f32)] = match element {
            ElementType::F32 | ElementType::BF16 | ElementType::IQ4_NL | ElementType::IQ4_XS | ElementType::MXFP4 => {
                &[]
            }
            ElementType::I32 | ElementType::I64 => panic!("{element} is no type of weights"),
            ElementType::F16 => &[(0, if block[1] & 1 == 0 { 0.05 } else { -0.05 })],
            ElementType::Q4_0 => &[(0, 0.01)],
            ElementType::Q4_1 => &[(0, 0.01), (2, -0.075)],
            ElementType::Q5_0 => &[(0, 0.005)],
            ElementType::Q5_1 => &[(0, 0.005), (2, -0.0775)],
            ElementType::Q8_0 => &[(0, 0.0007)],
            ElementType::Q2_K => &[(80, 0.004), (82, 0.006)],
            ElementType::Q3_K => &[(108, 0.001)],
            ElementType::Q4_K => &[(0, 0.0002), (2, 0.0015)],
            ElementType::Q5_K => &[(0, 0.0001), (2, 0.00155)],
            ElementType::Q6_K => &[(208, 0.00004)],
        };
        for &(at, scale) in scales {
            block[at..at + 2].copy_from_slice(&f16::from_f32(scale * larger).to_le_bytes());
        }
        match element {
            ElementType::F32 => block.copy_from_slice(&(0.1 * larger - 0.15).to_le_bytes()),
            ElementType::BF16 => block.copy_from_slice(&bf16::from_f32(0.1 * larger - 0.15).to_le_bytes()),
            // 2⁻¹¹ and 2⁻¹⁵, which is subnormal, times 1 to 2, of either sign.
            ElementType::IQ4_NL => block[1] = block[1] & 0x83 | 0x10,
            ElementType::IQ4_XS => block[1] &= 0x83,
            ElementType::MXFP4 => block[0] = 119 + block[0] % 4,
            _ => {}
        }
    }
    drawn
}

/// A GGUF file of a small random model whose matrices are of this type, and the same with its weights as F32: 256 wide,
/// 1 layer, 4 heads of 64, 2 of them of keys, 70 tokens, context 64. All norms are 1.
pub fn files(element: ElementType) -> [Vec<u8>; 2] {
    [false, true].map(|is_widened| {
        let (mut file, mut seed) = (SHAPE.settings(), 5);
        for (name, shape) in SHAPE.tensors() {
            let (code, data) = if shape.len() == 1 {
                (F32.1, bytes(&[1.0; WIDTH]))
            } else {
                let drawn = drawn(element, shape.iter().product::<u64>() as usize, &mut seed);
                if is_widened { (F32.1, bytes(&widened(element, &drawn))) } else { (row(element).1, drawn) }
            };
            file.tensor(&name, &shape, code, &data);
        }
        file.finish()
    })
}
