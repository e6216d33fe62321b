//! What the blocks of a model compute, as data: forward passes interpret it, families fill it in.

use super::rotary::Rotary;

/// What a model computes, as far as families differ. The default is Llama's: RMSNorm before attention and before the
/// feed-forward part, no biases, rotary positions, SwiGLU.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// What every norm of the residual stream computes.
    pub norm: Norm,
    /// Where a block has them.
    pub norms: NormPlaces,
    /// Norm of queries and keys before they are rotated.
    pub head_norm: HeadNorm,
    /// Whether queries, keys and values have biases.
    pub projection_bias: bool,
    /// Whether what leads contexts back has a bias.
    pub output_bias: bool,
    /// What the feed-forward part computes.
    pub feed_forward: FeedForward,
    /// Whether its matrices have biases.
    pub feed_forward_bias: bool,
    /// How a token's place is told.
    pub position: Position,
    /// What products of queries and keys are multiplied by, if not by 1/√head_dim.
    pub score_scale: Option<f32>,
    /// c of c·tanh(s/c), which scores go through.
    pub score_softcap: Option<f32>,
    /// How many tokens a row of a [local](Layers) layer sees, itself included.
    pub window: Option<Window>,
    /// What embeddings are multiplied by.
    pub embedding_scale: f32,
    /// What each part's result is multiplied by before it is added to the residual stream.
    pub residual_scale: f32,
    /// What logits are multiplied by.
    pub logit_scale: f32,
    /// c of c·tanh(x/c), which logits go through.
    pub logit_softcap: Option<f32>,
}

/// A norm of the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// x / √(mean(x²) + ε) · scale.
    Rms,
    /// (x − mean(x)) / √(var(x) + ε) · scale + bias.
    Layer,
}

/// Where a block has norms. There is one behind the last block in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlaces {
    /// Of what goes into attention and into the feed-forward part.
    Before,
    /// Of what comes from them.
    After,
    /// Both.
    Around,
}

/// RMSNorm of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadNorm {
    /// None.
    None,
    /// Of each head, all with the same scales.
    Each,
    /// Of all heads as one vector.
    All,
}

/// A feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedForward {
    /// down(activation(gate(x)) · up(x)).
    Gated(Activation),
    /// down(activation(up(x))).
    Plain(Activation),
}

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x / (1 + e⁻ˣ).
    Silu,
    /// ½x·(1 + tanh(√(2/π)·(x + 0.044715x³))).
    GeluTanh,
    /// max(0, x).
    Relu,
}

/// How a token's place in the text is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Position {
    /// Queries and keys are rotated.
    Rotary {
        /// In all layers but those below.
        global: Rotary,
        /// In [local](Window) layers, if otherwise.
        local: Option<Rotary>,
        /// Layers without (NoPE).
        nope: Layers,
    },
    /// A learned vector is added to each embedding.
    Learned {
        /// Rows of the table before that of the first position.
        offset: usize,
    },
}

/// A window, and the layers that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Tokens that a row sees, itself included.
    pub tokens: usize,
    /// The local layers.
    pub layers: Layers,
}

/// Some of a model's layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layers {
    /// None of them.
    None,
    /// All.
    All,
    /// All but one of so many: layer i, from 0, is among them unless i mod `period` is `but`.
    AllBut {
        /// At least 1.
        period: usize,
        /// Below `period`.
        but: usize,
    },
    /// Those that are true.
    Listed(Vec<bool>),
}

impl Layers {
    /// Whether `layer`, from 0, is one of them.
    #[must_use]
    pub fn contains(&self, layer: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::AllBut { period, but } => layer % period != *but,
            Self::Listed(layers) => layers.get(layer).copied().unwrap_or(false),
        }
    }

    /// Whether any of the first `count` layers is one of them.
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
            position: Position::Rotary { global: Rotary::default(), local: None, nope: Layers::None },
            score_scale: None,
            score_softcap: None,
            window: None,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
            logit_softcap: None,
        }
    }
}

impl Block {
    /// Which rotary embedding a layer has, if any.
    #[must_use]
    pub fn rotary_scope(&self, layer: usize) -> Option<RotaryScope> {
        let Position::Rotary { local, nope, .. } = &self.position else { return None };
        match () {
            () if nope.contains(layer) => None,
            () if local.is_some() && self.is_local(layer) => Some(RotaryScope::Local),
            () => Some(RotaryScope::Global),
        }
    }

    /// How many tokens a row of this layer sees at most, itself included.
    #[must_use]
    pub fn window(&self, layer: usize) -> Option<usize> {
        self.window.as_ref().filter(|window| window.layers.contains(layer)).map(|window| window.tokens)
    }

    fn is_local(&self, layer: usize) -> bool {
        self.window(layer).is_some()
    }

    /// Whether there are norms of what goes into a part.
    pub(crate) fn norms_before(&self) -> bool {
        self.norms != NormPlaces::After
    }

    /// Whether there are norms of what comes from a part.
    pub(crate) fn norms_after(&self) -> bool {
        self.norms != NormPlaces::Before
    }
}

/// Whose rotary embedding it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryScope {
    /// [`Position::Rotary::global`].
    Global,
    /// [`Position::Rotary::local`].
    Local,
}
