//! Forward passes: from tokens to logits, for many sequences at once.
//!
//! | file | what it does |
//! |---|---|
//! | `cache` | KV caches with rollback, on any backend, and the chunks of a batch |
//! | `branches` | what may follow a text instead, read in the same forward pass |
//! | `lines` | adding branches to a cache, reading and adopting them |
//! | `linear` | multiplies rows with weights, quantized or not |
//! | `rope` | rotates queries and keys by position |
//! | `model` | the blocks, over the rows of all sequences |
//! | `scratch` | the memory of a forward pass |
//! | `encoder_decoder` | the same for models with an encoder |
//! | `logits` | rows of logits with their hidden states |
//! | `loader` | a model from bytes as they come |

mod branches;
pub(crate) mod cache;
pub(crate) mod encoder_decoder;
mod linear;
mod lines;
pub(crate) mod loader;
pub(crate) mod logits;
pub(crate) mod model;
mod rope;
pub(crate) mod scratch;
