//! The weights of the Llama architecture, in one list: fields, shapes, and names in files.
//!
//! Whoever plans, loads or draws weights is a [`WeightSource`], and is asked for one after the other in the order of
//! this list. In the names, `{}` stands for the number of a block.

use super::config::ModelConfig;

/// The names of a weight in both kinds of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightName {
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
    /// The transformer blocks, in order.
    pub layers: Vec<LayerWeights<M>>,
    /// Scales of the last norm.
    pub norm: Vec<f32>,
    /// `[vocab_size, hidden_size]`.
    pub head: Option<M>,
}

/// Declares [`LayerWeights`]: for each field a matrix or vector, its shape, its name in GGUF and in safetensors.
macro_rules! layer_weights {
    ($config:ident: $(
        $(#[$what:meta])*
        $field:ident: $type:ty = $kind:ident $shape:tt, $gguf:literal, $hugging_face:literal;
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
                    $($field: source.$kind(WeightName { gguf: $gguf, hugging_face: $hugging_face, block }, $shape)?,)+
                })
            }

            fn map<N, E>(self, change: &mut impl FnMut(M) -> Result<N, E>) -> Result<LayerWeights<N>, E> {
                Ok(LayerWeights { $($field: layer_weights!(@map $kind change self.$field),)+ })
            }

            fn matrices(&self) -> impl Iterator<Item = &M> {
                [$(layer_weights!(@matrix $kind self.$field)),+].into_iter().flatten()
            }
        }
    };
    (@map matrix $change:ident $value:expr) => { $change($value)? };
    (@map vector $change:ident $value:expr) => { $value };
    (@matrix matrix $value:expr) => { Some(&$value) };
    (@matrix vector $value:expr) => { None };
}

layer_weights! { config:
    /// Scales of the norm before attention.
    attention_norm: Vec<f32> = vector [config.hidden_size],
        "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight";
    /// Makes all heads' queries.
    query: M = matrix [config.query_width(), config.hidden_size],
        "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight";
    /// Makes all heads' keys.
    key: M = matrix [config.key_width(), config.hidden_size],
        "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight";
    /// Makes all heads' values.
    value: M = matrix [config.key_width(), config.hidden_size],
        "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight";
    /// Leads all heads' contexts back to the residual stream.
    attention_output: M = matrix [config.hidden_size, config.query_width()],
        "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight";
    /// Scales of the norm before the feed-forward part.
    feed_forward_norm: Vec<f32> = vector [config.hidden_size],
        "blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight";
    /// Makes what SiLU turns into the gate.
    gate: M = matrix [config.intermediate_size, config.hidden_size],
        "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight";
    /// Makes what the gate scales.
    up: M = matrix [config.intermediate_size, config.hidden_size],
        "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight";
    /// Leads what is left back to the residual stream.
    down: M = matrix [config.hidden_size, config.intermediate_size],
        "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight";
}

const fn name(gguf: &'static str, hugging_face: &'static str) -> WeightName {
    WeightName { gguf, hugging_face, block: 0 }
}

impl WeightName {
    pub(crate) const EMBEDDING: Self = name("token_embd.weight", "model.embed_tokens.weight");
    pub(crate) const HEAD: Self = name("output.weight", "lm_head.weight");
    const NORM: Self = name("output_norm.weight", "model.norm.weight");
    /// Divisors of the rotary frequencies: a setting that GGUF files have among their tensors, and `config.json` does
    /// not need.
    pub(crate) const ROPE_FACTORS: Self = name("rope_freqs.weight", "rope_scaling");

    /// The name in a GGUF file.
    #[must_use]
    pub fn gguf(&self) -> String {
        self.gguf.replace("{}", &self.block.to_string())
    }

    /// The name in a Hugging Face checkpoint.
    #[must_use]
    pub fn hugging_face(&self) -> String {
        self.hugging_face.replace("{}", &self.block.to_string())
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
        let mut layers = Vec::new();
        for block in 0..config.layers {
            layers.push(LayerWeights::gather(config, block, source)?);
        }
        let norm = source.vector(WeightName::NORM, [config.hidden_size])?;
        let head = match config.tied_embeddings {
            true => None,
            false => Some(source.matrix(WeightName::HEAD, table)?),
        };
        Ok(Self { embedding, layers, norm, head })
    }

    /// Makes something else of each matrix.
    ///
    /// # Errors
    /// The first of `change`.
    pub fn map<N, E>(self, mut change: impl FnMut(M) -> Result<N, E>) -> Result<ModelWeights<N>, E> {
        Ok(ModelWeights {
            embedding: change(self.embedding)?,
            layers: self.layers.into_iter().map(|layer| layer.map(&mut change)).collect::<Result<_, E>>()?,
            norm: self.norm,
            head: self.head.map(change).transpose()?,
        })
    }

    /// The matrices that a forward pass reads as a whole: all but an embedding table that is not the head.
    pub fn multiplied(&self) -> impl Iterator<Item = &M> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        self.layers.iter().flat_map(LayerWeights::matrices).chain([head])
    }
}
