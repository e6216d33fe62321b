//! The Llama architecture as GGUF files name and describe it.

use std::io::{Read, Seek};

use candle_core::quantized::GgmlDType;

use super::{
    LayerRole, ModelWeights, Role, TensorSource,
    gguf::{Gguf, TensorInfo, Value},
};
use crate::{
    config::{ModelConfig, RopeLayout, RopeScaling, invalid},
    error::LoadError,
    kernels::dense::DenseWeights,
    linear::Linear,
};

/// Loads a file whose `general.architecture` is `llama`.
pub(crate) fn load_gguf<R: Read + Seek>(reader: &mut R) -> Result<(ModelConfig, ModelWeights), LoadError> {
    let mut gguf = Gguf::open(reader)?;
    let config = read_config(&mut gguf)?;
    let weights = ModelWeights::load(&config, &mut gguf)?;
    // Every tensor that was used has been taken out of the directory.
    match gguf.tensors.into_keys().min() {
        None => Ok((config, weights)),
        Some(name) => Err(LoadError::UnexpectedTensor { name }),
    }
}

/// Divisors of the rotary frequencies, present in Llama 3.1 files.
const ROPE_FACTORS: &str = "rope_freqs.weight";

fn read_config<R: Read + Seek>(gguf: &mut Gguf<'_, R>) -> Result<ModelConfig, LoadError> {
    match gguf.text("general.architecture")? {
        Some("llama") => {}
        Some(other) => {
            return Err(LoadError::Unsupported { what: "architecture", found: other.to_owned() });
        }
        None => {
            return Err(LoadError::MissingSetting { key: "general.architecture".to_owned() });
        }
    }
    refuse_what_is_not_computed(gguf)?;
    let embedding = name(Role::Embedding);
    let Some(table) = gguf.tensors.get(&embedding) else {
        return Err(LoadError::MissingTensor { name: embedding });
    };
    let vocab_size = match (table.shape.first(), gguf.integer("llama.vocab_size")?) {
        (Some(&rows), None) => rows,
        (Some(&rows), Some(stated)) if rows == stated => rows,
        (_, stated) => {
            let expected = "the number of rows of the embedding table";
            return Err(invalid("llama.vocab_size", format!("{stated:?}"), expected));
        }
    };
    let heads = gguf.required("llama.attention.head_count")?;
    let hidden_size = gguf.required("llama.embedding_length")?;
    let head_dim = match gguf.integer("llama.attention.key_length")? {
        Some(stated) => stated,
        None => hidden_size.checked_div(heads).unwrap_or(0),
    };
    for key in ["llama.attention.value_length", "llama.rope.dimension_count"] {
        if let Some(found) = gguf.integer(key)?.filter(|&found| found != head_dim) {
            return Err(LoadError::Unsupported { what: "head shape", found: format!("{key} = {found}") });
        }
    }
    let mut config = ModelConfig {
        vocab_size: size("llama.vocab_size", vocab_size)?,
        hidden_size: size("llama.embedding_length", hidden_size)?,
        intermediate_size: size("llama.feed_forward_length", gguf.required("llama.feed_forward_length")?)?,
        layers: size("llama.block_count", gguf.required("llama.block_count")?)?,
        heads: size("llama.attention.head_count", heads)?,
        kv_heads: match gguf.integer("llama.attention.head_count_kv")? {
            Some(kv_heads) => size("llama.attention.head_count_kv", kv_heads)?,
            None => size("llama.attention.head_count", heads)?,
        },
        head_dim: size("llama.attention.key_length", head_dim)?,
        context_length: size("llama.context_length", gguf.required("llama.context_length")?)?,
        rms_norm_eps: match gguf.float("llama.attention.layer_norm_rms_epsilon")? {
            Some(epsilon) => epsilon,
            None => {
                let key = "llama.attention.layer_norm_rms_epsilon".to_owned();
                return Err(LoadError::MissingSetting { key });
            }
        },
        rope_theta: gguf.float("llama.rope.freq_base")?.unwrap_or(10_000.0),
        rope_scaling: rope_scaling(gguf)?,
        rope_layout: RopeLayout::Interleaved,
        bos_token_id: gguf.token("tokenizer.ggml.bos_token_id")?,
        eos_token_ids: Vec::new(),
        tied_embeddings: !gguf.tensors.contains_key(&name(Role::Head)),
    };
    for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
        let id = gguf.token(&format!("tokenizer.ggml.{key}"))?;
        config.eos_token_ids.extend(id.filter(|id| !config.eos_token_ids.contains(id)));
    }
    config.validate()?;
    if gguf.tensors.contains_key(ROPE_FACTORS) {
        if config.rope_scaling != RopeScaling::None {
            let found = format!("{ROPE_FACTORS} and {:?}", config.rope_scaling);
            return Err(LoadError::Unsupported { what: "two rope scalings", found });
        }
        let factors = gguf.read(ROPE_FACTORS.to_owned(), &[config.head_dim / 2])?;
        let Tensor::Dense(DenseWeights::F32(factors)) = factors else {
            return Err(LoadError::TensorType { name: ROPE_FACTORS.to_owned(), dtype: "not F32".to_owned() });
        };
        config.rope_scaling = RopeScaling::PerFrequency { factors };
        config.validate()?;
    }
    Ok(config)
}

