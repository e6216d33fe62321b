//! Errors of models on a device.

use bytesize::ByteSize;
use outrider_models::{ElementType, LoadError, ModelError};

use crate::plan::{Advice, Memory, Plan};

/// Errors of models on a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The program was built without the feature `cuda`.
    #[error(
        "this program was built without CUDA: build it with --features cuda (see docs/cuda.md), or use --device cpu"
    )]
    NotBuilt,
    /// The requested GPU does not exist.
    #[error("there is no cuda:{index}: this machine has {count} GPUs that CUDA can use, from cuda:0")]
    Missing {
        /// Index of the requested GPU.
        index: usize,
        /// Number of GPUs that CUDA can use.
        count: usize,
    },
    /// The driver does not respond, or does not support this GPU.
    #[error("the GPU cuda:{index} cannot be used ({error}); nvidia-smi lists those there are")]
    Unavailable {
        /// Index of the requested GPU.
        index: usize,
        /// Error message of the driver.
        error: String,
    },
    /// The model file cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The batch is not valid for the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model is a draft that knows some of the tokens only.
    #[error("the model is a draft with {rows} of {vocab_size} tokens: a target needs all of them")]
    DraftVocabulary {
        /// Number of tokens that the model knows.
        rows: usize,
        /// Number of tokens of the vocabulary.
        vocab_size: usize,
    },
    /// Mixtures of experts are not computed on a device.
    #[error("the model is a mixture of {count} experts, which does not run on a GPU: use --device cpu")]
    Experts {
        /// Number of experts in a layer.
        count: usize,
    },
    /// The model and its caches exceed the device's memory.
    #[error(
        "the model needs {plan} on the GPU, where {} of its {} are free: {advice}",
        ByteSize(memory.free as u64), ByteSize(memory.total as u64)
    )]
    TooLarge {
        /// Memory that the model needs.
        plan: Plan,
        /// Memory of the device.
        memory: Memory,
        /// Suggested remedy for the user.
        advice: Advice,
    },
    /// Weights of this type have no GPU kernels.
    #[error(
        "{what} is of type {element}, which has no kernels for GPUs: use a file of F16, BF16, Q8_0, Q4_0 or one of Q2_K to Q6_K, or --device cpu"
    )]
    Element {
        /// Name of the weights.
        what: &'static str,
        /// Type of the weights.
        element: ElementType,
    },
    /// A weight could not be copied to the device.
    #[error("{what} of {needed} bytes cannot be copied to the device ({error}): it may have too little memory")]
    Weight {
        /// Name of the failed weight.
        what: &'static str,
        /// Size of the weight in bytes.
        needed: usize,
        /// Error message of the device.
        error: String,
    },
    /// The KV cache pool does not fit into the device's memory.
    #[error("{tokens} tokens of KV cache do not fit beside the model ({error}): lower --kv-memory")]
    Pool {
        /// Capacity of the pool in tokens.
        tokens: usize,
        /// Error message of the device.
        error: String,
    },
    /// All pages of the KV cache are in use.
    #[error("{needed} more pages of the KV cache are needed, {free} are free: raise --kv-memory")]
    OutOfPages {
        /// Number of pages requested.
        needed: usize,
        /// Number of pages available.
        free: usize,
    },
    /// A device operation failed.
    #[error("the device failed: {0}")]
    Device(#[from] candle_core::Error),
}
