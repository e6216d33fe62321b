//! **Server.** The real server over real sockets, and processes.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod access;
mod ahead;
mod api_drafting;
mod clients;
mod echo;
mod files;
mod gateway;
mod http_forms;
mod logprobs;
mod metric_rules;
mod metrics;
mod models;
mod openai;
mod operators;
mod padded;
mod resume_sockets;
mod shaping;
mod socket_exactness;
mod tools;
