//! List of all model families.

use super::{
    gemma, gpt_neo, gpt_oss, gpt2, granite, kind::Family, llama, mistral, olmo2, opt, phi3, qwen, smollm3, stablelm,
    towers::text_tower_types,
};
use crate::error::LoadError;

/// All decoder-only families.
const FAMILIES: [&Family; 18] = [
    &llama::LLAMA,
    &mistral::MISTRAL,
    &mistral::MIXTRAL,
    &qwen::QWEN2,
    &qwen::QWEN3,
    &qwen::QWEN3_MOE,
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
    &gpt_oss::GPT_OSS,
    &opt::OPT,
];

impl Family {
    /// Family of a `config.json`.
    pub(super) fn of_model_type(model_type: &str) -> Result<&'static Self, LoadError> {
        let known = FAMILIES.into_iter().find(|family| family.model_type == model_type);
        known.ok_or_else(|| {
            let names = FAMILIES.into_iter().map(|family| family.model_type).chain(text_tower_types());
            not_a_family("model_type", model_type, names)
        })
    }

    /// Family of a GGUF file.
    pub(super) fn of_architecture(architecture: &str) -> Result<&'static Self, LoadError> {
        let known = FAMILIES.into_iter().find(|family| family.architecture == Some(architecture));
        known.ok_or_else(|| {
            let names = FAMILIES.into_iter().filter_map(|family| family.architecture);
            not_a_family("architecture", architecture, names)
        })
    }
}

/// Checks that the family of a GGUF file is supported.
///
/// # Errors
/// [`LoadError::UnknownFamily`] if it is not.
pub(crate) fn check_architecture(architecture: &str) -> Result<(), LoadError> {
    unless_unknown(Family::of_architecture(architecture))
}

/// Checks that the family of a `config.json` is supported. A file without `model_type` passes.
///
/// # Errors
/// [`LoadError::UnknownFamily`] if it is not, [`LoadError::Config`] for malformed JSON.
pub fn check_model_type(config_json: &[u8]) -> Result<(), LoadError> {
    #[derive(serde::Deserialize)]
    struct Config {
        model_type: Option<String>,
    }
    match serde_json::from_slice::<Config>(config_json)?.model_type {
        Some(model_type) if text_tower_types().all(|outer| outer != model_type) => {
            unless_unknown(Family::of_model_type(&model_type))
        }
        _ => Ok(()),
    }
}

/// Drops all results but that the family is unknown.
fn unless_unknown(found: Result<&'static Family, LoadError>) -> Result<(), LoadError> {
    match found {
        Err(error @ LoadError::UnknownFamily { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Error for a model of no family here.
fn not_a_family(what: &'static str, name: &str, names: impl Iterator<Item = &'static str>) -> LoadError {
    let supported = names.collect::<Vec<_>>().join(", ");
    LoadError::UnknownFamily { what, found: name.to_owned(), supported }
}
