//! Mixtures of experts, container by container, against an oracle in float64 (`../golden/make_experts.py`), and gpt-oss
//! against transformers (`../golden/make_gpt_oss.py`).

use outrider_models::{ActivationBits, Chunk, LoadError, Model};
use outrider_testing::{
    families::mixtures,
    golden::Golden,
    logits::{argmax, compare, logits_at_all},
};
use serde_json::json;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn containers(golden: &Golden) -> Vec<(&'static str, Model)> {
    let (config, weights) = golden.checkpoint();
    let gguf = golden.gguf().map(|bytes| ("GGUF", Model::from_gguf(&mut &*bytes).unwrap()));
    [("safetensors", Model::from_safetensors(&config, &weights).unwrap())].into_iter().chain(gguf).collect()
}

#[test]
fn mixtures_have_the_logits_and_the_texts_of_the_oracle() {
    let mut compared = Vec::new();
    for golden in mixtures() {
        // Quantized weights multiply rounded activations.
        let tolerance = if golden.config["quantization_config"].is_null() { 1e-4 } else { 5e-4 };
        for (container, mut model) in containers(&golden) {
            model.set_activation_bits(ActivationBits::Sixteen);
            let mut cache = model.new_cache();
            let rows = logits_at_all(&model, &mut cache, &golden.tokens);
            for (row, expected) in golden.rows.iter().zip(&golden.logits) {
                let error = compare(&rows[*row], expected, tolerance);
                error.unwrap_or_else(|error| panic!("{} {container} row {row}: {error}", golden.family));
            }
            let mut last = rows.last().unwrap().clone();
            for &token in &golden.greedy {
                assert_eq!(argmax(&last) as u32, token, "{} {container}", golden.family);
                last = logits_at_all(&model, &mut cache, &[token]).pop().unwrap();
            }
            compared.push((golden.family.clone(), container));
        }
    }
    assert_eq!(compared.iter().filter(|(_, container)| *container == "GGUF").count(), 6, "{compared:?}");
}

/// The order of additions is that of the experts, not of the batch.
#[test]
fn a_mixture_does_not_depend_on_how_its_tokens_come() {
    for golden in mixtures() {
        let (_, model) = containers(&golden).swap_remove(0);
        let expected = logits_at_all(&model, &mut model.new_cache(), &golden.tokens);
        let (mut cache, mut other) = (model.new_cache(), model.new_cache());
        let mut rows = Vec::new();
        for piece in golden.tokens.chunks(5) {
            let positions: Vec<usize> = (0..piece.len()).collect();
            let mut batch = [
                Chunk { cache: &mut other, tokens: &golden.tokens[..2], positions: &[1] },
                Chunk { cache: &mut cache, tokens: piece, positions: &positions },
            ];
            rows.extend(model.forward(&mut batch).unwrap()[1].iter().map(<[f32]>::to_vec));
        }
        assert_eq!(rows, expected, "{}", golden.family);
    }
}

/// Layers without experts and more experts than there are would be computed wrongly.
#[test]
fn mixtures_that_are_not_computed_are_refused() {
    let golden = &mixtures()[0];
    let (_, weights) = golden.checkpoint();
    for (key, value) in
        [("decoder_sparse_step", json!(2)), ("mlp_only_layers", json!([0])), ("num_experts_per_tok", json!(9))]
    {
        let found = Model::from_safetensors(&golden.config_with(&[(key, value)]), &weights).err().unwrap();
        assert!(matches!(found, LoadError::Unsupported { .. } | LoadError::InvalidSetting { .. }), "{key}: {found}");
    }
    // One expert more in the tensor than in the settings.
    let mut bytes = golden.gguf().unwrap();
    let key = [b"qwen3moe.expert_count".as_slice(), &4u32.to_le_bytes()].concat();
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    bytes[at..at + 4].copy_from_slice(&7u32.to_le_bytes());
    assert!(Model::from_gguf(&mut &*bytes).is_err());
}
