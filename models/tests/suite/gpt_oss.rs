//! gpt-oss: what its containers have of their own. `experts` compares logits and texts with transformers.

use outrider_models::{ActivationBits, Chunk, LoadError, Model, ModelLoader};
use outrider_testing::{
    families::gpt_oss,
    golden::{Golden, Weight, safetensors},
    llama::random,
    logits::{compare, logits_at_all},
    safetensors::with_settings,
};
use serde_json::json;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// The model whose experts are in MXFP4.
fn packed() -> Golden {
    gpt_oss().pop().unwrap()
}

fn load(golden: &Golden, weights: &[Weight]) -> Result<Model, LoadError> {
    Model::from_safetensors(&golden.config_with(&[]), &safetensors(weights, "F32"))
}

/// Error of the last row of logits.
fn error(golden: &Golden, mut model: Model) -> Result<f32, String> {
    model.set_activation_bits(ActivationBits::Sixteen);
    let rows = logits_at_all(&model, &mut model.new_cache(), &golden.tokens);
    compare(rows.last().unwrap(), golden.logits.last().unwrap(), 1e-2)
}

/// Makes an error in the weights of every model that has some of this name, and fails unless the logits show it.
fn assert_seen(what: &str, name: &str, change: impl Fn(&mut Weight)) {
    let mut planted = 0;
    for golden in gpt_oss() {
        let mut weights = golden.weights();
        let mut named: Vec<_> = weights.iter_mut().filter(|weight| weight.name.ends_with(name)).collect();
        if named.is_empty() {
            continue;
        }
        named.iter_mut().for_each(|weight| change(weight));
        planted += 1;
        let found = error(&golden, load(&golden, &weights).unwrap());
        assert!(found.is_err(), "{what}: {found:?}");
    }
    assert!(planted > 0, "{what}");
}

#[test]
fn errors_in_sinks_and_in_the_order_of_the_experts_are_seen() {
    for golden in gpt_oss() {
        error(&golden, load(&golden, &golden.weights()).unwrap()).unwrap();
    }
    assert_seen("sinks left out", ".sinks", |weight| weight.values.fill(-1e4));
    assert_seen("sinks of the neighbour", ".sinks", |weight| weight.values.rotate_left(1));
    assert_seen("no router bias", "router.bias", |weight| weight.values.fill(0.0));
    assert_seen("up before gate", "gate_up_proj", |weight| {
        weight.values.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
    });
    assert_seen("gate and up in halves", "gate_up_proj_bias", |weight| {
        let width = weight.shape[1];
        for expert in weight.values.chunks_exact_mut(width) {
            let halves: Vec<f32> = (0..width).map(|i| expert[i % 2 * (width / 2) + i / 2]).collect();
            expert.copy_from_slice(&halves);
        }
    });
    assert_seen("the upper half byte first", "_blocks", |weight| {
        weight.values.iter_mut().for_each(|byte| *byte = f32::from((*byte as u8).rotate_left(4)));
    });
}

/// The gating that a GGUF file does not state is that of the published models.
#[test]
fn settings_of_the_gating_change_the_logits() {
    let golden = &gpt_oss()[0];
    let (_, weights) = golden.checkpoint();
    let with = |key: &str, value: f32| {
        error(golden, Model::from_safetensors(&golden.config_with(&[(key, json!(value))]), &weights).unwrap())
    };
    assert_eq!(with("swiglu_limit", 7.0), with("swiglu_alpha", 1.702));
    with("swiglu_limit", 7.0).unwrap();
    assert!(with("swiglu_limit", 0.5).is_err() && with("swiglu_alpha", 1.0).is_err());
}

