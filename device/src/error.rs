//! What can go wrong on a device.

use bytesize::ByteSize;
use outrider_models::{ElementType, LoadError, ModelError};

use crate::plan::{Advice, Memory, Plan};

/// Why a device gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The program was built without it.
    #[error(
        "this program was built without CUDA: build it with --features cuda (docs/cuda.md says how), or take --device cpu"
    )]
    NotBuilt,
    /// There is no such GPU.
    #[error("there is no cuda:{index}: this machine has {count} GPUs that CUDA can use, from cuda:0")]
    Missing {
        /// Which.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The driver does not answer, or not for this GPU.
    #[error("the GPU cuda:{index} cannot be used ({error}); nvidia-smi lists those there are")]
    Unavailable {
        /// Which.
        index: usize,
        /// What the driver says.
        error: String,
    },
    /// The file gives no model.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A batch that the model cannot be fed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model and its caches are larger than the device's memory.
    #[error(
        "the model needs {plan} on the GPU, where {} of its {} are free: {advice}",
        ByteSize(memory.free as u64), ByteSize(memory.total as u64)
    )]
    TooLarge {
        /// What it takes.
        plan: Plan,
        /// What there is.
        memory: Memory,
        /// What to do about it.
        advice: Advice,
    },
    /// There are no kernels for weights of this type.
    #[error(
        "{what} is of type {element}, which has no kernels for GPUs: take a file of F16, BF16, Q8_0, Q4_0 or one of Q2_K to Q6_K, or --device cpu"
    )]
    Element {
        /// Which weights.
        what: &'static str,
        /// Their type.
        element: ElementType,
    },
    /// A weight could not be brought to the device.
    #[error("{what} of {needed} bytes cannot be brought to the device ({error}): it may have too little memory")]
    Weight {
        /// Which.
        what: &'static str,
        /// Its size in bytes.
        needed: usize,
        /// What the device says.
        error: String,
    },
    /// There is no room for the KV caches.
    #[error("{tokens} tokens of KV cache do not fit beside the model ({error}): lower --kv-memory")]
    Pool {
        /// Tokens that there was to be room for.
        tokens: usize,
        /// What the device says.
        error: String,
    },
    /// All pages of the KV cache are taken.
    #[error("{needed} more pages of the KV cache are needed, {free} are free: raise --kv-memory")]
    OutOfPages {
        /// Pages that were asked for.
        needed: usize,
        /// Pages that there were.
        free: usize,
    },
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[from] candle_core::Error),
}
