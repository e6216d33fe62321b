//! **Costs of a generation, and its costs under other schemes.** Nothing here decides a token.
//!
//! | file | what it says |
//! |---|---|
//! | [`statistics`] | the costs of a generation |
//! | [`comparison`] | the costs of the same drafts under other schemes |
//! | [`evidence`] | both models' distributions at a token |
//! | [`explanation`] | the closed forms' predictions for a generation |
//! | [`link`] | the arrival of bytes over a link of given rate and delay |

pub mod comparison;
pub mod evidence;
pub mod explanation;
pub mod link;
pub mod statistics;

#[cfg(all(test, not(target_arch = "wasm32")))]
mod typescript;
