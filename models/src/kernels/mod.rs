//! Loops over plain slices, written so that the compiler turns them into SIMD code.
//!
//! Every reduction runs in an order that depends on the length of its operands alone, never on
//! how many rows are computed together. That is half of the crate's promise that logits do not
//! depend on batching; the other half is in [`crate::linear`].

pub(crate) mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod format;
pub(crate) mod isa;
mod lanes;
pub(crate) mod matrix;
pub(crate) mod multiply;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod pool;
mod portable;
mod products;
pub(crate) mod rounded;
#[cfg(test)]
mod tests;
mod vector;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
pub(crate) mod widened;

pub(crate) use vector::{add_assign, gated_silu, rms_norm};
