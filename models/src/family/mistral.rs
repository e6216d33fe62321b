//! Mistral: Llama, with a sliding window in every layer of its first models.

use super::{
    block::Layers,
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
};
use crate::error::LoadError;

pub(super) const MISTRAL: Family = Family {
    model_type: "mistral",
    // GGUF files of Mistral have architecture `llama`.
    architecture: None,
    defaults: Defaults { context_length: 131_072, kv_heads: Some(8), ..LLAMA.defaults },
    hugging_face,
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    keys.only_silu()?;
    config.take_rotary(keys, 10_000.0, None)?;
    // Null means no window; absent means the first model's.
    let tokens = if keys.is_null("sliding_window") { None } else { Some(4096) };
    let tokens = keys.get("sliding_window")?.or(tokens);
    config.take_window(keys, tokens, Layers::All)
}
