//! **Hostile.** Strangers who lie, flood and stall: what they try fails by name, and the others never notice.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod frames;
mod heads;
mod lies;
mod requests;
mod schemas;
mod seats;
mod silence;
mod unread;
