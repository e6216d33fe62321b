//! Shape and constants in a GGUF file's settings, as far as all families share them.

use super::{
    block::{Block, Layers, Position},
    config::ModelConfig,
    draft_vocabulary::DraftVocabulary,
    gguf_settings::{CHAT_TEMPLATE, Metadata, Settings, Value},
    kind::Family,
    recommended::RecommendedSampling,
    spelling::Spelling,
    weights::{Container, WeightName},
};
use crate::error::{LoadError, invalid};

impl ModelConfig {
    /// Reads the settings of a GGUF file. `shape_of` returns the shape of a tensor by name.
    pub(crate) fn from_gguf<'f>(
        settings: &Metadata,
        shape_of: impl Fn(&str) -> Option<&'f [u64]>,
    ) -> Result<(Spelling, Self), LoadError> {
        let family = match settings.get("general.architecture") {
            Some(Value::Text(architecture)) => Family::of_architecture(architecture)?,
            Some(other) => return Err(invalid("general.architecture", other, "text")),
            None => return Err(LoadError::MissingSetting { key: "general.architecture".to_owned() }),
        };
        let has_tensor = |name: &str| shape_of(name).is_some();
        let settings = &Settings::new(settings, family.architecture.unwrap_or_default(), family.gguf_layout);
        let spelling = family.spelling();
        let stored_name = |name: WeightName| spelling.name_of(&name, Container::Gguf);
        let embedding = stored_name(WeightName::EMBEDDING);
        let Some(table) = shape_of(&embedding) else {
            return Err(LoadError::MissingTensor { name: embedding });
        };
        let draft_rows = settings.integer("draft_vocab_size")?;
        let vocab_size = match (table.first(), settings.integer("vocab_size")?) {
            (Some(&rows), None) => rows,
            // The table may have a row for each of a draft's tokens and a last one for all others.
            (Some(_), Some(stated)) if draft_rows.is_some() => stated,
            (Some(&rows), Some(stated)) if rows == stated => rows,
            (_, stated) => {
                let expected = "the number of rows of the embedding table";
                return Err(invalid(&settings.key("vocab_size"), stated.unwrap_or_default(), expected));
            }
        };
        let heads = settings.required("attention.head_count")?;
        let hidden_size = settings.required("embedding_length")?;
        let head_dim = match settings.integer("attention.key_length")? {
            Some(stated) => stated,
            None => hidden_size.checked_div(heads).unwrap_or(0),
        };
        if let Some(found) = settings.integer("attention.value_length")?.filter(|&found| found != head_dim) {
            let found = format!("{} = {found}", settings.key("attention.value_length"));
            return Err(LoadError::Unsupported { what: "head shape", found });
        }
        let size =
            |key: &str, value: u64| usize::try_from(value).map_err(|_| invalid(&settings.key(key), value, "a size"));
        let mut config = Self {
            vocab_size: size("vocab_size", vocab_size)?,
            draft_vocabulary: match draft_rows {
                Some(rows) => Some(DraftVocabulary::of_rows(size("draft_vocab_size", rows)?)),
                None => None,
            },
            hidden_size: size("embedding_length", hidden_size)?,
            intermediate_size: size("feed_forward_length", settings.required("feed_forward_length")?)?,
            layers: size("block_count", settings.required("block_count")?)?,
            heads: size("attention.head_count", heads)?,
            kv_heads: size("attention.head_count_kv", settings.integer("attention.head_count_kv")?.unwrap_or(heads))?,
            head_dim: size("attention.key_length", head_dim)?,
            context_length: size("context_length", settings.required("context_length")?)?,
            norm_epsilon: settings.epsilon(family.norm)?,
            // Biases are only recognizable by their tensors.
            block: Block {
                norm: family.norm,
                projection_bias: has_tensor(&stored_name(WeightName::QUERY_BIAS)),
                output_bias: has_tensor(&stored_name(WeightName::ATTENTION_OUTPUT_BIAS)),
                feed_forward_bias: has_tensor(&stored_name(WeightName::DOWN_BIAS)),
                ..Block::default()
            },
            bos_token_id: settings.token("tokenizer.ggml.bos_token_id")?,
            adds_bos: settings.shared("tokenizer.ggml.add_bos_token") != Some(&Value::Bool(false)),
            eos_token_ids: Vec::new(),
            tied_embeddings: shape_of(&stored_name(WeightName::HEAD)).is_none(),
            // A template over the length limit was skipped, like all values that inference does not need.
            chat_template: match settings.shared(CHAT_TEMPLATE) {
                Some(Value::Text(template)) => Some(template.clone()),
                _ => None,
            },
            sampling: RecommendedSampling::from_gguf(|name| settings.number(&format!("general.sampling.{name}"))),
            guess_chance: settings.guess_chance()?,
        };
        for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            let id = settings.token(&format!("tokenizer.ggml.{key}"))?;
            config.eos_token_ids.extend(id.filter(|id| !config.eos_token_ids.contains(id)));
        }
        // Family code below computes with the shape, so check it first.
        config.validate()?;
        match settings.get("attention.causal") {
            None | Some(Value::Bool(true)) => {}
            Some(other) => {
                return Err(LoadError::Unsupported { what: "attention.causal", found: other.to_string() });
            }
        }
        config.block.position =
            Position::Rotary { global: settings.rotary(&config, true)?, local: None, nope: Layers::None };
        (family.gguf)(settings, &mut config)?;
        if config.block.experts.is_none() {
            settings.refuse("expert_count", "mixture of experts")?;
            settings.refuse("expert_used_count", "mixture of experts")?;
        }
        settings.refuse_rest()?;
        config.validate()?;
        Ok((spelling, config))
    }
}
