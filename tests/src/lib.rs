//! **Whole.** What the tests that need more than one crate share.
//!
//! | module | for |
//! |---|---|
//! | [`toy`] | language models small enough to know their distribution in closed form |
//! | [`in_process`] | both session state machines, joined by a virtual link on a virtual clock |
//! | [`cuts`] | the same over connections that break |
//! | [`timed`] | the same where neither waits for the other |
//! | [`goodness`] | the test whether samples follow a distribution, and how many it takes |
//! | [`closed_forms`] | what every rule makes of a position |
//! | [`texts`] | the distribution of short texts, and texts of sessions and of loops of rounds |
//! | [`blocks`] | two small models with random weights, and a server of one |
//! | [`padded`] | the pair's files with rows behind the last token |
//! | [`proxy`] | a TCP proxy that cuts |
//! | [`schemes`], [`samplings`] | every uplink scheme; sampling parameters |
//! | [`http`] | HTTP by hand |
//! | [`server`] | a real server on a free port, and a raw client that can misbehave |
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

pub mod blocks;
pub mod closed_forms;
pub mod cuts;
pub mod goodness;
pub mod http;
pub mod in_process;
pub mod padded;
pub mod proxy;
pub mod samplings;
pub mod schemes;
pub mod server;
pub mod texts;
pub mod timed;
pub mod toy;
