//! The weights of a model, in one list: fields, shapes, when a model has them, and names in files.
//!
//! Whoever plans, loads or draws weights is a [`WeightSource`], and is asked for one after the other in the order of
//! this list. Names are those of Llama; a family tells which it calls otherwise. In the names, `{}` stands for the
//! number of a block.

use super::{
    block::{FeedForward, HeadNorm, Norm},
    config::ModelConfig,
};

/// A weight, and its names in both kinds of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightName {
    /// The field that it fills.
    field: &'static str,
    gguf: &'static str,
    hugging_face: &'static str,
    block: usize,
}

/// Gives the weights of a model one by one.
pub trait WeightSource {
    /// What it gives for a matrix.
    type Matrix;
    /// Why there is none.
    type Error;

    /// Gives a matrix `[outputs, inputs]`.
    ///
    /// # Errors
    /// If there is none of that name and shape.
    fn matrix(&mut self, name: WeightName, shape: [usize; 2]) -> Result<Self::Matrix, Self::Error>;

    /// Gives a vector.
    ///
    /// # Errors
    /// If there is none of that name and length.
    fn vector(&mut self, name: WeightName, shape: [usize; 1]) -> Result<Vec<f32>, Self::Error>;
}

/// All weights of a model, with `M` for each of its matrices.
#[derive(Debug)]
pub struct ModelWeights<M> {
    /// `[vocab_size, hidden_size]`; also the output head if `head` is absent.
    pub embedding: M,
    /// Learned positions, `[positions, hidden_size]`.
    pub positions: Option<M>,
    /// The transformer blocks, in order.
    pub layers: Vec<LayerWeights<M>>,
    /// Scales of the last norm.
    pub norm: Vec<f32>,
    /// What it adds.
    pub norm_bias: Option<Vec<f32>>,
    /// `[vocab_size, hidden_size]`.
    pub head: Option<M>,
}

