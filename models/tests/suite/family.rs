//! Every family, container by container, against transformers.

use outrider_models::{Chunk, LoadError, Model};
use outrider_testing::{
    families::{assert_greedy_texts_of_transformers, assert_logits_of_transformers, goldens},
    gguf::F32,
    golden::Golden,
    llama::Shape,
    logits::{compare, logits_at_all, on_cpu},
};
use serde_json::json;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Largest |a − b| / max |b| of a row: sums of f32 in another order, through a few layers.
const TOLERANCE: f32 = 1e-4;

fn checkpoint(golden: &Golden) -> Model {
    let (config, weights) = golden.checkpoint();
    Model::from_safetensors(&config, &weights).unwrap()
}

/// Both containers of a model, as far as there are two.
fn containers(golden: &Golden) -> Vec<(&'static str, Model)> {
    let gguf = golden.gguf().map(|bytes| ("GGUF", Model::from_gguf(&mut &*bytes).unwrap()));
    [("safetensors", checkpoint(golden))].into_iter().chain(gguf).collect()
}

/// `cargo test -p outrider-models families -- --nocapture` prints the table of the greatest errors.
#[test]
fn every_family_has_the_logits_of_transformers() {
    assert_logits_of_transformers(&containers, TOLERANCE, |model, tokens| on_cpu(model, tokens, tokens.len()));
}

#[test]
fn greedy_texts_are_those_of_transformers() {
    assert_greedy_texts_of_transformers(&containers, Model::new_cache, |model, cache, tokens| {
        logits_at_all(model, cache, tokens).pop().unwrap()
    });
}

/// Windows, learned positions and everything else that depends on where a token is: in one piece, in pieces, beside
/// others and after a rollback, bit for bit.
#[test]
fn no_family_depends_on_how_its_tokens_come() {
    for golden in goldens() {
        let model = checkpoint(&golden);
        let tokens = [&golden.tokens[..], &golden.greedy].concat();
        let expected = logits_at_all(&model, &mut model.new_cache(), &tokens);
        let (mut pieces, mut other) = (model.new_cache(), model.new_cache());
        logits_at_all(&model, &mut other, &tokens[5..41]);
        let mut rows = Vec::new();
        for (turn, piece) in tokens.chunks(7).enumerate() {
            // What is rolled back leaves no trace.
            let before = pieces.len();
            logits_at_all(&model, &mut pieces, &golden.tokens[..3]);
            pieces.truncate(before);
            let positions: Vec<usize> = (0..piece.len()).collect();
            let last = [tokens[turn]];
            let mut batch = [
                Chunk { cache: &mut other, tokens: &last, positions: &[0] },
                Chunk { cache: &mut pieces, tokens: piece, positions: &positions },
            ];
            let logits = model.forward(&mut batch).unwrap();
            rows.extend(logits[1].iter().map(<[f32]>::to_vec));
        }
        assert_eq!(rows, expected, "{}", golden.family);
        // Only the last row wanted: the last block computes that one alone.
        let mut cache = model.new_cache();
        let chunk = Chunk { cache: &mut cache, tokens: &tokens, positions: &[tokens.len() - 1] };
        assert_eq!(model.forward(&mut [chunk]).unwrap()[0].row(0), *expected.last().unwrap(), "{}", golden.family);
    }
}

/// Unknown settings may change the result, so they are refused.
#[test]
fn unknown_settings_are_refused_by_name() {
    for golden in goldens() {
        let (_, weights) = golden.checkpoint();
        let with = |changes| Model::from_safetensors(&golden.config_with(changes), &weights);
        let found = with(&[("new_kind_of_attention", json!(true))]).err().unwrap();
        let is_named = matches!(&found, LoadError::UnknownSetting { key, .. } if key == "new_kind_of_attention");
        assert!(is_named, "{}: {found}", golden.family);
        // What says nothing, or nothing of the computation, is passed over.
        with(&[("new_kind_of_attention", json!(null)), ("torch_dtype", json!("bfloat16"))]).unwrap();
    }
    let llama = &goldens()[0];
    let mut bytes = llama.gguf().unwrap();
    let key = b"llama.rope.freq_base";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap();
    bytes[at..at + key.len()].copy_from_slice(b"llama.rope.freq_bass");
    let found = Model::from_gguf(&mut &*bytes).err().unwrap();
    let is_named = matches!(&found, LoadError::UnknownSetting { key, .. } if key == "llama.rope.freq_bass");
    assert!(is_named, "{found}");
}

