//! Errors with a stable `code`, thrown as JavaScript `Error`s that carry it as a property.

use outrider_codec::frame::ErrorFrame;
use outrider_models::{ChatError, EncodeError, LoadError, ModelError};
use outrider_speculation::session::edge::{EdgeError, StartError};
use outrider_webgpu::GpuError;
use wasm_bindgen::JsValue;

/// Error to be thrown in JavaScript.
#[derive(Debug, Clone)]
pub struct Failure {
    code: &'static str,
    message: String,
}

impl Failure {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn tokenizer(error: &LoadError) -> Self {
        Self::new("corrupt-tokenizer", error.to_string())
    }

    pub fn connection_lost() -> Self {
        Self::new("connection-lost", "the connection to the server was lost")
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let code = match error {
            LoadError::Unsupported { .. }
            | LoadError::Quantized { .. }
            | LoadError::UnknownFamily { .. }
            | LoadError::UnknownSetting { .. }
            | LoadError::TensorType { .. }
            | LoadError::NoSettings
            | LoadError::SplitGguf { .. } => "unsupported-model",
            LoadError::OutOfMemory { .. } => "out-of-memory",
            _ => "corrupt-model",
        };
        Self::new(code, error.to_string())
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::new("draft-failed", error.to_string())
    }
}

impl From<GpuError> for Failure {
    fn from(error: GpuError) -> Self {
        match error {
            GpuError::Model(error) => error.into(),
            other => Self::new("gpu-failed", other.to_string()),
        }
    }
}

impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Self {
        Self::new("invalid-parameters", error.to_string())
    }
}

impl From<ChatError> for Failure {
    fn from(error: ChatError) -> Self {
        Self::new("invalid-parameters", error.to_string())
    }
}

impl From<EdgeError> for Failure {
    fn from(error: EdgeError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<ErrorFrame> for Failure {
    fn from(error: ErrorFrame) -> Self {
        Self::new(error.code.name(), error.text)
    }
}

impl From<Failure> for JsValue {
    fn from(failure: Failure) -> Self {
        let error = js_sys::Error::new(&failure.message);
        // Setting a property of a fresh object cannot fail.
        let _ = js_sys::Reflect::set(&error, &"code".into(), &failure.code.into());
        error.into()
    }
}
