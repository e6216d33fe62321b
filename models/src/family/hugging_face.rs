//! Shape and constants in the `config.json` of a Hugging Face checkpoint, as far as all families share them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    block::{Block, Layers, Position, Window},
    config::ModelConfig,
    draft_vocabulary::DraftVocabulary,
    inert::says_nothing,
    keys::{Keys, unsupported},
    kind::{Defaults, Family},
    recommended::RecommendedSampling,
    rope_parameters::{RopeParameters, RotaryWithContext, Start},
    spelling::Spelling,
};
use crate::error::{LoadError, invalid};

/// Settings that describe quantized weights: those of transformers, of MLX, and of older compressed-tensors.
pub(super) const QUANTIZATION: [&str; 3] = ["quantization_config", "quantization", "compression_config"];

impl ModelConfig {
    /// Parses a `config.json`.
    pub(crate) fn from_hugging_face(json: &[u8]) -> Result<(Spelling, Self), LoadError> {
        let mut keys = Keys::new(json)?;
        // The family comes first: other architectures have other settings.
        let model_type = keys.required::<String>("model_type")?;
        let is_tower = keys.enter_text_tower(&model_type)?;
        let model_type = if is_tower { keys.required("model_type")? } else { model_type };
        let family = Family::of_model_type(&model_type)?;
        let keys = keys.with_synonyms(family.synonyms);
        let Defaults { context_length, norm_epsilon, kv_heads, head_dim, widening, tied } = family.defaults;
        let (hidden_size, heads) = (keys.required::<usize>("hidden_size")?, keys.required("num_attention_heads")?);
        let mut config = Self {
            vocab_size: keys.required("vocab_size")?,
            draft_vocabulary: keys.get("draft_vocab_size")?.map(DraftVocabulary::of_rows),
            hidden_size,
            intermediate_size: match widening {
                Some(times) => keys.get("intermediate_size")?.unwrap_or(hidden_size.saturating_mul(times)),
                None => keys.required("intermediate_size")?,
            },
            layers: keys.required("num_hidden_layers")?,
            heads,
            kv_heads: keys.get("num_key_value_heads")?.or(kv_heads).unwrap_or(heads),
            head_dim: match keys.get("head_dim")?.or(head_dim) {
                Some(head_dim) => head_dim,
                None => hidden_size.checked_div(heads).unwrap_or(0),
            },
            context_length: keys.get("max_position_embeddings")?.unwrap_or(context_length),
            norm_epsilon: keys.get("rms_norm_eps")?.unwrap_or(norm_epsilon),
            block: Block { norm: family.norm, ..Block::default() },
            bos_token_id: token(keys.get("bos_token_id")?)?,
            adds_bos: true,
            eos_token_ids: keys.get::<OneOrMany>("eos_token_id")?.map_or(Ok(Vec::new()), OneOrMany::tokens)?,
            tied_embeddings: keys.get("tie_word_embeddings")?.unwrap_or(tied),
            chat_template: None,
            sampling: RecommendedSampling::default(),
            guess_chance: keys.get("guess_chance")?,
        };
        // Family code below computes with the shape, so check it first.
        config.validate()?;
        keys.only_quantized_by(family.quantization)?;
        keys.only("is_decoder", &[json!(true), json!(false)])?;
        keys.only("add_cross_attention", &[json!(false)])?;
        keys.only("is_encoder_decoder", &[json!(false)])?;
        (family.hugging_face)(&keys, &mut config)?;
        keys.refuse_rest()?;
        config.validate()?;
        Ok((Spelling { is_tower, ..family.spelling() }, config))
    }

    /// Applies the rotary embedding of `rope_parameters` to all layers. `theta` and `part` (the rotated part of each
    /// head) are defaults; if `part` is `None`, a partial rotation is rejected.
    pub(super) fn take_rotary(&mut self, keys: &Keys, theta: f32, part: Option<f32>) -> Result<(), LoadError> {
        let described = self.rotary(&keys.rope_parameters()?, theta, part)?;
        self.context_length = described.context_length;
        self.block.position = Position::Rotary { global: described.rotary, local: None, nope: Layers::None };
        Ok(())
    }

    /// Rotary embedding that the parameters describe for this model.
    pub(super) fn rotary(
        &self,
        parameters: &RopeParameters,
        theta: f32,
        part: Option<f32>,
    ) -> Result<RotaryWithContext, LoadError> {
        let &Self { head_dim, context_length, .. } = self;
        parameters.rotary(&Start { theta, head_dim, context_length, part })
    }

    /// Sets a window of `tokens` for the layers that `layer_types` names, or for `otherwise` if it is absent.
    pub(super) fn take_window(
        &mut self,
        keys: &Keys,
        tokens: Option<usize>,
        otherwise: Layers,
    ) -> Result<(), LoadError> {
        let layers = match keys.get::<Vec<String>>("layer_types")? {
            None => otherwise,
            Some(types) => {
                let known = |kind: &String| matches!(&**kind, "full_attention" | "sliding_attention");
                if let Some(other) = types.iter().find(|kind| !known(kind)) {
                    return Err(unsupported("layer type", &json!(other)));
                }
                if types.len() != self.layers {
                    return Err(invalid("layer_types", types.len(), "one for each layer"));
                }
                Layers::Listed(types.iter().map(|kind| kind == "sliding_attention").collect())
            }
        };
        let has_some = layers != Layers::None && layers.any(self.layers);
        self.block.window = match tokens {
            Some(tokens) if has_some => Some(Window { tokens, layers }),
            None if has_some && keys.get::<Value>("layer_types")?.is_some() => {
                return Err(LoadError::MissingSetting { key: "sliding_window".to_owned() });
            }
            _ => None,
        };
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(i64),
    Many(Vec<i64>),
}

impl OneOrMany {
    pub(super) fn tokens(self) -> Result<Vec<u32>, LoadError> {
        let ids = match self {
            Self::One(id) => vec![id],
            Self::Many(ids) => ids,
        };
        ids.into_iter().filter_map(|id| token(Some(id)).transpose()).collect()
    }
}

impl Keys {
    /// Rejects quantized weights, except by the family's own method: the names of tensors say which ones are.
    fn only_quantized_by(&self, own: Option<&str>) -> Result<(), LoadError> {
        for key in QUANTIZATION {
            let Some(found) = self.get::<Value>(key)?.filter(|found| !says_nothing(found)) else { continue };
            let stated = found["quant_method"].as_str();
            if stated.is_none() || stated != own {
                // MLX states no method, but always the size of groups.
                let unstated = if found["group_size"].is_null() { "an unknown method" } else { "MLX" };
                return Err(LoadError::Quantized { method: stated.unwrap_or(unstated).to_owned() });
            }
        }
        Ok(())
    }

    /// Rejects activations other than SiLU.
    pub(super) fn only_silu(&self) -> Result<(), LoadError> {
        self.only("hidden_act", &[json!("silu"), json!("swish")])
    }
}

/// Checked token id; negative numbers stand for none.
fn token(id: Option<i64>) -> Result<Option<u32>, LoadError> {
    let id = id.filter(|&id| id >= 0);
    id.map(|id| u32::try_from(id).map_err(|_| invalid("special token id", id, "below vocab_size"))).transpose()
}
