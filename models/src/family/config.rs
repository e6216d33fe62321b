//! Shape and constants of a decoder-only model.

use super::{
    block::{Block, Position},
    draft_vocabulary::DraftVocabulary,
    recommended::RecommendedSampling,
    rotary::{RopeScaling, Rotary},
};
use crate::error::{LoadError, invalid};

/// Shape and constants of a decoder-only model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Number of token ids, which is the length of a row of logits. A file may have more rows
    /// ([`cut_vocabulary`](Self::cut_vocabulary)).
    pub vocab_size: usize,
    /// Tokens that a draft's head has rows for, if not all.
    pub draft_vocabulary: Option<DraftVocabulary>,
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
    /// Maximum number of tokens in a sequence.
    pub context_length: usize,
    /// Constant ε of the norms.
    pub norm_epsilon: f32,
    /// Computations of the blocks.
    pub block: Block,
    /// Token that begins a sequence, if the model has one.
    pub bos_token_id: Option<u32>,
    /// True if prompts begin with `bos_token_id` when the tokenizer has no template.
    pub adds_bos: bool,
    /// Tokens that end a sequence.
    pub eos_token_ids: Vec<u32>,
    /// True if the output head is the embedding table.
    pub tied_embeddings: bool,
    /// Jinja chat template in a GGUF file, if it has one.
    pub chat_template: Option<String>,
    /// Sampling that the model's files recommend.
    pub sampling: RecommendedSampling,
    /// Weights of the chance that a guess of this draft is its target's token, as measured when it was made; finite.
    pub guess_chance: Option<GuessChance>,
}

/// Weights of a logistic regression on how clear a draft's guess is.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
pub struct GuessChance {
    /// Constant term of the regression.
    pub bias: f32,
    /// Weight of the square root of the margin over the next best token.
    pub margin: f32,
    /// Weight of the square root of the guess's own probability.
    pub probability: f32,
}

impl GuessChance {
    /// The weights in the order of the fields.
    #[must_use]
    pub fn weights(self) -> [f64; 3] {
        [self.bias, self.margin, self.probability].map(f64::from)
    }
}

impl ModelConfig {
    /// Token that begins a prompt, if any; pass it to [`Tokenizer::encode_prompt`](crate::Tokenizer::encode_prompt).
    #[must_use]
    pub fn first_token(&self) -> Option<u32> {
        self.bos_token_id.filter(|_| self.adds_bos)
    }

    /// Limits the vocabulary to the first `tokens` ids, those of the tokenizer. Embedding tables are padded to round
    /// numbers of rows, which differ between sizes of a model. Rows past the tokenizer's last token are never
    /// generated.
    ///
    /// # Errors
    /// [`LoadError::InvalidSetting`] if there are fewer rows than `tokens`, or if a special token is not below it.
    pub fn cut_vocabulary(&mut self, tokens: usize) -> Result<(), LoadError> {
        if tokens > self.vocab_size {
            return Err(invalid("vocab_size", self.vocab_size, "as many rows as the tokenizer has tokens"));
        }
        self.vocab_size = tokens;
        self.validate()
    }

    /// Checks the settings that tensor shapes do not determine.
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
            // The product of any two is at most 2⁴⁸, which cannot overflow in 64 bits.
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
        if let Some(vocabulary) = &self.draft_vocabulary {
            vocabulary.validate(self.vocab_size)?;
        }
        if let Some(GuessChance { bias, margin, probability }) = self.guess_chance
            && let Some(found) =
                [bias, margin, probability].into_iter().find(|weight| weight.is_nan() || weight.abs() > 100.0)
        {
            return Err(invalid("guess_chance", found, "between -100 and 100"));
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
        if let Some(experts) = &block.experts {
            let sizes =
                [("experts", experts.count), ("used experts", experts.used), ("width of an expert", experts.width)];
            if let Some((key, found)) = sizes.into_iter().find(|(_, size)| !(1..=LARGEST_DIMENSION).contains(size)) {
                return Err(invalid(key, found, "between 1 and 2²⁴"));
            }
            if experts.used > experts.count {
                return Err(invalid("used experts", experts.used, "at most the number of experts"));
            }
        }
        let clamp = block.experts.and_then(|experts| experts.clamp);
        let factors = [
            ("score scale", Some(self.score_scale())),
            ("embedding scale", Some(block.embedding_scale)),
            ("residual scale", Some(block.residual_scale)),
            ("logit scale", Some(block.logit_scale)),
            ("score softcap", block.score_softcap),
            ("swiglu_alpha", clamp.map(|clamp| clamp.slope)),
            ("swiglu_limit", clamp.map(|clamp| clamp.limit)),
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

    /// Factor of attention scores.
    #[must_use]
    pub fn score_scale(&self) -> f32 {
        self.block.score_scale.unwrap_or_else(|| 1.0 / (self.head_dim as f32).sqrt())
    }

    /// Rotary embedding of all layers except local ones; `None` for learned positions.
    pub(crate) fn rotary_mut(&mut self) -> Option<&mut Rotary> {
        match &mut self.block.position {
            Position::Rotary { global, .. } => Some(global),
            Position::Learned { .. } => None,
        }
    }

    /// Stretches the rotary frequencies by divisors that a file stores as a tensor.
    pub(crate) fn stretch(&mut self, factors: Vec<f32>) -> Result<(), LoadError> {
        if let Some(rotary) = self.rotary_mut() {
            rotary.scaling = RopeScaling::PerFrequency { factors };
        }
        self.validate()
    }

    /// Number of rows in the embedding table: one per token, or, if it is also the head of a draft with fewer tokens,
    /// one per token of that head and a last one for all others.
    pub(crate) fn embedding_rows(&self) -> usize {
        match &self.draft_vocabulary {
            Some(vocabulary) if self.tied_embeddings => vocabulary.rows + 1,
            _ => self.vocab_size,
        }
    }

    /// Number of rows in an output head of its own.
    pub(crate) fn head_rows(&self) -> usize {
        self.draft_vocabulary.as_ref().map_or(self.vocab_size, |vocabulary| vocabulary.rows)
    }

    /// Number of rows in the table of learned positions; `None` for rotary positions.
    pub(crate) fn position_rows(&self) -> Option<usize> {
        match self.block.position {
            Position::Learned { offset } => Some(self.context_length + offset),
            Position::Rotary { .. } => None,
        }
    }

    /// Number of elements in all heads' queries.
    pub(crate) fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Number of elements in all heads' keys; that of their values is the same.
    pub(crate) fn key_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// Upper bound on dimensions, far above any real model. It guards arithmetic and allocation against invalid files.
pub(crate) const LARGEST_DIMENSION: usize = 1 << 24;
