//! Small models with an encoder, with what transformers computes of them (`golden/make_encoder_decoder.py`), as a
//! checkpoint and as the GGUF file that llama.cpp's converter makes of it.

use half::bf16;
use serde_json::{Map, Value, json};

use crate::{container::Gguf, families::draw};

/// A model, a source, a text, and what transformers gives for them.
#[derive(serde::Deserialize)]
pub struct Golden {
    pub config: Value,
    /// Names as in a checkpoint, outermost dimension first.
    pub tensors: Vec<(String, Vec<usize>)>,
    pub source: Vec<u32>,
    pub tokens: Vec<u32>,
    /// Which rows of logits there are.
    pub rows: Vec<usize>,
    pub logits: Vec<Vec<f32>>,
    /// The text of greedy decoding behind the tokens.
    pub greedy: Vec<u32>,
}

/// All of them.
pub fn goldens() -> Vec<Golden> {
    #[derive(serde::Deserialize)]
    struct File {
        models: Vec<Golden>,
    }
    let file: File = serde_json::from_str(include_str!("../golden/encoder_decoder.json")).unwrap();
    file.models
}

/// A weight by its name in a checkpoint.
pub struct Weight {
    pub name: String,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

impl Weight {
    /// In F32.
    pub fn bytes(&self) -> Vec<u8> {
        self.values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

/// `model.safetensors` of these weights, in F32 or in BF16.
pub fn safetensors<'w>(weights: impl IntoIterator<Item = &'w Weight>, dtype: &str) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for Weight { name, shape, values } in weights {
        let start = data.len();
        match dtype {
            "BF16" => data.extend(values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes())),
            _ => data.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        }
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]}));
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

impl Golden {
    pub fn weights(&self) -> Vec<Weight> {
        let weight = |(name, shape): &(String, Vec<usize>)| {
            let values = draw(name, shape.iter().product(), shape.len());
            Weight { name: name.clone(), shape: shape.clone(), values }
        };
        self.tensors.iter().map(weight).collect()
    }

    /// `config.json`, with some settings replaced or added; null takes one away.
    pub fn config_with(&self, changes: &[(&str, Value)]) -> Vec<u8> {
        let mut config = self.config.clone();
        for (key, value) in changes {
            config[*key] = value.clone();
        }
        serde_json::to_vec(&config).unwrap()
    }

    /// The GGUF file, in F32.
    pub fn gguf(&self) -> Option<Gguf> {
        self.gguf_of(&self.weights(), |weight| (0, weight.bytes()))
    }

    /// The GGUF file of these weights, if it can say what this model does: it says no distance, and no scale but by a
    /// tied head. `stored` gives each one's type code and bytes.
    pub fn gguf_of(&self, weights: &[Weight], stored: impl Fn(&Weight) -> (u32, Vec<u8>)) -> Option<Gguf> {
        let number = |key: &str, otherwise: u64| self.config[key].as_u64().unwrap_or(otherwise) as u32;
        if number("relative_attention_max_distance", 128) != 128 {
            return None;
        }
        let layers = number("num_layers", 6);
        let epsilon = self.config["layer_norm_epsilon"].as_f64().unwrap_or(1e-6) as f32;
        let mut file = Gguf::new();
        file.text("general.architecture", "t5")
            .u32("t5.context_length", 512)
            .u32("t5.embedding_length", number("d_model", 512))
            .u32("t5.feed_forward_length", number("d_ff", 2048))
            .u32("t5.block_count", layers)
            .u32("t5.decoder_block_count", number("num_decoder_layers", layers.into()))
            .u32("t5.attention.head_count", number("num_heads", 8))
            .u32("t5.attention.key_length", number("d_kv", 64))
            .u32("t5.attention.value_length", number("d_kv", 64))
            .f32("t5.attention.layer_norm_epsilon", epsilon)
            .u32("t5.attention.relative_buckets_count", number("relative_attention_num_buckets", 32))
            .f32("t5.attention.layer_norm_rms_epsilon", epsilon)
            .u32("t5.decoder_start_token_id", number("decoder_start_token_id", 0))
            .u32("tokenizer.ggml.eos_token_id", number("eos_token_id", 1));
        for weight in weights {
            let shape: Vec<u64> = weight.shape.iter().map(|&n| n as u64).collect();
            let (code, bytes) = stored(weight);
            file.tensor(&gguf_name(&weight.name), &shape, code, &bytes);
        }
        Some(file)
    }
}

/// llama.cpp's name of a tensor.
fn gguf_name(name: &str) -> String {
    let is_decoder = name.starts_with("decoder");
    let parts = [
        ("shared", "token_embd"),
        ("lm_head", "output"),
        ("coder.final_layer_norm", "c.output_norm"),
        ("coder.block", "c.blk"),
        ("layer.0.layer_norm", "attn_norm"),
        ("layer.1.layer_norm", if is_decoder { "cross_attn_norm" } else { "ffn_norm" }),
        ("layer.2.layer_norm", "ffn_norm"),
        ("layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"),
        ("layer.0.SelfAttention.", "attn_"),
        ("layer.1.EncDecAttention.", "cross_attn_"),
        ("layer.1.DenseReluDense.", "ffn_"),
        ("layer.2.DenseReluDense.", "ffn_"),
        ("ffn_wi_0", "ffn_gate"),
        ("ffn_wi_1", "ffn_up"),
        ("ffn_wi", "ffn_up"),
        ("ffn_wo", "ffn_down"),
    ];
    parts.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}
