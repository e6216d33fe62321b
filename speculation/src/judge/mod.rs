//! **Drafts to a verdict.** How many drafts are accepted and which token follows.
//!
//! | file | what it decides |
//! |---|---|
//! | [`rules`], [`unscaled`] | the acceptance rules, and the statistics that some need of the draft model |
//! | [`acceptance`] | a round whose draft distributions were sent |
//! | [`dssd`] | the same where the edge resamples |
//! | [`coupled`] | the same where both ends choose with shared noise |
//! | [`thinning`] | the same where only single probabilities and samples of the target's distribution can be had |

pub mod acceptance;
pub mod coupled;
pub mod dssd;
pub mod rules;
pub mod thinning;
pub mod unscaled;
