//! **Testing.** Toys and writers that tests of several crates share; nothing that ships depends on it.
//!
//! | module | for |
//! |---|---|
//! | [`gguf`], [`safetensors`] | writers of model files, which share no code with the readers |
//! | [`llama`] | Llamas of any shape with arbitrary weights, in both containers |
//! | [`elements`] | an oracle for GGUF's element types, and models of each |
//! | [`golden`], [`families`] | small models with the logits that transformers gives for them |
//! | [`padded`] | the pair's files with rows after the last token |
//! | [`logits`] | rows of logits: how they are computed and compared |
//! | [`folder`] | temporary folders |
//! | [`process`] | servers as processes |
//!
//! With the feature `sessions`:
//!
//! | module | for |
//! |---|---|
//! | `toy` | language models small enough to know their distribution in closed form |
//! | `in_process` | both session state machines, joined by a virtual link on a virtual clock |
//! | `cuts` | the same over connections that break |
//! | `goodness` | the test of samples against a distribution, and the number of samples that it takes |
//! | `closed_forms` | the distribution of a position under every rule |
//! | `texts` | the distribution of short texts, and texts of sessions and of loops of rounds |
//! | `schemes`, `samplings` | every uplink scheme; sampling parameters |
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![expect(clippy::print_stdout, reason = "tables of errors are for readers")]
#![cfg_attr(feature = "sessions", expect(clippy::expect_used, reason = "a failed step is a failed test"))]

#[cfg(feature = "sessions")]
pub mod closed_forms;
#[cfg(feature = "sessions")]
pub mod cuts;
pub mod elements;
pub mod families;
pub mod folder;
pub mod gguf;
pub mod golden;
#[cfg(feature = "sessions")]
pub mod goodness;
mod gpt_oss;
#[cfg(feature = "sessions")]
pub mod in_process;
pub mod llama;
pub mod logits;
pub mod padded;
pub mod process;
pub mod safetensors;
#[cfg(feature = "sessions")]
pub mod samplings;
#[cfg(feature = "sessions")]
pub mod schemes;
#[cfg(feature = "sessions")]
pub mod texts;
#[cfg(feature = "sessions")]
pub mod toy;
