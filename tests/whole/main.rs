//! **Whole.** Properties of the repository and of the real pair.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod circles;
mod deployment;
mod documents;
mod files;
mod greedy;
mod layering;
