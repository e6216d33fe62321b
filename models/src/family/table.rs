//! List of all model families.

use super::{
    encoder_decoder::t5::T5 as ENCODER_DECODER, gemma, gpt_neo, gpt2, granite, kind::Family, llama, mistral, olmo2,
    opt, phi3, qwen, smollm3, stablelm,
};
use crate::error::LoadError;

/// All decoder-only families.
const FAMILIES: [&Family; 15] = [
    &llama::LLAMA,
    &mistral::MISTRAL,
    &qwen::QWEN2,
    &qwen::QWEN3,
    &gemma::GEMMA,
    &gemma::GEMMA2,
    &gemma::GEMMA3,
    &phi3::PHI3,
    &smollm3::SMOLLM3,
    &olmo2::OLMO2,
    &granite::GRANITE,
    &stablelm::STABLELM,
    &gpt2::GPT2,
    &gpt_neo::GPT_NEO,
    &opt::OPT,
];

impl Family {
    /// Family of a `config.json`.
    pub(super) fn of_model_type(model_type: &str) -> Result<&'static Self, LoadError> {
        let known = FAMILIES.into_iter().find(|family| family.model_type == model_type);
        known.ok_or_else(|| not_a_family("model_type", model_type))
    }

    /// Family of a GGUF file.
    pub(super) fn of_architecture(architecture: &str) -> Result<&'static Self, LoadError> {
        let known = FAMILIES.into_iter().find(|family| family.architecture == Some(architecture));
        known.ok_or_else(|| not_a_family("architecture", architecture))
    }
}

/// Error for a model of no family here, naming the loader that supports it, if any.
fn not_a_family(what: &'static str, name: &str) -> LoadError {
    let found = name.to_owned();
    match name {
        ENCODER_DECODER => LoadError::EncoderDecoder { found },
        _ => LoadError::Unsupported { what, found },
    }
}
