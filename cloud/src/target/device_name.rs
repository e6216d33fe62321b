//! Where a target runs, as an operator says it.

use std::{convert::Infallible, fmt, io, str::FromStr};

use bytesize::ByteSize;
use outrider_models::StoredModel;

use crate::target::{
    cpu::CpuTarget,
    engine::{Backend, Engine, EngineSettings},
};

/// A device's name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DeviceName {
    /// This processor, by our own kernels.
    #[default]
    Cpu,
    /// This processor, by what runs on GPUs: slow, to try that without one.
    Candle,
    /// A GPU, by its number.
    Cuda(usize),
    /// Several GPUs, as they were named: no server uses more than one.
    Several(String),
    /// A name that no device has.
    Unknown(String),
}

/// What is done with a model on whatever device it was brought to.
pub trait UseBackend {
    /// What that gives.
    type Gives;

    /// Does it.
    fn with<B: Backend>(self, backend: B) -> Self::Gives;
}

impl UseBackend for EngineSettings {
    type Gives = io::Result<Engine>;

    /// Starts an engine.
    fn with<B: Backend>(self, backend: B) -> io::Result<Engine> {
        Engine::start_with(backend, self)
    }
}

/// Why a model cannot be brought to a device.
#[derive(Debug, thiserror::Error)]
pub enum UseError {
    /// No device is called so.
    #[error("there is no device {name:?}: it can be cpu, cuda, or cuda:1 for the second GPU")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A model is on one GPU.
    #[error(
        "{names}: a server runs its target on one GPU. Start one for each behind a balancer (docs/deploying.md), or give the model to vLLM, which splits it (docs/gateway.md)"
    )]
    Several {
        /// What was asked for.
        names: String,
    },
    /// The program was built without devices.
    #[error(
        "{name} cannot be used: this program was built without CUDA. Build it with --features cuda (docs/cuda.md says how), or take --device cpu"
    )]
    NotBuilt {
        /// What was asked for.
        name: DeviceName,
    },
    /// The CPU has no kernels for it.
    #[error("the model cannot be loaded: {0}")]
    Load(#[from] outrider_models::LoadError),
    /// The device refused or failed.
    #[cfg(feature = "device")]
    #[error(transparent)]
    Device(#[from] outrider_device::DeviceError),
}

impl FromStr for DeviceName {
    type Err = Infallible;

    /// An unknown name is refused when it is used, with the other settings.
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
    /// Whether this build knows it; whether it is there shows when it is used.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self) -> Result<(), UseError> {
        match self {
            Self::Several(names) => Err(UseError::Several { names: names.clone() }),
            Self::Unknown(name) => Err(UseError::Unknown { name: name.clone() }),
            Self::Cuda(_) if !cfg!(feature = "cuda") => Err(UseError::NotBuilt { name: self.clone() }),
            Self::Candle if !cfg!(feature = "device") => Err(UseError::NotBuilt { name: self.clone() }),
            _ => Ok(()),
        }
    }

    /// Brings a model there, with so much memory for the KV caches of all sessions.
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

    /// candle's device of this name.
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
        assert!(error.to_string().contains("it can be cpu, cuda, or cuda:1"), "{error}");
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
