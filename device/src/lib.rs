//! **The target on a device.** Models on candle tensors, for GPUs; the same code runs on candle's CPU
//! device, where it is tested.
//!
//! | module | what it does |
//! |---|---|
//! | `gpu` | which GPUs there are, and their memory |
//! | `plan` | what a model takes of it, before anything is brought there |
//! | `matrix` | weights as they are in their file, multiplied there |
//! | `cache` | the memory of all sessions' KV caches: pages of one pool a layer |
//! | `attention` | queries of all sessions at once, whatever their lengths |
//! | `model` | the forward pass: one matrix of rows for all sessions |
//! | `judge` | the judgement of each session's round, where the logits are |
//! | `search` | draws by inverse distribution functions, many at a time |
//!
//! # What is judged here
//!
//! A row of logits has V numbers and a round needs a token of it, so [`BatchRows::judge`] does on the device what
//! `speculation` does on a processor: temperature, softmax, the test of each draft against its random draw, and the
//! draw of the token that follows, with the draws of the [`Round`](outrider_speculation::judge::Round). What comes back
//! is its [`Judgement`](outrider_speculation::judge::Judgement). Rows come back for the CPU to judge where that needs
//! more than softmax has:
//!
//! | round | what comes back |
//! |---|---|
//! | exact rule, temperature 0 | the judgement, by the largest logit of each row |
//! | exact rule, any temperature, drafts with all of q̂, or none | the judgement |
//! | the same by DSSD | the judgement; all rows after a rejection, as the edge resamples from one |
//! | top-k or top-p (they sort), lossy rules (π is of p and q̂), coupled drafting (noise of V numbers), evidence | all rows |
//!
//! # Guarantees
//!
//! - A forward pass that fails changes nothing that a later one can see.
//! - A round's tokens are distributed as the target's, as on a processor, but for rounding: probabilities are those of
//!   f32 exponentials with sums in f64, a relative error of about 10⁻⁶.
//! - Bad files give the errors of [`outrider_models::StoredModel`], and memory that is short one of [`DeviceError`].
//!
//! # Not guaranteed
//!
//! - **That batching never changes logits.** Matrix products of other shapes add up in other orders, so the last digits
//!   of a row depend on who shares the pass, and near-ties may fall either way. The CPU's own kernels promise it.
//! - Which of two equal logits is the largest, on a GPU.
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

/// What candle computes on.
pub use candle_core::Device;

/// Bytes per second that a device reads and writes, of memory beyond its caches.
///
/// # Errors
/// If the device fails.
pub fn bandwidth(device: &Device) -> Result<f64, DeviceError> {
    // A GiB; on a processor a quarter, which is enough there.
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
