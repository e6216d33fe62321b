//! Names of devices for the target.

use std::{convert::Infallible, fmt, io, str::FromStr};

use bytesize::ByteSize;
use outrider_models::StoredModel;

use crate::target::{
    cpu::CpuTarget,
    engine::{Backend, Engine, EngineSettings},
};

/// Device on which a target runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DeviceName {
    /// This processor, with our own kernels.
    #[default]
    Cpu,
    /// This processor, with the code for GPUs: slow, to test that code without a GPU.
    Candle,
    /// One GPU, by its index.
    Cuda(usize),
    /// Several GPUs, as they were named; no server uses more than one.
    Several(String),
    /// A name that no device has.
    Unknown(String),
}

/// A use of a model, whatever device it was loaded to.
pub trait UseBackend {
    /// Type of the use's result.
    type Gives;

    /// Uses the model on its device.
    fn with<B: Backend>(self, backend: B) -> Self::Gives;
}

impl UseBackend for EngineSettings {
    type Gives = io::Result<Engine>;

    /// Starts an engine with these settings.
    fn with<B: Backend>(self, backend: B) -> io::Result<Engine> {
        Engine::start_with(backend, self)
    }
}

/// Reason why a model cannot be loaded to a device.
#[derive(Debug, thiserror::Error)]
pub enum UseError {
    /// No device has this name.
    #[error("unknown device {name:?}: use cpu, cuda, or cuda:1 for the second GPU")]
    Unknown {
        /// Name that was given.
        name: String,
    },
    /// Several GPUs were named, and a server uses one.
    #[error(
        "{names}: a server runs its target on one GPU. Start one server per GPU with a load balancer (docs/deploying.md), or serve the model with vLLM, which splits it (docs/gateway.md)"
    )]
    Several {
        /// Names that were given.
        names: String,
    },
    /// The program was built without support for devices.
    #[error(
        "{name} cannot be used: this program was built without CUDA. Build it with --features cuda (see docs/cuda.md), or use --device cpu"
    )]
    NotBuilt {
        /// Device that was asked for.
        name: DeviceName,
    },
    /// The CPU kernels cannot run the model.
    #[error("the model cannot be loaded: {0}")]
    Load(#[from] outrider_models::LoadError),
    /// The device refused the model or failed.
    #[cfg(feature = "device")]
    #[error(transparent)]
    Device(#[from] outrider_device::DeviceError),
}

impl FromStr for DeviceName {
    type Err = Infallible;

    /// Parses any name; an unknown one is refused when it is used, with the other settings.
    fn from_str(name: &str) -> Result<Self, Infallible> {
        if name.starts_with("cuda") && name.contains(',') {
            return Ok(Self::Several(name.to_owned()));
        }
        Ok(match name.split_once(':') {
            None if name == "cpu" => Self::Cpu,
            None if name == "candle" => Self::Candle,
            None if name == "cuda" => Self::Cuda(0),
            Some(("cuda", index)) => index.parse().map_or_else(|_| Self::Unknown(name.to_owned()), Self::Cuda),
            _ => Self::Unknown(name.to_owned()),
        })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Candle => f.write_str("candle"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Several(name) | Self::Unknown(name) => f.write_str(name),
        }
    }
}

impl DeviceName {
    /// Checks that this build supports the device; its presence shows when it is used.
    ///
    /// # Errors
    /// [`UseError`] if the build does not support it.
    pub fn check(&self) -> Result<(), UseError> {
        match self {
            Self::Several(names) => Err(UseError::Several { names: names.clone() }),
            Self::Unknown(name) => Err(UseError::Unknown { name: name.clone() }),
            Self::Cuda(_) if !cfg!(feature = "cuda") => Err(UseError::NotBuilt { name: self.clone() }),
            Self::Candle if !cfg!(feature = "device") => Err(UseError::NotBuilt { name: self.clone() }),
            _ => Ok(()),
        }
    }

    /// Loads a model to the device, with `kv_memory` for the KV caches of all sessions, and uses it.
    ///
    /// # Errors
    /// If this build does not know the device, it is not there, or has too little memory.
    pub fn bring<U: UseBackend>(&self, model: StoredModel, kv_memory: ByteSize, user: U) -> Result<U::Gives, UseError> {
        self.check()?;
        match self {
            Self::Cpu => Ok(user.with(CpuTarget::from(model.into_model()?))),
            #[cfg(feature = "device")]
            _ => {
                let bytes = usize::try_from(kv_memory.as_u64()).unwrap_or(usize::MAX);
                Ok(user.with(outrider_device::DeviceModel::new(model, &self.device()?, bytes)?))
            }
            #[cfg(not(feature = "device"))]
            _ => {
                let _ = kv_memory;
                Err(UseError::NotBuilt { name: self.clone() })
            }
        }
    }

    /// Candle's device of this name.
    #[cfg(feature = "device")]
    pub(crate) fn device(&self) -> Result<outrider_device::Device, UseError> {
        Ok(match self {
            Self::Cuda(index) => outrider_device::cuda(*index)?,
            _ => outrider_device::Device::Cpu,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown() {
        let read = |name: &str| name.parse::<DeviceName>().unwrap();
        assert_eq!(read("cuda"), DeviceName::Cuda(0));
        assert_eq!(read("cuda:0"), DeviceName::Cuda(0));
        for name in ["cpu", "candle", "cuda:3", "tpu", "cuda:one", "cpu:1", "cuda:0,cuda:1"] {
            assert_eq!(read(name).to_string(), name);
        }
        let error = read("cuda:-1").check().unwrap_err();
        assert!(error.to_string().contains("use cpu, cuda, or cuda:1"), "{error}");
        for several in ["cuda:0,cuda:1", "cuda:0,1"] {
            let error = read(several).check().unwrap_err();
            assert!(matches!(error, UseError::Several { .. }), "{error}");
        }
        assert!(DeviceName::default().check().is_ok());
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_build_without_cuda_says_how_to_get_one() {
        let error = DeviceName::Cuda(0).check().unwrap_err();
        assert!(error.to_string().contains("--features cuda"), "{error}");
    }
}
