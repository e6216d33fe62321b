#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! They follow the data from a rounded distribution to a frame:
//!
//! | module | what it knows |
//! |---|---|
//! | [`distribution`] | [`DraftDist`](distribution::DraftDist), the one distribution both ends compute with |
//! | [`enumerative`] | subsets and compositions as integers, in exactly ⌈log2 count⌉ bits |
//! | [`lattice`] | a drafted token on a lattice, in the papers' bits: QS, K-SQS, C-SQS |
//! | [`half`], [`probabilities`] | a drafted token in f16: dense, TK-SLT, DSSD; or its id alone |
//! | [`range_coder`], [`adaptive`] | a round of drafted tokens on a lattice, entropy-coded under a model that learns |
//! | [`scheme`] | the uplink schemes, and a round of drafts in any of them |
//! | [`rule`] | what travels for an acceptance rule |
//! | [`bits`], [`wire`] | bit and byte readers that name what they lacked |
//! | [`frame`] | the frames; the only module that knows their byte layout |
//! | [`format`](mod@format) | the wire format in prose, with examples that are tested |
#![forbid(unsafe_code)]

pub mod adaptive;
pub mod bits;
pub mod choice;
pub mod distribution;
pub mod enumerative;
pub mod error;
pub mod frame;
pub mod half;
pub mod lattice;
mod natural;
pub mod probabilities;
pub mod range_coder;
pub mod rule;
pub mod scheme;
pub mod wire;

#[doc = include_str!("../FORMAT.md")]
#[doc = include_str!("../EXAMPLES.md")]
pub mod format {}
