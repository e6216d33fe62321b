//! Weights of the Llama architecture, whatever container they come from.

mod gguf;
mod gguf_llama;
mod safetensors;

pub(crate) use gguf_llama::load_gguf;
pub(crate) use safetensors::load_safetensors;

use crate::{config::ModelConfig, error::LoadError, linear::Linear};

/// All weights of a model.
pub(crate) struct ModelWeights {
    /// `[vocab_size, hidden_size]`; also the output head if `head` is absent.
    pub(crate) embedding: Linear,
    pub(crate) layers: Vec<LayerWeights>,
    pub(crate) norm: Vec<f32>,
    pub(crate) head: Option<Linear>,
}

/// The weights of one transformer block. Matrices are `[outputs, inputs]`.
pub(crate) struct LayerWeights {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) attention_output: Linear,
    pub(crate) feed_forward_norm: Vec<f32>,
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

/// A weight by its part in the architecture.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    Embedding,
    Norm,
    Head,
    Layer(usize, LayerRole),
}

/// A weight by its part in a transformer block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LayerRole {
    AttentionNorm,
    Query,
    Key,
    Value,
    AttentionOutput,
    FeedForwardNorm,
    Gate,
    Up,
    Down,
}

/// A container of named tensors.
pub(crate) trait TensorSource {
    /// A matrix of shape `[outputs, inputs]`.
    fn matrix(&mut self, role: Role, outputs: usize, inputs: usize) -> Result<Linear, LoadError>;

    /// A vector, as f32.
    fn vector(&mut self, role: Role, len: usize) -> Result<Vec<f32>, LoadError>;
}

impl ModelWeights {
    /// Takes the weights that `config` asks for out of `source`.
    pub(crate) fn load(config: &ModelConfig, source: &mut impl TensorSource) -> Result<Self, LoadError> {
        let hidden = config.hidden_size;
        let inner = config.intermediate_size;
        let query_width = config.heads * config.head_dim;
        let key_width = config.kv_heads * config.head_dim;
        let embedding = source.matrix(Role::Embedding, config.vocab_size, hidden)?;
        // Grown block by block: the number of blocks a file claims is believed only as far as it has them.
        let mut layers = Vec::new();
        for index in 0..config.layers {
            let role = |part| Role::Layer(index, part);
            layers.push(LayerWeights {
                attention_norm: source.vector(role(LayerRole::AttentionNorm), hidden)?,
                query: source.matrix(role(LayerRole::Query), query_width, hidden)?,
                key: source.matrix(role(LayerRole::Key), key_width, hidden)?,
                value: source.matrix(role(LayerRole::Value), key_width, hidden)?,
                attention_output: source.matrix(role(LayerRole::AttentionOutput), hidden, query_width)?,
                feed_forward_norm: source.vector(role(LayerRole::FeedForwardNorm), hidden)?,
                gate: source.matrix(role(LayerRole::Gate), inner, hidden)?,
                up: source.matrix(role(LayerRole::Up), inner, hidden)?,
                down: source.matrix(role(LayerRole::Down), hidden, inner)?,
            });
        }
        let norm = source.vector(Role::Norm, hidden)?;
        let head = match config.tied_embeddings {
            true => None,
            false => Some(source.matrix(Role::Head, config.vocab_size, hidden)?),
        };
        Ok(Self { embedding, layers, norm, head })
    }

    /// Multiplications for one token, attention apart.
    pub(crate) fn multiplications(&self) -> usize {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let layers = self.layers.iter().map(LayerWeights::multiplications).sum::<usize>();
        head.multiplications() + layers
    }
}

impl LayerWeights {
    fn multiplications(&self) -> usize {
        let Self { query, key, value, attention_output, gate, up, down, .. } = self;
        [query, key, value, attention_output, gate, up, down].map(Linear::multiplications).iter().sum()
    }
}
