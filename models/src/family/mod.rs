//! What describes a model.
//!
//! | file | what it says |
//! |---|---|
//! | `config` | shape and constants |
//! | `block`, `rotary` | what blocks compute, as data |
//! | `weights` | the weights: fields, shapes, and names in files |
//! | `hugging_face`, `keys`, `rope_parameters` | what all families have in a `config.json` |
//! | `beside` | what the files beside a `config.json` add |
//! | `gguf`, `gguf_settings` | what all families have in a GGUF file's settings |
//! | `kind`, `table` | what a family says of itself, and all of them |
//! | `llama`, `qwen`, … | one family each: what it says otherwise, calls otherwise and computes otherwise |
//!
//! `docs/adding.md` shows how to add a family.

mod beside;
pub(crate) mod block;
pub(crate) mod config;
mod gguf;
pub(crate) mod gguf_settings;
mod hugging_face;
mod keys;
mod kind;
mod rope_parameters;
pub(crate) mod rotary;
mod table;
pub(crate) mod weights;

mod gemma;
mod gpt2;
mod gpt_neo;
mod granite;
mod llama;
mod mistral;
mod olmo2;
mod opt;
mod phi3;
mod qwen;
mod smollm3;
mod stablelm;

pub(crate) use kind::Family;
