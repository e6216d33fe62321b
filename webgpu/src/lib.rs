//! **The draft on the browser's GPU.** What a model's [`Block`](outrider_models::Block) says, in WGSL kernels of our
//! own, over WebGPU in a browser and over Vulkan natively, where it is tested.
//!
//! | module | what it does |
//! |---|---|
//! | `gpu` | an adapter with its buffers, and how what it has computed comes back |
//! | `subgroups` | what most adapters have and not all |
//! | `element` | how the elements of each type of weights are read |
//! | `kernels` | shaders, compiled when they are first needed |
//! | `matrix` | weights, as they are in their file |
//! | `memory` | what a forward pass reads and leaves, and what stays of a text |
//! | `program` | a forward pass as a list of dispatches, which is made once |
//! | `model` | that list, from a model's description and weights |
//! | `listed` | a row of logits by the largest of them and the mass of the others |
//! | `draft` | a model with the KV cache of one text |
//!
//! Weights stay as they are in their file. Guesses are chosen there, too, by the noise that both ends share: as many
//! forward passes as give a group of them are one submission and one read-back, of eight bytes a guess. Who needs
//! logits has one of both for each pass: all of them, or the largest and the mass of the others. Sums are of f32, in
//! another order than the processor's, and the KV cache is in f16: logits differ a little, so a draft may be another
//! one, never the text, which is the target's.
//!
//! Builds for wasm32, and natively with the feature `vulkan`; else the crate is empty.
#![cfg(any(target_arch = "wasm32", feature = "vulkan"))]
#![forbid(unsafe_code)]

mod draft;
mod element;
mod error;
mod gpu;
mod kernels;
mod listed;
mod matrix;
mod memory;
mod model;
mod program;
mod subgroups;

pub use draft::{Counts, GpuDraft, Rows};
pub use error::GpuError;
pub use gpu::Gpu;

#[cfg(all(test, target_arch = "wasm32"))]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);
