//! Small models with arbitrary weights, and what transformers computes of them (`models/tests/golden/`).

use half::bf16;
use serde_json::Value;

use crate::{gguf::bytes, safetensors::Safetensors};

/// A model, a text, and what transformers gives for them.
#[derive(Debug, serde::Deserialize)]
pub struct Golden {
    /// `model_type` of the model.
    #[serde(default)]
    pub family: String,
    /// Settings of `config.json`.
    pub config: Value,
    /// Names as in a checkpoint, with shapes, outermost dimension first.
    pub tensors: Vec<(String, Vec<usize>)>,
    /// Ids of the tokens of the text.
    pub tokens: Vec<u32>,
    /// Positions of the rows of logits that are known.
    pub rows: Vec<usize>,
    /// Logits at these positions.
    pub logits: Vec<Vec<f32>>,
    /// Tokens of greedy decoding that follow the text.
    pub greedy: Vec<u32>,
}

/// A weight by its name in a checkpoint.
#[derive(Debug, Clone)]
pub struct Weight {
    /// Name in a checkpoint.
    pub name: String,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Elements, the last dimension counting fastest.
    pub values: Vec<f32>,
}

impl Golden {
    /// The weights, which are drawn from their names.
    pub fn weights(&self) -> Vec<Weight> {
        let weight = |(name, shape): &(String, Vec<usize>)| {
            let values = draw(name, shape.iter().product(), shape.len());
            Weight { name: name.clone(), shape: shape.clone(), values }
        };
        self.tensors.iter().map(weight).collect()
    }

    /// `config.json`, with some settings replaced or added; null takes one away.
    pub fn config_with(&self, changes: &[(&str, Value)]) -> Vec<u8> {
        let mut config = self.config.clone();
        for (key, value) in changes {
            config[*key] = value.clone();
        }
        serde_json::to_vec(&config).unwrap()
    }

    /// `config.json` and `model.safetensors` in F32.
    pub fn checkpoint(&self) -> (Vec<u8>, Vec<u8>) {
        (self.config_with(&[]), safetensors(&self.weights(), "F32"))
    }
}

/// `model.safetensors` of these weights, in F32 or in BF16. Halves of MXFP4 are bytes.
pub fn safetensors<'w>(weights: impl IntoIterator<Item = &'w Weight>, dtype: &str) -> Vec<u8> {
    let mut file = Safetensors::default();
    for Weight { name, shape, values } in weights {
        let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        let data = match dtype {
            _ if is_bytes(name) => values.iter().map(|&x| x as u8).collect(),
            "BF16" => values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
            _ => bytes(values),
        };
        file.tensor(name, if is_bytes(name) { "U8" } else { dtype }, &shape, &data);
    }
    file.finish()
}

/// Returns whether a tensor is one half of a matrix in MXFP4.
fn is_bytes(name: &str) -> bool {
    name.ends_with("_blocks") || name.ends_with("_scales")
}

/// The weights of a name, as `draw` and `draw_bytes` of the scripts make them.
fn draw(name: &str, count: usize, dimensions: usize) -> Vec<f32> {
    let seed = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let value = |index: u64| {
        let z = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ (z >> 31);
        let unit = (z >> 40) as f64 / f64::from(1 << 23) - 1.0;
        let value = match () {
            () if name.ends_with("_blocks") => (z >> 56) as f64,
            () if name.ends_with("_scales") => (122 + (z >> 56) % 4) as f64,
            () if name.ends_with("bias") => unit / 4.0,
            () if dimensions == 1 => 1.0 + unit / 2.0,
            () => unit / 2.0,
        };
        value as f32
    };
    (0..count as u64).map(value).collect()
}
