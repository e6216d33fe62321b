//! The shape and constants of a model.

use crate::error::LoadError;

/// The shape and constants of a model of the Llama architecture.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Number of token ids; a row of logits is this long, whatever rows a file has beyond
    /// ([`cut_vocabulary`](Self::cut_vocabulary)).
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward part.
    pub intermediate_size: usize,
    /// Number of transformer blocks.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Largest number of tokens in a sequence.
    pub context_length: usize,
    /// ε of RMSNorm.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding's frequencies.
    pub rope_theta: f32,
    /// How the frequencies are stretched for long contexts.
    pub rope_scaling: RopeScaling,
    /// Which elements of a head are rotated together.
    pub rope_layout: RopeLayout,
    /// Token that begins a sequence, if the model has one.
    pub bos_token_id: Option<u32>,
    /// Whether a prompt begins with it where the tokenizer has no template that says so.
    pub adds_bos: bool,
    /// Tokens that end a sequence.
    pub eos_token_ids: Vec<u32>,
    /// Whether the output head is the embedding table.
    pub tied_embeddings: bool,
    /// The Jinja template that makes a prompt of a conversation, if a GGUF file has one.
    pub chat_template: Option<String>,
}

/// How rotary frequencies deviate from θ^(−2i/d).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All are divided by one factor.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Each is divided by its own factor; `head_dim / 2` of them. Llama 3's scaling in either container.
    PerFrequency {
        /// The divisors, highest frequency first.
        factors: Vec<f32>,
    },
}

/// Which two elements of a head form the plane that is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Elements 2i and 2i + 1: GGUF files of architecture `llama`, whose q and k rows are permuted for it.
    Interleaved,
    /// Elements i and i + head_dim / 2: Hugging Face checkpoints.
    HalfSplit,
}

impl ModelConfig {
    /// Radians by which a position turns each pair of a head's elements, `head_dim / 2` of them, the highest first.
    #[must_use]
    pub fn rope_frequencies(&self) -> Vec<f32> {
        let frequency = |i: usize| {
            let exponent = 2.0 * i as f64 / self.head_dim as f64;
            let frequency = libm::pow(f64::from(self.rope_theta), -exponent) as f32;
            match &self.rope_scaling {
                RopeScaling::None => frequency,
                RopeScaling::Linear { factor } => frequency / factor,
                RopeScaling::PerFrequency { factors } => frequency / factors[i],
            }
        };
        (0..self.head_dim / 2).map(frequency).collect()
    }

    /// The token that begins a prompt, if one does: what [`Tokenizer::encode_prompt`](crate::Tokenizer::encode_prompt)
    /// wants.
    #[must_use]
    pub fn first_token(&self) -> Option<u32> {
        self.bos_token_id.filter(|_| self.adds_bos)
    }

    /// Leaves the first `tokens` ids of the vocabulary: those that a tokenizer has. Tables are padded to round numbers
    /// of rows, and not alike in all sizes of a model; a row behind the last token is one that nobody ever wrote.
    ///
    /// # Errors
    /// If there are fewer rows than that, or a special token is behind the last.
    pub fn cut_vocabulary(&mut self, tokens: usize) -> Result<(), LoadError> {
        if tokens > self.vocab_size {
            return Err(invalid("vocab_size", self.vocab_size, "as many rows as the tokenizer has tokens"));
        }
        self.vocab_size = tokens;
        self.validate()
    }

    /// Checks what the loaders cannot see from tensor shapes.
    pub(crate) fn validate(&self) -> Result<(), LoadError> {
        let positive = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("layers", self.layers),
            ("heads", self.heads),
            ("kv_heads", self.kv_heads),
            ("head_dim", self.head_dim),
            ("context_length", self.context_length),
        ];
        for (key, value) in positive {
            // The product of any two stays far from overflow, also in 32-bit address spaces.
            if value == 0 || value > LARGEST_DIMENSION {
                return Err(invalid(key, value, "between 1 and 2²⁴"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(invalid("kv_heads", self.kv_heads, "a divisor of heads"));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(invalid("head_dim", self.head_dim, "even"));
        }
        if self.heads.checked_mul(self.head_dim).is_none_or(|width| width > LARGEST_DIMENSION) {
            return Err(invalid("head_dim", self.head_dim, "heads × head_dim at most 2²⁴"));
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps > 0.0) {
            return Err(invalid("rms_norm_eps", self.rms_norm_eps, "finite and positive"));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return Err(invalid("rope_theta", self.rope_theta, "finite and positive"));
        }
        let factors: &[f32] = match &self.rope_scaling {
            RopeScaling::None => &[],
            RopeScaling::Linear { factor } => std::slice::from_ref(factor),
            RopeScaling::PerFrequency { factors } => factors,
        };
        if let Some(factor) = factors.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
            return Err(invalid("rope_scaling", factor, "factors that are finite and positive"));
        }
        for &id in self.eos_token_ids.iter().chain(&self.bos_token_id) {
            if id as usize >= self.vocab_size {
                return Err(invalid("special token id", id, "below vocab_size"));
            }
        }
        Ok(())
    }

    /// Elements of all heads' queries.
    pub(crate) fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of all heads' keys, and of their values.
    pub(crate) fn key_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// No dimension of a real model comes near it; a guard against arithmetic and allocation on nonsense.
pub(super) const LARGEST_DIMENSION: usize = 1 << 24;

pub(crate) fn invalid(key: &str, found: impl ToString, expected: &'static str) -> LoadError {
    LoadError::InvalidSetting { key: key.to_owned(), found: found.to_string(), expected }
}
