//! Files that lie: every one gives a typed error that says what is wrong, without panicking or allocating what the file
//! claims.

use std::io::Cursor;

use outrider_models::{LoadError, Model};
use outrider_testing::{llama::random, logits::logits_at_all};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{BLOCKS, DRAFT};

fn load(bytes: &[u8]) -> Result<Model, LoadError> {
    Model::from_gguf(&mut Cursor::new(bytes))
}

fn error(bytes: &[u8]) -> LoadError {
    match load(bytes) {
        Ok(_) => panic!("a corrupt file was loaded"),
        Err(error) => error,
    }
}

/// A small valid file, with `from` replaced by `to` wherever it stands.
fn altered(from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = BLOCKS[2].1.to_vec();
    let offsets: Vec<usize> = (0..=bytes.len() - from.len()).filter(|&i| bytes[i..].starts_with(from)).collect();
    assert!(!offsets.is_empty(), "nothing to replace");
    for offset in offsets {
        bytes[offset..offset + to.len()].copy_from_slice(to);
    }
    bytes
}

/// `key` with its type code and `value`, as they are in a file.
fn setting(key: &str, code: u32, value: &[u8]) -> Vec<u8> {
    [key.as_bytes(), &code.to_le_bytes(), value].concat()
}

#[test]
fn every_truncation_is_an_error() {
    let small = BLOCKS[2].1;
    for len in 0..small.len() {
        // The last tensor's data may be followed by padding.
        if small.len() - len > 32 {
            assert!(load(&small[..len]).is_err(), "loaded {len} of {} bytes", small.len());
        }
    }
    for step in 0..200 {
        let len = (DRAFT.len() - 64) * step / 199;
        assert!(load(&DRAFT[..len]).is_err(), "loaded {len} of {} bytes", DRAFT.len());
    }
    assert!(matches!(error(&DRAFT[..DRAFT.len() - 64]), LoadError::Truncated { .. }));
}

#[test]
fn flipped_bits_never_panic() {
    let mut seed = 7;
    let mut random = |below: usize| random(&mut seed) as usize % below;
    let mut loaded = 0;
    for (bytes, header, rounds) in [(BLOCKS[2].1, 2048, 6000), (BLOCKS[1].1, 2048, 2000), (DRAFT, 2048, 300)] {
        for _ in 0..rounds {
            let mut bytes = bytes.to_vec();
            for _ in 0..=random(3) {
                bytes[random(header)] ^= 1 << random(8);
            }
            if let Ok(model) = load(&bytes) {
                loaded += 1;
                if model.config().context_length > 1 {
                    logits_at_all(&model, &mut model.new_cache(), &[0, 1]);
                }
            }
        }
    }
    assert!(loaded > 0, "flips in names of unused settings do no harm");
}

#[test]
fn headers_that_cannot_be_true() {
    assert!(matches!(error(b""), LoadError::Truncated { needed: 4, remaining: 0, .. }));
    assert!(matches!(error(b"GGML\x03\0\0\0"), LoadError::NotGguf { found } if found == *b"GGML"));
    for (file, named) in [
        (b"version https://git-lfs.example/spec/v1\noid".as_slice(), "Git LFS"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"PK\x03\x04....", "ZIP"),
        (b"\x08\x08\x12\x07pytorch", "ONNX"),
    ] {
        let config = include_bytes!("../golden/grouped.config.json");
        for refused in [load(file), Model::from_safetensors(config, file)] {
            assert!(refused.is_err_and(|error| error.to_string().contains(named)), "{named}");
        }
    }
    assert!(matches!(error(b"GGUF\x01\0\0\0"), LoadError::GgufVersion { found: 1 }));
    assert!(matches!(error(b"GGUF\0\0\0\x03"), LoadError::BigEndian));
    for count in [1u64, 1 << 32, u64::MAX] {
        let tensors = [b"GGUF\x03\0\0\0".as_slice(), &count.to_le_bytes(), &[0; 8]].concat();
        assert!(matches!(error(&tensors), LoadError::Truncated { offset: 24, remaining: 0, .. }));
        let metadata = [b"GGUF\x03\0\0\0".as_slice(), &[0; 8], &count.to_le_bytes()].concat();
        assert!(matches!(error(&metadata), LoadError::Truncated { offset: 24, remaining: 0, .. }));
    }
    let empty = [b"GGUF\x03\0\0\0".as_slice(), &[0; 16]].concat();
    assert!(matches!(error(&empty), LoadError::MissingSetting { key } if key == "general.architecture"));
}