/// Declares [`LayerWeights`]: for each field a matrix or vector, its shape, when a model has it if not always, its name
/// in GGUF and in safetensors.
macro_rules! layer_weights {
    ($config:ident: $(
        $(#[$what:meta])*
        $field:ident: $type:ty = $kind:ident $shape:tt $(if $condition:expr)?, $gguf:literal, $hugging_face:literal;
    )+) => {
        /// The weights of one transformer block. Matrices are `[outputs, inputs]`.
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
                        let name = WeightName { field, gguf: $gguf, hugging_face: $hugging_face, block };
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
                [$(layer_weights!(@matrix $kind self.$field)),+].into_iter().flatten()
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
    /// What that norm adds.
    attention_norm_bias: Option<Vec<f32>> = vector [config.hidden_size] if config.adds_before(),
        "blk.{}.attn_norm.bias", "model.layers.{}.input_layernorm.bias";
    /// Makes all heads' queries.
    query: M = matrix [config.query_width(), config.hidden_size],
        "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight";
    /// Makes all heads' keys.
    key: M = matrix [config.key_width(), config.hidden_size],
        "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight";
    /// Makes all heads' values.
    value: M = matrix [config.key_width(), config.hidden_size],
        "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight";
    /// Is added to queries.
    query_bias: Option<Vec<f32>> = vector [config.query_width()] if config.block.projection_bias,
        "blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias";
    /// Is added to keys.
    key_bias: Option<Vec<f32>> = vector [config.key_width()] if config.block.projection_bias,
        "blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias";
    /// Is added to values.
    value_bias: Option<Vec<f32>> = vector [config.key_width()] if config.block.projection_bias,
        "blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias";
    /// Scales of the norm of queries: of one head, or of all.
    query_norm: Option<Vec<f32>> =
        vector [config.head_norm_width(config.heads)] if config.block.head_norm != HeadNorm::None,
        "blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight";
    /// Scales of the norm of keys.
    key_norm: Option<Vec<f32>> =
        vector [config.head_norm_width(config.kv_heads)] if config.block.head_norm != HeadNorm::None,
        "blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight";
    /// Leads all heads' contexts back to the residual stream.
    attention_output: M = matrix [config.hidden_size, config.query_width()],
        "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight";
    /// Is added to what it gives.
    attention_output_bias: Option<Vec<f32>> = vector [config.hidden_size] if config.block.output_bias,
        "blk.{}.attn_output.bias", "model.layers.{}.self_attn.o_proj.bias";
    /// Scales of the norm behind attention.
    after_attention_norm: Option<Vec<f32>> = vector [config.hidden_size] if config.block.norms_after(),
        "blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight";
    /// Scales of the norm before the feed-forward part.
    feed_forward_norm: Option<Vec<f32>> = vector [config.hidden_size] if config.block.norms_before(),
        "blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight";
    /// What that norm adds.
    feed_forward_norm_bias: Option<Vec<f32>> = vector [config.hidden_size] if config.adds_before(),
        "blk.{}.ffn_norm.bias", "model.layers.{}.post_attention_layernorm.bias";
    /// Makes what the activation turns into the gate.
    gate: Option<M> = optional_matrix [config.intermediate_size, config.hidden_size] if config.is_gated(),
        "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight";
    /// Makes what the gate scales, or what the activation takes where there is no gate.
    up: M = matrix [config.intermediate_size, config.hidden_size],
        "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight";
    /// Leads what is left back to the residual stream.
    down: M = matrix [config.hidden_size, config.intermediate_size],
        "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight";
    /// Is added to what the activation takes.
    gate_bias: Option<Vec<f32>> =
        vector [config.intermediate_size] if config.block.feed_forward_bias && config.is_gated(),
        "blk.{}.ffn_gate.bias", "model.layers.{}.mlp.gate_proj.bias";
    /// Is added to what `up` makes.
    up_bias: Option<Vec<f32>> = vector [config.intermediate_size] if config.block.feed_forward_bias,
        "blk.{}.ffn_up.bias", "model.layers.{}.mlp.up_proj.bias";
    /// Is added to what `down` gives.
    down_bias: Option<Vec<f32>> = vector [config.hidden_size] if config.block.feed_forward_bias,
        "blk.{}.ffn_down.bias", "model.layers.{}.mlp.down_proj.bias";
    /// Scales of the norm behind the feed-forward part.
    after_feed_forward_norm: Option<Vec<f32>> = vector [config.hidden_size] if config.block.norms_after(),
        "blk.{}.post_ffw_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight";
}

impl ModelConfig {
    /// Whether norms before a part add something.
    fn adds_before(&self) -> bool {
        self.block.norm == Norm::Layer && self.block.norms_before()
    }

    fn is_gated(&self) -> bool {
        matches!(self.block.feed_forward, FeedForward::Gated(_))
    }

    /// Scales of the norm of so many heads.
    fn head_norm_width(&self, heads: usize) -> usize {
        match self.block.head_norm {
            HeadNorm::All => heads * self.head_dim,
            HeadNorm::Each | HeadNorm::None => self.head_dim,
        }
    }
}

const fn name(field: &'static str, gguf: &'static str, hugging_face: &'static str) -> WeightName {
    WeightName { field, gguf, hugging_face, block: 0 }
}

/// A kind of file.
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
    const POSITIONS: Self = name("positions", "position_embd.weight", "model.embed_positions.weight");
    const NORM: Self = name("norm", "output_norm.weight", "model.norm.weight");
    const NORM_BIAS: Self = name("norm_bias", "output_norm.bias", "model.norm.bias");
    /// Divisors of the rotary frequencies: a setting that GGUF files have among their tensors, and `config.json` does
    /// not need.
    pub(crate) const ROPE_FACTORS: Self = name("rope_factors", "rope_freqs.weight", "rope_scaling");

    /// A weight that no family calls otherwise.
    pub(super) const fn plain(gguf: &'static str, hugging_face: &'static str, block: usize) -> Self {
        Self { field: "", gguf, hugging_face, block }
    }

    /// The name in a file: the family's `own`, if it has one.
    pub(super) fn spelled(&self, own: Option<&'static str>, container: Container) -> String {
        let name = own.unwrap_or(match container {
            Container::Gguf => self.gguf,
            Container::HuggingFace => self.hugging_face,
        });
        name.replace("{}", &self.block.to_string())
    }

    /// The name in a GGUF file of architecture `llama`.
    #[must_use]
    pub fn gguf(&self) -> String {
        self.gguf.replace("{}", &self.block.to_string())
    }

    /// Whether this is the field that it fills.
    pub(crate) fn fills(&self, field: &str) -> bool {
        self.field == field
    }

    /// Whether blocks have it.
    pub(crate) fn is_of_block(&self) -> bool {
        self.gguf.starts_with("blk.")
    }

    /// Whether it scales by a norm.
    pub(crate) fn is_scale_of_norm(&self) -> bool {
        self.field.ends_with("norm")
    }
}

impl<M> ModelWeights<M> {
    /// Asks `source` for the weights of a model of this shape.
    ///
    /// The number of blocks that a file claims is believed only as far as the source has them.
    ///
    /// # Errors
    /// The source's first.
    pub fn gather<S: WeightSource<Matrix = M>>(config: &ModelConfig, source: &mut S) -> Result<Self, S::Error> {
        let table = [config.vocab_size, config.hidden_size];
        let embedding = source.matrix(WeightName::EMBEDDING, table)?;
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
            false => Some(source.matrix(WeightName::HEAD, table)?),
        };
        Ok(Self { embedding, positions, layers, norm, norm_bias, head })
    }

    /// The same with references to the matrices. Vectors are copied: they are small.
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

    /// Makes something else of each matrix.
    ///
    /// # Errors
    /// The first of `change`.
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

    /// The matrices that a forward pass reads as a whole: all but an embedding table that is not the head.
    pub fn multiplied(&self) -> impl Iterator<Item = &M> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        self.layers.iter().flat_map(LayerWeights::matrices).chain([head])
    }
}
