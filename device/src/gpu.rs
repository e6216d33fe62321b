//! NVIDIA's GPUs: which there are, and how much memory is free.

use candle_core::Device;

use crate::{error::DeviceError, plan::Memory};

/// A GPU by its number, from 0.
///
/// # Errors
/// If there is none, or this build cannot use it.
#[cfg(feature = "cuda")]
pub fn cuda(index: usize) -> Result<Device, DeviceError> {
    let unavailable = |error: String| DeviceError::Unavailable { index, error };
    let count = CudaContext::device_count().map_err(|error| unavailable(error.to_string()))?;
    let count = usize::try_from(count).unwrap_or(0);
    if count > 0 && index >= count {
        return Err(DeviceError::Missing { index, count });
    }
    Device::new_cuda(index).map_err(|error| unavailable(error.to_string()))
}

#[cfg(feature = "cuda")]
use candle_core::cuda_backend::cudarc::driver::CudaContext;

/// This build has none.
///
/// # Errors
/// Always.
#[cfg(not(feature = "cuda"))]
pub fn cuda(_index: usize) -> Result<Device, DeviceError> {
    Err(DeviceError::NotBuilt)
}

/// A GPU's memory; `None` of a processor, whose memory others plan.
#[cfg(feature = "cuda")]
pub(crate) fn memory(device: &Device) -> Result<Option<Memory>, DeviceError> {
    let Ok(gpu) = device.as_cuda_device() else { return Ok(None) };
    let (free, total) = gpu.cuda_stream().context().mem_get_info().map_err(candle_core::Error::wrap)?;
    Ok(Some(Memory { free, total }))
}

/// None: this build has no GPUs.
#[cfg(not(feature = "cuda"))]
#[allow(clippy::unnecessary_wraps, reason = "a GPU's driver can fail")]
pub(crate) fn memory(_device: &Device) -> Result<Option<Memory>, DeviceError> {
    Ok(None)
}
