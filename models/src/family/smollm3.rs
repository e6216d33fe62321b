//! SmolLM3: Llama without positions (NoPE) in every fourth layer.

use super::{
    block::{Layers, Position},
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
};
use crate::error::{LoadError, invalid};

/// Default period of layers without positions, the last of each period.
const PERIOD: usize = 4;

pub(super) const SMOLLM3: Family = Family {
    model_type: "smollm3",
    architecture: Some("smollm3"),
    defaults: Defaults { context_length: 32_768, kv_heads: Some(4), tied: true, ..LLAMA.defaults },
    hugging_face,
    gguf: |_, config| {
        set(config, every(config.layers, PERIOD));
        Ok(())
    },
    ..LLAMA
};

fn hugging_face(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    (LLAMA.hugging_face)(keys, config)?;
    config.take_rotary(keys, 2_000_000.0, None)?;
    let period = keys.get("no_rope_layer_interval")?.unwrap_or(PERIOD).max(1);
    // Despite the name, 1 means that the layer has rotary positions.
    let nope = match keys.get::<Vec<u8>>("no_rope_layers")? {
        Some(rotated) if rotated.len() == config.layers => rotated.into_iter().map(|is| is == 0).collect(),
        Some(rotated) => return Err(invalid("no_rope_layers", rotated.len(), "one for each layer")),
        None => every(config.layers, period),
    };
    set(config, nope.clone());
    let tokens = if keys.flag("use_sliding_window")? { keys.get("sliding_window")? } else { None };
    // Present in published files but unused.
    keys.get::<usize>("max_window_layers")?;
    // Without `layer_types`, the layers without rotary positions have the window.
    config.take_window(keys, tokens, Layers::Listed(nope))
}

fn every(layers: usize, period: usize) -> Vec<bool> {
    (0..layers).map(|layer| (layer + 1).is_multiple_of(period)).collect()
}

fn set(config: &mut ModelConfig, layers: Vec<bool>) {
    if let Position::Rotary { nope, .. } = &mut config.block.position {
        *nope = Layers::Listed(layers);
    }
}
