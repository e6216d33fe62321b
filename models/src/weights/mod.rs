//! Weights of the Llama architecture, whatever container they come from.
//!
//! Containers are read as a stream that is seen once: what comes before the tensors (`gguf`, `safetensors`) says
//! where each of them is; the architecture says which are wanted (`plan`); and their bytes go straight to where they
//! stay (`filling`).

mod filling;
mod gguf;
mod gguf_fields;
mod gguf_llama;
mod plan;
mod safetensors;
mod stream;

pub(crate) use gguf_llama::GgufHeader;
pub(crate) use safetensors::SafetensorsHeader;
pub(crate) use stream::Stream;

use std::collections::HashMap;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Embedding,
    Norm,
    Head,
    /// Divisors of the rotary frequencies; part of the configuration that is stored as a tensor.
    RopeFactors,
    Layer(usize, LayerRole),
}

/// A weight by its part in a transformer block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// What a weight looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Stays in the type it is stored in.
    Matrix { outputs: usize, inputs: usize },
    /// Widened to f32.
    Vector { len: usize },
}

/// The weights that a model of this shape has, embedding first.
///
/// Lazy: the number of layers that a file claims is believed only as far as it has them.
pub(crate) fn expected(config: &ModelConfig) -> impl Iterator<Item = (Role, Shape)> {
    let hidden = config.hidden_size;
    let inner = config.intermediate_size;
    let query_width = config.heads * config.head_dim;
    let key_width = config.kv_heads * config.head_dim;
    let matrix = |outputs, inputs| Shape::Matrix { outputs, inputs };
    let vector = |len| Shape::Vector { len };
    let layer = [
        (LayerRole::AttentionNorm, vector(hidden)),
        (LayerRole::Query, matrix(query_width, hidden)),
        (LayerRole::Key, matrix(key_width, hidden)),
        (LayerRole::Value, matrix(key_width, hidden)),
        (LayerRole::AttentionOutput, matrix(hidden, query_width)),
        (LayerRole::FeedForwardNorm, vector(hidden)),
        (LayerRole::Gate, matrix(inner, hidden)),
        (LayerRole::Up, matrix(inner, hidden)),
        (LayerRole::Down, matrix(hidden, inner)),
    ];
    let table = matrix(config.vocab_size, hidden);
    let layers = (0..config.layers).flat_map(move |index| layer.map(|(part, shape)| (Role::Layer(index, part), shape)));
    let head = (!config.tied_embeddings).then_some((Role::Head, table));
    [(Role::Embedding, table)].into_iter().chain(layers).chain([(Role::Norm, vector(hidden))]).chain(head)
}

/// Weights that have been loaded, before they are a model.
#[derive(Default)]
pub(crate) struct Parts {
    matrices: HashMap<Role, Linear>,
    vectors: HashMap<Role, Vec<f32>>,
}

impl Parts {
    fn matrix(&mut self, role: Role) -> Result<Linear, LoadError> {
        self.matrices.remove(&role).ok_or_else(|| missing(role))
    }

    fn vector(&mut self, role: Role) -> Result<Vec<f32>, LoadError> {
        self.vectors.remove(&role).ok_or_else(|| missing(role))
    }

    /// The divisors of the rotary frequencies, if the file had any.
    pub(crate) fn rope_factors(&mut self) -> Option<Vec<f32>> {
        self.vectors.remove(&Role::RopeFactors)
    }
}

fn missing(role: Role) -> LoadError {
    LoadError::MissingTensor { name: format!("{role:?}") }
}

impl ModelWeights {
    /// Takes what is [`expected`] for `config` out of `parts`.
    pub(crate) fn assemble(config: &ModelConfig, parts: &mut Parts) -> Result<Self, LoadError> {
        let mut layers = Vec::new();
        for index in 0..config.layers {
            let role = |part| Role::Layer(index, part);
            layers.push(LayerWeights {
                attention_norm: parts.vector(role(LayerRole::AttentionNorm))?,
                query: parts.matrix(role(LayerRole::Query))?,
                key: parts.matrix(role(LayerRole::Key))?,
                value: parts.matrix(role(LayerRole::Value))?,
                attention_output: parts.matrix(role(LayerRole::AttentionOutput))?,
                feed_forward_norm: parts.vector(role(LayerRole::FeedForwardNorm))?,
                gate: parts.matrix(role(LayerRole::Gate))?,
                up: parts.matrix(role(LayerRole::Up))?,
                down: parts.matrix(role(LayerRole::Down))?,
            });
        }
        let head = match config.tied_embeddings {
            true => None,
            false => Some(parts.matrix(Role::Head)?),
        };
        Ok(Self { embedding: parts.matrix(Role::Embedding)?, layers, norm: parts.vector(Role::Norm)?, head })
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
