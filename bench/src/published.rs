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
use outrider_testing::{
    gguf::Tensor,
    safetensors::{Safetensors, checkpoint_name},
};
use serde_json::{Map, Value, json};

use crate::{
    passes::Failure,
    shapes::{self, LARGER_QWEN, QWEN, Shape, Storage},
};

/// Tokens of the vocabulary but the special ones; tables have more rows, which stand for none.
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
const CONTEXT: u32 = 32_768;
const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                        {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// Bytes of a shard, at most about.
const SHARD: u64 = 1 << 30;

/// Runs the program with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let [folder] = *arguments else { return Err("a folder is expected".into()) };
    let folder = Path::new(folder);
    for model in [QWEN, LARGER_QWEN] {
        let name = format!("Qwen2.5-{}", model.name);
        let (checkpoint, gguf) = (folder.join(&name), folder.join(format!("{name}-Q4_K_M.gguf")));
        write_checkpoint(&model, &checkpoint)?;
        write_gguf(&model, &gguf)?;
        println!("{}\n{}", checkpoint.display(), gguf.display());
    }
    Ok(())
}

/// Writes a model to `path` as Q4_K_M.
fn write_gguf(model: &Shape, path: &Path) -> io::Result<()> {
    let mut metadata = model.settings(CONTEXT);
    let tokens = tokens();
    // Normal 1, control 3.
    let kinds: Vec<i32> = (0..tokens.len()).map(|id| if id < ORDINARY { 1 } else { 3 }).collect();
    metadata.text("tokenizer.ggml.model", "gpt2");
    metadata.text("tokenizer.ggml.pre", "qwen2");
    metadata.texts("tokenizer.ggml.tokens", &tokens);
    metadata.integers("tokenizer.ggml.token_type", &kinds);
    metadata.texts("tokenizer.ggml.merges", &[]);
    metadata.u32("tokenizer.ggml.eos_token_id", ORDINARY as u32);
    metadata.text("tokenizer.chat_template", TEMPLATE);
    let mut out = BufWriter::new(File::create(path)?);
    shapes::write(&mut out, &metadata, &model.tensors(Storage::Q4KM), model.hidden)?;
    out.flush()
}

/// The folder of a checkpoint.
fn write_checkpoint(model: &Shape, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    let config = json!({
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu",
        "vocab_size": model.vocabulary, "hidden_size": model.hidden, "intermediate_size": model.feed_forward,
        "num_hidden_layers": model.layers, "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads, "max_position_embeddings": CONTEXT, "max_window_layers": 24,
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
    write_shards(model, folder)
}

/// `model-0000n-of-0000m.safetensors` and their index.
fn write_shards(model: &Shape, folder: &Path) -> Result<(), Failure> {
    let stored = |tensor: Tensor| Tensor {
        name: checkpoint_name(&tensor.name),
        element: ElementType::BF16,
        shape: tensor.shape,
    };
    let mut shards: Vec<Vec<Tensor>> = vec![Vec::new()];
    let mut bytes = 0;
    for tensor in model.tensors(Storage::All(ElementType::BF16)).into_iter().map(stored) {
        if bytes + tensor.bytes() > SHARD && bytes > 0 {
            shards.push(Vec::new());
            bytes = 0;
        }
        bytes += tensor.bytes();
        shards.last_mut().ok_or("a shard")?.push(tensor);
    }
    let (mut map, mut seed) = (Map::new(), model.hidden);
    for (index, shard) in shards.iter().enumerate() {
        let name = format!("model-{:05}-of-{:05}.safetensors", index + 1, shards.len());
        let mut file = Safetensors::default();
        for tensor in shard {
            file.entry(&tensor.name, "BF16", &tensor.shape, tensor.bytes());
            map.insert(tensor.name.clone(), name.clone().into());
        }
        let mut out = BufWriter::new(File::create(folder.join(&name))?);
        out.write_all(&file.head(1))?;
        for tensor in shard {
            seed += 1;
            shapes::fill(seed, tensor, &mut out)?;
        }
        out.flush()?;
    }
    let index = json!({"metadata": {}, "weight_map": map});
    fs::write(folder.join("model.safetensors.index.json"), serde_json::to_vec(&index)?)?;
    Ok(())
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
