//! The crate from outside: agreement with the reference implementation, independence of batching, hostile files.
//!
//! Everything is embedded and nothing touches a file system, so the same tests run on wasm32.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod batching;
mod block_types;
#[path = "../blocks/mod.rs"]
mod blocks;
mod branches;
mod chat;
#[path = "../container/mod.rs"]
#[allow(dead_code, reason = "the tests of folders use the rest")]
mod container;
mod corruption;
mod encoder_decoder;
#[path = "../encoder_decoders/mod.rs"]
mod encoder_decoders;
#[path = "../families/mod.rs"]
mod families;
mod family;
mod fixture;
mod golden;
mod heads;
mod hidden;
mod limits;
mod messages;
mod published;
mod stored;
mod streaming;
mod tokenizer;
mod tolerance;
mod vocabularies;
