//! Weights of a decoder-only model in one list: fields, shapes, conditions, and names in files.
//!
//! Planning, loading and random initialization implement [`WeightSource`] and are asked for each weight in the order of
//! this list. Names are those of Llama; families list their own. In names, `{}` stands for the number of a block, and
//! `{e}` for that of an expert.

use super::{
    block::{FeedForward, HeadNorm, Norm},
    config::ModelConfig,
};

/// Name of a weight in both kinds of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightName {
    /// Field of [`ModelWeights`] or [`LayerWeights`] that it fills.
    field: &'static str,
    gguf: &'static str,
    hugging_face: &'static str,
    block: usize,
    /// Number of the expert, for weights of one.
    expert: usize,
}

/// Source of a model's weights, one at a time.
pub trait WeightSource {
    /// Type of a matrix from this source.
    type Matrix;
    /// Error for a weight that the source cannot give.
    type Error;

    /// Returns a matrix `[outputs, inputs]`.
    ///
    /// # Errors
    /// Fails if there is no matrix of that name and shape.
    fn matrix(&mut self, name: WeightName, shape: [usize; 2]) -> Result<Self::Matrix, Self::Error>;

    /// Returns a vector of f32.
    ///
    /// # Errors
    /// Fails if there is no vector of that name and length.
    fn vector(&mut self, name: WeightName, shape: [usize; 1]) -> Result<Vec<f32>, Self::Error>;
}

/// All weights of a model, with `M` for matrices.
#[derive(Debug)]
pub struct ModelWeights<M> {
    /// Token embeddings, `[vocab_size, hidden_size]` (`[rows + 1, hidden_size]` with a
    /// [`DraftVocabulary`](crate::DraftVocabulary) and no head);
    /// also the output head if `head` is absent.
    pub embedding: M,
    /// Learned positions, `[positions, hidden_size]`.
    pub positions: Option<M>,
    /// Transformer blocks, in order.
    pub layers: Vec<LayerWeights<M>>,
    /// Scales of the final norm.
    pub norm: Vec<f32>,
    /// Bias of the final norm.
    pub norm_bias: Option<Vec<f32>>,
    /// Output head, `[vocab_size, hidden_size]` or `[rows, hidden_size]`; absent if tied.
    pub head: Option<M>,
}