fn refuse_what_is_not_computed<R: Read + Seek>(gguf: &Gguf<'_, R>) -> Result<(), LoadError> {
    for (what, key) in
        [("mixture of experts", "llama.expert_count"), ("sliding window", "llama.attention.sliding_window")]
    {
        if let Some(found) = gguf.integer(key)?.filter(|&found| found != 0) {
            return Err(LoadError::Unsupported { what, found: found.to_string() });
        }
    }
    match gguf.metadata.get("llama.attention.causal") {
        None | Some(Value::Bool(true)) => Ok(()),
        Some(other) => Err(LoadError::Unsupported { what: "attention.causal", found: format!("{other:?}") }),
    }
}

fn rope_scaling<R: Read + Seek>(gguf: &Gguf<'_, R>) -> Result<RopeScaling, LoadError> {
    let factor = match gguf.float("llama.rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => gguf.float("llama.rope.scale_linear")?,
    };
    match (gguf.text("llama.rope.scaling.type")?, factor) {
        (Some("none"), _) | (None, None) => Ok(RopeScaling::None),
        (None | Some("linear"), Some(factor)) => Ok(RopeScaling::Linear { factor }),
        (Some("linear"), None) => Err(LoadError::MissingSetting { key: "llama.rope.scaling.factor".to_owned() }),
        (Some(other), _) => Err(LoadError::Unsupported { what: "rope scaling", found: other.to_owned() }),
    }
}

/// A tensor as it stands in the file.
enum Tensor {
    Dense(DenseWeights),
    Blocks { dtype: GgmlDType, buffer: Vec<u64>, size: usize },
}

