#![doc = include_str!("../README.md")]
//!
//! # How a token becomes logits
//!
//! ```text
//! GGUF file ─┐
//!            ├─ container ─▶ ModelWeights ─▶ Model ─ forward(&mut [Chunk]) ─▶ Logits
//! HF folder ─┘  (a stream)
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | `family` | what describes a model: its shape, what its blocks compute, the one list of its weights; families |
//! | `container` | files with weights, read as streams |
//! | `chat` | conversations to prompts |
//! | `forward` | KV caches, the blocks, logits |
//! | `kernels` | products, attention and norms on vectors; threads |
//!
//! An [`EncoderDecoder`] is a model that first reads a [`Source`], with chunks, caches and logits like a [`Model`]'s.
//! A [`StoredModel`] is the same file without kernels, for who computes elsewhere.
//! [`Logits`] also has the hidden state that each row comes from. [`HeadsFile`] reads small linear heads that were
//! trained on it.
//!
//! Hidden states are plain slices in a [`Scratch`]; the kernels are our own, because weights should be read once
//! for a few rows as for one. Forward passes that take long enough are split over [`threads`].
//!
//! # Guarantees
//!
//! - **The same bits everywhere.** The logits and hidden state of a position have the same bits however its
//!   tokens were grouped into calls, whatever other sequences are in the batch, after any rollback and
//!   refill, with every number of threads, on every instruction set and in every build for the browser. Greedy decoding
//!   with speculation therefore gives the text of greedy decoding without. It holds because each output element is one
//!   sum in an order that is fixed by its length, of operations that IEEE 754 defines to the last bit. (NaN has many
//!   representations, and which one a broken model gives is not fixed.)
//! - **A failed forward pass changes nothing** that a later one can see.
//! - **Any bytes** given to a loader give a model or a typed error; allocations are bounded by the input's size.
//! - **Memory** is at most 1.3 × the file, while it loads and after, plus caches and the [`Scratch`]; a forward pass
//!   that is no larger than one before allocates nothing but a cache's next page.
//! - **Nothing is ignored silently**: settings that nobody here knows and tensors that nobody uses are refused by
//!   their names.
//!
//! # Not guaranteed
//!
//! - Big-endian machines.
//! - Speed with long contexts: caches are f32.

#[cfg(feature = "chat")]
mod chat;
mod container;
mod error;
mod family;
mod forward;
mod kernels;
#[cfg(feature = "tokenizers")]
mod stop;
pub mod threads;
#[cfg(feature = "tokenizers")]
mod tokenizer;

#[cfg(feature = "chat")]
pub use chat::{
    Call, CallReader, ChatError, ChatSource, ChatTemplate, Conversation, Message, MessageError, Piece, Tool,
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
    block::{Activation, Block, FeedForward, HeadNorm, Layers, Norm, NormPlaces, Position, RotaryScope, Window},
    config::ModelConfig,
    encoder_decoder::config::EncoderDecoderConfig,
    rotary::{RopeLayout, RopeScaling, Rotary},
    weights::{LayerWeights, ModelWeights, WeightName, WeightSource},
};
pub use forward::{
    cache::{Chunk, HostPages, KvCache, PageSource, feed},
    encoder_decoder::model::{EncoderDecoder, Source, SourceChunk},
    loader::{ModelLoader, SafetensorsLoader},
    logits::{BatchLogits, Logits, LogitsRef},
    model::Model,
    scratch::Scratch,
};
pub use kernels::{head_page::PAGE_TOKENS, pages::Page};
#[cfg(feature = "tokenizers")]
pub use stop::{Reach, StopStrings, TokenTexts};
#[cfg(feature = "tokenizers")]
pub use tokenizer::{TextStream, Tokenizer};

/// The instruction set that this process multiplies with, such as `avx512` or `portable`: the fastest that the
/// processor has, unless the environment variable `OUTRIDER_ISA` names another that it has too. Other names in it are
/// ignored here; [`check_instruction_set`] refuses them.
#[must_use]
pub fn instruction_set() -> &'static str {
    kernels::isa::Isa::current().name()
}

/// `OUTRIDER_ISA` names an instruction set that this processor does not have, or none at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("OUTRIDER_ISA is \"{found}\", which this processor has no kernels for: it can be {}, or not set", available.join(", "))]
pub struct UnknownInstructionSet {
    /// What it names.
    pub found: String,
    /// What it may name here, the fastest first.
    pub available: Vec<&'static str>,
}

/// Whether `OUTRIDER_ISA`, if it is set, names an instruction set that this processor has. Programs ask at their start,
/// so that nobody measures another than they meant.
///
/// # Errors
/// If it does not.
pub fn check_instruction_set() -> Result<(), UnknownInstructionSet> {
    use kernels::isa::Isa;
    let available = || Isa::available().into_iter().map(Isa::name).collect();
    Isa::named().map(drop).map_err(|found| UnknownInstructionSet { found, available: available() })
}
