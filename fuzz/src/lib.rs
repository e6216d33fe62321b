//! **Whole.** The fuzz targets, each with its use of the bytes and the oracle that judges the result.
//!
//! | module | its bytes are | what must hold |
//! |---|---|---|
//! | [`frame`] | a message | it decodes to a frame whose bytes they are, or to an error |
//! | [`payload`] | a scheme and rounds | the same for payloads and statistics; drafts come back, within the bound |
//! | [`edge`] | calls and a server that may lie | no panic; the laws of [`pair`] |
//! | [`cloud`] | calls and an edge that may lie | no panic; the cache, what is committed and what is sent are right |
//! | [`ahead`] | delays, cuts, lies | the text that the target writes is the same, whatever is guessed |
//! | [`session`] | settings, delays, cancellations | the same; both ends agree; at temperature 0 each token is its model's own |
//!
//! Each has one function, `check`, which panics if something is wrong. libFuzzer calls it through the files in
//! `targets/`; `tests/inputs.rs` calls it with golden frames and drawn inputs. README.md says how to run both.
//!
//! [`pair`] joins both ends and checks the edge's outputs. [`choose`] turns bytes into parameters, [`toy`] into models;
//! [`rules`] is what FORMAT.md says of acceptance rules.
#![expect(clippy::expect_used, reason = "a panic is how an oracle speaks")]

pub mod ahead;
pub mod choose;
pub mod cloud;
pub mod edge;
pub mod frame;
pub mod pair;
pub mod payload;
pub mod rules;
pub mod session;
pub mod toy;
