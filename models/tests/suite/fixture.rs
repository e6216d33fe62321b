//! Models to test with.

use std::io::Cursor;

#[cfg(not(target_arch = "wasm32"))]
use candle_core::{
    Device, Tensor,
    quantized::{GgmlDType, QTensor, gguf_file},
};
use outrider_models::{Chunk, KvCache, Model};

use crate::tables::Table;

pub const DRAFT: &[u8] = include_bytes!("../../../pair/draft/draft-q8_0.gguf");
pub const TARGET: &[u8] = include_bytes!("../../../pair/target/target-f16.gguf");
pub const TOKENIZER: &[u8] = include_bytes!("../../../pair/tokenizer.json");

/// One random model in four element types.
pub const BLOCKS: [(&str, &[u8]); 4] = [
    ("f32", include_bytes!("../golden/blocks-f32.gguf")),
    ("f16", include_bytes!("../golden/blocks-f16.gguf")),
    ("q8_0", include_bytes!("../golden/blocks-q8_0.gguf")),
    ("q4_0", include_bytes!("../golden/blocks-q4_0.gguf")),
];

pub fn gguf(bytes: &[u8]) -> Model {
    Model::from_gguf(&mut Cursor::new(bytes)).unwrap()
}

/// Files of models whose rows are wide enough for every block type and kernel.
#[cfg(not(target_arch = "wasm32"))]
pub fn wide_files() -> Vec<Vec<u8>> {
    use GgmlDType::{BF16, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    let dtypes = [BF16, Q6K, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2K, Q3K, Q4K, Q5K];
    let known = dtypes.into_iter().map(|dtype| random_gguf(dtype, false));
    known.chain(table_files()).collect()
}

/// Those that are made without candle, which would take longer to compile for a browser than all else. The kernels'
/// own tests show there that all types have the bits that they have here.
#[cfg(target_arch = "wasm32")]
pub fn wide_files() -> Vec<Vec<u8>> {
    table_files().collect()
}

fn table_files() -> impl Iterator<Item = Vec<u8>> {
    Table::ALL.into_iter().map(|table| {
        let [file, _] = table.files();
        file
    })
}

pub fn wide_models() -> Vec<Model> {
    wide_files().iter().map(|bytes| gguf(bytes)).collect()
}

/// Logits after every one of `tokens`, which follow those in `cache`.
pub fn logits_at_all(model: &Model, cache: &mut KvCache, tokens: &[u32]) -> Vec<Vec<f32>> {
    let positions: Vec<usize> = (0..tokens.len()).collect();
    let chunk = Chunk { cache, tokens, positions: &positions };
    let logits = model.forward(&mut [chunk]).unwrap();
    assert_eq!(logits.len(), 1);
    logits[0].iter().map(<[f32]>::to_vec).collect()
}

/// A GGUF file of a random model whose rows are whole blocks of every type: 256 wide, 2 layers, 4 query and 2
/// key heads of 64, 80 tokens, context 64. `dtype` is the type of its matrices; with `widened`, they are
/// rounded to that type and then stored as f32.
#[cfg(not(target_arch = "wasm32"))]
pub fn random_gguf(dtype: GgmlDType, widened: bool) -> Vec<u8> {
    use gguf_file::Value;
    let mut state = 12345u32;
    let mut random = |count: usize, scale: f32| -> Vec<f32> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next() * scale).collect()
    };
    let mut tensors: Vec<(String, QTensor)> = Vec::new();
    let mut matrix = |name: &str, rows: usize| {
        let values = Tensor::from_vec(random(rows * 256, 0.12), (rows, 256), &Device::Cpu).unwrap();
        let mut rounded = QTensor::quantize(&values, dtype).unwrap();
        if widened {
            let values = rounded.dequantize(&Device::Cpu).unwrap();
            rounded = QTensor::quantize(&values, GgmlDType::F32).unwrap();
        }
        tensors.push((format!("{name}.weight"), rounded));
    };
    matrix("token_embd", 80);
    for layer in 0..2 {
        for (part, rows) in [
            ("attn_q", 256),
            ("attn_k", 128),
            ("attn_v", 128),
            ("attn_output", 256),
            ("ffn_gate", 256),
            ("ffn_up", 256),
            ("ffn_down", 256),
        ] {
            matrix(&format!("blk.{layer}.{part}"), rows);
        }
    }
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm", "blk.1.attn_norm", "blk.1.ffn_norm"] {
        let ones = Tensor::from_vec(vec![1.0f32; 256], 256, &Device::Cpu).unwrap();
        tensors.push((format!("{name}.weight"), QTensor::quantize(&ones, GgmlDType::F32).unwrap()));
    }
    let metadata = [
        ("general.architecture", Value::String("llama".to_owned())),
        ("llama.embedding_length", Value::U32(256)),
        ("llama.feed_forward_length", Value::U32(256)),
        ("llama.block_count", Value::U32(2)),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.head_count_kv", Value::U32(2)),
        ("llama.context_length", Value::U32(64)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors).unwrap();
    file.into_inner()
}
