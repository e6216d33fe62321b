//! Hugging Face checkpoints of our GGUF files, for engines that read nothing else: `config.json`,
//! `model.safetensors`, `tokenizer.json` and `tokenizer_config.json`.
//!
//! Matrices are in F16, norms in F32: of an F16 file nothing is lost. Rows of q and k change their order. A GGUF file
//! of a Llama rotates elements 2i and 2i + 1 of a head, a checkpoint i and i + half of it:
//!
//! | head of 8, row of the checkpoint | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
//! |---|---|---|---|---|---|---|---|---|
//! | row of the GGUF file | 0 | 2 | 4 | 6 | 1 | 3 | 5 | 7 |

use std::{
    fs::{self, File},
    io::{BufWriter, Cursor, Read, Seek, Write},
    path::Path,
};

use candle_core::{Device, quantized::gguf_file::Content};
use outrider_testing::safetensors::{Safetensors, checkpoint_name};
use serde_json::{Value, json};

use crate::passes::Failure;

/// Bytes that a header's length is a multiple of.
const ALIGNMENT: usize = 8;

/// A tensor under both its names.
struct Tensor {
    gguf: String,
    name: String,
    /// Sizes of the dimensions, outermost first.
    shape: Vec<usize>,
    /// Rows of a head, where its rows change their order.
    head: Option<usize>,
}

impl Tensor {
    fn is_norm(&self) -> bool {
        self.shape.len() == 1
    }

    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * if self.is_norm() { 4 } else { 2 }
    }
}

/// Writes the Llama of a GGUF file, and the tokenizer, as a checkpoint into `folder`.
pub fn write(gguf: &[u8], tokenizer_json: &[u8], folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    let mut file = Cursor::new(gguf);
    let source = Content::read(&mut file)?;
    let tensors = tensors(&source)?;
    // The configuration last: without it no engine takes an unfinished folder for a model.
    write_weights(&source, &mut file, &tensors, &folder.join("model.safetensors"))?;
    fs::write(folder.join("tokenizer.json"), tokenizer_json)?;
    let end = source.metadata.get("tokenizer.ggml.eos_token_id").ok_or("the model ends no text")?.to_u32()?;
    let settings = tokenizer_settings(tokenizer_json, end)?;
    fs::write(folder.join("tokenizer_config.json"), serde_json::to_vec_pretty(&settings)?)?;
    fs::write(folder.join("config.json"), serde_json::to_vec_pretty(&configuration(&source)?)?)?;
    Ok(())
}

fn number(source: &Content, key: &str) -> Result<usize, Failure> {
    let value = source.metadata.get(key).ok_or_else(|| format!("the model does not say its {key}"))?;
    Ok(value.to_u32()? as usize)
}

fn float(source: &Content, key: &str) -> Result<f64, Failure> {
    let value = source.metadata.get(key).ok_or_else(|| format!("the model does not say its {key}"))?;
    Ok(f64::from(value.to_f32()?))
}

/// Elements of an attention head; files without the key divide the width by the heads.
fn head_size(source: &Content) -> Result<usize, Failure> {
    let of = |key: &str| number(source, &format!("llama.{key}"));
    of("attention.key_length").or_else(|_| Ok(of("embedding_length")? / of("attention.head_count")?))
}

fn configuration(source: &Content) -> Result<Value, Failure> {
    let of = |key: &str| number(source, &format!("llama.{key}"));
    Ok(json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": of("embedding_length")?,
        "intermediate_size": of("feed_forward_length")?,
        "num_hidden_layers": of("block_count")?,
        "num_attention_heads": of("attention.head_count")?,
        "num_key_value_heads": of("attention.head_count_kv")?,
        "head_dim": head_size(source)?,
        "vocab_size": of("vocab_size")?,
        "max_position_embeddings": of("context_length")?,
        "rms_norm_eps": float(source, "llama.attention.layer_norm_rms_epsilon")?,
        "rope_theta": float(source, "llama.rope.freq_base")?,
        "hidden_act": "silu",
        "tie_word_embeddings": !source.tensor_infos.contains_key("output.weight"),
        "attention_bias": false,
        "mlp_bias": false,
        "bos_token_id": number(source, "tokenizer.ggml.bos_token_id")?,
        "eos_token_id": number(source, "tokenizer.ggml.eos_token_id")?,
        "torch_dtype": "float16",
    }))
}

/// Settings that transformers needs to read the tokenizer; none that would add tokens to a text.
fn tokenizer_settings(tokenizer_json: &[u8], end: u32) -> Result<Value, Failure> {
    let tokenizer: Value = serde_json::from_slice(tokenizer_json)?;
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let end =
        added.into_iter().find(|token| token["id"] == end).ok_or("the tokenizer does not name what ends a text")?;
    Ok(json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": end["content"],
        "eos_token": end["content"],
        "add_bos_token": false,
    }))
}

