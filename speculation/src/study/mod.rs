//! **Costs of a generation, and its costs under other schemes.** Nothing here decides a token.
//!
//! | file | what it says |
//! |---|---|
//! | `statistics` | the costs of a generation |
//! | `comparison` | the costs of the same drafts under other schemes |
//! | `evidence` | both models' distributions at a token |
//! | `explanation` | the closed forms' predictions for a generation |

pub(crate) mod comparison;
pub(crate) mod evidence;
pub(crate) mod explanation;
pub(crate) mod statistics;

pub use comparison::ComparisonParameters;
pub use evidence::{Candidate, TokenEvidence};
pub use explanation::Explanation;
pub use statistics::{AheadRecord, Guarantee, Report, RoundRecord, Statistics, WayRecord};

#[cfg(all(test, not(target_arch = "wasm32")))]
mod typescript;
