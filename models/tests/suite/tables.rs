//! Block types whose half bytes name the entries of a table: IQ4_NL, IQ4_XS and MXFP4. candle, the reference for
//! the others, does not have them, so that their definition is written here once more, from `ggml-common.h` and
//! `ggml-quants.c`; it needs no file of anybody, and runs in a browser too.

use crate::container::{F32, Gguf, random};

/// Inputs of every matrix: whole blocks of each type.
pub const WIDTH: usize = 256;

/// `kvalues_iq4nl`.
const IQ4: [f32; 16] = [-127., -104., -83., -65., -49., -35., -22., -10., 1., 13., 25., 38., 53., 69., 89., 113.];
/// E2M1: sign, two bits of exponent, one of fraction.
const E2M1: [f32; 16] = [0., 0.5, 1., 1.5, 2., 3., 4., 6., -0., -0.5, -1., -1.5, -2., -3., -4., -6.];

/// A block type.
#[derive(Debug, Clone, Copy)]
pub enum Table {
    Iq4Nl,
    Iq4Xs,
    Mxfp4,
}

impl Table {
    pub const ALL: [Self; 3] = [Self::Iq4Nl, Self::Iq4Xs, Self::Mxfp4];

    /// Code, elements and bytes of a block.
    fn element(self) -> (u32, usize, usize) {
        match self {
            Self::Iq4Nl => (20, 32, 18),
            Self::Iq4Xs => (23, 256, 136),
            Self::Mxfp4 => (39, 32, 17),
        }
    }

    /// Blocks of random bytes, with scales under which weights are about 0.05.
    fn draw(self, weights: usize, seed: &mut u64) -> Vec<u8> {
        let (_, len, bytes) = self.element();
        let mut drawn: Vec<u8> = (0..weights / len * bytes).map(|_| (random(seed) >> 11) as u8).collect();
        for block in drawn.chunks_exact_mut(bytes) {
            match self {
                // f16: 2⁻¹¹ and 2⁻¹⁵, which is subnormal, times 1 to 2, of either sign.
                Self::Iq4Nl => block[1] = block[1] & 0x83 | 0x10,
                Self::Iq4Xs => block[1] &= 0x83,
                Self::Mxfp4 => block[0] = 119 + block[0] % 4,
            }
        }
        drawn
    }

    /// What a block stands for.
    fn weights(self, block: &[u8]) -> Vec<f32> {
        let half = |bytes: &[u8]| half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
        match self {
            Self::Iq4Nl => nibbles(&block[2..]).map(|q| half(block) * IQ4[q]).collect(),
            Self::Mxfp4 => nibbles(&block[1..]).map(|q| 2f32.powi(i32::from(block[0]) - 127) * E2M1[q]).collect(),
            Self::Iq4Xs => (0..8)
                .flat_map(|ib| {
                    let scales_h = u32::from(block[2]) | u32::from(block[3]) << 8;
                    let low = block[4 + ib / 2] >> (4 * (ib % 2)) & 15;
                    let ls = u32::from(low) | (scales_h >> (2 * ib) & 3) << 4;
                    let dl = half(block) * (ls as f32 - 32.0);
                    nibbles(&block[8 + 16 * ib..][..16]).map(move |q| dl * IQ4[q]).collect::<Vec<f32>>()
                })
                .collect(),
        }
    }

    /// A file of a small random model, and the same with its weights as f32.
    pub fn files(self) -> [Vec<u8>; 2] {
        let (code, _, bytes) = self.element();
        [false, true].map(|widened| {
            let mut file = Gguf::new();
            file.text("general.architecture", "llama")
                .u32("llama.embedding_length", WIDTH as u32)
                .u32("llama.feed_forward_length", WIDTH as u32)
                .u32("llama.block_count", 1)
                .u32("llama.attention.head_count", 4)
                .u32("llama.context_length", 64)
                .f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
            let mut seed = 5;
            for (name, rows) in [
                ("token_embd", 70),
                ("blk.0.attn_q", WIDTH),
                ("blk.0.attn_k", WIDTH),
                ("blk.0.attn_v", WIDTH),
                ("blk.0.attn_output", WIDTH),
                ("blk.0.ffn_gate", WIDTH),
                ("blk.0.ffn_up", WIDTH),
                ("blk.0.ffn_down", WIDTH),
            ] {
                let drawn = self.draw(rows * WIDTH, &mut seed);
                let (code, data) = match widened {
                    false => (code, drawn),
                    true => (F32.0, floats(drawn.chunks_exact(bytes).flat_map(|block| self.weights(block)))),
                };
                file.tensor(&format!("{name}.weight"), &[rows as u64, WIDTH as u64], code, &data);
            }
            for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
                file.tensor(&format!("{name}.weight"), &[WIDTH as u64], F32.0, &floats([1.0; WIDTH]));
            }
            file.finish()
        })
    }
}

/// The half bytes of each 16 bytes: low ones first.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let low = bytes.iter().map(|byte| byte & 15);
    low.chain(bytes.iter().map(|byte| byte >> 4)).map(usize::from)
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}
