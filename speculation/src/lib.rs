//! **Decisions.** What is drafted, what is accepted, and who says what when; on slices of logits.
//!
//! Files follow a token from logits to verdict:
//!
//! | module | what it decides |
//! |---|---|
//! | [`sampling`] | S(·): logits → the distribution that is sampled (temperature, top-k, top-p) |
//! | [`sparsify`] | which tokens of it are kept |
//! | [`lattice`] | their integer counts: from here on there are no floats on the edge |
//! | [`draft`] | the three above and the draw, for one token |
//! | [`acceptance`] | how many drafts stand and which token follows |
//! | [`edge`], [`cloud`] | the two session state machines |
//! | [`statistics`] | what a generation cost |
//! | [`link`] | when bytes arrive over a link of given rate and delay |
//!
//! Nothing here sees a tensor, a socket or a clock: logits come as `&[f32]`, time as a [`Duration`] since any
//! fixed moment, randomness from a seed. So both ends run together in one process on a virtual clock, and the
//! same code runs in the browser and on the server.
//!
//! [`Duration`]: core::time::Duration
#![forbid(unsafe_code)]

pub mod acceptance;
pub mod cloud;
pub mod draft;
pub mod edge;
pub mod lattice;
pub mod link;
pub mod random;
pub mod sampling;
pub mod sparsify;
pub mod statistics;

/// What one forward pass of a model is asked for.
///
/// The KV cache is cut back to its first `keep` tokens, then `tokens` are fed. Logits are wanted after the last
/// `rows` of them, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Tokens of the cache that stay.
    pub keep: usize,
    /// Tokens to feed after them; at least one.
    pub tokens: Vec<u32>,
    /// Number of rows of logits, from the end of `tokens`; may be zero.
    pub rows: usize,
}
