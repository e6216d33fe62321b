//! Pairs as they are published, at real size: the shapes, files and vocabulary of Qwen2.5-0.5B and -1.5B, with random
//! weights. What loading, memory and a pass cost is theirs; what they write is nothing.
//!
//! ```text
//! published FOLDER         writes FOLDER/Qwen2.5-0.5B and -1.5B (sharded safetensors, BF16) and the same as Q4_K_M
//! ```

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use outrider_models::ElementType;
use serde_json::{Map, Value, json};

use crate::{
    gguf_writer::{self, Metadata, Tensor},
    passes::Failure,
    shapes::{Storage, takes_more_bits},
};

/// Tokens of the vocabulary; tables have more rows, which stand for none.
const ORDINARY: usize = 151_643;
const SPECIAL: [&str; 22] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
];
const ROWS: u64 = 151_936;
const CONTEXT: u32 = 32_768;
const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                        {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// Bytes of a shard, at most about.
const SHARD: u64 = 1 << 30;

/// A shape of Qwen2.5.
struct Qwen {
    name: &'static str,
    hidden: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    feed_forward: u64,
}

const DRAFT: Qwen = Qwen { name: "Qwen2.5-0.5B", hidden: 896, layers: 24, heads: 14, kv_heads: 2, feed_forward: 4864 };
const TARGET: Qwen =
    Qwen { name: "Qwen2.5-1.5B", hidden: 1536, layers: 28, heads: 12, kv_heads: 2, feed_forward: 8960 };

/// Runs it with the arguments behind its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let [folder] = *arguments else { return Err("a folder is expected".into()) };
    let folder = Path::new(folder);
    for model in [DRAFT, TARGET] {
        model.write_checkpoint(&folder.join(model.name))?;
        let gguf = folder.join(format!("{}-Q4_K_M.gguf", model.name));
        model.write_gguf(&gguf)?;
        println!("{}\n{}", folder.join(model.name).display(), gguf.display());
    }
    Ok(())
}

/// A weight: its field, names in GGUF and in a checkpoint, shape, and whether a mixture takes more bits for it.
struct Weight {
    gguf: String,
    hugging_face: String,
    shape: Vec<u64>,
    matters: bool,
}

impl Qwen {
    fn weights(&self) -> Vec<Weight> {
        let weight = |gguf: String, hugging_face: String, shape: &[u64], matters| Weight {
            gguf,
            hugging_face,
            shape: shape.to_vec(),
            matters,
        };
        let Self { hidden, feed_forward, .. } = *self;
        let kv = self.kv_heads * hidden / self.heads;
        let table = weight("token_embd.weight".into(), "model.embed_tokens.weight".into(), &[ROWS, hidden], true);
        let mut weights = vec![table];
        for layer in 0..self.layers {
            let more = takes_more_bits(layer, self.layers);
            let parts: [(&str, &str, &[u64], bool); 12] = [
                ("attn_norm.weight", "input_layernorm.weight", &[hidden], false),
                ("attn_q.weight", "self_attn.q_proj.weight", &[hidden, hidden], false),
                ("attn_q.bias", "self_attn.q_proj.bias", &[hidden], false),
                ("attn_k.weight", "self_attn.k_proj.weight", &[kv, hidden], false),
                ("attn_k.bias", "self_attn.k_proj.bias", &[kv], false),
                ("attn_v.weight", "self_attn.v_proj.weight", &[kv, hidden], more),
                ("attn_v.bias", "self_attn.v_proj.bias", &[kv], false),
                ("attn_output.weight", "self_attn.o_proj.weight", &[hidden, hidden], false),
                ("ffn_norm.weight", "post_attention_layernorm.weight", &[hidden], false),
                ("ffn_gate.weight", "mlp.gate_proj.weight", &[feed_forward, hidden], false),
                ("ffn_up.weight", "mlp.up_proj.weight", &[feed_forward, hidden], false),
                ("ffn_down.weight", "mlp.down_proj.weight", &[hidden, feed_forward], more),
            ];
            weights.extend(parts.map(|(gguf, own, shape, matters)| {
                weight(format!("blk.{layer}.{gguf}"), format!("model.layers.{layer}.{own}"), shape, matters)
            }));
        }
        weights.push(weight("output_norm.weight".into(), "model.norm.weight".into(), &[hidden], false));
        weights
    }

    fn tensors(&self, storage: Storage, vectors: ElementType, name: impl Fn(&Weight) -> String) -> Vec<Tensor> {
        let tensor = |weight: &Weight| {
            let element = match weight.shape.as_slice() {
                [_, inputs] => storage.element(*inputs, weight.matters),
                _ => vectors,
            };
            Tensor { name: name(weight), shape: weight.shape.clone(), element }
        };
        self.weights().iter().map(tensor).collect()
    }

    fn write_gguf(&self, path: &Path) -> io::Result<()> {
        let mut metadata = Metadata::default();
        metadata.text("general.architecture", "qwen2");
        metadata.text("general.name", self.name);
        for (key, value) in [
            ("context_length", u64::from(CONTEXT)),
            ("embedding_length", self.hidden),
            ("block_count", self.layers),
            ("feed_forward_length", self.feed_forward),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
        ] {
            metadata.unsigned(&format!("qwen2.{key}"), value as u32);
        }
        metadata.float("qwen2.attention.layer_norm_rms_epsilon", 1e-6);
        metadata.float("qwen2.rope.freq_base", 1_000_000.0);
        let tokens = tokens();
        // Normal 1, control 3.
        let kinds: Vec<i32> = (0..tokens.len()).map(|id| if id < ORDINARY { 1 } else { 3 }).collect();
        metadata.text("tokenizer.ggml.model", "gpt2");
        metadata.text("tokenizer.ggml.pre", "qwen2");
        metadata.texts("tokenizer.ggml.tokens", &tokens);
        metadata.integers("tokenizer.ggml.token_type", &kinds);
        metadata.texts("tokenizer.ggml.merges", &[]);
        metadata.unsigned("tokenizer.ggml.eos_token_id", ORDINARY as u32);
        metadata.text("tokenizer.chat_template", TEMPLATE);
        let tensors = self.tensors(Storage::Q4KM, ElementType::F32, |weight| weight.gguf.clone());
        let mut out = BufWriter::new(File::create(path)?);
        let mut seed = self.hidden;
        gguf_writer::write(&mut out, &metadata, &tensors, |tensor, out| {
            seed += 1;
            fill(seed, tensor, out)
        })?;
        out.flush()
    }

