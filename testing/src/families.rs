//! Small models of every family (`models/tests/golden/make_families.py`), and the GGUF file that llama.cpp's converter
//! makes of each.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    gguf::{Gguf, bytes},
    golden::{Golden, Weight},
    gpt_oss::add_experts,
    logits::{argmax, compare},
};

/// The models, some of each family.
pub fn goldens() -> Vec<Golden> {
    serde_json::from_str(include_str!("../../models/tests/golden/families.json")).unwrap()
}

/// Mixtures of experts (`models/tests/golden/make_experts.py` and `make_gpt_oss.py`).
pub fn mixtures() -> Vec<Golden> {
    let experts: Vec<Golden> = serde_json::from_str(include_str!("../../models/tests/golden/experts.json")).unwrap();
    experts.into_iter().chain(gpt_oss()).collect()
}

/// Models of gpt-oss, the last of them with experts in MXFP4.
pub fn gpt_oss() -> Vec<Golden> {
    serde_json::from_str(include_str!("../../models/tests/golden/gpt_oss.json")).unwrap()
}

/// Models that an engine makes of the containers of a golden model, each with the container's name.
type Containers<'c, M> = &'c dyn Fn(&Golden) -> Vec<(&'static str, M)>;

/// Fails unless an engine has the logits of transformers for every family and container. `rows` gives the logits after
/// every token of a text. Prints the table of the greatest errors.
pub fn assert_logits_of_transformers<M>(
    containers: Containers<'_, M>,
    tolerance: f32,
    rows: impl Fn(&M, &[u32]) -> Vec<Vec<f32>>,
) {
    let mut table: BTreeMap<(String, &str), (usize, f32)> = BTreeMap::new();
    for (index, golden) in goldens().iter().enumerate() {
        for (container, model) in containers(golden) {
            let rows = rows(&model, &golden.tokens);
            for (row, expected) in golden.rows.iter().zip(&golden.logits) {
                let error = compare(&rows[*row], expected, tolerance);
                let error = error.unwrap_or_else(|e| panic!("{} {index} {container} row {row}: {e}", golden.family));
                let (count, greatest) = table.entry((golden.family.clone(), container)).or_default();
                (*count, *greatest) = (*count + 1, greatest.max(error));
            }
        }
    }
    println!("| family | container | rows | greatest relative error |\n|---|---|--:|--:|");
    for ((family, container), (count, error)) in &table {
        println!("| {family} | {container} | {count} | {error:.1e} |");
    }
    let with_gguf = table.keys().filter(|(_, container)| *container == "GGUF").count();
    assert_eq!((table.len() - with_gguf, with_gguf), (15, 13), "families in safetensors and in GGUF");
}

/// Fails unless an engine writes the greedy texts of transformers. `begin` makes a cache, and `last` reads tokens into
/// it and gives the logits after the last one.
pub fn assert_greedy_texts_of_transformers<M, C>(
    containers: Containers<'_, M>,
    begin: impl Fn(&M) -> C,
    last: impl Fn(&M, &mut C, &[u32]) -> Vec<f32>,
) {
    for (index, golden) in goldens().iter().enumerate() {
        for (container, model) in containers(golden) {
            let (mut cache, mut next) = (begin(&model), golden.tokens.clone());
            for (place, expected) in golden.greedy.iter().enumerate() {
                let token = argmax(&last(&model, &mut cache, &next)) as u32;
                assert_eq!(token, *expected, "{} {index} {container}, token {place}", golden.family);
                next = vec![token];
            }
        }
    }
}

impl Golden {
    /// Number in the config, or the family's default.
    fn number(&self, key: &str, otherwise: f64) -> f64 {
        self.config[key].as_f64().unwrap_or(otherwise)
    }

    fn size(&self, names: &[&str]) -> Option<u32> {
        names.iter().find_map(|name| self.config[*name].as_u64()).map(|size| size as u32)
    }

    /// The GGUF file, if llama.cpp has the family and its files can express the model.
    pub fn gguf(&self) -> Option<Vec<u8>> {
        let architecture = match &*self.family {
            "mistral" => "llama",
            "gemma3_text" => "gemma3",
            "qwen3_moe" => "qwen3moe",
            "mixtral" => "llama",
            "gpt_oss" => "gpt-oss",
            "gpt_neo" | "opt" => return None,
            other => other,
        };
        let (heads, hidden) = (self.size(&["num_attention_heads", "n_head"])?, self.size(&["hidden_size", "n_embd"])?);
        // Defaults of the script's configurations that differ from family to family.
        let kv_heads = self.size(&["num_key_value_heads"]).unwrap_or(match &*self.family {
            "smollm3" | "gemma2" | "gemma3_text" => 4,
            "mistral" => 8,
            "gemma" => 16,
            "stablelm" => 32,
            _ => heads,
        });
        let head_dim = self.size(&["head_dim"]).unwrap_or(match &*self.family {
            "qwen3" => 128,
            "gemma" | "gemma2" | "gemma3_text" => 256,
            _ => hidden / heads,
        });
        let is_gemma = self.family.starts_with("gemma");
        let rope = &self.config["rope_parameters"];
        let unsayable = match &*self.family {
            "qwen2" | "qwen3" => self.config["use_sliding_window"] == true,
            "qwen3_moe" => self.config["norm_topk_prob"] != true,
            "gpt_oss" => self.number("swiglu_limit", 7.0) != 7.0 || self.config["layer_types"][0] == "full_attention",
            "gemma2" => self.number("query_pre_attn_scalar", 256.0) != f64::from(head_dim),
            "gemma3_text" => {
                self.number("query_pre_attn_scalar", 256.0) != f64::from(head_dim)
                    || self.config["layer_types"][0] == "full_attention"
            }
            // Every fourth layer is without positions, and nothing can say otherwise.
            "smollm3" => {
                let rotated: Option<Vec<usize>> = serde_json::from_value(self.config["no_rope_layers"].clone()).ok();
                let usual = |(layer, turns): (usize, usize)| turns == usize::from((layer + 1) % 4 != 0);
                let period = self.config["no_rope_layer_interval"].as_u64().unwrap_or(4);
                rotated.map_or(period != 4, |rotated| !rotated.into_iter().enumerate().all(usual))
            }
            _ => false,
        };
        if unsayable {
            return None;
        }
        let key = |key: &str| format!("{architecture}.{key}");
        let mut file = Gguf::default();
        let inner = self.size(&["intermediate_size", "n_inner"]).unwrap_or(4 * hidden);
        file.text("general.architecture", architecture)
            .u32(&key("embedding_length"), hidden)
            .u32(&key("feed_forward_length"), inner)
            .u32(&key("block_count"), self.size(&["num_hidden_layers", "n_layer"])?)
            .u32(&key("attention.head_count"), heads)
            .u32(&key("context_length"), self.size(&["max_position_embeddings", "n_positions"])?);
        if self.family != "gpt2" {
            file.u32(&key("attention.head_count_kv"), kv_heads)
                .u32(&key("attention.key_length"), head_dim)
                .u32(&key("attention.value_length"), head_dim);
        }
        if let Some(experts) = self.size(&["num_experts", "num_local_experts"]) {
            file.u32(&key("expert_count"), experts)
                .u32(&key("expert_used_count"), self.size(&["num_experts_per_tok"])?);
        }
        let is_gpt_oss = self.family == "gpt_oss";
        if let Some(width) = self.size(&["moe_intermediate_size"]).or(is_gpt_oss.then_some(inner)) {
            file.u32(&key("expert_feed_forward_length"), width);
        }
        let theta = rope["rope_theta"].as_f64().or(self.config["rope_theta"].as_f64());
        let mut theta = theta.unwrap_or(10_000.0);
        match &*self.family {
            "stablelm" => {
                let part = rope["partial_rotary_factor"].as_f64().unwrap_or(0.25);
                file.f32(&key("attention.layer_norm_epsilon"), self.number("layer_norm_eps", 1e-5) as f32)
                    .u32(&key("rope.dimension_count"), (f64::from(head_dim) * part) as u32)
                    .entry(&key("use_parallel_residual"), 7, &[0]);
            }
            "gpt2" => {
                file.f32(&key("attention.layer_norm_epsilon"), self.number("layer_norm_epsilon", 1e-5) as f32);
            }
            _ => {
                let otherwise = if matches!(&*self.family, "phi3" | "olmo2" | "gpt_oss") { 1e-5 } else { 1e-6 };
                let epsilon = self.number("rms_norm_eps", otherwise) as f32;
                file.f32(&key("attention.layer_norm_rms_epsilon"), epsilon);
            }
        }
        match &*self.family {
            "mistral" | "phi3" | "gemma2" | "gemma3_text" | "gpt_oss" => {
                if let Some(window) = self.size(&["sliding_window"]) {
                    file.u32(&key("attention.sliding_window"), window);
                }
            }
            "granite" => {
                file.f32(&key("embedding_scale"), self.number("embedding_multiplier", 1.0) as f32)
                    .f32(&key("residual_scale"), self.number("residual_multiplier", 1.0) as f32)
                    .f32(&key("attention.scale"), self.number("attention_multiplier", 1.0) as f32)
                    .f32(&key("logit_scale"), self.number("logits_scaling", 1.0) as f32);
            }
            _ => {}
        }
        if self.family == "gemma2" {
            file.f32(&key("attn_logit_softcapping"), self.number("attn_logit_softcapping", 50.0) as f32)
                .f32(&key("final_logit_softcapping"), self.number("final_logit_softcapping", 30.0) as f32);
        }
        if self.family == "gemma3_text" {
            theta = rope["full_attention"]["rope_theta"].as_f64()?;
            let local = rope["sliding_attention"]["rope_theta"].as_f64()?;
            file.f32(&key("rope.freq_base_swa"), local as f32);
        }
        if self.family == "smollm3" && rope["rope_theta"].is_null() {
            theta = 2_000_000.0;
        }
        if self.family != "gpt2" {
            file.f32(&key("rope.freq_base"), theta as f32);
        }
        let factor = rope["factor"].as_f64().unwrap_or(1.0);
        match rope["rope_type"].as_str().unwrap_or("default") {
            "linear" => {
                file.text(&key("rope.scaling.type"), "linear").f32(&key("rope.scaling.factor"), factor as f32);
            }
            "yarn" => {
                file.text(&key("rope.scaling.type"), "yarn").f32(&key("rope.scaling.factor"), factor as f32).u32(
                    &key("rope.scaling.original_context_length"),
                    rope["original_max_position_embeddings"].as_u64()? as u32,
                );
                for name in ["beta_fast", "beta_slow"] {
                    if let Some(turns) = rope[name].as_f64() {
                        file.f32(&key(&format!("rope.scaling.yarn_{name}")), turns as f32);
                    }
                }
            }
            "llama3" => {
                let factors = llama3_factors(rope, head_dim as usize, theta);
                tensor(&mut file, "rope_freqs.weight", &[factors.len()], &factors);
            }
            "longrope" => {
                let original = rope["original_max_position_embeddings"].as_f64()?;
                let stretched = self.number("max_position_embeddings", 0.0) / original;
                file.u32(&key("rope.scaling.original_context_length"), original as u32)
                    .f32(&key("rope.scaling.attn_factor"), (1.0 + stretched.ln() / original.ln()).sqrt() as f32)
                    .u32(&key("rope.dimension_count"), (f64::from(head_dim) * 0.75) as u32);
                for (name, key) in [("long", "long_factor"), ("short", "short_factor")] {
                    let factors: Vec<f32> = serde_json::from_value(rope[key].clone()).unwrap();
                    tensor(&mut file, &format!("rope_factors_{name}.weight"), &[factors.len()], &factors);
                }
            }
            _ => {}
        }
        let mut stacks: BTreeMap<String, (usize, Vec<usize>, Vec<f32>)> = BTreeMap::new();
        let mut weights = self.weights();
        if is_gpt_oss {
            add_experts(&mut file, &weights);
            weights.retain(|weight| !weight.name.contains(".experts."));
        }
        for Weight { name, mut shape, mut values } in weights {
            // The experts of a layer are one tensor.
            if let Some((before, (_, part))) =
                name.split_once(".experts.").and_then(|(before, after)| Some((before, after.split_once('.')?)))
            {
                let (count, of_each, all) = stacks.entry(format!("{before}.experts.{part}")).or_default();
                (*count, *of_each) = (*count + 1, shape);
                all.extend(values);
                continue;
            }
            // Llama's halves are brought side by side.
            if matches!(&*self.family, "llama" | "mistral" | "mixtral" | "granite" | "smollm3") {
                for (part, count) in [("q_proj", heads), ("k_proj", kv_heads)] {
                    if name.contains(part) {
                        values = permuted(&values, shape[0], count as usize);
                    }
                }
            }
            if is_gemma && name.ends_with("norm.weight") {
                values.iter_mut().for_each(|value| *value += 1.0);
            }
            // GPT-2's are the other way round.
            if self.family == "gpt2" && shape.len() == 2 && name.contains(".h.") {
                let [inputs, outputs] = [shape[0], shape[1]];
                values = (0..inputs * outputs).map(|i| values[i % inputs * outputs + i / inputs]).collect();
                shape = vec![outputs, inputs];
            }
            tensor(&mut file, &self.gguf_name(&name), &shape, &values);
        }
        for (name, (count, shape, values)) in stacks {
            tensor(&mut file, &self.gguf_name(&name), &[&[count], &shape[..]].concat(), &values);
        }
        Some(file.finish())
    }

    /// llama.cpp's name of a tensor.
    fn gguf_name(&self, name: &str) -> String {
        let norms: [(&str, &str); 4] = match &*self.family {
            "gemma2" | "gemma3_text" => [
                ("input_layernorm", "attn_norm"),
                ("post_attention_layernorm", "post_attention_norm"),
                ("pre_feedforward_layernorm", "ffn_norm"),
                ("post_feedforward_layernorm", "post_ffw_norm"),
            ],
            "gpt_oss" => [
                ("input_layernorm", "attn_norm"),
                ("post_attention_layernorm", "post_attention_norm"),
                ("self_attn.sinks", "attn_sinks.weight"),
                ("mlp.router", "ffn_gate_inp"),
            ],
            "olmo2" => [
                ("post_attention_layernorm", "post_attention_norm"),
                ("post_feedforward_layernorm", "post_ffw_norm"),
                ("", ""),
                ("", ""),
            ],
            _ => [("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"), ("", ""), ("", "")],
        };
        let parts = [
            ("model.embed_tokens", "token_embd"),
            ("model.norm", "output_norm"),
            ("model.layers.", "blk."),
            ("lm_head", "output"),
            ("self_attn.qkv_proj", "attn_qkv"),
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("self_attn.q_norm", "attn_q_norm"),
            ("self_attn.k_norm", "attn_k_norm"),
            ("mlp.experts.gate_proj", "ffn_gate_exps"),
            ("mlp.experts.up_proj", "ffn_up_exps"),
            ("mlp.experts.down_proj", "ffn_down_exps"),
            ("mlp.gate.", "ffn_gate_inp."),
            ("block_sparse_moe.experts.w1", "ffn_gate_exps"),
            ("block_sparse_moe.experts.w3", "ffn_up_exps"),
            ("block_sparse_moe.experts.w2", "ffn_down_exps"),
            ("block_sparse_moe.gate", "ffn_gate_inp"),
            ("mlp.gate_up_proj", "ffn_up"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
            ("transformer.wte", "token_embd"),
            ("transformer.wpe", "position_embd"),
            ("transformer.ln_f", "output_norm"),
            ("transformer.h.", "blk."),
            ("ln_1", "attn_norm"),
            ("ln_2", "ffn_norm"),
            ("attn.c_attn", "attn_qkv"),
            ("attn.c_proj", "attn_output"),
            ("mlp.c_fc", "ffn_up"),
            ("mlp.c_proj", "ffn_down"),
        ];
        let all = norms.iter().filter(|(from, _)| !from.is_empty()).chain(&parts);
        all.fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
    }
}

fn tensor(file: &mut Gguf, name: &str, shape: &[usize], values: &[f32]) {
    let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    file.tensor(name, &shape, 0, &bytes(values));
}

/// Rows (or elements) of each head with its halves interleaved.
fn permuted(values: &[f32], rows: usize, heads: usize) -> Vec<f32> {
    let (width, head) = (values.len() / rows, rows / heads);
    let from = |row: usize| row / head * head + row % head % 2 * (head / 2) + row % head / 2;
    (0..rows).flat_map(|row| values[from(row) * width..][..width].to_vec()).collect()
}

/// The divisors that the converter stores for Llama 3.1's scaling.
fn llama3_factors(rope: &Value, head_dim: usize, theta: f64) -> Vec<f32> {
    let number = |key: &str| rope[key].as_f64().unwrap();
    let (factor, low, high) = (number("factor"), number("low_freq_factor"), number("high_freq_factor"));
    let original = number("original_max_position_embeddings");
    let divisor = |i: usize| {
        let wavelength = std::f64::consts::TAU * theta.powf(2.0 * i as f64 / head_dim as f64);
        if wavelength < original / high {
            1.0
        } else if wavelength > original / low {
            factor
        } else {
            let smooth = (original / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..head_dim / 2).map(|i| divisor(i) as f32).collect()
}
