//! Gemma 1, 2 and 3 (text models): GeGLU, scaled embeddings, norm scales stored less one. Gemma 2 and 3 add norms
//! around both parts, sliding windows in most layers and soft caps. Gemma 3 adds norms of queries and keys and another
//! θ in windowed layers.

use serde_json::json;

use super::{
    block::{Activation, Block, FeedForward, HeadNorm, Layers, NormPlaces, Position, Window},
    config::ModelConfig,
    keys::Keys,
    kind::{Defaults, Family},
    llama::LLAMA,
    rope_parameters::RopeParameters,
    rotary::{RopeLayout, RopeScaling, Rotary},
};
use crate::error::LoadError;

pub(super) const GEMMA: Family = Family {
    model_type: "gemma",
    architecture: Some("gemma"),
    gguf_layout: RopeLayout::HalfSplit,
    defaults: Defaults {
        context_length: 8192,
        norm_epsilon: 1e-6,
        kv_heads: Some(16),
        head_dim: Some(256),
        widening: None,
        tied: true,
    },
    norms_less_one: true,
    hugging_face: |keys, config| {
        shared(keys, config)?;
        config.take_rotary(keys, 10_000.0, None)
    },
    gguf: |_, config| {
        all(config);
        Ok(())
    },
    ..LLAMA
};

pub(super) const GEMMA2: Family = Family {
    model_type: "gemma2",
    architecture: Some("gemma2"),
    defaults: Defaults { kv_heads: Some(4), ..GEMMA.defaults },
    names: &[("feed_forward_norm", "blk.{}.ffn_norm.weight", "model.layers.{}.pre_feedforward_layernorm.weight")],
    hugging_face: |keys, config| {
        shared(keys, config)?;
        config.take_rotary(keys, 10_000.0, None)?;
        around(keys, config, [Some(50.0), Some(30.0)])?;
        config.take_window(keys, keys.get("sliding_window")?.or(Some(4096)), Layers::AllBut { period: 2, but: 1 })
    },
    gguf: |settings, config| {
        all(config);
        config.block.norms = NormPlaces::Around;
        config.block.score_softcap = settings.float("attn_logit_softcapping")?;
        config.block.logit_softcap = settings.float("final_logit_softcapping")?;
        // Only the 27B model scales by a width other than the head's.
        if config.layers == LAYERS_OF_27B[0] {
            config.block.score_scale = Some(1.0 / (config.hidden_size as f32 / config.heads as f32).sqrt());
        }
        let layers = Layers::AllBut { period: 2, but: 1 };
        config.block.window = settings.window()?.map(|tokens| Window { tokens, layers });
        Ok(())
    },
    ..GEMMA
};

pub(super) const GEMMA3: Family = Family {
    model_type: "gemma3_text",
    architecture: Some("gemma3"),
    defaults: Defaults { context_length: 131_072, kv_heads: Some(4), ..GEMMA.defaults },
    hugging_face: |keys, config| {
        shared(keys, config)?;
        config.block.head_norm = HeadNorm::Each;
        around(keys, config, [None, None])?;
        // Newer files use a private name for this setting.
        let period = keys.get("sliding_window_pattern")?.or(keys.get("_sliding_window_pattern")?);
        let period = period.unwrap_or(6).max(1);
        let layers = Layers::AllBut { period, but: period - 1 };
        config.take_window(keys, keys.get("sliding_window")?.or(Some(4096)), layers)?;
        let [global, local] = rotaries(keys, config)?;
        config.block.position = Position::Rotary { global, local: Some(local), nope: Layers::None };
        Ok(())
    },
    gguf: |settings, config| {
        all(config);
        config.block.norms = NormPlaces::Around;
        config.block.head_norm = HeadNorm::Each;
        config.block.logit_softcap = settings.float("final_logit_softcapping")?;
        if config.layers == LAYERS_OF_27B[1] {
            config.block.score_scale = Some(1.0 / (config.hidden_size as f32 / config.heads as f32).sqrt());
        }
        let period = settings.integer("attention.sliding_window_pattern")?.unwrap_or(6).clamp(1, 1 << 16) as usize;
        let layers = Layers::AllBut { period, but: period - 1 };
        config.block.window = settings.window()?.map(|tokens| Window { tokens, layers });
        let theta = settings.float("rope.freq_base_swa")?.unwrap_or(10_000.0);
        if let Position::Rotary { global, local, .. } = &mut config.block.position {
            // Default θ of Gemma 3, which differs from Llama's.
            if settings.get("rope.freq_base").is_none() {
                global.theta = 1_000_000.0;
            }
            *local = Some(Rotary { theta, scaling: RopeScaling::None, ..global.clone() });
        }
        Ok(())
    },
    ..GEMMA2
};

