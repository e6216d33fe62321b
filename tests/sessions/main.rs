//! **Sessions.** Both state machines in one process, on a virtual clock, and the bytes between them.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod ahead;
mod conformal;
mod draft_vocabulary;
mod golden;
mod guesses;
mod identity;
mod pipelined;
mod resume;
mod streams;
