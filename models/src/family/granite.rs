//! Granite: Llama with four scale factors, of embeddings, residuals, logits and scores.

use super::{config::ModelConfig, keys::Keys, kind::Family, llama::LLAMA};
use crate::error::LoadError;

pub(super) const GRANITE: Family = Family {
    model_type: "granite",
    architecture: Some("granite"),
    hugging_face,
    gguf: |settings, config| {
        let factor = |key: &str| -> Result<f32, LoadError> { Ok(settings.float(key)?.unwrap_or(1.0)) };
        config.block.embedding_scale = factor("embedding_scale")?;
        config.block.residual_scale = factor("residual_scale")?;
        config.block.logit_scale = 1.0 / factor("logit_scale")?;
        config.block.score_scale = settings.float("attention.scale")?;
        Ok(())
    },
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    (LLAMA.hugging_face)(keys, config)?;
    let factor = |key: &str| -> Result<f32, LoadError> { Ok(keys.get(key)?.unwrap_or(1.0)) };
    config.block.embedding_scale = factor("embedding_multiplier")?;
    config.block.residual_scale = factor("residual_multiplier")?;
    config.block.logit_scale = 1.0 / factor("logits_scaling")?;
    config.block.score_scale = Some(factor("attention_multiplier")?);
    Ok(())
}
