//! **What it cost, and what it would have cost.** Nothing here decides a token.
//!
//! | file | what it says |
//! |---|---|
//! | [`statistics`] | what a generation cost |
//! | [`comparison`] | what the same drafts would have cost under other schemes |
//! | [`evidence`] | what both models thought of a token |
//! | [`explanation`] | what the closed forms predict of it |
//! | [`link`] | when bytes arrive over a link of given rate and delay |

pub mod comparison;
pub mod evidence;
pub mod explanation;
pub mod link;
pub mod statistics;

#[cfg(all(test, not(target_arch = "wasm32")))]
mod typescript;
