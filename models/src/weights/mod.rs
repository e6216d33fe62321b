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
mod stored;
mod stream;

pub(crate) use gguf_llama::GgufHeader;
pub(crate) use safetensors::SafetensorsHeader;
pub use stored::{StoredMatrix, StoredModel};
pub(crate) use stream::Stream;

use std::collections::{HashMap, TryReserveError};

use crate::{config::ModelConfig, element::ElementType, error::LoadError, linear::Linear};

/// All weights of a model, with `M` for each of its matrices.
#[derive(Debug)]
pub struct ModelWeights<M> {
    /// `[vocab_size, hidden_size]`; also the output head if `head` is absent.
    pub embedding: M,
    /// The transformer blocks, in order.
    pub layers: Vec<LayerWeights<M>>,
    /// Scales of the last norm, `[hidden_size]`.
    pub norm: Vec<f32>,
    /// `[vocab_size, hidden_size]`.
    pub head: Option<M>,
}

/// A matrix that is being loaded: takes the bytes of a container, strip by strip, to where they stay.
pub(crate) trait MatrixBuilder: Sized {
    /// What comes of it.
    type Matrix;

    /// A matrix of which nothing is there yet. Rows of `inputs` elements are whole blocks of `element`, and neither
    /// dimension is zero or above 2²⁴. None if nothing can be done with this element type.
    fn new(element: ElementType, outputs: usize, inputs: usize) -> Option<Self>;

    /// Bytes of the next strip; 0 once all rows are there.
    fn strip_bytes(&self) -> usize;

    /// Makes room for exactly the next `strips`, or what is left of them. Pushing as many then allocates nothing.
    ///
    /// # Errors
    /// If the allocator does not have the memory. What is there stays.
    fn try_reserve(&mut self, strips: usize) -> Result<(), TryReserveError>;

    /// Puts the next strip in its place; `bytes` are [`strip_bytes`](Self::strip_bytes), with any alignment.
    fn push_strip(&mut self, bytes: &[u8]);

    /// The matrix. All strips have been pushed.
    fn finish(self) -> Self::Matrix;
}

/// The weights of one transformer block. Matrices are `[outputs, inputs]`.
#[derive(Debug)]
pub struct LayerWeights<M> {
    /// Scales of the norm before attention, `[hidden_size]`.
    pub attention_norm: Vec<f32>,
    /// `[heads × head_dim, hidden_size]`.
    pub query: M,
    /// `[kv_heads × head_dim, hidden_size]`.
    pub key: M,
    /// `[kv_heads × head_dim, hidden_size]`.
    pub value: M,
    /// `[hidden_size, heads × head_dim]`.
    pub attention_output: M,
    /// Scales of the norm before the feed-forward part, `[hidden_size]`.
    pub feed_forward_norm: Vec<f32>,
    /// `[intermediate_size, hidden_size]`.
    pub gate: M,
    /// `[intermediate_size, hidden_size]`.
    pub up: M,
    /// `[hidden_size, intermediate_size]`.
    pub down: M,
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
pub(crate) struct Parts<M> {
    matrices: HashMap<Role, M>,
    vectors: HashMap<Role, Vec<f32>>,
}

impl<M> Default for Parts<M> {
    fn default() -> Self {
        Self { matrices: HashMap::new(), vectors: HashMap::new() }
    }
}

impl<M> Parts<M> {
    fn matrix(&mut self, role: Role) -> Result<M, LoadError> {
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

impl<M> ModelWeights<M> {
    /// Takes what is [`expected`] for `config` out of `parts`.
    pub(crate) fn assemble(config: &ModelConfig, parts: &mut Parts<M>) -> Result<Self, LoadError> {
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
}

impl ModelWeights<Linear> {
    /// Multiplications for one token, attention apart.
    pub(crate) fn multiplications(&self) -> usize {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let layers = self.layers.iter().map(LayerWeights::multiplications).sum::<usize>();
        head.multiplications() + layers
    }
}

impl LayerWeights<Linear> {
    fn multiplications(&self) -> usize {
        let Self { query, key, value, attention_output, gate, up, down, .. } = self;
        [query, key, value, attention_output, gate, up, down].map(Linear::multiplications).iter().sum()
    }
}
