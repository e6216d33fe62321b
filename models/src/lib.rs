#![doc = include_str!("../README.md")]
//!
//! # From tokens to logits
//!
//! ```text
//! GGUF file ─┐
//!            ├─ container ─▶ ModelWeights ─▶ Model ─ forward(&mut [Chunk]) ─▶ Logits
//! HF folder ─┘  (a stream)
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `family` | model descriptions: shape, block computations, the list of weights; model families |
//! | `container` | weight files, read as streams |
//! | `chat` | chat templates, from conversation to prompt |
//! | `forward` | KV caches, transformer blocks, logits |
//! | [`shapes`] | models of published shapes with random weights, for timing |
//! | `kernels` | vectorized products, attention and norms; thread pool |
//!
//! A [`StoredModel`] is a model file without kernels, for backends that compute elsewhere. [`Logits`] also holds the
//! hidden state of each row. [`HeadsFile`] reads small linear heads trained on hidden states.
//!
//! Hidden states are plain slices in a [`Scratch`]. The kernels are our own because weights must be read once for
//! several rows, as for one. Long forward passes are split over [`threads`].
//!
//! # Guarantees
//!
//! - **Identical bits everywhere.** The logits and hidden state of a position have the same bits for every grouping of
//!   tokens into calls, every batch, rollback and refill, every thread count, every instruction set and every browser
//!   build. Greedy decoding with speculation therefore gives the same text as without. Each output element is one sum,
//!   in an order fixed by its length, of operations that IEEE 754 defines to the last bit. (NaN has many
//!   representations, and the one that a broken model gives is not fixed.)
//! - **A failed forward pass** has no effect that a later one can see.
//! - **Any bytes** given to a loader give a model or a typed error; allocations are bounded by the size of the input.
//! - **Memory** is at most 1.3 × the file size, during and after loading, plus caches and the [`Scratch`]. A forward
//!   pass no larger than an earlier one allocates nothing except new cache pages.
//! - **Nothing is ignored silently.** Unknown settings and unused tensors are rejected by name.
//!
//! # Not guaranteed
//!
//! - Support for big-endian machines.
//! - Speed at long context lengths: caches are f32.

#[cfg(feature = "chat")]
mod chat;
mod container;
mod error;
mod family;
mod forward;
mod kernels;
pub mod shapes;
#[cfg(feature = "tokenizers")]
mod stop;
pub mod threads;
#[cfg(feature = "tokenizers")]
mod tokenizer;

#[cfg(feature = "chat")]
pub use chat::{
    Call, CallReader, ChatError, ChatSource, ChatTemplate, Conversation, Message, MessageError, Piece, ReasoningReader,
    TemplateVariables, Tool, VariableError,
};
#[cfg(not(target_arch = "wasm32"))]
pub use container::{checkpoint::checkpoint_in_one_file, gguf_parts::gguf_part_names};
pub use container::{
    element::ElementType,
    gguf_vocabulary::GgufVocabulary,
    heads::{HeadsError, HeadsFile, HeadsMetadata, LinearHead},
    random::RandomWeights,
    stored::{StoredLoader, StoredMatrix, StoredModel},
};
pub use error::{EncodeError, LoadError, ModelError};
pub use family::{
    block::{
        Activation, Block, ClampedSwiglu, Experts, FeedForward, HeadNorm, Layers, Norm, NormPlaces, Position,
        RotaryScope, Window,
    },
    config::{GuessChance, ModelConfig},
    draft_vocabulary::DraftVocabulary,
    ignored::ignore_settings,
    recommended::RecommendedSampling,
    rotary::{RopeLayout, RopeScaling, Rotary},
    table::check_model_type,
    weights::{ExpertWeights, LayerWeights, ModelWeights, WeightName, WeightSource},
};
pub use forward::{
    cache::{Chunk, HostPages, KvCache, PageSource, feed},
    loader::{ModelLoader, SafetensorsLoader},
    logits::{BatchLogits, Logits, LogitsRef},
    model::Model,
    scratch::Scratch,
};
pub use kernels::{head_page::PAGE_TOKENS, pages::Page, rounded::ActivationBits};
#[cfg(feature = "tokenizers")]
pub use stop::{Reach, StopStrings, TokenTexts};
#[cfg(feature = "tokenizers")]
pub use tokenizer::{TextStream, Tokenizer};

/// Name of the instruction set in use, such as `avx512` or `portable`. It is the fastest that the processor supports,
/// unless the environment variable `OUTRIDER_ISA` names another supported one. Unsupported names are ignored here and
/// rejected by [`check_instruction_set`].
#[must_use]
pub fn instruction_set() -> &'static str {
    kernels::isa::Isa::current().name()
}

/// Error for an `OUTRIDER_ISA` that is unknown or not supported by this processor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("OUTRIDER_ISA is \"{found}\", which this processor has no kernels for: it can be {}, or not set", available.join(", "))]
pub struct UnknownInstructionSet {
    /// Value of `OUTRIDER_ISA`.
    pub found: String,
    /// Supported names, fastest first.
    pub available: Vec<&'static str>,
}

/// Checks that `OUTRIDER_ISA`, if set, names an instruction set that this processor supports. Programs call this at
/// startup, so that a benchmark cannot run on another instruction set than intended.
///
/// # Errors
/// [`UnknownInstructionSet`] if the name is unknown or not supported.
pub fn check_instruction_set() -> Result<(), UnknownInstructionSet> {
    use kernels::isa::Isa;
    let available = || Isa::available().into_iter().map(Isa::name).collect();
    Isa::named().map(drop).map_err(|found| UnknownInstructionSet { found, available: available() })
}
