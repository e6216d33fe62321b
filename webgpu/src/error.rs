//! Errors of models on a browser's GPU.

use outrider_models::{ElementType, ModelError};

/// Errors of models on a browser's GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// WebGPU is missing, or offers no adapter.
    #[error("there is no GPU that can be used: {0}")]
    Unavailable(String),
    /// Weights of this type have no GPU kernels.
    #[error("weights of type {0} have no kernels for GPUs")]
    Element(ElementType),
    /// A dimension of the model is not supported by the kernels.
    #[error("{what} is {found}, which GPUs' kernels are not made for: {expected}")]
    Shape {
        /// Name of the dimension.
        what: &'static str,
        /// Value found in the model.
        found: usize,
        /// Description of supported values.
        expected: &'static str,
    },
    /// Mixtures of experts have no GPU kernels.
    #[error("the model is a mixture of {count} experts, which has no kernels for GPUs: draft on the processor")]
    Experts {
        /// Number of experts in a layer.
        count: usize,
    },
    /// A buffer exceeds the adapter's limit.
    #[error("{what} takes {needed} bytes, of which the GPU allows {most} in one buffer")]
    TooLarge {
        /// Name of the buffer's contents.
        what: &'static str,
        /// Size of the buffer in bytes.
        needed: u64,
        /// Limit of the adapter in bytes.
        most: u64,
    },
    /// The GPU does not have enough memory.
    #[error("the GPU's memory does not hold the model: {0}")]
    OutOfMemory(String),
    /// The tokens are not valid for the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The device is lost: reset, unplugged, or taken away by the browser. It cannot be used any more.
    #[error("the GPU is gone: {0}")]
    Lost(String),
    /// The model's logits are not numbers.
    #[error("the model gives logits that are no numbers")]
    Logits,
    /// A command was rejected, which is a bug in this crate.
    #[error("the GPU refuses a command: {0}")]
    Refused(String),
}
