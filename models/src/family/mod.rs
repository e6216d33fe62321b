//! What describes a model.
//!
//! | file | what it says |
//! |---|---|
//! | `config` | shape and constants |
//! | `hugging_face` | those of a `config.json` |
//! | `beside` | what the files beside a `config.json` add |
//! | `gguf_settings` | those of a GGUF file's settings |
//! | `weights` | the weights: fields, shapes, and names in files |

#[cfg(not(target_arch = "wasm32"))]
mod beside;
pub(crate) mod config;
pub(crate) mod gguf_settings;
mod hugging_face;
pub(crate) mod weights;
