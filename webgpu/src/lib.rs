//! **Draft model on the browser's GPU.** An interpreter of [`Block`](outrider_models::Block) in our own WGSL kernels.
//! It runs on WebGPU in a browser, and on Vulkan natively for tests.
//!
//! | module | contents |
//! |---|---|
//! | `gpu` | adapter, buffers, and reading back results |
//! | `subgroups` | optional subgroup operations |
//! | `element` | decoders for each type of weights |
//! | `kernels` | shaders, compiled on first use |
//! | `matrix` | weight matrices, in the type of their file |
//! | `memory` | buffers of a forward pass, and the KV cache |
//! | `program` | a forward pass as a reusable list of dispatches |
//! | `model` | construction of that list from a model's description and weights |
//! | `listed` | rows of logits as their largest values and the mass of the rest |
//! | `draft` | draft model with the KV cache of one text |
//!
//! Weights keep the type of their file. Guesses are chosen on the GPU with the noise that both ends share: all forward
//! passes of a group of guesses take one submission and one read-back of eight bytes per guess. Callers that need
//! logits use one submission and read-back per pass: for all logits, or for the largest and the mass of the rest. Sums
//! are in f32, in another order than on the CPU, and the KV cache is in f16. Logits therefore differ slightly, which
//! may change a draft but never the text, which is the target's.
//!
//! Builds for wasm32, and natively with the feature `vulkan`; otherwise the crate is empty.
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