/// Values that say nothing are passed over in GGUF files as in a `config.json`.
#[test]
fn unknown_settings_of_gguf_files_may_say_nothing() {
    const SHAPE: Shape = Shape { vocab: 48, hidden: 32, inner: 64, layers: 1, heads: 4 };
    let with = |key: &str, code: u32, value: &[u8]| {
        Model::from_gguf(&mut &*SHAPE.gguf(F32).entry(&format!("llama.{key}"), code, value).finish())
    };
    let silent: [(u32, &[u8]); 6] = [(4, &[0; 4]), (5, &[0; 4]), (6, &[0; 4]), (12, &[0; 8]), (7, &[0]), (8, &[0; 8])];
    for (code, value) in silent {
        let loaded = with("setting_of_next_year", code, value);
        assert!(loaded.is_ok(), "type {code}: {}", loaded.err().unwrap());
    }
    let speaking: [(u32, &[u8]); 3] = [(4, &[1, 0, 0, 0]), (7, &[1]), (8, b"\x01\0\0\0\0\0\0\0x")];
    for (code, value) in speaking {
        let found = with("setting_of_next_year", code, value).err();
        assert!(matches!(found, Some(LoadError::UnknownSetting { .. })), "type {code}: {found:?}");
    }
    // False is not what these families compute.
    for key in ["use_parallel_residual", "expert_weights_norm"] {
        assert!(matches!(with(key, 7, &[0]).err(), Some(LoadError::UnknownSetting { .. })), "{key}");
    }
}

/// Deviations that are recognized but not computed.
#[test]
fn what_is_not_computed_is_refused() {
    let refused = [
        ("llama", "hidden_act", json!("gelu")),
        ("llama", "rope_parameters", json!({"rope_type": "proportional", "factor": 2.0})),
        ("qwen2", "layer_types", json!(["linear_attention", "full_attention", "full_attention"])),
        ("gemma2", "use_bidirectional_attention", json!(true)),
        ("gemma", "hidden_act", json!("relu")),
        ("stablelm", "use_parallel_residual", json!(true)),
        ("stablelm", "qk_layernorm", json!(true)),
        ("gpt2", "scale_attn_by_inverse_layer_idx", json!(true)),
        ("gpt2", "activation_function", json!("gelu")),
        ("gpt_neo", "attention_types", json!([[["global", "strided"], 2]])),
        ("opt", "do_layer_norm_before", json!(false)),
        ("opt", "word_embed_proj_dim", json!(16)),
    ];
    for (family, key, value) in refused {
        let all = goldens();
        let golden = all.iter().find(|golden| golden.family == family).unwrap();
        let (_, weights) = golden.checkpoint();
        let found = Model::from_safetensors(&golden.config_with(&[(key, value)]), &weights).err();
        assert!(matches!(found, Some(LoadError::Unsupported { .. })), "{family} {key}: {found:?}");
    }
}

/// Settings that published files of a family have and that change nothing.
#[test]
fn settings_of_published_files_are_understood() {
    for (family, key, value) in [
        ("smollm3", "max_window_layers", json!(28)),
        ("phi3", "lm_head_bias", json!(false)),
        ("phi3", "full_attn_mod", json!(1)),
        ("phi3", "interpolate_factor", json!(1)),
        ("gpt2", "output_past", json!(true)),
        ("gpt2", "_num_labels", json!(1)),
        ("qwen2", "use_mrope", json!(false)),
    ] {
        let all = goldens();
        let golden = all.iter().find(|golden| golden.family == family).unwrap();
        let (_, weights) = golden.checkpoint();
        let model = Model::from_safetensors(&golden.config_with(&[(key, value)]), &weights);
        let model = model.unwrap_or_else(|error| panic!("{family} {key}: {error}"));
        let rows = logits_at_all(&model, &mut model.new_cache(), &golden.tokens);
        compare(rows.last().unwrap(), golden.logits.last().unwrap(), TOLERANCE).unwrap();
    }
}

/// `SmolLM3Config` gives the window to the layers without rotary positions, unless the config lists the layers' types.
#[test]
fn a_window_without_types_of_layers_is_smollm3s() {
    let all = goldens();
    let golden = all.iter().find(|golden| golden.family == "smollm3").unwrap();
    let (_, weights) = golden.checkpoint();
    let changes = [("use_sliding_window", json!(true)), ("sliding_window", json!(9)), ("layer_types", json!(null))];
    let model = Model::from_safetensors(&golden.config_with(&changes), &weights).unwrap();
    let windows: Vec<_> = (0..5).map(|layer| model.config().block.window(layer)).collect();
    assert_eq!(windows, [None, None, None, Some(9), None]);
}
