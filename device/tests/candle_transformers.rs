//! A second oracle beside transformers: what candle-transformers computes of the same files, where it has the family.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "the table is worth reading")]

use std::{collections::BTreeMap, error::Error};

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{
    gemma, gemma2, gemma3, llama, mistral, olmo2, phi3, qwen2, qwen3, smol::smollm3, stable_lm,
};
use families::goldens;
use outrider_models::{Chunk, Model};
use serde_json::{Value, json};

#[path = "../../models/tests/container/mod.rs"]
#[allow(dead_code, reason = "the crate of the models uses the rest")]
mod container;
#[path = "../../models/tests/families/mod.rs"]
#[allow(dead_code, reason = "the crate of the models uses the rest")]
mod families;

/// Largest |a − b| / max |b| of a row: sums of f32 in another order, through a few layers.
const TOLERANCE: f32 = 1e-4;

/// What candle's code of a family leaves out, so that it computes another model than transformers does: a golden model
/// with that is passed over.
fn beyond_candle(family: &str, config: &Value) -> Option<&'static str> {
    let rope = &config["rope_parameters"];
    let scaling = rope["rope_type"].as_str().or(rope["full_attention"]["rope_type"].as_str()).unwrap_or("default");
    let says = |key: &str| !matches!(config[key], Value::Null | Value::Bool(false));
    let [hidden, heads] = ["hidden_size", "num_attention_heads"].map(|key| config[key].as_u64().unwrap_or(1));
    match family {
        "granite" | "gpt2" | "gpt_neo" | "opt" => Some("the family"),
        _ if scaling != "default" && !(family == "llama" && scaling == "llama3") => Some("this scaling of positions"),
        "llama" if says("attention_bias") || says("mlp_bias") => Some("biases"),
        "llama" if says("head_dim") && config["head_dim"] != json!(hidden / heads) => Some("heads of another width"),
        "qwen2" | "qwen3" | "smollm3" if says("use_sliding_window") => Some("windows of some layers"),
        "gemma" | "gemma2" | "gemma3_text" if config["tie_word_embeddings"] == json!(false) => {
            Some("a head of its own")
        }
        "gemma2" | "gemma3_text" if config["query_pre_attn_scalar"] != config["head_dim"] => {
            Some("a scale of scores that is not the head's width")
        }
        "mistral" | "stablelm" if says("tie_word_embeddings") => Some("a tied head"),
        "stablelm" if says("qk_layernorm") || says("use_parallel_residual") => {
            Some("norms of heads, parallel residuals")
        }
        _ => None,
    }
}

/// How long a text candle computes as transformers does.
fn longest(family: &str, config: &Value) -> usize {
    match family {
        // It has no windows there.
        "gemma2" | "phi3" => config["sliding_window"].as_u64().map_or(usize::MAX, |tokens| tokens as usize),
        _ => usize::MAX,
    }
}

/// The settings as candle's deserializers want them: the rotary base beside the others, nothing left out.
fn settings(config: &Value) -> Value {
    let mut flat = config.clone();
    let rope = &config["rope_parameters"];
    let base = |kind: &Value, otherwise: f64| kind["rope_theta"].as_f64().unwrap_or(otherwise);
    let general = if rope["full_attention"].is_object() { &rope["full_attention"] } else { rope };
    flat["rope_theta"] = base(general, 10_000.0).into();
    flat["rope_local_base_freq"] = base(&rope["sliding_attention"], 10_000.0).into();
    flat["rope_scaling"] = if rope["rope_type"] == "llama3" { rope.clone() } else { Value::Null };
    for (key, otherwise) in [
        ("attention_bias", json!(false)),
        ("tie_word_embeddings", json!(false)),
        ("use_sliding_window", json!(false)),
        ("max_window_layers", json!(0)),
        ("sliding_window_pattern", config["_sliding_window_pattern"].clone()),
        ("partial_rotary_factor", rope["partial_rotary_factor"].clone()),
        ("use_cache", json!(true)),
    ] {
        if flat[key].is_null() {
            flat[key] = otherwise;
        }
    }
    // transformers counts the token itself, candle's masks the tokens before it.
    flat["sliding_window"] = match config["sliding_window"].as_u64() {
        Some(tokens) if config["model_type"] == "gemma3_text" => json!(tokens),
        Some(tokens) => json!(tokens - 1),
        None if config["model_type"] == "qwen2" => json!(4096),
        None => Value::Null,
    };
    // One id, where candle takes one.
    flat["eos_token_id"] = json!(1);
    flat
}

