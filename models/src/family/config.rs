//! The shape and constants of a model.

use super::{
    block::{Block, Position},
    rotary::{RopeScaling, Rotary},
};
use crate::error::{LoadError, invalid};

/// The shape and constants of a model.
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
    /// ε of its norms.
    pub norm_epsilon: f32,
    /// What its blocks compute.
    pub block: Block,
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

impl ModelConfig {
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
        if self.heads.checked_mul(self.head_dim).is_none_or(|width| width > LARGEST_DIMENSION) {
            return Err(invalid("head_dim", self.head_dim, "heads × head_dim at most 2²⁴"));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon > 0.0) {
            return Err(invalid("rms_norm_eps", self.norm_epsilon, "finite and positive"));
        }
        self.validate_block()?;
        for &id in self.eos_token_ids.iter().chain(&self.bos_token_id) {
            if id as usize >= self.vocab_size {
                return Err(invalid("special token id", id, "below vocab_size"));
            }
        }
        Ok(())
    }

    fn validate_block(&self) -> Result<(), LoadError> {
        let block = &self.block;
        let factors = [
            ("score scale", Some(self.score_scale())),
            ("embedding scale", Some(block.embedding_scale)),
            ("residual scale", Some(block.residual_scale)),
            ("logit scale", Some(block.logit_scale)),
            ("score softcap", block.score_softcap),
            ("logit softcap", block.logit_softcap),
        ];
        for (key, factor) in factors {
            if let Some(factor) = factor.filter(|factor| !(factor.is_finite() && *factor > 0.0)) {
                return Err(invalid(key, factor, "finite and positive"));
            }
        }
        if block.window.as_ref().is_some_and(|window| window.tokens == 0) {
            return Err(invalid("sliding_window", 0, "at least one token"));
        }
        match &block.position {
            Position::Learned { offset } if *offset > LARGEST_DIMENSION => {
                Err(invalid("offset", offset, "a small one"))
            }
            Position::Learned { .. } => Ok(()),
            Position::Rotary { global, local, .. } => {
                global.validate(self.head_dim)?;
                local.iter().try_for_each(|local| local.validate(self.head_dim))
            }
        }
    }

    /// What products of queries and keys are multiplied by.
    #[must_use]
    pub fn score_scale(&self) -> f32 {
        self.block.score_scale.unwrap_or_else(|| 1.0 / (self.head_dim as f32).sqrt())
    }

    /// How queries and keys are rotated in all layers but a few, if they are.
    pub(crate) fn rotary_mut(&mut self) -> Option<&mut Rotary> {
        match &mut self.block.position {
            Position::Rotary { global, .. } => Some(global),
            Position::Learned { .. } => None,
        }
    }

    /// Stretches the rotary frequencies by divisors that a file has among its tensors.
    pub(crate) fn stretch(&mut self, factors: Vec<f32>) -> Result<(), LoadError> {
        if let Some(rotary) = self.rotary_mut() {
            rotary.scaling = RopeScaling::PerFrequency { factors };
        }
        self.validate()
    }

    /// Rows of the table of learned positions; none without one.
    pub(crate) fn position_rows(&self) -> Option<usize> {
        match self.block.position {
            Position::Learned { offset } => Some(self.context_length + offset),
            Position::Rotary { .. } => None,
        }
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
pub(crate) const LARGEST_DIMENSION: usize = 1 << 24;
