//! Checkpoints that also read images: their language model, and settings that change nothing.

use outrider_models::{LoadError, Model, check_model_type};
use outrider_testing::{
    families::goldens,
    golden::{Golden, Weight, safetensors},
    logits::on_cpu,
};
use serde_json::{Value, json};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn of_family(family: &str) -> Golden {
    goldens().into_iter().find(|golden| golden.family == family).unwrap()
}

/// Logits of a checkpoint, or its refusal.
fn logits(config: &[u8], weights: &[u8], tokens: &[u32]) -> Result<Vec<Vec<f32>>, LoadError> {
    Ok(on_cpu(&Model::from_safetensors(config, weights)?, tokens, tokens.len()))
}

/// Both orders of prefixes are in use: that of the first published files, and that of later versions of transformers.
#[test]
fn a_text_tower_has_the_logits_of_its_language_model() {
    for (outer, family) in [("gemma3", "gemma3_text"), ("mistral3", "mistral")] {
        let golden = of_family(family);
        let (config, weights) = golden.checkpoint();
        let expected = logits(&config, &weights, &golden.tokens).unwrap();
        let text_config: Value = serde_json::from_slice(&config).unwrap();
        let config = json!({
            "architectures": ["ForConditionalGeneration"], "model_type": outer, "text_config": text_config,
            "vision_config": { "model_type": "siglip_vision_model", "hidden_size": 8 }, "mm_tokens_per_image": 256,
            "image_token_index": 10, "eos_token_id": [1, 2], "projector_hidden_act": "gelu", "spatial_merge_size": 2,
        });
        let config = serde_json::to_vec(&config).unwrap();
        for (prefix, vision) in [("language_model.", ""), ("", "model.")] {
            let renamed = |weight: Weight| {
                let name = match weight.name.strip_prefix("model.") {
                    Some(rest) if prefix.is_empty() => format!("model.language_model.{rest}"),
                    _ => format!("{prefix}{}", weight.name),
                };
                Weight { name, ..weight }
            };
            let mut tensors: Vec<Weight> = golden.weights().into_iter().map(renamed).collect();
            for part in ["vision_tower.embeddings.weight", "multi_modal_projector.linear.weight"] {
                tensors.push(Weight { name: format!("{vision}{part}"), shape: vec![2, 3], values: vec![0.5; 6] });
            }
            let found = logits(&config, &safetensors(&tensors, "F32"), &golden.tokens).unwrap();
            assert_eq!(found, expected, "{outer} {prefix}");
            let model = Model::from_safetensors(&config, &safetensors(&tensors, "F32")).unwrap();
            assert_eq!(model.config().eos_token_ids, [1, 2]);
        }
    }
}

/// The first files of Gemma 3 leave out the settings that are `Gemma3TextConfig`'s defaults.
#[test]
fn settings_that_gemma_3_leaves_out_are_its_defaults() {
    let text = json!({
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": { "factor": 8.0, "rope_type": "linear" }, "sliding_window": 1024,
    });
    let config = json!({ "model_type": "gemma3", "text_config": text, "boi_token_index": 255_999 });
    let found = Model::from_safetensors(config.to_string().as_bytes(), &safetensors(&[], "F32")).err().unwrap();
    // All settings are there; the weights are not.
    assert!(matches!(&found, LoadError::MissingTensor { name } if name == "model.embed_tokens.weight"), "{found}");
}

/// Other families are refused by name, with those that are supported.
#[test]
fn a_refused_family_names_the_supported_ones() {
    for family in ["qwen3_5", "qwen3_next", "mamba"] {
        let config = json!({ "model_type": family, "text_config": { "model_type": "qwen3_5_text" } }).to_string();
        for found in [
            Model::from_safetensors(config.as_bytes(), &[]).err().unwrap(),
            check_model_type(config.as_bytes()).unwrap_err(),
        ] {
            let message = found.to_string();
            assert!(matches!(found, LoadError::UnknownFamily { .. }), "{message}");
            for part in [family, "llama", "gemma3", "mistral3", "--target vllm:URL"] {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
    }
}

/// Values that say nothing, and settings of training, sampling and tools.
#[test]
fn settings_that_change_nothing_are_passed_over() {
    let golden = of_family("llama");
    let (config, weights) = golden.checkpoint();
    let expected = logits(&config, &weights, &golden.tokens).unwrap();
    let layers = golden.config["num_hidden_layers"].as_u64().unwrap() as usize;
    let inert = [
        ("_model_name_or_path", json!("meta-llama/Llama-3.2-1B")),
        ("task_type", json!("CAUSAL_LM")),
        ("ignore_index", json!(-100)),
        ("hidden_dropout_prob", json!(0.1)),
        ("ffn_dropout", json!(0.0)),
        ("layer_types", json!(vec!["full_attention"; layers])),
        ("use_flash_attn", json!(true)),
        ("max_new_tokens", json!(256)),
        ("unknown_null", json!(null)),
        ("unknown_flag", json!(false)),
        ("unknown_number", json!(0)),
        ("unknown_float", json!(0.0)),
        ("unknown_text", json!("")),
        ("unknown_list", json!([])),
        ("unknown_object", json!({})),
    ];
    for change in inert {
        let found = logits(&golden.config_with(std::slice::from_ref(&change)), &weights, &golden.tokens);
        assert_eq!(found.unwrap_or_else(|error| panic!("{error}")), expected, "{change:?}");
    }
    for (key, value) in [
        ("unknown_flag", json!(true)),
        ("unknown_number", json!(1)),
        ("is_causal", json!(false)),
        ("layer_types", json!(vec!["sliding_attention"; layers])),
    ] {
        let found = logits(&golden.config_with(&[(key, value)]), &weights, &golden.tokens).unwrap_err();
        let message = found.to_string();
        assert!(message.contains(&format!("--ignore-setting {key}")), "{message}");
    }
}

/// Settings are ignored for the whole process, so this one is used nowhere else.
#[test]
fn a_setting_is_ignored_by_request() {
    let golden = of_family("llama");
    let (config, weights) = golden.checkpoint();
    let with = golden.config_with(&[("setting_of_this_test", json!(3))]);
    assert!(matches!(logits(&with, &weights, &[1]), Err(LoadError::UnknownSetting { .. })));
    outrider_models::ignore_settings(&["setting_of_this_test".to_owned()]);
    assert_eq!(logits(&with, &weights, &[1]).unwrap(), logits(&config, &weights, &[1]).unwrap());
}
