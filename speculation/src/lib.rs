//! **Decisions.** What is drafted, what is accepted, and who says what when; on slices of logits.
//!
//! Files follow a token from logits to verdict:
//!
//! | module | what it decides |
//! |---|---|
//! | [`sampling`] | S(·): logits → the distribution that is sampled (temperature, top-k, top-p) |
//! | [`sparsify`] | which tokens of it are kept |
//! | [`conformal`] | C-SQS's threshold for that, with checkpoints that a verdict returns to |
//! | [`lattice`], [`half`] | their integer counts: from here on there are no floats on the edge |
//! | [`draft`] | the above and the draw, for one token |
//! | [`acceptance`] | how many drafts stand and which token follows |
//! | [`dssd`] | the same where the edge resamples |
//! | [`thinning`] | the same where only single probabilities and samples of the target's distribution can be had |
//! | [`coupled`] | the same where both ends choose with shared noise |
//! | [`comparison`] | what the same drafts would have cost under other schemes |
//! | [`rules`], [`unscaled`] | the acceptance rules, and the statistics that some need of the draft model |
//! | [`gate`], [`passing`] | which tokens the edge commits without asking |
//! | [`control`] | when a round of drafts ends, and whether to draft at all |
//! | [`edge`], [`cloud`] | the two session state machines |
//! | [`options`] | how to draft, as users say it |
//! | [`statistics`] | what a generation cost |
//! | [`explanation`] | what the closed forms predict of it |
//! | [`link`] | when bytes arrive over a link of given rate and delay |
//! | [`theory`] | the papers' closed forms: what all this should cost and gain |
//!
//! Nothing here sees a tensor, a socket or a clock: logits come as `&[f32]`, time as a [`Duration`] since any
//! fixed moment, randomness from a seed. So both ends run together in one process on a virtual clock, and the
//! same code runs in the browser and on the server.
//!
//! [`Duration`]: core::time::Duration
#![forbid(unsafe_code)]

pub mod acceptance;
pub mod cloud;
pub mod comparison;
pub mod conformal;
pub mod control;
pub mod coupled;
pub mod draft;
pub mod dssd;
pub mod edge;
pub mod explanation;
pub mod gate;
pub mod half;
pub mod lattice;
pub mod link;
pub mod options;
pub mod passing;
pub mod random;
pub mod rules;
pub mod sampling;
pub mod sparsify;
pub mod statistics;
pub mod theory;
pub mod thinning;
pub mod unscaled;

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
