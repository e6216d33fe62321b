//! **Target model on a GPU.** Runs models on candle tensors; tests use the same code on candle's CPU device.
//!
//! | module | contents |
//! |---|---|
//! | `gpu` | available GPUs and their memory |
//! | `plan` | estimate of a model's memory, before anything is copied |
//! | `matrix` | weights in the type of their file, and their products |
//! | `cache` | memory of all sessions' KV caches: pages of one pool per layer |
//! | `attention` | attention of all sessions at once, whatever their lengths |
//! | `model` | forward pass: one matrix of rows for all sessions |
//! | `judge` | judgement of each session's round on the device |
//! | `search` | batched sampling by inverse distribution functions |
//!
//! # Rounds judged on the device
//!
//! A row of logits has V numbers, but a round only needs one token of it. [`BatchRows::judge`] therefore does on the
//! device what `speculation` does on the CPU: temperature, softmax, the test of each draft against its random draw, and
//! the draw of the following token, with the draws of the [`Round`](outrider_speculation::judge::Round). It returns the
//! round's [`Judgement`](outrider_speculation::judge::Judgement). Rounds that need more than softmax return rows for
//! the CPU to judge:
//!
//! | round | result |
//! |---|---|
//! | exact rule, temperature 0 | judgement, by the largest logit of each row |
//! | exact rule, any temperature, drafts with all of q̂, or none | judgement |
//! | the same with DSSD | judgement; all rows after a rejection, because the edge resamples from one |
//! | top-k or top-p (need sorting), lossy rules (π depends on p and q̂), coupled drafting (V noise values), evidence |
//! all rows |
//!
//! # Guarantees
//!
//! - A failed forward pass has no effect that a later one can see.
//! - The tokens of a round are distributed like the target's, as on the CPU, except for rounding: probabilities come
//!   from f32 exponentials with sums in f64, with a relative error of about 10⁻⁶.
//! - Invalid files give the errors of [`outrider_models::StoredModel`]; lack of memory gives a [`DeviceError`].
//!
//! # Not guaranteed
//!
//! - **Independence of logits from batching.** Matrix products of other shapes are summed in other orders. The last
//!   digits of a row depend on the other sessions in the pass, and near-ties may be decided either way. The CPU kernels
//!   do guarantee it.
//! - The choice between equal largest logits on a GPU.
//! - Speed: no GPU has been measured yet.
#![forbid(unsafe_code)]

mod attention;
mod cache;
mod error;
mod gpu;
mod judge;
mod matrix;
mod model;
mod plan;
mod search;

use std::time::Instant;

pub use cache::{DeviceCache, DevicePage, DevicePages};
pub use error::DeviceError;
pub use gpu::cuda;
pub use model::{BatchRows, DeviceModel};
pub use plan::{Advice, Memory, Plan};

/// Device of candle on which models run.
pub use candle_core::Device;

/// Measures the memory bandwidth of a device in bytes per second, reads and writes together, on buffers larger than its
/// caches.
///
/// # Errors
/// [`DeviceError::Device`] if the device fails.
pub fn bandwidth(device: &Device) -> Result<f64, DeviceError> {
    // Number of f32 values: 1 GiB on GPUs, a quarter of that on CPUs.
    let len = if device.is_cpu() { 64 << 20 } else { 256 << 20 };
    let from = candle_core::Tensor::zeros(len, candle_core::DType::F32, device)?.affine(1.0, 1.0)?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        device.synchronize()?;
        let began = Instant::now();
        let to = from.affine(1.0, 1.0)?;
        device.synchronize()?;
        best = best.min(began.elapsed().as_secs_f64());
        drop(to);
    }
    Ok(2.0 * 4.0 * len as f64 / best)
}