/// Declares [`LayerWeights`]. Each field has a type, kind (matrix or vector), shape, optional condition, and its names
/// in GGUF and in safetensors.
macro_rules! layer_weights {
    ($config:ident: $(
        $(#[$what:meta])*
        $field:ident: $type:ty = $kind:ident $shape:tt $(if $condition:expr)?, $gguf:literal, $hugging_face:literal;
    )+) => {
        /// Weights of one transformer block. Matrices are `[outputs, inputs]`.
        #[derive(Debug)]
        pub struct LayerWeights<M> {
            $($(#[$what])* pub $field: $type,)+
        }

        impl<M> LayerWeights<M> {
            fn gather<S>($config: &ModelConfig, block: usize, source: &mut S) -> Result<Self, S::Error>
            where
                S: WeightSource<Matrix = M>,
            {
                Ok(Self {
                    $($field: {
                        let field = stringify!($field);
                        let name = WeightName { field, gguf: $gguf, hugging_face: $hugging_face, block, expert: 0 };
                        layer_weights!(@gather source $kind name $shape $($condition)?)
                    },)+
                })
            }

            fn map<N, E>(self, change: &mut impl FnMut(M) -> Result<N, E>) -> Result<LayerWeights<N>, E> {
                Ok(LayerWeights { $($field: layer_weights!(@map $kind change self.$field),)+ })
            }

            fn by_ref(&self) -> LayerWeights<&M> {
                LayerWeights { $($field: layer_weights!(@by_ref $kind self.$field),)+ }
            }

            fn matrices(&self) -> impl Iterator<Item = &M> {
                let experts = self.experts.iter().flat_map(ExpertWeights::matrices);
                [$(layer_weights!(@matrix $kind self.$field)),+].into_iter().flatten().chain(experts)
            }
        }
    };
    (@gather $source:ident matrix $name:ident $shape:tt) => { $source.matrix($name, $shape)? };
    (@gather $source:ident optional_matrix $name:ident $shape:tt $condition:expr) => {
        match $condition {
            true => Some($source.matrix($name, $shape)?),
            false => None,
        }
    };
    (@gather $source:ident vector $name:ident $shape:tt $condition:expr) => {
        match $condition {
            true => Some($source.vector($name, $shape)?),
            false => None,
        }
    };
    (@gather $source:ident experts $name:ident [$config:expr]) => {
        ExpertWeights::gather($config, $name.block, $source)?
    };
    (@map experts $change:ident $value:expr) => {
        $value.into_iter().map(|expert| expert.map(&mut *$change)).collect::<Result<_, E>>()?
    };
    (@by_ref experts $value:expr) => { $value.iter().map(ExpertWeights::by_ref).collect() };
    (@matrix experts $value:expr) => { None };
    (@map matrix $change:ident $value:expr) => { $change($value)? };
    (@map optional_matrix $change:ident $value:expr) => { $value.map(&mut *$change).transpose()? };
    (@map vector $change:ident $value:expr) => { $value };
    (@by_ref matrix $value:expr) => { &$value };
    (@by_ref optional_matrix $value:expr) => { $value.as_ref() };
    (@by_ref vector $value:expr) => { $value.clone() };
    (@matrix matrix $value:expr) => { Some(&$value) };
    (@matrix optional_matrix $value:expr) => { $value.as_ref() };
    (@matrix vector $value:expr) => { None };
}

layer_weights! { config:
    /// Scales of the norm before attention.
    attention_norm: Option<Vec<f32>> = vector [config.hidden_size] if config.block.norms_before(),
        "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight";
    /// Bias of the norm before attention.
    attention_norm_bias: Option<Vec<f32>> = vector [config.hidden_size] if config.adds_before(),
        "blk.{}.attn_norm.bias", "model.layers.{}.input_layernorm.bias";
    /// Query projection of all heads.
    query: M = matrix [config.query_width(), config.hidden_size],
        "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight";
    /// Key projection of all heads.
    key: M = matrix [config.key_width(), config.hidden_size],
        "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight";
    /// Value projection of all heads.
    value: M = matrix [config.key_width(), config.hidden_size],
        "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight";
    /// Bias of the query projection.
    query_bias: Option<Vec<f32>> = vector [config.query_width()] if config.block.projection_bias,
        "blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias";
    /// Bias of the key projection.
    key_bias: Option<Vec<f32>> = vector [config.key_width()] if config.block.projection_bias,
        "blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias";
    /// Bias of the value projection.
    value_bias: Option<Vec<f32>> = vector [config.key_width()] if config.block.projection_bias,
        "blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias";
    /// Scales of the norm of queries, for one head or for all.
    query_norm: Option<Vec<f32>> =
        vector [config.head_norm_width(config.heads)] if config.block.head_norm != HeadNorm::None,
        "blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight";
    /// Scales of the norm of keys, for one head or for all.
    key_norm: Option<Vec<f32>> =
        vector [config.head_norm_width(config.kv_heads)] if config.block.head_norm != HeadNorm::None,
        "blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight";
    /// Sink of each query head.
    sinks: Option<Vec<f32>> = vector [config.heads] if config.block.sinks,
        "blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.sinks";
    /// Output projection of all heads.
    attention_output: M = matrix [config.hidden_size, config.query_width()],
        "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight";
    /// Bias of the output projection.
    attention_output_bias: Option<Vec<f32>> = vector [config.hidden_size] if config.block.output_bias,
        "blk.{}.attn_output.bias", "model.layers.{}.self_attn.o_proj.bias";
    /// Scales of the norm after attention.
    after_attention_norm: Option<Vec<f32>> = vector [config.hidden_size] if config.block.norms_after(),
        "blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight";
    /// Scales of the norm before the feed-forward part.
    feed_forward_norm: Option<Vec<f32>> = vector [config.hidden_size] if config.block.norms_before(),
        "blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight";
    /// Bias of the norm before the feed-forward part.
    feed_forward_norm_bias: Option<Vec<f32>> = vector [config.hidden_size] if config.adds_before(),
        "blk.{}.ffn_norm.bias", "model.layers.{}.post_attention_layernorm.bias";
    /// Gate projection, the input of the activation; absent in plain parts.
    gate: Option<M> =
        optional_matrix [config.intermediate_size, config.hidden_size] if config.is_gated() && config.is_dense(),
        "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight";
    /// Up projection: multiplied by the gate, or the input of the activation in plain parts; absent in mixtures.
    up: Option<M> = optional_matrix [config.intermediate_size, config.hidden_size] if config.is_dense(),
        "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight";
    /// Down projection to the residual stream; absent in mixtures.
    down: Option<M> = optional_matrix [config.hidden_size, config.intermediate_size] if config.is_dense(),
        "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight";
    /// Router of a mixture of experts, `[experts, hidden_size]`.
    router: Option<M> = optional_matrix [config.experts(), config.hidden_size] if !config.is_dense(),
        "blk.{}.ffn_gate_inp.weight", "model.layers.{}.mlp.gate.weight";
    /// Bias of the router of a mixture, `[experts]`.
    router_bias: Option<Vec<f32>> = vector [config.experts()] if config.adds_to_experts(),
        "blk.{}.ffn_gate_inp.bias", "model.layers.{}.mlp.router.bias";
    /// Experts of a mixture, in order.
    experts: Vec<ExpertWeights<M>> = experts [config], "", "";
    /// Bias of the gate projection.
    gate_bias: Option<Vec<f32>> =
        vector [config.intermediate_size] if config.block.feed_forward_bias && config.is_gated(),
        "blk.{}.ffn_gate.bias", "model.layers.{}.mlp.gate_proj.bias";
    /// Bias of the up projection.
    up_bias: Option<Vec<f32>> = vector [config.intermediate_size] if config.block.feed_forward_bias,
        "blk.{}.ffn_up.bias", "model.layers.{}.mlp.up_proj.bias";
    /// Bias of the down projection.
    down_bias: Option<Vec<f32>> = vector [config.hidden_size] if config.block.feed_forward_bias,
        "blk.{}.ffn_down.bias", "model.layers.{}.mlp.down_proj.bias";
    /// Scales of the norm after the feed-forward part.
    after_feed_forward_norm: Option<Vec<f32>> = vector [config.hidden_size] if config.block.norms_after(),
        "blk.{}.post_ffw_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight";
}

/// Weights of one expert of a mixture. Matrices are `[outputs, inputs]`.
#[derive(Debug)]
pub struct ExpertWeights<M> {
    /// Gate projection, the input of the activation.
    pub gate: M,
    /// Up projection, multiplied by the gate.
    pub up: M,
    /// Down projection to the residual stream.
    pub down: M,
    /// Bias of the gate projection.
    pub gate_bias: Option<Vec<f32>>,
    /// Bias of the up projection.
    pub up_bias: Option<Vec<f32>>,
    /// Bias of the down projection.
    pub down_bias: Option<Vec<f32>>,
}

impl<M> ExpertWeights<M> {
    /// Requests the experts of a block. GGUF files store each projection of all experts as one tensor.
    fn gather<S>(config: &ModelConfig, block: usize, source: &mut S) -> Result<Vec<Self>, S::Error>
    where
        S: WeightSource<Matrix = M>,
    {
        let Some(experts) = config.block.experts else { return Ok(Vec::new()) };
        let (width, hidden) = (experts.width, config.hidden_size);
        let mut gathered = Vec::new();
        for expert in 0..experts.count {
            let numbered = |name: WeightName| WeightName { block, expert, ..name };
            let mut bias = |name: WeightName, len: usize| match experts.bias {
                true => source.vector(numbered(name), [len]).map(Some),
                false => Ok(None),
            };
            let gate_bias = bias(WeightName::EXPERT_GATE_BIAS, width)?;
            let up_bias = bias(WeightName::EXPERT_UP_BIAS, width)?;
            let down_bias = bias(WeightName::EXPERT_DOWN_BIAS, hidden)?;
            gathered.push(Self {
                gate: source.matrix(numbered(WeightName::EXPERT_GATE), [width, hidden])?,
                up: source.matrix(numbered(WeightName::EXPERT_UP), [width, hidden])?,
                down: source.matrix(numbered(WeightName::EXPERT_DOWN), [hidden, width])?,
                gate_bias,
                up_bias,
                down_bias,
            });
        }
        Ok(gathered)
    }

    fn map<N, E>(self, change: &mut impl FnMut(M) -> Result<N, E>) -> Result<ExpertWeights<N>, E> {
        let Self { gate, up, down, gate_bias, up_bias, down_bias } = self;
        let [gate, up, down] = [change(gate)?, change(up)?, change(down)?];
        Ok(ExpertWeights { gate, up, down, gate_bias, up_bias, down_bias })
    }

    fn by_ref(&self) -> ExpertWeights<&M> {
        let Self { gate, up, down, gate_bias, up_bias, down_bias } = self;
        let [gate_bias, up_bias, down_bias] = [gate_bias, up_bias, down_bias].map(Clone::clone);
        ExpertWeights { gate, up, down, gate_bias, up_bias, down_bias }
    }

    fn matrices(&self) -> impl Iterator<Item = &M> {
        [&self.gate, &self.up, &self.down].into_iter()
    }
}

impl ModelConfig {
    /// Returns whether norms before a part have a bias.
    fn adds_before(&self) -> bool {
        self.block.norm == Norm::Layer && self.block.norms_before()
    }

    /// Returns whether blocks have one feed-forward part instead of a mixture.
    fn is_dense(&self) -> bool {
        self.block.experts.is_none()
    }

    /// Number of experts in a block.
    fn experts(&self) -> usize {
        self.block.experts.map_or(0, |experts| experts.count)
    }

    /// Returns whether router and experts have biases.
    fn adds_to_experts(&self) -> bool {
        self.block.experts.is_some_and(|experts| experts.bias)
    }

    fn is_gated(&self) -> bool {
        matches!(self.block.feed_forward, FeedForward::Gated(_))
    }

    /// Number of scales in the norm of `heads` heads.
    fn head_norm_width(&self, heads: usize) -> usize {
        match self.block.head_norm {
            HeadNorm::All => heads * self.head_dim,
            HeadNorm::Each | HeadNorm::None => self.head_dim,
        }
    }
}

const fn name(field: &'static str, gguf: &'static str, hugging_face: &'static str) -> WeightName {
    WeightName { field, gguf, hugging_face, block: 0, expert: 0 }
}

/// Kind of weight file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    Gguf,
    HuggingFace,
}

impl WeightName {
    pub(crate) const EMBEDDING: Self = name("embedding", "token_embd.weight", "model.embed_tokens.weight");
    pub(crate) const HEAD: Self = name("head", "output.weight", "lm_head.weight");
    pub(crate) const QUERY_BIAS: Self = name("query_bias", "blk.0.attn_q.bias", "");
    pub(crate) const ATTENTION_OUTPUT_BIAS: Self = name("attention_output_bias", "blk.0.attn_output.bias", "");
    pub(crate) const DOWN_BIAS: Self = name("down_bias", "blk.0.ffn_down.bias", "");
    const EXPERT_GATE: Self =
        name("expert_gate", "blk.{}.ffn_gate_exps.weight", "model.layers.{}.mlp.experts.{e}.gate_proj.weight");
    const EXPERT_UP: Self =
        name("expert_up", "blk.{}.ffn_up_exps.weight", "model.layers.{}.mlp.experts.{e}.up_proj.weight");
    const EXPERT_DOWN: Self =
        name("expert_down", "blk.{}.ffn_down_exps.weight", "model.layers.{}.mlp.experts.{e}.down_proj.weight");
    const EXPERT_GATE_BIAS: Self =
        name("expert_gate_bias", "blk.{}.ffn_gate_exps.bias", "model.layers.{}.mlp.experts.{e}.gate_proj.bias");
    const EXPERT_UP_BIAS: Self =
        name("expert_up_bias", "blk.{}.ffn_up_exps.bias", "model.layers.{}.mlp.experts.{e}.up_proj.bias");
    const EXPERT_DOWN_BIAS: Self =
        name("expert_down_bias", "blk.{}.ffn_down_exps.bias", "model.layers.{}.mlp.experts.{e}.down_proj.bias");
    const POSITIONS: Self = name("positions", "position_embd.weight", "model.embed_positions.weight");
    const NORM: Self = name("norm", "output_norm.weight", "model.norm.weight");
    const NORM_BIAS: Self = name("norm_bias", "output_norm.bias", "model.norm.bias");
    /// Difference between the token of each row of a draft's head and the row, as EAGLE-3 checkpoints store it.
    pub(crate) const D2T: Self = name("d2t", "d2t", "d2t");
    /// Divisors of the rotary frequencies: a setting that GGUF files store as a tensor. `config.json` has no need of
    /// it.
    pub(crate) const ROPE_FACTORS: Self = name("rope_factors", "rope_freqs.weight", "rope_scaling");

    /// Name in a file: the family's `own`, if it has one.
    pub(super) fn spelled(&self, own: Option<&'static str>, container: Container) -> String {
        let name = own.unwrap_or(match container {
            Container::Gguf => self.gguf,
            Container::HuggingFace => self.hugging_face,
        });
        name.replace("{}", &self.block.to_string()).replace("{e}", &self.expert.to_string())
    }

    /// Name in a GGUF file of architecture `llama`.
    #[must_use]
    pub fn gguf(&self) -> String {
        self.gguf.replace("{}", &self.block.to_string())
    }

    /// Returns whether the weight fills `field`.
    pub(crate) fn fills(&self, field: &str) -> bool {
        self.field == field
    }

    /// Returns whether the weight belongs to a block.
    pub(crate) fn is_of_block(&self) -> bool {
        self.gguf.starts_with("blk.")
    }

    /// Returns whether the weight belongs to one of several experts.
    pub(crate) fn is_of_expert(&self) -> bool {
        self.field.starts_with("expert_")
    }

    /// Number of the expert, 0 for weights of none.
    pub(crate) fn expert(&self) -> usize {
        self.expert
    }

    /// Returns whether the weight is the scale of a norm.
    pub(crate) fn is_scale_of_norm(&self) -> bool {
        self.field.ends_with("norm")
    }
}

impl<M> ModelWeights<M> {
    /// Requests the weights of a model from `source`, always in the same order.
    ///
    /// Requests stop at the first missing weight, so a false number of blocks in a file costs nothing.
    ///
    /// # Errors
    /// The first error of the source.
    pub fn gather<S: WeightSource<Matrix = M>>(config: &ModelConfig, source: &mut S) -> Result<Self, S::Error> {
        let embedding = source.matrix(WeightName::EMBEDDING, [config.embedding_rows(), config.hidden_size])?;
        let positions = match config.position_rows() {
            Some(rows) => Some(source.matrix(WeightName::POSITIONS, [rows, config.hidden_size])?),
            None => None,
        };
        let mut layers = Vec::new();
        for block in 0..config.layers {
            layers.push(LayerWeights::gather(config, block, source)?);
        }
        let norm = source.vector(WeightName::NORM, [config.hidden_size])?;
        let norm_bias = match config.block.norm {
            Norm::Layer => Some(source.vector(WeightName::NORM_BIAS, [config.hidden_size])?),
            Norm::Rms => None,
        };
        let head = match config.tied_embeddings {
            true => None,
            false => Some(source.matrix(WeightName::HEAD, [config.head_rows(), config.hidden_size])?),
        };
        Ok(Self { embedding, positions, layers, norm, norm_bias, head })
    }

    /// Copy with references to the matrices. Vectors are cloned because they are small.
    #[must_use]
    pub fn by_ref(&self) -> ModelWeights<&M> {
        ModelWeights {
            embedding: &self.embedding,
            positions: self.positions.as_ref(),
            layers: self.layers.iter().map(LayerWeights::by_ref).collect(),
            norm: self.norm.clone(),
            norm_bias: self.norm_bias.clone(),
            head: self.head.as_ref(),
        }
    }

    /// Converts each matrix.
    ///
    /// # Errors
    /// The first error of `change`.
    pub fn map<N, E>(self, mut change: impl FnMut(M) -> Result<N, E>) -> Result<ModelWeights<N>, E> {
        Ok(ModelWeights {
            embedding: change(self.embedding)?,
            positions: self.positions.map(&mut change).transpose()?,
            layers: self.layers.into_iter().map(|layer| layer.map(&mut change)).collect::<Result<_, E>>()?,
            norm: self.norm,
            norm_bias: self.norm_bias,
            head: self.head.map(change).transpose()?,
        })
    }

    /// Matrices that a forward pass reads in full: all except an embedding table that is not the head.
    pub fn multiplied(&self) -> impl Iterator<Item = &M> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        self.layers.iter().flat_map(LayerWeights::matrices).chain([head])
    }
}
