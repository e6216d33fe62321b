//! **Decisions.** What is drafted, what is accepted, and who says what when; on slices of logits.
//!
//! Folders follow a token from logits to verdict:
//!
//! | folder | what is in it |
//! |---|---|
//! | [`sample`] | logits to a distribution, a distribution to a token |
//! | [`draft`] | a distribution to a draft token: kept, rounded to integers, drawn |
//! | [`judge`] | drafts to a verdict: acceptance rules, DSSD, coupled drafting |
//! | [`policy`] | whether to draft, and how much: gates, stop rules, control |
//! | [`session`] | the two state machines, and the options of a generation |
//! | [`theory`] | the papers' closed forms: what all this should cost and gain |
//! | [`study`] | what a generation cost, and what it would have cost otherwise |
//!
//! Nothing here sees a tensor, a socket or a clock: logits come as `&[f32]`, time as a [`Duration`] since any
//! fixed moment, randomness from a seed. So both ends run together in one process on a virtual clock, and the
//! same code runs in the browser and on the server.
//!
//! [`Duration`]: core::time::Duration
#![forbid(unsafe_code)]

pub mod draft;
pub mod judge;
pub mod policy;
pub mod sample;
pub mod session;
pub mod study;
pub mod theory;

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
