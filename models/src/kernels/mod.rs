//! Vectorized products, attention and norms, and their division among threads. All unsafe code of the project is here.
//!
//! ```text
//! linear ─▶ multiply    one or several matrices with the same input; units for the pool
//!             ├─ rounded     activations in 8 bits, in the order in which kernels read them
//!             └─ matrix      weights in strips of 16 outputs (format: position of bytes; fields: of bits)
//!                  └─ isa         choice of the instruction set, only here
//!                       └─ products, packed (operands: their arguments)
//!                            │           the arithmetic of each format, written once over …
//!                            └─ lanes       … the operations of an instruction set: avx512, avx2, wasm, portable, …
//! model  ─▶ attention   queries over pages of keys and values
//!             └─ head_page   layout of keys and values, and products with them
//!           vector      norms, activations, the exponential
//!           memory      allocation for weights and KV caches (pages: for the latter)
//!           pool        threads: awake during a forward pass, asleep between passes
//! ```
//!
//! # Why strips, and why results are bit-identical
//!
//! Decoding is limited by reading the weights, which are the same for one row of activations as for eight. Kernels
//! therefore read a strip once for a group of rows, and all data lie in the order of use.
//!
//! The 16 outputs of a strip are adjacent, one per lane, so no sum crosses lanes. A lane adds its blocks in order,
//! whatever the vector width and the numbers of rows and threads. Integer sums within a block are exact, and the few
//! floating-point operations per block are never fused. This costs one instruction per block and gives the same bits on
//! every machine, which tests verify.

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
    activate, add_assign, add_to_rows, gated, gated_within, layer_norm, rms_norm, rms_norm_in_place, scale_by, soft_cap,
};
