//! Computations of transformer blocks as data, filled in by families and interpreted by forward passes.

use super::rotary::Rotary;

/// Options in which families differ. The default is Llama: RMSNorm before attention and before the feed-forward part,
/// no biases, rotary positions, SwiGLU.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Kind of every norm on the residual stream.
    pub norm: Norm,
    /// Placement of the norms in a block.
    pub norms: NormPlaces,
    /// Norm of queries and keys before their rotation.
    pub head_norm: HeadNorm,
    /// True if queries, keys and values have biases.
    pub projection_bias: bool,
    /// True if the attention output projection has a bias.
    pub output_bias: bool,
    /// Kind of the feed-forward part.
    pub feed_forward: FeedForward,
    /// True if the feed-forward matrices have biases.
    pub feed_forward_bias: bool,
    /// Mixture of experts in place of the feed-forward part of every block.
    pub experts: Option<Experts>,
    /// Encoding of token positions.
    pub position: Position,
    /// Factor of attention scores; 1/√head_dim if absent.
    pub score_scale: Option<f32>,
    /// Soft cap c of attention scores, c·tanh(s/c).
    pub score_softcap: Option<f32>,
    /// Sliding window of [local](Layers) layers.
    pub window: Option<Window>,
    /// True if every query head has a learned score, its sink, in the softmax of attention scores. A sink has no value.
    pub sinks: bool,
    /// Factor of token embeddings.
    pub embedding_scale: f32,
    /// Factor of the output of attention and feed-forward part before the residual addition.
    pub residual_scale: f32,
    /// Factor of the logits, before their soft cap.
    pub logit_scale: f32,
    /// Soft cap c of logits, c·tanh(x/c).
    pub logit_softcap: Option<f32>,
}

/// Kind of a norm on the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// RMSNorm: x / √(mean(x²) + ε) · scale.
    Rms,
    /// LayerNorm: (x − mean(x)) / √(var(x) + ε) · scale + bias.
    Layer,
}

/// Placement of norms in a block. The output of the last block always has a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlaces {
    /// Norms on the inputs of attention and feed-forward part.
    Before,
    /// Norms on the outputs of attention and feed-forward part.
    After,
    /// Norms on inputs and outputs.
    Around,
}

/// RMSNorm of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadNorm {
    /// Queries and keys are not normalized.
    None,
    /// One norm per head, with scales shared by all heads.
    Each,
    /// One norm over all heads as a single vector.
    All,
}

/// Kind of a feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedForward {
    /// Gated: down(activation(gate(x)) · up(x)).
    Gated(Activation),
    /// Without a gate: down(activation(up(x))).
    Plain(Activation),
}

/// Mixture of gated feed-forward parts, the experts. A router gives every row a probability for each expert; the output
/// is the sum of the most probable experts' outputs, weighted by their probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experts {
    /// Number of experts in a block.
    pub count: usize,
    /// Number of experts that each row uses.
    pub used: usize,
    /// Width inside an expert.
    pub width: usize,
    /// True if the probabilities of the used experts are divided by their sum.
    pub normalized: bool,
    /// True if the router and the matrices of the experts have biases.
    pub bias: bool,
    /// Gating of the experts, if it is not that of the block's [`FeedForward`].
    pub clamp: Option<ClampedSwiglu>,
}

/// Clamped SwiGLU: g·σ(slope·g)·(u + 1), where g is the gate, at most `limit`, and u is the up projection, between
/// −`limit` and `limit`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClampedSwiglu {
    /// Factor of the gate in the logistic function σ.
    pub slope: f32,
    /// Bound of gate and up projection.
    pub limit: f32,
}

/// Element-wise activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// SiLU: x / (1 + e⁻ˣ).
    Silu,
    /// GELU by tanh: ½x·(1 + tanh(√(2/π)·(x + 0.044715x³))).
    GeluTanh,
    /// Rectifier: max(0, x).
    Relu,
}

/// Encoding of token positions.
#[derive(Debug, Clone, PartialEq)]
pub enum Position {
    /// Rotary embedding of queries and keys.
    Rotary {
        /// Embedding of all layers except those below.
        global: Rotary,
        /// Embedding of [local](Window) layers, if different.
        local: Option<Rotary>,
        /// Layers without positions (NoPE).
        nope: Layers,
    },
    /// Learned vector added to each token embedding.
    Learned {
        /// Number of table rows before that of position 0.
        offset: usize,
    },
}

/// Sliding window, and the layers that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Number of tokens that a row sees, itself included.
    pub tokens: usize,
    /// Layers with the window, called local.
    pub layers: Layers,
}

/// Subset of a model's layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layers {
    /// Empty set of layers.
    None,
    /// All layers of the model.
    All,
    /// All layers except those with i mod `period` = `but`, where layers count from 0.
    AllBut {
        /// Length of the period, at least 1.
        period: usize,
        /// Excluded remainder, below `period`.
        but: usize,
    },
    /// Layers whose entry is true.
    Listed(Vec<bool>),
}

impl Layers {
    /// Returns whether `layer`, counted from 0, is in the set.
    #[must_use]
    pub fn contains(&self, layer: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::AllBut { period, but } => layer % period != *but,
            Self::Listed(layers) => layers.get(layer).copied().unwrap_or(false),
        }
    }

    /// Returns whether any of the first `count` layers is in the set.
    pub(super) fn any(&self, count: usize) -> bool {
        (0..count).any(|layer| self.contains(layer))
    }
}

impl Default for Block {
    fn default() -> Self {
        Self {
            norm: Norm::Rms,
            norms: NormPlaces::Before,
            head_norm: HeadNorm::None,
            projection_bias: false,
            output_bias: false,
            feed_forward: FeedForward::Gated(Activation::Silu),
            feed_forward_bias: false,
            experts: None,
            position: Position::Rotary { global: Rotary::default(), local: None, nope: Layers::None },
            score_scale: None,
            score_softcap: None,
            window: None,
            sinks: false,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
            logit_softcap: None,
        }
    }
}

impl Block {
    /// Rotary embedding of a layer, if it has one.
    #[must_use]
    pub fn rotary_scope(&self, layer: usize) -> Option<RotaryScope> {
        let Position::Rotary { local, nope, .. } = &self.position else { return None };
        match () {
            () if nope.contains(layer) => None,
            () if local.is_some() && self.is_local(layer) => Some(RotaryScope::Local),
            () => Some(RotaryScope::Global),
        }
    }

    /// Largest number of tokens that a row of this layer sees, itself included; `None` without a window.
    #[must_use]
    pub fn window(&self, layer: usize) -> Option<usize> {
        self.window.as_ref().filter(|window| window.layers.contains(layer)).map(|window| window.tokens)
    }

    fn is_local(&self, layer: usize) -> bool {
        self.window(layer).is_some()
    }

    /// Returns whether the inputs of attention and feed-forward part have norms.
    pub(crate) fn norms_before(&self) -> bool {
        self.norms != NormPlaces::After
    }

    /// Returns whether the outputs of attention and feed-forward part have norms.
    pub(crate) fn norms_after(&self) -> bool {
        self.norms != NormPlaces::Before
    }
}

/// Reference to one of the model's rotary embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryScope {
    /// The model's [`Position::Rotary::global`].
    Global,
    /// The model's [`Position::Rotary::local`].
    Local,
}