/// All tensors, in the order of the layers.
fn tensors(source: &Content) -> Result<Vec<Tensor>, Failure> {
    const OF_A_LAYER: [&str; 9] =
        ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"];
    let mut names = vec!["token_embd.weight".to_owned()];
    for layer in 0..number(source, "llama.block_count")? {
        names.extend(OF_A_LAYER.map(|part| format!("blk.{layer}.{part}.weight")));
    }
    names.push("output_norm.weight".to_owned());
    if source.tensor_infos.contains_key("output.weight") {
        names.push("output.weight".to_owned());
    }
    if names.len() != source.tensor_infos.len() {
        return Err(format!("of {} tensors {} are a Llama's", source.tensor_infos.len(), names.len()).into());
    }
    let head = head_size(source)?;
    let tensor = |gguf: String| {
        let is_rotated = gguf.contains("attn_q") || gguf.contains("attn_k");
        let shape = source.tensor_infos.get(&gguf).ok_or_else(|| format!("there is no {gguf}"))?.shape.dims().to_vec();
        Ok(Tensor { name: checkpoint_name(&gguf), gguf, shape, head: is_rotated.then_some(head) })
    };
    names.into_iter().map(tensor).collect()
}

fn write_weights<R: Read + Seek>(
    source: &Content,
    file: &mut R,
    tensors: &[Tensor],
    path: &Path,
) -> Result<(), Failure> {
    let mut safetensors = Safetensors::default();
    safetensors.header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    for tensor in tensors {
        let shape: Vec<u64> = tensor.shape.iter().map(|&size| size as u64).collect();
        let dtype = if tensor.is_norm() { "F32" } else { "F16" };
        safetensors.entry(&tensor.name, dtype, &shape, tensor.bytes() as u64);
    }
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&safetensors.head(ALIGNMENT))?;
    for tensor in tensors {
        let weights = source.tensor(file, &tensor.gguf, &Device::Cpu)?.dequantize(&Device::Cpu)?;
        let weights = weights.flatten_all()?;
        if tensor.is_norm() {
            weights.to_vec1::<f32>()?.iter().try_for_each(|weight| out.write_all(&weight.to_le_bytes()))?;
            continue;
        }
        let weights = weights.to_dtype(candle_core::DType::F16)?.to_vec1::<half::f16>()?;
        let columns = tensor.shape[1];
        for row in 0..tensor.shape[0] {
            let from = tensor.head.map_or(row, |head| row / head * head + interleaved(row % head, head));
            let row = &weights[from * columns..][..columns];
            row.iter().try_for_each(|weight| out.write_all(&weight.to_le_bytes()))?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Index in a GGUF file of the row of a head that is `row` in a checkpoint.
fn interleaved(row: usize, head: usize) -> usize {
    let half = head / 2;
    2 * (row % half) + row / half
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrider_cloud::pair::PairPaths;
    use outrider_models::{Model, Tokenizer};
    use outrider_testing::{folder::Folder, logits::on_cpu};

    /// Elements of a head in another order are added up in another order.
    const ROUNDING: f32 = 1e-3;

    #[test]
    fn a_checkpoint_has_the_logits_of_its_gguf_file() {
        let folder = Folder::empty();
        let pair = PairPaths::default();
        let (tokenizer, json) = pair.tokenizer_with_json().unwrap();
        write(&pair.target_gguf().unwrap(), &json, &folder).unwrap();
        let [own, other] = [pair.target().unwrap(), Model::open(&folder).unwrap()];
        assert_eq!(own.config().first_token(), Some(0));
        let prompt =
            tokenizer.encode_prompt(Some(0), "Once upon a time there was a wolf who lived by the sea").unwrap();
        let rows = [&own, &other].map(|model| on_cpu(model, &prompt, prompt.len()));
        for (position, (own, other)) in rows[0].iter().zip(&rows[1]).enumerate() {
            let gap = own.iter().zip(other).map(|(own, other)| (own - other).abs()).fold(0.0, f32::max);
            assert!(gap < ROUNDING, "{gap} behind token {position}");
        }
        let written = Tokenizer::from_bytes(&fs::read(folder.join("tokenizer.json")).unwrap()).unwrap();
        assert_eq!(written.fingerprint(), tokenizer.fingerprint());
        let settings: Value = serde_json::from_slice(&fs::read(folder.join("tokenizer_config.json")).unwrap()).unwrap();
        assert_eq!(settings["eos_token"], "<|endoftext|>");
    }
}
