//! Agreement with the reference implementation; `../golden/README.md` says how the files were made.

use std::collections::BTreeMap;

use outrider_models::Model;
use outrider_testing::logits::{argmax, compare, logits_at_all};
use serde::Deserialize;
use sha2::{Digest, Sha256};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{BLOCKS, DRAFT, TARGET, gguf};

#[derive(Deserialize)]
struct Rows {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

/// The largest relative error over all rows.
fn worst_error(model: &Model, tokens: &[u32], expected: &[Vec<f32>], tolerance: f32) -> f32 {
    let actual = logits_at_all(model, &mut model.new_cache(), tokens);
    assert_eq!(actual.len(), expected.len());
    let errors = actual.iter().zip(expected).map(|(a, b)| compare(a, b, tolerance).unwrap());
    errors.fold(0.0, f32::max)
}

macro_rules! checkpoint {
    ($name:literal) => {
        (
            include_bytes!(concat!("../golden/", $name, ".config.json")).as_slice(),
            include_bytes!(concat!("../golden/", $name, ".safetensors")).as_slice(),
            include_bytes!(concat!("../golden/", $name, ".json")).as_slice(),
        )
    };
}

#[test]
fn checkpoints_of_odd_shapes_match_to_f32_precision() {
    for (config, weights, rows) in [checkpoint!("grouped"), checkpoint!("llama3_rope"), checkpoint!("linear_rope")] {
        let model = Model::from_safetensors(config, weights).unwrap();
        assert_eq!(model.config().eos_token_ids, [1, 2]);
        assert_eq!(model.config().bos_token_id, Some(0));
        let rows: Rows = serde_json::from_slice(rows).unwrap();
        let error = worst_error(&model, &rows.tokens, &rows.logits, 1e-5);
        assert!(error > 0.0, "equal to the last bit: was the right model compared?");
    }
}

#[test]
fn a_wrong_rotary_base_would_be_noticed() {
    let (config, weights, rows) = checkpoint!("grouped");
    let config = String::from_utf8(config.to_vec()).unwrap().replace("500000.0", "400000.0");
    let model = Model::from_safetensors(config.as_bytes(), weights).unwrap();
    let rows: Rows = serde_json::from_slice(rows).unwrap();
    let actual = logits_at_all(&model, &mut model.new_cache(), &rows.tokens);
    assert!(compare(&actual[22], &rows.logits[22], 1e-4).is_err());
}

#[test]
fn gguf_types_match_within_their_activation_rounding() {
    let golden: serde_json::Value = serde_json::from_slice(include_bytes!("../golden/blocks.json")).unwrap();
    let tokens: Vec<u32> = serde_json::from_value(golden["tokens"].clone()).unwrap();
    for (kind, bytes) in BLOCKS {
        let expected: Vec<Vec<f32>> = serde_json::from_value(golden[kind].clone()).unwrap();
        // The reference multiplies f32 activations; block types round them to 8 bits first.
        let tolerance = if kind.starts_with('q') { 6e-2 } else { 1e-5 };
        worst_error(&gguf(bytes), &tokens, &expected, tolerance);
    }
}

#[derive(Deserialize)]
struct Pair {
    tokens: Vec<u32>,
    draft: PairModel,
    target: PairModel,
}

#[derive(Deserialize)]
struct PairModel {
    argmax: Vec<usize>,
    rows: BTreeMap<usize, Sample>,
}

#[derive(Deserialize)]
struct Sample {
    ids: Vec<usize>,
    logits: Vec<f32>,
}

#[test]
fn the_pair_stays_close_to_its_source_in_f32() {
    let pair: Pair = serde_json::from_slice(include_bytes!("../golden/pair.json")).unwrap();
    // The draft is rounded to Q8_0; the target has its source's weights, so only the order of additions differs.
    for (bytes, golden, tolerance, agreement) in [(DRAFT, pair.draft, 3e-2, 0.9), (TARGET, pair.target, 1e-5, 1.0)] {
        let model = gguf(bytes);
        let logits = logits_at_all(&model, &mut model.new_cache(), &pair.tokens);
        for (position, sample) in &golden.rows {
            let actual: Vec<f32> = sample.ids.iter().map(|&id| logits[*position][id]).collect();
            compare(&actual, &sample.logits, tolerance).unwrap();
        }
        let agreeing = logits.iter().zip(&golden.argmax).filter(|(row, best)| argmax(row) == **best).count();
        let rate = agreeing as f32 / golden.argmax.len() as f32;
        assert!(rate >= agreement, "same argmax at {rate} of the positions");
    }
}

/// The logits of a fixed sequence, to the last bit: the same on every processor, in every build and with every number
/// of threads. A change of the arithmetic changes these, and says so.
#[test]
fn logits_have_the_same_bits_everywhere() {
    let tokens: Vec<u32> = (0..40).map(|i| (i * i * 7 + i * 3) % 61).collect();
    let digest = |model: &Model| {
        let logits = logits_at_all(model, &mut model.new_cache(), &tokens);
        let bytes: Vec<u8> = logits.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let models = BLOCKS.iter().map(|(_, bytes)| *bytes).chain([DRAFT, TARGET]);
    let digests: Vec<String> = models.map(|bytes| digest(&gguf(bytes))).collect();
    let recorded = [
        "cbe4cf0296f81e7b",
        "cf4abb1b7297b0c2",
        "8b22e0243ac3a4b2",
        "eeb91de9c59ad47c",
        "3eb3869ef6aa5561",
        "7150e1610159a687",
    ];
    assert_eq!(digests, recorded);
}