/// A file with one metadata entry named `key` that is `value`, followed by 64 bytes.
fn with_value(value: &[u8]) -> Vec<u8> {
    let head = [b"GGUF\x03\0\0\0".as_slice(), &0u64.to_le_bytes(), &1u64.to_le_bytes()].concat();
    [&head, 3u64.to_le_bytes().as_slice(), b"key", value, &[0; 64]].concat()
}

#[test]
fn values_that_cannot_be_true() {
    let huge = u64::MAX.to_le_bytes();
    let text = [8u32.to_le_bytes().as_slice(), &huge].concat();
    assert!(matches!(error(&with_value(&text)), LoadError::Truncated { needed: u64::MAX, remaining: 64, .. }));
    for element in [0u32, 4, 8, 9, 12] {
        let array = [9u32.to_le_bytes().as_slice(), &element.to_le_bytes(), &huge].concat();
        assert!(matches!(error(&with_value(&array)), LoadError::Truncated { needed: u64::MAX, .. }));
    }
    let nested =
        [9u32.to_le_bytes().as_slice(), &[9u32.to_le_bytes().as_slice(), &[1, 0, 0, 0, 0, 0, 0, 0]].concat().repeat(9)]
            .concat();
    assert!(matches!(error(&with_value(&nested)), LoadError::OverLimit { .. }));
    assert!(matches!(error(&with_value(&13u32.to_le_bytes())), LoadError::MetadataTypeCode { code: 13, .. }));
    assert!(matches!(error(&with_value(&[7, 0, 0, 0, 2])), LoadError::InvalidSetting { .. }));
    let not_text = [8u32.to_le_bytes().as_slice(), &1u64.to_le_bytes(), &[0xff]].concat();
    assert!(matches!(error(&with_value(&not_text)), LoadError::NotUtf8 { .. }));
    let mut long_name = with_value(&[]);
    long_name[24..32].copy_from_slice(&65_536u64.to_le_bytes());
    assert!(matches!(error(&long_name), LoadError::OverLimit { found: 65_536, limit: 65_535, .. }));
}

#[test]
fn settings_that_make_no_sense() {
    let u32_of = |value: u32| value.to_le_bytes();
    for (key, valid, values) in [
        ("llama.attention.head_count", 4, [0, 3, 5, 1 << 31]),
        ("llama.attention.head_count_kv", 2, [0, 3, 8, u32::MAX]),
        ("llama.block_count", 2, [0, 1, 3, 1 << 24]),
        ("llama.context_length", 48, [0, u32::MAX, (1 << 24) + 1, 1 << 31]),
        ("llama.embedding_length", 32, [0, 31, 64, u32::MAX]),
        ("llama.feed_forward_length", 64, [0, 63, 65, u32::MAX]),
        ("llama.vocab_size", 64, [0, 63, 65, u32::MAX]),
        ("llama.attention.key_length", 16, [0, 15, 17, u32::MAX]),
        ("llama.rope.dimension_count", 16, [0, 15, 18, u32::MAX]),
    ] {
        for value in values {
            let bytes = altered(&setting(key, 4, &u32_of(valid)), &setting(key, 4, &u32_of(value)));
            assert!(load(&bytes).is_err(), "{key} = {value} was accepted");
        }
        // The same bits as a float.
        let bytes = altered(&setting(key, 4, &u32_of(valid)), &setting(key, 6, &u32_of(valid)));
        assert!(matches!(error(&bytes), LoadError::InvalidSetting { key: found, .. } if found == key));
    }
    for (key, valid) in [("llama.rope.freq_base", 20_000.0f32), ("llama.attention.layer_norm_rms_epsilon", 1e-5)] {
        for value in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let bytes = altered(&setting(key, 6, &valid.to_le_bytes()), &setting(key, 6, &value.to_le_bytes()));
            assert!(matches!(error(&bytes), LoadError::InvalidSetting { .. }), "{key} = {value}");
        }
    }
    let other = altered(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba");
    assert!(matches!(error(&other), LoadError::UnknownFamily { what: "architecture", found, .. } if found == "mamba"));
}

