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
//! | `description` | what containers are read by |
//! | `spelling` | how files call weights otherwise |
//! | `llama`, `qwen`, … | one family each: what it says otherwise, calls otherwise and computes otherwise |
//! | `encoder_decoder` | T5: shape, settings and weights of models with an encoder |
//!
//! `docs/adding.md` shows how to add a family.

mod beside;
pub(crate) mod block;
pub(crate) mod config;
pub(crate) mod description;
pub(crate) mod encoder_decoder;
mod gguf;
pub(crate) mod gguf_settings;
mod hugging_face;
mod keys;
mod kind;
mod rope_parameters;
pub(crate) mod rotary;
pub(crate) mod spelling;
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
