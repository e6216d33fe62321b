//! **Distributions.** Statistical tests: what is written is distributed as promised, and planted errors are caught.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod block;
mod bonus;
mod draft_vocabulary;
mod exactness;
mod planted;
mod positions;
mod rule_rates;
mod rules;
mod stops;
mod temperatures;
mod thinning;
mod unverified;
