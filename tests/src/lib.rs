//! **Whole.** Servers in this process for tests that need more than one crate, and the toys of
//! [`outrider_testing`].
//!
//! | module | for |
//! |---|---|
//! | [`blocks`] | two small models with random weights, and a server of one |
//! | [`proxy`] | a TCP proxy that cuts |
//! | [`http`] | HTTP by hand |
//! | [`server`] | a real server on a free port, and a raw client that can misbehave |
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

pub mod blocks;
pub mod http;
pub mod proxy;
pub mod server;

pub use outrider_testing::{closed_forms, cuts, goodness, in_process, samplings, schemes, texts, toy};