/// What candle gives behind the last of `tokens`.
fn candle(
    weights: &[u8],
    family: &str,
    config: &Value,
    tokens: &[u32],
) -> std::result::Result<Vec<f32>, Box<dyn Error>> {
    let builder = VarBuilder::from_buffered_safetensors(weights.to_vec(), DType::F32, &Device::Cpu)?;
    let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
    macro_rules! forward {
        ($module:ident::$model:ident $(, $flash:literal)?) => {{
            let config: $module::Config = serde_json::from_value(config.clone())?;
            $module::$model::new($($flash,)? &config, builder)?.forward(&tokens, 0)
        }};
    }
    let logits: Result<Tensor> = match family {
        "llama" => {
            let config = serde_json::from_value::<llama::LlamaConfig>(config.clone())?.into_config(false);
            let mut cache = llama::Cache::new(true, DType::F32, &config, &Device::Cpu)?;
            llama::Llama::load(builder, &config)?.forward(&tokens, 0, &mut cache)
        }
        "mistral" => forward!(mistral::Model),
        "qwen2" => forward!(qwen2::ModelForCausalLM),
        "qwen3" => forward!(qwen3::ModelForCausalLM),
        "gemma" => forward!(gemma::Model, false),
        "gemma2" => forward!(gemma2::Model, false),
        "gemma3_text" => {
            // Its cache takes one token at a time, and forgets those beyond a window.
            let mut model = gemma3::Model::new(false, &serde_json::from_value(config.clone())?, builder)?;
            let step = |at| model.forward(&tokens.narrow(1, at, 1)?, at);
            (0..tokens.dim(1)?).map(step).last().ok_or("no tokens")?
        }
        "phi3" => forward!(phi3::Model),
        "smollm3" => forward!(smollm3::ModelForCausalLM),
        "olmo2" => forward!(olmo2::Model),
        "stablelm" => forward!(stable_lm::Model),
        other => return Err(format!("candle has no {other}").into()),
    };
    Ok(logits?.flatten_all()?.to_vec1()?)
}

fn error(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().fold(0f32, |scale, x| scale.max(x.abs()));
    actual.iter().zip(expected).fold(0f32, |most, (a, b)| most.max((a - b).abs())) / scale
}

/// Llama's own goldens, and one of every other family that candle has.
fn models() -> impl Iterator<Item = (String, Vec<u8>, Vec<u8>, Vec<u32>)> {
    const LLAMAS: [(&[u8], &[u8]); 2] = [
        (
            include_bytes!("../../models/tests/golden/grouped.config.json"),
            include_bytes!("../../models/tests/golden/grouped.safetensors"),
        ),
        (
            include_bytes!("../../models/tests/golden/llama3_rope.config.json"),
            include_bytes!("../../models/tests/golden/llama3_rope.safetensors"),
        ),
    ];
    let llamas =
        LLAMAS.map(|(config, weights)| ("llama".to_owned(), config.to_vec(), weights.to_vec(), (3..43).collect()));
    let families = goldens().into_iter().map(|golden| {
        let (config, weights) = golden.checkpoint();
        (golden.family, config, weights, golden.tokens)
    });
    llamas.into_iter().chain(families)
}

/// `cargo test -p outrider-device --test candle_transformers -- --nocapture` prints the greatest errors.
#[test]
fn a_second_implementation_computes_the_same() {
    let mut table: BTreeMap<String, (usize, f32)> = BTreeMap::new();
    for (family, config_json, weights, tokens) in models() {
        let config: Value = serde_json::from_slice(&config_json).unwrap();
        if let Some(what) = beyond_candle(&family, &config) {
            println!("{family:<12} passed over: candle is without {what}");
            continue;
        }
        let model = Model::from_safetensors(&config_json, &weights).unwrap();
        // The whole text, and a beginning of it: candle's windows are in the masks of prompts.
        let whole = tokens.len().min(longest(&family, &config));
        let mut most = 0f32;
        for length in [whole, whole / 2] {
            let tokens = &tokens[..length];
            let chunk = Chunk { cache: &mut model.new_cache(), tokens, positions: &[length - 1] };
            let ours = model.forward(&mut [chunk]).unwrap();
            let theirs = candle(&weights, &family, &settings(&config), tokens).unwrap();
            most = most.max(error(ours[0].row(0), &theirs));
        }
        assert!(most <= TOLERANCE, "{family}: {most:.1e}\n{config}");
        let (models, greatest) = table.entry(family).or_default();
        (*models, *greatest) = (*models + 1, greatest.max(most));
    }
    for (family, (models, error)) in &table {
        println!("{family:<12} {models} models, at most {error:.1e}");
    }
    let models: usize = table.values().map(|(models, _)| models).sum();
    assert_eq!((table.len(), models), (11, 19), "families and models");
}
