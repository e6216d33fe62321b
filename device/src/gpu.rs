//! NVIDIA GPUs and their free memory.

use candle_core::Device;

use crate::{error::DeviceError, plan::Memory};

/// Opens the GPU with an index, counted from 0.
///
/// # Errors
/// [`DeviceError::Missing`] if it does not exist, [`DeviceError::Unavailable`] if the driver fails.
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

/// Reports that this build has no GPU support.
///
/// # Errors
/// Always [`DeviceError::NotBuilt`].
#[cfg(not(feature = "cuda"))]
pub fn cuda(_index: usize) -> Result<Device, DeviceError> {
    Err(DeviceError::NotBuilt)
}

/// Memory of a GPU; `None` for the CPU, whose memory is planned elsewhere.
#[cfg(feature = "cuda")]
pub(crate) fn memory(device: &Device) -> Result<Option<Memory>, DeviceError> {
    let Ok(gpu) = device.as_cuda_device() else { return Ok(None) };
    let (free, total) = gpu.cuda_stream().context().mem_get_info().map_err(candle_core::Error::wrap)?;
    Ok(Some(Memory { free, total }))
}

/// Returns `None`, because this build has no GPU support.
#[cfg(not(feature = "cuda"))]
#[allow(clippy::unnecessary_wraps, reason = "a GPU's driver can fail")]
pub(crate) fn memory(_device: &Device) -> Result<Option<Memory>, DeviceError> {
    Ok(None)
}