impl<R: Read + Seek> Gguf<'_, R> {
    fn read(&mut self, name: String, expected: &[usize]) -> Result<Tensor, LoadError> {
        let Some(info) = self.tensors.remove(&name) else {
            return Err(LoadError::MissingTensor { name });
        };
        check_shape(&name, &info, expected)?;
        let dtype = info.dtype(&name)?;
        let columns = expected.last().copied().unwrap_or(0);
        if !columns.is_multiple_of(dtype.block_size()) {
            return Err(LoadError::PartialBlock { name, columns, block: dtype.block_size() });
        }
        // Dimensions are at most 2²⁴ each, but their product may not fit a 32-bit usize.
        let elements = expected.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        let elements = elements.ok_or_else(|| LoadError::OverLimit {
            what: format!("number of elements of tensor {name}"),
            found: u64::MAX,
            limit: usize::MAX as u64,
        })?;
        let (buffer, size) = self.data(&name, &info, dtype, elements)?;
        let bytes = &bytemuck::cast_slice::<u64, u8>(&buffer)[..size];
        Ok(match dtype {
            GgmlDType::F32 => Tensor::Dense(DenseWeights::F32(bytemuck::cast_slice(bytes).to_vec())),
            GgmlDType::F16 => Tensor::Dense(DenseWeights::F16(bytemuck::cast_slice(bytes).to_vec())),
            GgmlDType::BF16 => Tensor::Dense(DenseWeights::Bf16(bytemuck::cast_slice(bytes).to_vec())),
            dtype => Tensor::Blocks { dtype, buffer, size },
        })
    }

    fn text(&self, key: &str) -> Result<Option<&str>, LoadError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(key, format!("{other:?}"), "text")),
        }
    }

    fn integer(&self, key: &str) -> Result<Option<u64>, LoadError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(n)) => Ok(Some(*n)),
            Some(Value::Signed(n)) if *n >= 0 => Ok(Some(n.unsigned_abs())),
            Some(other) => Err(invalid(key, format!("{other:?}"), "an integer, not negative")),
        }
    }

    fn required(&self, key: &str) -> Result<u64, LoadError> {
        self.integer(key)?.ok_or_else(|| LoadError::MissingSetting { key: key.to_owned() })
    }

    fn float(&self, key: &str) -> Result<Option<f32>, LoadError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Float(x)) => Ok(Some(*x as f32)),
            Some(other) => Err(invalid(key, format!("{other:?}"), "a float")),
        }
    }

    fn token(&self, key: &str) -> Result<Option<u32>, LoadError> {
        let Some(id) = self.integer(key)? else {
            return Ok(None);
        };
        u32::try_from(id).map(Some).map_err(|_| invalid(key, id, "a token id"))
    }
}

impl<R: Read + Seek> TensorSource for Gguf<'_, R> {
    fn matrix(&mut self, role: Role, outputs: usize, inputs: usize) -> Result<Linear, LoadError> {
        Ok(match self.read(name(role), &[outputs, inputs])? {
            Tensor::Dense(weights) => Linear::dense(weights, outputs, inputs),
            Tensor::Blocks { dtype, buffer, size } => {
                let blocks = Linear::blocks(dtype, buffer, size, outputs, inputs);
                blocks.ok_or_else(|| LoadError::TensorType { name: name(role), dtype: format!("{dtype:?}") })?
            }
        })
    }

    fn vector(&mut self, role: Role, len: usize) -> Result<Vec<f32>, LoadError> {
        let name = name(role);
        match self.read(name.clone(), &[len])? {
            Tensor::Dense(weights) => {
                let mut vector = vec![0.0; len];
                weights.widen_row(0, &mut vector);
                Ok(vector)
            }
            Tensor::Blocks { dtype, .. } => Err(LoadError::TensorType { name, dtype: format!("{dtype:?}") }),
        }
    }
}

fn check_shape(name: &str, info: &TensorInfo, expected: &[usize]) -> Result<(), LoadError> {
    if info.shape.iter().copied().eq(expected.iter().map(|&n| n as u64)) {
        return Ok(());
    }
    Err(LoadError::TensorShape { name: name.to_owned(), expected: expected.to_vec(), found: info.shape.clone() })
}

fn size(key: &str, value: u64) -> Result<usize, LoadError> {
    usize::try_from(value).map_err(|_| invalid(key, value, "a size"))
}

fn name(role: Role) -> String {
    let (index, part) = match role {
        Role::Embedding => return "token_embd.weight".to_owned(),
        Role::Norm => return "output_norm.weight".to_owned(),
        Role::Head => return "output.weight".to_owned(),
        Role::Layer(index, part) => (index, part),
    };
    let part = match part {
        LayerRole::AttentionNorm => "attn_norm",
        LayerRole::Query => "attn_q",
        LayerRole::Key => "attn_k",
        LayerRole::Value => "attn_v",
        LayerRole::AttentionOutput => "attn_output",
        LayerRole::FeedForwardNorm => "ffn_norm",
        LayerRole::Gate => "ffn_gate",
        LayerRole::Up => "ffn_up",
        LayerRole::Down => "ffn_down",
    };
    format!("blk.{index}.{part}.weight")
}