/// Both containers hold the same numbers, and a stream may bring them in any pieces, scales first or last.
#[test]
fn a_packed_model_has_the_same_bits_from_every_container_and_order() {
    let golden = packed();
    let logits = |model: &Model| logits_at_all(model, &mut model.new_cache(), &golden.tokens);
    let mut weights = golden.weights();
    let expected = logits(&load(&golden, &weights).unwrap());
    assert_eq!(logits(&Model::from_gguf(&mut &*golden.gguf().unwrap()).unwrap()), expected, "GGUF");
    weights.reverse();
    assert_eq!(logits(&load(&golden, &weights).unwrap()), expected, "reversed");
    // All scales before all blocks.
    weights.sort_by_key(|weight| !weight.name.ends_with("_scales"));
    let file = with_settings(&golden.config_with(&[]), &safetensors(&weights, "F32"));
    for (total, piece) in [(None, 1), (Some(file.len() as u64), 97), (None, 1 << 20)] {
        let mut loader = ModelLoader::new(total);
        file.chunks(piece).for_each(|piece| loader.push(piece).unwrap());
        assert_eq!(logits(&loader.finish().unwrap()), expected, "pieces of {piece}");
    }
}

#[test]
fn settings_of_the_published_files_are_understood() {
    let golden = packed();
    let (_, weights) = golden.checkpoint();
    let mut rope = golden.config["rope_parameters"].clone();
    let theta = rope.as_object_mut().unwrap().remove("rope_theta").unwrap();
    let published = [
        ("rope_parameters", json!(null)),
        ("rope_scaling", rope),
        ("rope_theta", theta),
        ("experts_per_token", json!(golden.config["num_experts_per_tok"])),
        ("initial_context_length", json!(4096)),
        ("router_aux_loss_coef", json!(0.9)),
        ("output_router_logits", json!(false)),
        ("swiglu_limit", json!(7.0)),
        ("attention_dropout", json!(0.0)),
        ("hidden_act", json!("silu")),
        ("pad_token_id", json!(0)),
    ];
    let model = Model::from_safetensors(&golden.config_with(&published), &weights).unwrap();
    error(&golden, model).unwrap();
    for (key, value) in [
        ("hidden_act", json!("gelu")),
        ("swiglu_limit", json!(-1.0)),
        ("quantization_config", json!({"quant_method": "gptq", "bits": 4})),
        ("rope_parameters", json!(null)),
        ("num_local_experts", json!(5)),
        ("num_local_experts", json!(3)),
    ] {
        assert!(
            Model::from_safetensors(&golden.config_with(&[(key, value.clone())]), &weights).is_err(),
            "{key} {value}"
        );
    }
}

#[test]
fn halves_that_do_not_fit_are_refused_by_name() {
    let golden = packed();
    let changed = |change: &dyn Fn(&mut Vec<Weight>)| {
        let mut weights = golden.weights();
        change(&mut weights);
        load(&golden, &weights).err().unwrap()
    };
    let scales = "model.layers.1.mlp.experts.down_proj_scales";
    let found = changed(&|weights| weights.retain(|weight| weight.name != scales));
    assert!(matches!(&found, LoadError::MissingTensor { name } if name == scales), "{found}");
    let found = changed(&|weights| {
        let scales = weights.iter_mut().find(|weight| weight.name == scales).unwrap();
        (scales.shape, scales.values) = (vec![4, 64, 2], vec![120.0; 512]);
    });
    assert!(matches!(&found, LoadError::TensorShape { name, .. } if name == scales), "{found}");
    // Bytes that are no half of a matrix.
    let found = changed(&|weights| {
        let router = weights.iter_mut().find(|weight| weight.name.ends_with("router.weight")).unwrap();
        router.name.push_str("_blocks");
    });
    assert!(matches!(found, LoadError::MissingTensor { .. }), "{found}");
}

#[test]
fn corrupt_packed_files_never_panic() {
    let golden = packed();
    let (config, file) = golden.checkpoint();
    let header = 8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    let mut seed = 11;
    let mut loaded = 0;
    for _ in 0..300 {
        let mut bytes = file.clone();
        let at = 8 + random(&mut seed) as usize % (header - 8);
        bytes[at] ^= 1 << (random(&mut seed) % 8);
        if let Ok(model) = Model::from_safetensors(&config, &bytes) {
            let chunk = Chunk { cache: &mut model.new_cache(), tokens: &[3, 4], positions: &[1] };
            model.forward(&mut [chunk]).unwrap();
            loaded += 1;
        }
    }
    assert!(loaded < 300);
    for end in (header..file.len()).step_by(997) {
        assert!(Model::from_safetensors(&config, &file[..end]).is_err(), "{end}");
    }
}