#[test]
fn tensors_that_are_not_as_they_should_be() {
    let renamed = altered(b"blk.1.ffn_up.weight", b"blk.1.ffn_up.wEight");
    assert!(matches!(error(&renamed), LoadError::MissingTensor { name } if name == "blk.1.ffn_up.weight"));
    let head = b"\x0d\0\0\0\0\0\0\0output.weight";
    let bias = altered(head, b"\x0d\0\0\0\0\0\0\0output.biased");
    assert!(matches!(error(&bias), LoadError::UnexpectedTensor { name } if name == "output.biased"));
    let twice = altered(b"blk.1.ffn_up", b"blk.0.ffn_up");
    assert!(matches!(error(&twice), LoadError::Duplicate { name } if name == "blk.0.ffn_up.weight"));

    let name = b"blk.0.attn_k.weight";
    let info = |dimensions: u32, inner: u64, outer: u64, code: u32| {
        let parts: [&[u8]; 5] =
            [name, &dimensions.to_le_bytes(), &inner.to_le_bytes(), &outer.to_le_bytes(), &code.to_le_bytes()];
        parts.concat()
    };
    let valid = info(2, 32, 32, 8);
    for (inner, outer) in [(32, 33), (33, 32), (0, 0), (u64::MAX, u64::MAX), (1 << 32, 1 << 32), (1, 1024)] {
        let bytes = altered(&valid, &info(2, inner, outer, 8));
        let LoadError::TensorShape { found, expected, .. } = error(&bytes) else { panic!("not a shape error") };
        assert_eq!((found, expected), (vec![outer, inner], vec![32, 32]));
    }
    assert!(matches!(error(&altered(&valid, &info(5, 32, 32, 8))), LoadError::OverLimit { found: 5, .. }));
    for code in [9, 15, 16, 31, 99, u32::MAX] {
        assert!(matches!(error(&altered(&valid, &info(2, 32, 32, code))), LoadError::TensorType { .. }));
    }
    // 32 columns are no whole block of 256.
    let partial = altered(&valid, &info(2, 32, 32, 12));
    assert!(matches!(error(&partial), LoadError::PartialBlock { columns: 32, block: 256, .. }));
}

#[test]
fn checkpoints_that_are_not_as_they_should_be() {
    let config = include_str!("../golden/grouped.config.json");
    let weights = include_bytes!("../golden/grouped.safetensors");
    let error = |config: &str, weights: &[u8]| match Model::from_safetensors(config.as_bytes(), weights) {
        Ok(_) => panic!("a corrupt checkpoint was loaded"),
        Err(error) => error,
    };
    for step in 0..200 {
        let len = (weights.len() - 1) * step / 199;
        let error = error(config, &weights[..len]);
        assert!(matches!(error, LoadError::Safetensors(_) | LoadError::Truncated { .. }), "{len} bytes: {error}");
    }
    assert!(matches!(error("{", weights), LoadError::Config(_)));
    assert!(matches!(error("{}", weights), LoadError::MissingSetting { key } if key == "model_type"));
    let other = config.replace("\"model_type\": \"llama\"", "\"model_type\": \"mamba\"");
    assert!(matches!(error(&other, weights), LoadError::UnknownFamily { found, .. } if found == "mamba"));
    for (from, to) in [
        ("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\""),
        ("\"rope_type\": \"default\"", "\"rope_type\": \"ntk\""),
        ("\"rope_type\": \"default\"", "\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5"),
    ] {
        assert!(config.contains(from));
        assert!(matches!(error(&config.replace(from, to), weights), LoadError::Unsupported { .. }), "{to}");
    }
    for (from, to) in [
        ("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"),
        ("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 0"),
        ("\"num_attention_heads\": 4", "\"num_attention_heads\": 0"),
        ("\"head_dim\": 10", "\"head_dim\": 9"),
        ("\"bos_token_id\": 0", "\"bos_token_id\": 61"),
        ("\"max_position_embeddings\": 48", "\"max_position_embeddings\": 18446744073709551615"),
    ] {
        assert!(config.contains(from));
        let error = error(&config.replace(from, to), weights);
        assert!(matches!(error, LoadError::InvalidSetting { .. } | LoadError::Config(_)), "{to}: {error}");
    }
    let biased = config.replace("\"hidden_act\": \"silu\"", "\"hidden_act\": \"silu\", \"attention_bias\": true");
    assert!(matches!(error(&biased, weights), LoadError::MissingTensor { .. }));
    let fewer = config.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
    assert!(matches!(error(&fewer, weights), LoadError::UnexpectedTensor { .. }));
    let more = config.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    assert!(matches!(error(&more, weights), LoadError::MissingTensor { .. }));
    let wider = config.replace("\"intermediate_size\": 56", "\"intermediate_size\": 57");
    assert!(matches!(error(&wider, weights), LoadError::TensorShape { .. }));
}