/// Number of layers of Gemma 2 27B and Gemma 3 27B, by which their GGUF files are recognized.
const LAYERS_OF_27B: [usize; 2] = [46, 62];

/// Sets the options that all Gemma models share.
fn all(config: &mut ModelConfig) {
    config.block = Block {
        feed_forward: FeedForward::Gated(Activation::GeluTanh),
        embedding_scale: (config.hidden_size as f32).sqrt(),
        ..config.block.clone()
    };
}

fn shared(keys: &Keys, config: &mut ModelConfig) -> Result<(), LoadError> {
    all(config);
    // Early files say "gelu" for the tanh approximation, as transformers assumes.
    for key in ["hidden_act", "hidden_activation"] {
        keys.only(key, &[json!("gelu_pytorch_tanh"), json!("gelu")])?;
    }
    let bias = keys.flag("attention_bias")?;
    (config.block.projection_bias, config.block.output_bias) = (bias, bias);
    keys.only("use_bidirectional_attention", &[json!(false)])
}

/// Reads the norms, caps and scales of Gemma 2 and 3. `caps`: defaults of the score and logit caps.
fn around(keys: &Keys, config: &mut ModelConfig, caps: [Option<f32>; 2]) -> Result<(), LoadError> {
    let cap = |key: &str, otherwise: Option<f32>| -> Result<Option<f32>, LoadError> {
        if keys.is_null(key) { Ok(None) } else { Ok(keys.get(key)?.or(otherwise)) }
    };
    config.block.norms = NormPlaces::Around;
    config.block.score_scale = Some(1.0 / keys.get("query_pre_attn_scalar")?.unwrap_or(256.0f32).sqrt());
    config.block.score_softcap = cap("attn_logit_softcapping", caps[0])?;
    config.block.logit_softcap = cap("final_logit_softcapping", caps[1])?;
    Ok(())
}

/// Rotary embeddings of Gemma 3, for full and for windowed layers. New files state both by layer type, old ones have
/// one scaling and two bases.
fn rotaries(keys: &Keys, config: &ModelConfig) -> Result<[Rotary; 2], LoadError> {
    const BASES: [f32; 2] = [1_000_000.0, 10_000.0];
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ByType {
        full_attention: Option<RopeParameters>,
        sliding_attention: Option<RopeParameters>,
    }
    let rotary = |parameters: RopeParameters, theta: f32| -> Result<Rotary, LoadError> {
        Ok(config.rotary(&parameters, theta, None)?.rotary)
    };
    let bases = [keys.get("rope_theta")?, keys.get("rope_local_base_freq")?];
    let [full, sliding] = match keys.get::<ByType>("rope_parameters")? {
        Some(ByType { full_attention, sliding_attention }) => [full_attention, sliding_attention],
        None => [keys.get("rope_scaling")?, None],
    };
    Ok([
        rotary(full.unwrap_or_default(), bases[0].unwrap_or(BASES[0]))?,
        rotary(sliding.unwrap_or_default(), bases[1].unwrap_or(BASES[1]))?,
    ])
}
