//! What can go wrong on a browser's GPU.

use outrider_models::{ElementType, ModelError};

/// Why a GPU gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no WebGPU here, or no adapter that it would give.
    #[error("there is no GPU that can be used: {0}")]
    Unavailable(String),
    /// A kernel is missing.
    #[error("weights of type {0} have no kernels for GPUs")]
    Element(ElementType),
    /// A number of the model's shape is beyond what kernels are made for.
    #[error("{what} is {found}, which GPUs' kernels are not made for: {expected}")]
    Shape {
        /// Which.
        what: &'static str,
        /// What it is.
        found: usize,
        /// What it could be.
        expected: &'static str,
    },
    /// A buffer is larger than the adapter allows.
    #[error("{what} takes {needed} bytes, of which the GPU allows {most} in one buffer")]
    TooLarge {
        /// What it holds.
        what: &'static str,
        /// Its size.
        needed: u64,
        /// What there may be.
        most: u64,
    },
    /// The GPU's memory is full.
    #[error("the GPU's memory does not hold the model: {0}")]
    OutOfMemory(String),
    /// The tokens cannot be fed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The device is gone: reset, unplugged, or taken away by the browser. Nothing on it can be used any more.
    #[error("the GPU is gone: {0}")]
    Lost(String),
    /// The model's logits are no numbers.
    #[error("the model gives logits that are no numbers")]
    Logits,
    /// A command was refused: a fault of ours.
    #[error("the GPU refuses a command: {0}")]
    Refused(String),
}
