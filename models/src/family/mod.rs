//! What describes a model.
//!
//! | file | what it says |
//! |---|---|
//! | `config` | shape and constants |
//! | `block`, `rotary` | what blocks compute, as data |
//! | `weights` | the weights: fields, shapes, and names in files |
//! | `hugging_face`, `keys`, `rope_parameters` | what all families have in a `config.json` |
//! | `beside` | what the files beside a `config.json` add |
//! | `gguf_settings` | what all families have in a GGUF file's settings |
//! | `llama`, `qwen`, … | one family each: what it says otherwise, calls otherwise and computes otherwise |
//!
//! `docs/adding.md` shows how to add a family.

#[cfg(not(target_arch = "wasm32"))]
mod beside;
pub(crate) mod block;
pub(crate) mod config;
pub(crate) mod gguf_settings;
mod hugging_face;
mod keys;
mod rope_parameters;
pub(crate) mod rotary;
pub(crate) mod weights;

mod gemma;
mod gpt2;
mod gpt_neo;
mod granite;
mod llama;
mod mistral;
mod olmo2;
mod opt;
mod phi3;
mod qwen;
mod smollm3;
mod stablelm;

use self::{
    block::Norm,
    config::ModelConfig,
    gguf_settings::Settings,
    keys::Keys,
    rotary::RopeLayout,
    weights::{Container, WeightName},
};
use crate::error::LoadError;

/// All families.
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

/// Models that are described alike.
#[derive(Debug)]
pub(crate) struct Family {
    /// `model_type` in `config.json`.
    model_type: &'static str,
    /// `general.architecture` in GGUF files, if there are such.
    architecture: Option<&'static str>,
    /// What GGUF files have it turn together; checkpoints always halves.
    gguf_layout: RopeLayout,
    /// What its norms compute.
    norm: Norm,
    /// What it calls settings of `config.json` that all families have: Llama's name, and its own.
    synonyms: &'static [(&'static str, &'static str)],
    /// What holds where `config.json` does not say.
    defaults: Defaults,
    /// Weights that it calls otherwise than Llama: field of [`weights`], name in GGUF, name in a checkpoint. Fields of
    /// one name are stored in one tensor, one behind the other in this order.
    pub(crate) names: &'static [(&'static str, &'static str, &'static str)],
    /// Endings of tensors that files have and nobody needs: masks, and what follows from the settings.
    pub(crate) unused: &'static [&'static str],
    /// Whether checkpoints have norms' scales less one.
    pub(crate) norms_less_one: bool,
    /// Whether checkpoints have the blocks' matrices as `[inputs, outputs]`.
    transposed: bool,
    /// Takes from `config.json` what only this family has.
    hugging_face: fn(&Keys, &mut ModelConfig) -> Result<(), LoadError>,
    /// Takes from a GGUF file's settings what only this family has.
    gguf: fn(&Settings<'_>, &mut ModelConfig) -> Result<(), LoadError>,
}

/// What holds where a `config.json` says nothing.
#[derive(Debug)]
struct Defaults {
    context_length: usize,
    norm_epsilon: f32,
    kv_heads: Option<usize>,
    head_dim: Option<usize>,
    /// How many times as wide as the residual stream the feed-forward part is.
    widening: Option<usize>,
    tied: bool,
}

impl Family {
    /// The family of a `config.json`.
    fn of_model_type(model_type: &str) -> Result<&'static Self, LoadError> {
        let known = FAMILIES.into_iter().find(|family| family.model_type == model_type);
        known.ok_or_else(|| LoadError::Unsupported { what: "model_type", found: model_type.to_owned() })
    }

    /// The family of a GGUF file.
    fn of_architecture(architecture: &str) -> Result<&'static Self, LoadError> {
        let known = FAMILIES.into_iter().find(|family| family.architecture == Some(architecture));
        known.ok_or_else(|| LoadError::Unsupported { what: "architecture", found: architecture.to_owned() })
    }

    /// Whether the tensor that has this weight has others too.
    pub(crate) fn shares(&self, weight: &WeightName, container: Container) -> bool {
        let name = |names: &(&'static str, &'static str, &'static str)| match container {
            Container::Gguf => names.1,
            Container::HuggingFace => names.2,
        };
        let own = self.names.iter().find(|names| weight.fills(names.0)).map(name);
        own.is_some_and(|own| self.names.iter().filter(|names| name(names) == own).count() > 1)
    }

    /// Whether its GGUF files say how positions turn.
    fn has_rotary_in_gguf(&self) -> bool {
        !self.names.iter().any(|(field, ..)| *field == "positions")
    }

    /// Whether a checkpoint has this matrix as `[inputs, outputs]`.
    pub(crate) fn is_transposed(&self, weight: &WeightName) -> bool {
        self.transposed && weight.is_of_block()
    }
}
