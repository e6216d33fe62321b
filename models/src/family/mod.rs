//! Descriptions of models and model families.
//!
//! | file | contents |
//! |---|---|
//! | `config` | shape and constants |
//! | `block`, `rotary` | computations of blocks, as data |
//! | `weights` | list of weights: fields, shapes, and names in files |
//! | `hugging_face`, `keys`, `rope_parameters` | settings in `config.json` that all families share |
//! | `inert`, `ignored` | settings that change nothing, and settings that are ignored by request |
//! | `beside` | settings in the files next to `config.json` |
//! | `gguf`, `gguf_settings` | settings in GGUF files that all families share |
//! | `towers` | language models inside models that also read images |
//! | `kind`, `table` | definition of a family, and the list of families |
//! | `description` | interface to the containers |
//! | `spelling` | weight names and storage conventions that differ from Llama's |
//! | `llama`, `qwen`, … | one family each: differences in settings, names and computation |
//!
//! `docs/adding.md` shows how to add a family.

mod beside;
pub(crate) mod block;
pub(crate) mod config;
pub(crate) mod description;
pub(crate) mod draft_vocabulary;
mod gguf;
pub(crate) mod gguf_settings;
mod hugging_face;
pub(crate) mod ignored;
mod inert;
mod keys;
mod kind;
pub(crate) mod recommended;
mod rope_parameters;
pub(crate) mod rotary;
pub(crate) mod spelling;
pub(crate) mod table;
mod towers;
pub(crate) mod weights;

mod gemma;
mod gpt2;
mod gpt_neo;
mod gpt_oss;
mod granite;
mod llama;
mod mistral;
mod olmo2;
mod opt;
mod phi3;
mod qwen;
mod smollm3;
mod stablelm;
