//! Loading of encoder-decoder models from files.

use std::io::Read;

use super::{super::linear::LinearBuilder, model::EncoderDecoder};
#[cfg(not(target_arch = "wasm32"))]
use crate::container::read;
use crate::{
    container::read::{read_gguf, read_safetensors},
    error::LoadError,
    family::encoder_decoder::config::EncoderDecoderConfig,
};

impl EncoderDecoder {
    /// Loads a GGUF file of architecture `t5`, from the reader's position to its end.
    ///
    /// GGUF files do not store the distance of the last relative position bucket; 128 tokens are assumed, as in
    /// llama.cpp. A file without an output head has a tied head with the input scale of T5 1.0.
    ///
    /// # Errors
    /// Any file gives a model or a [`LoadError`], never a panic. Features that are not implemented and unknown settings
    /// are rejected by name.
    pub fn from_gguf<R: Read>(reader: &mut R) -> Result<Self, LoadError> {
        let (config, weights) = read_gguf::<EncoderDecoderConfig, LinearBuilder>(reader, None)?;
        Ok(Self::new(config, weights))
    }

    /// Loads a Hugging Face checkpoint from the bytes of `config.json` and `model.safetensors`.
    ///
    /// Weights may be F32, F16 or BF16; products are computed in f32.
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf).
    pub fn from_safetensors(config_json: &[u8], weights: &[u8]) -> Result<Self, LoadError> {
        let total_bytes = Some(weights.len() as u64);
        let (config, weights) =
            read_safetensors::<EncoderDecoderConfig, LinearBuilder>(config_json, &mut &*weights, total_bytes)?;
        Ok(Self::new(config, weights))
    }

    /// Opens a model with an encoder at the same kinds of paths as [`Model::open`](crate::Model::open): a `.gguf` file,
    /// a `.safetensors` file with `config.json` next to it, or a checkpoint folder with one or several weight files.
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf), and [`LoadError::UnknownFormat`] for other paths.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<Self, LoadError> {
        let (config, weights) = read::open::<EncoderDecoderConfig, LinearBuilder>(path)?;
        Ok(Self::new(config, weights))
    }
}
