//! Hugging Face checkpoints: `config.json` and `model.safetensors`.

use std::collections::BTreeSet;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::{LayerRole, ModelWeights, Role, TensorSource};
use crate::{config::ModelConfig, error::LoadError, kernels::dense::DenseWeights, linear::Linear};

/// Loads a `LlamaForCausalLM`. F32, F16 and BF16 weights are kept as they are and multiplied in f32.
pub(crate) fn load_safetensors(config_json: &[u8], weights: &[u8]) -> Result<(ModelConfig, ModelWeights), LoadError> {
    let config = ModelConfig::from_hugging_face(config_json)?;
    let tensors = SafeTensors::deserialize(weights)?;
    let unused = tensors.names().into_iter().map(str::to_owned).collect();
    let mut checkpoint = Checkpoint { tensors, unused };
    if config.tied_embeddings {
        // Some checkpoints store the tied table twice; the second copy is not needed.
        checkpoint.unused.remove(&name(Role::Head));
    }
    let weights = ModelWeights::load(&config, &mut checkpoint)?;
    // Old checkpoints store the rotary frequencies, which follow from the configuration.
    checkpoint.unused.retain(|name| !name.ends_with(".rotary_emb.inv_freq"));
    match checkpoint.unused.into_iter().next() {
        None => Ok((config, weights)),
        Some(name) => Err(LoadError::UnexpectedTensor { name }),
    }
}

struct Checkpoint<'data> {
    tensors: SafeTensors<'data>,
    unused: BTreeSet<String>,
}

impl Checkpoint<'_> {
    fn read(&mut self, role: Role, expected: &[usize]) -> Result<DenseWeights, LoadError> {
        let name = name(role);
        let Ok(view) = self.tensors.tensor(&name) else {
            return Err(LoadError::MissingTensor { name });
        };
        if view.shape() != expected {
            let found = view.shape().iter().map(|&n| n as u64).collect();
            return Err(LoadError::TensorShape { name, expected: expected.to_vec(), found });
        }
        // The container has checked that the data is as long as shape and type say; it need not be aligned.
        let bytes = view.data();
        let weights = match view.dtype() {
            Dtype::F32 => {
                let (words, _) = bytes.as_chunks();
                DenseWeights::F32(words.iter().map(|&word| f32::from_le_bytes(word)).collect())
            }
            Dtype::F16 => {
                let (words, _) = bytes.as_chunks();
                DenseWeights::F16(words.iter().map(|&word| f16::from_le_bytes(word)).collect())
            }
            Dtype::BF16 => {
                let (words, _) = bytes.as_chunks();
                DenseWeights::Bf16(words.iter().map(|&word| bf16::from_le_bytes(word)).collect())
            }
            other => {
                return Err(LoadError::TensorType { name, dtype: format!("{other:?}") });
            }
        };
        self.unused.remove(&name);
        Ok(weights)
    }
}

impl TensorSource for Checkpoint<'_> {
    fn matrix(&mut self, role: Role, outputs: usize, inputs: usize) -> Result<Linear, LoadError> {
        let weights = self.read(role, &[outputs, inputs])?;
        Ok(Linear::dense(weights, outputs, inputs))
    }

    fn vector(&mut self, role: Role, len: usize) -> Result<Vec<f32>, LoadError> {
        let weights = self.read(role, &[len])?;
        let mut vector = vec![0.0; len];
        weights.widen_row(0, &mut vector);
        Ok(vector)
    }
}

fn name(role: Role) -> String {
    let (index, part) = match role {
        Role::Embedding => return "model.embed_tokens.weight".to_owned(),
        Role::Norm => return "model.norm.weight".to_owned(),
        Role::Head => return "lm_head.weight".to_owned(),
        Role::Layer(index, part) => (index, part),
    };
    let part = match part {
        LayerRole::AttentionNorm => "input_layernorm",
        LayerRole::Query => "self_attn.q_proj",
        LayerRole::Key => "self_attn.k_proj",
        LayerRole::Value => "self_attn.v_proj",
        LayerRole::AttentionOutput => "self_attn.o_proj",
        LayerRole::FeedForwardNorm => "post_attention_layernorm",
        LayerRole::Gate => "mlp.gate_proj",
        LayerRole::Up => "mlp.up_proj",
        LayerRole::Down => "mlp.down_proj",
    };
    format!("model.layers.{index}.{part}.weight")
}