    fn write_checkpoint(&self, folder: &Path) -> Result<(), Failure> {
        fs::create_dir_all(folder)?;
        let config = json!({
            "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu",
            "vocab_size": ROWS, "hidden_size": self.hidden, "intermediate_size": self.feed_forward,
            "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads, "max_position_embeddings": CONTEXT, "max_window_layers": 24,
            "rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0, "sliding_window": CONTEXT, "use_sliding_window": false,
            "tie_word_embeddings": true, "bos_token_id": ORDINARY, "eos_token_id": ORDINARY,
            "attention_dropout": 0.0, "initializer_range": 0.02, "torch_dtype": "bfloat16",
            "transformers_version": "4.43.1", "use_cache": true, "use_mrope": false
        });
        fs::write(folder.join("config.json"), serde_json::to_vec_pretty(&config)?)?;
        fs::write(folder.join("tokenizer.json"), serde_json::to_vec(&tokenizer())?)?;
        let tokenizer_config = json!({
            "add_bos_token": false, "tokenizer_class": "Qwen2Tokenizer", "chat_template": TEMPLATE,
            "eos_token": "<|endoftext|>"
        });
        fs::write(folder.join("tokenizer_config.json"), serde_json::to_vec(&tokenizer_config)?)?;
        self.write_shards(folder)
    }

    /// `model-0000n-of-0000m.safetensors` and their index.
    fn write_shards(&self, folder: &Path) -> Result<(), Failure> {
        let tensors =
            self.tensors(Storage::All(ElementType::BF16), ElementType::BF16, |weight| weight.hugging_face.clone());
        let mut shards: Vec<Vec<&Tensor>> = vec![Vec::new()];
        let mut bytes = 0;
        for tensor in &tensors {
            if bytes + tensor.bytes() > SHARD && bytes > 0 {
                shards.push(Vec::new());
                bytes = 0;
            }
            bytes += tensor.bytes();
            shards.last_mut().ok_or("a shard")?.push(tensor);
        }
        let (mut map, mut seed) = (Map::new(), self.hidden);
        for (index, shard) in shards.iter().enumerate() {
            let name = format!("model-{:05}-of-{:05}.safetensors", index + 1, shards.len());
            let (mut header, mut at) = (Map::new(), 0);
            for tensor in shard {
                let end = at + tensor.bytes();
                let entry = json!({"dtype": "BF16", "shape": tensor.shape, "data_offsets": [at, end]});
                header.insert(tensor.name.clone(), entry);
                map.insert(tensor.name.clone(), name.clone().into());
                at = end;
            }
            let header = serde_json::to_vec(&header)?;
            let mut out = BufWriter::new(File::create(folder.join(&name))?);
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            for tensor in shard {
                seed += 1;
                fill(seed, tensor, &mut out)?;
            }
            out.flush()?;
        }
        let index = json!({"metadata": {}, "weight_map": map});
        fs::write(folder.join("model.safetensors.index.json"), serde_json::to_vec(&index)?)?;
        Ok(())
    }
}

/// Ones for norms, zeros for biases, random blocks for matrices.
fn fill(seed: u64, tensor: &Tensor, out: &mut impl Write) -> io::Result<()> {
    if tensor.shape.len() == 2 {
        return crate::shapes::fill(seed, tensor, out);
    }
    let value = if tensor.name.ends_with("bias") { 0.0f32 } else { 1.0 };
    // The upper half of an f32 is a BF16.
    let bytes = if tensor.element == ElementType::BF16 { &value.to_le_bytes()[2..] } else { &value.to_le_bytes()[..] };
    out.write_all(&bytes.repeat(tensor.shape.iter().product::<u64>() as usize))
}

/// All bytes as byte-level BPE writes them, made-up words, special tokens.
fn tokens() -> Vec<String> {
    // Bytes that are no letters of their own follow each other from U+0100 on.
    let is_own = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut moved = 0x100;
    let bytes = (0..=u8::MAX).map(|byte| {
        let letter = match is_own(byte) {
            true => char::from(byte),
            false => {
                moved += 1;
                char::from_u32(moved - 1).unwrap_or('?')
            }
        };
        letter.to_string()
    });
    let mut tokens: Vec<String> = bytes.collect();
    tokens.extend((tokens.len()..ORDINARY).map(|number| {
        let (mut number, mut word) = (number, String::from('Ġ'));
        while number > 0 {
            word.push(char::from(b'a' + (number % 26) as u8));
            number /= 26;
        }
        word
    }));
    tokens.extend(SPECIAL.map(str::to_owned));
    tokens
}

fn tokenizer() -> Value {
    let tokens = tokens();
    let vocabulary: Map<String, Value> =
        tokens[..ORDINARY].iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let added: Vec<Value> = SPECIAL
        .iter()
        .enumerate()
        .map(|(index, token)| {
            json!({
                "id": ORDINARY + index, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true
            })
        })
        .collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": byte_level, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []
        }
    })
}
