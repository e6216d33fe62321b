//! Logits: language models of the Llama architecture with rollback, and their tokenizers.
//!
//! Outrider runs this code twice, as the draft model in a browser worker (wasm32) and as the target model
//! in a server. Both need what general model code does not give: logits for *every* position of a short run of
//! tokens, a KV cache that can be rolled back to any length, and many sequences in one pass.
//!
//! # How a token becomes logits
//!
//! ```text
//! GGUF file ─┐
//!            ├─ loader ─▶ weights ─▶ Model ─ forward(&mut [Chunk]) ─▶ Logits
//! HF folder ─┘  (a stream)           │
//!                                    ├─ llama      packs all chunks' tokens into one matrix of rows
//!                                    ├─ linear     weights · rows, quantized or not
//!                                    ├─ rope       turns queries and keys by position
//!                                    ├─ cache      stages keys and values, committed if the pass succeeds
//!                                    ├─ attention  each row over its own sequence's cache
//!                                    └─ kernels    loops over slices that compile to SIMD code
//! ```
//!
//! [`Logits`] also has the hidden state that each row comes from. [`HeadsFile`] reads small linear heads that were
//! trained on it.
//!
//! Hidden states are plain `Vec<f32>`; candle supplies the quantized block types and their dot products.
//! Passes that take long enough are split over [`threads`].
//!
//! # Guarantees
//!
//! - **Batch invariance.** On one machine and build, the logits and hidden state of a position have the same bits however its
//!   tokens were grouped into calls, whatever other sequences are in the batch, and after any rollback and
//!   refill. Greedy decoding with speculation therefore gives the text of greedy decoding without. It holds
//!   for all weight types, because each output element is one dot product in an order fixed by its length.
//! - **A failed forward pass changes nothing** that a later one can see.
//! - **Any bytes** given to a loader give a model or a typed error; allocations are bounded by the input's size.
//! - **Nothing is ignored silently**: rope scalings, biases, experts or tensors that the code does not compute
//!   are refused.
//!
//! # Not guaranteed
//!
//! - Equal bits across machines, targets or builds: instruction sets sum in different orders.
//! - Big-endian machines.
//! - Speed with long contexts: attention is a plain loop, and caches are f32.

mod cache;
mod config;
mod element;
mod error;
mod heads;
mod kernels;
mod linear;
mod llama;
mod loader;
mod logits;
mod rope;
pub mod threads;
mod tokenizer;
mod weights;

pub use cache::KvCache;
pub use config::{ModelConfig, RopeLayout, RopeScaling};
pub use error::{EncodeError, LoadError, ModelError};
pub use heads::{HeadsError, HeadsFile, HeadsMetadata, LinearHead};
pub use llama::{Chunk, Model, Scratch};
pub use loader::{GgufLoader, SafetensorsLoader};
pub use logits::{BatchLogits, Logits, LogitsRef};
pub use tokenizer::{TextStream, Tokenizer};

#[cfg(all(test, target_arch = "wasm32"))]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_dedicated_worker);
