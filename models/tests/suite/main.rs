//! The crate from outside: agreement with the reference implementation, independence of batching, hostile files.
//!
//! Everything is embedded and nothing touches a file system, so the same tests run on wasm32.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod batching;
mod block_types;
mod branches;
mod channels;
mod chat;
mod corruption;
mod draft_vocabulary;
mod experts;
mod family;
mod fixture;
mod golden;
mod gpt_oss;
mod grouping;
mod heads;
mod hidden;
mod limits;
mod messages;
mod pre_tokenizers;
mod published;
mod stored;
mod streaming;
mod tokenizer;
mod towers;
mod vocabularies;
