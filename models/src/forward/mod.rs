//! Forward passes: from tokens to logits, for many sequences at once.
//!
//! | file | contents |
//! |---|---|
//! | `cache` | KV caches with rollback, on any backend, and the chunks of a batch |
//! | `branches` | alternative continuations, evaluated in the same forward pass |
//! | `lines` | adding branches to a cache, reading and adopting them |
//! | `linear` | products with weight matrices, quantized or not |
//! | `rope` | rotary embedding of queries and keys |
//! | `mixture` | mixtures of experts |
//! | `model` | transformer blocks, over the rows of all sequences |
//! | `scratch` | working memory of forward passes |
//! | `logits` | logits and hidden states |
//! | `loader` | incremental loading of models |

mod branches;
pub(crate) mod cache;
mod linear;
mod lines;
pub(crate) mod loader;
pub(crate) mod logits;
mod mixture;
pub(crate) mod model;
mod rope;
pub(crate) mod scratch;
