//! Products, attention and norms on vectors, and their division among threads. All unsafe code of the project is here.
//!
//! ```text
//! linear ─▶ multiply    one or several matrices that share their input; units for the pool
//!             ├─ rounded     activations to 8 bits, in the order in which kernels read them
//!             └─ matrix      weights in strips of sixteen outputs (format: where each byte is; fields: each bit)
//!                  └─ isa         the one place that chooses an instruction set
//!                       └─ products, packed (operands: what they are of)
//!                            │           the arithmetic of each format, written once over …
//!                            └─ lanes       … what an instruction set offers: avx512, avx2, wasm, portable, …
//! model  ─▶ attention   queries over pages of keys and values
//!             └─ head_page   how these lie there, and products with them
//!           vector      norms, activations, the exponential
//!           memory      that of weights and KV caches (pages: of the latter)
//!           pool        threads: awake within a forward pass, asleep between
//! ```
//!
//! # Why strips, and why the bits are always the same
//!
//! What limits decoding is reading the weights, and they are the same for one row of activations as for eight. So
//! kernels read a strip once for a group of rows, and everything they need comes in the order in which they need it.
//!
//! Sixteen outputs lie side by side in a strip, one to a lane, so no sum ever runs across lanes: a lane adds up its
//! blocks in their order, whatever the width of a vector, the number of rows or of threads. Integer sums within a block
//! are exact, and the few floating-point operations per block are never fused. That costs one instruction per block
//! and gives the same bits on every machine, which tests can then demand.

pub(crate) mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod fields;
pub(crate) mod format;
pub(crate) mod head_page;
pub(crate) mod isa;
mod lanes;
pub(crate) mod matrix;
pub(crate) mod memory;
pub(crate) mod multiply;
#[cfg(target_arch = "aarch64")]
mod neon;
mod operands;
mod packed;
pub(crate) mod pages;
pub(crate) mod pool;
#[cfg(any(test, not(target_feature = "simd128")))]
mod portable;
mod products;
pub(crate) mod rounded;
#[cfg(test)]
mod tests;
mod vector;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm_products;

pub(crate) use vector::{
    activate, add_assign, add_to_rows, gated, layer_norm, rms_norm, rms_norm_in_place, scale_by, soft_cap,
};
