//! candle as the reference for element types: its blocks are as long, and stand for the same weights, as the definition
//! in `models/tests/blocks` says, and models of its files have the logits of the same weights as F32.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::io::Cursor;

use candle_core::{
    Device, Tensor,
    quantized::{GgmlDType, QTensor, gguf_file},
};
use outrider_models::{Chunk, ElementType, Model};

#[path = "../../models/tests/blocks/mod.rs"]
#[allow(dead_code, reason = "the crate of the models uses the rest")]
mod blocks;
#[path = "../../models/tests/container/mod.rs"]
#[allow(dead_code, reason = "the crate of the models uses the rest")]
mod container;

/// The types that candle has.
const TYPES: [(ElementType, GgmlDType); 13] = [
    (ElementType::F32, GgmlDType::F32),
    (ElementType::F16, GgmlDType::F16),
    (ElementType::BF16, GgmlDType::BF16),
    (ElementType::Q4_0, GgmlDType::Q4_0),
    (ElementType::Q4_1, GgmlDType::Q4_1),
    (ElementType::Q5_0, GgmlDType::Q5_0),
    (ElementType::Q5_1, GgmlDType::Q5_1),
    (ElementType::Q8_0, GgmlDType::Q8_0),
    (ElementType::Q2_K, GgmlDType::Q2K),
    (ElementType::Q3_K, GgmlDType::Q3K),
    (ElementType::Q4_K, GgmlDType::Q4K),
    (ElementType::Q5_K, GgmlDType::Q5K),
    (ElementType::Q6_K, GgmlDType::Q6K),
];

#[test]
fn the_definition_of_every_type_is_candles() {
    for (element, dtype) in TYPES {
        let values = Tensor::from_vec(random(8 * 256, 0.12, &mut 12345), (8, 256), &Device::Cpu).unwrap();
        let rounded = QTensor::quantize(&values, dtype).unwrap();
        let expected = rounded.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let found = blocks::widened(element, &rounded.data().unwrap());
        assert_eq!(found.len(), expected.len(), "{element}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-6, "{element}: {found} for {expected}");
        }
    }
}

#[test]
fn models_of_candles_files_have_the_logits_of_their_widened_weights() {
    let tokens: Vec<u32> = (0..20).map(|i| i * 31 % 80).collect();
    for (element, dtype) in TYPES {
        let [rows, expected] = [false, true].map(|is_widened| {
            let model = Model::from_gguf(&mut Cursor::new(random_gguf(dtype, is_widened))).unwrap();
            let (mut cache, positions) = (model.new_cache(), (0..tokens.len()).collect::<Vec<_>>());
            let chunk = Chunk { cache: &mut cache, tokens: &tokens, positions: &positions };
            model.forward(&mut [chunk]).unwrap()[0].iter().map(<[f32]>::to_vec).collect::<Vec<_>>()
        });
        let tolerance = if element.block_len() == 1 { 1e-6 } else { 6e-2 };
        for (row, expected) in rows.iter().zip(&expected) {
            let scale = expected.iter().fold(0f32, |scale, x| scale.max(x.abs()));
            let error = row.iter().zip(expected).fold(0f32, |most, (a, b)| most.max((a - b).abs())) / scale;
            assert!(error <= tolerance, "{element}: {error}");
        }
    }
}

fn random(count: usize, scale: f32, state: &mut u32) -> Vec<f32> {
    let mut next = || {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next() * scale).collect()
}

/// A GGUF file of a random model whose rows are whole blocks of every type: 256 wide, 2 layers, 4 query and 2
/// key heads of 64, 80 tokens, context 64. `dtype` is the type of its matrices; with `widened`, they are
/// rounded to that type and then stored as f32.
fn random_gguf(dtype: GgmlDType, widened: bool) -> Vec<u8> {
    use gguf_file::Value;
    let mut state = 12345u32;
    let mut tensors: Vec<(String, QTensor)> = Vec::new();
    let mut matrix = |name: &str, rows: usize| {
        let values = Tensor::from_vec(random(rows * 256, 0.12, &mut state), (rows, 256), &Device::Cpu).unwrap();
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
