//! **Drafts to a judgement.** How many drafts are accepted and which token follows.
//!
//! | file | what it decides |
//! |---|---|
//! | `types` | a round to be judged, and its judgement: `Round`, `Judgement` |
//! | `verify` | a round by rows of the target's logits: [`judge`] |
//! | `block` | how long a prefix of a round is accepted, where its drafts are judged together |
//! | `branches` | rounds whose drafts form a tree |
//! | `rules`, `unscaled` | the acceptance rules, and the statistics that some need of the draft model |
//! | `dssd` | how a rejected draft is resampled at the edge |
//! | `coupled` | how often both ends choose the same with shared noise |
//! | [`thinning`] | a round where only single probabilities and samples of the target's distribution can be had |

mod block;
mod branches;
pub(crate) mod coupled;
pub(crate) mod dssd;
pub(crate) mod rules;
pub mod thinning;
mod types;
pub(crate) mod unscaled;
mod verify;

pub use coupled::agreement;
pub use rules::{
    Deferral, MOST_OWN_RULES, Need, OwnRule, OwnRuleError, Position, Range, Rule, RuleError, RuleInfo, Statistic,
};
pub use types::{Branch, Judged, Judgement, JudgementError, NextToken, Round, Verification};
pub use unscaled::Incompatible;
pub use verify::judge;
