//! **Drafts to a judgement.** How many drafts are accepted and which token follows.
//!
//! | file | what it decides |
//! |---|---|
//! | `types` | a round to be judged, and its judgement: `Round`, `Judgement` |
//! | `verify` | a round by rows of the target's logits: [`judge`] |
//! | `branches` | rounds whose drafts form a tree |
//! | [`rules`], [`unscaled`] | the acceptance rules, and the statistics that some need of the draft model |
//! | [`dssd`] | how a rejected draft is resampled at the edge |
//! | [`coupled`] | how often both ends choose the same with shared noise |
//! | [`thinning`] | a round where only single probabilities and samples of the target's distribution can be had |

mod branches;
pub mod coupled;
pub mod dssd;
pub mod rules;
pub mod thinning;
mod types;
pub mod unscaled;
mod verify;

pub use types::{Branch, Judged, Judgement, JudgementError, NextToken, Round};
pub use verify::judge;
