//! Family of T5 1.0, T5 1.1 and Flan-T5: RMSNorm before each part, no biases, unscaled attention scores, and a learned
//! bias for each head and relative position (Raffel et al. 2020, <https://arxiv.org/abs/1910.10683>). T5 1.0 has ReLU
//! and a tied head with scaled input. T5 1.1 and Flan-T5 have gated GELU (Shazeer 2020,
//! <https://arxiv.org/abs/2002.05202>) and a separate head.

use serde_json::json;

use super::{
    super::{
        beside::{Beside, GenerationConfig},
        block::{Activation, FeedForward, Norm},
        description::{Description, ShapeOf},
        gguf_settings::{Metadata, Settings, Value},
        hugging_face::OneOrMany,
        keys::{Keys, unsupported},
        rotary::RopeLayout,
        spelling::Spelling,
        weights::{Container, WeightName, WeightSource},
    },
    config::EncoderDecoderConfig,
    weights::{EMBEDDING, EncoderDecoderWeights, FIRST_GATE, HEAD},
};
use crate::error::{LoadError, invalid};

/// `model_type` in `config.json`, and `general.architecture` in GGUF files.
pub(in super::super) const T5: &str = "t5";

/// Maximum relative distance in llama.cpp, which GGUF files do not store.
const DISTANCE: usize = 128;

const GATED: FeedForward = FeedForward::Gated(Activation::GeluTanh);
const PLAIN: FeedForward = FeedForward::Plain(Activation::Relu);

const SPELLING: Spelling = Spelling {
    names: &[],
    aliases: &["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"],
    // Old files have an unused bias of cross-attention.
    unused: &["EncDecAttention.relative_attention_bias.weight", "cross_attn_rel_b.weight"],
    norms_less_one: false,
    transposed: false,
    fused_experts: false,
    is_tower: false,
};

impl Description for EncoderDecoderConfig {
    type Weights<M> = EncoderDecoderWeights<M>;

    fn of_config_json(json: &[u8]) -> Result<(Spelling, Self), LoadError> {
        let keys = Keys::new(json)?;
        only_t5("model_type of an encoder-decoder", &keys.required::<String>("model_type")?)?;
        let hidden_size: usize = keys.required("d_model")?;
        let encoder_layers = keys.required("num_layers")?;
        let feed_forward = feed_forward(&keys)?;
        // Tied heads have scaled inputs. Files of newer transformers versions declare all heads tied and state the
        // scaling separately.
        let tied = keys.get("tie_word_embeddings")?.unwrap_or(true);
        let is_scaled = keys.get("scale_decoder_outputs")?.unwrap_or(tied);
        let config = Self {
            vocab_size: keys.required("vocab_size")?,
            hidden_size,
            intermediate_size: keys.required("d_ff")?,
            encoder_layers,
            decoder_layers: keys.get("num_decoder_layers")?.unwrap_or(encoder_layers),
            heads: keys.required("num_heads")?,
            head_dim: keys.required("d_kv")?,
            norm_epsilon: keys.get("layer_norm_epsilon")?.unwrap_or(1e-6),
            feed_forward,
            position_buckets: keys.get("relative_attention_num_buckets")?.unwrap_or(32),
            position_distance: keys.get("relative_attention_max_distance")?.unwrap_or(DISTANCE),
            tied_embeddings: tied,
            output_scale: output_scale(is_scaled, hidden_size),
            start_token_id: match keys.get("decoder_start_token_id")? {
                Some(id) => id,
                None => keys.get("pad_token_id")?.unwrap_or(0),
            },
            eos_token_ids: keys.get::<OneOrMany>("eos_token_id")?.map_or(Ok(Vec::new()), OneOrMany::tokens)?,
        };
        keys.only("is_encoder_decoder", &[json!(true)])?;
        keys.only("is_decoder", &[json!(false)])?;
        keys.only("quantization_config", &[])?;
        // Training settings: maximum source length, dropout, initialization.
        for without_effect in ["n_positions", "dropout_rate", "initializer_factor"] {
            keys.get::<serde_json::Value>(without_effect)?;
        }
        keys.refuse_rest()?;
        config.validate()?;
        Ok((SPELLING, config))
    }

    fn of_gguf(settings: &Metadata, shape_of: ShapeOf<'_, '_>) -> Result<(Spelling, Self), LoadError> {
        match settings.get("general.architecture") {
            Some(Value::Text(architecture)) => only_t5("architecture of an encoder-decoder", architecture)?,
            Some(other) => return Err(invalid("general.architecture", other, "text")),
            None => return Err(LoadError::MissingSetting { key: "general.architecture".to_owned() }),
        }
        // The layout is irrelevant because T5 has no rotary positions.
        let settings = &Settings::new(settings, T5, RopeLayout::HalfSplit);
        let [embedding, _] = EMBEDDING;
        let rows = shape_of(embedding).and_then(|shape| shape.first().copied());
        let rows = rows.ok_or_else(|| LoadError::MissingTensor { name: embedding.to_owned() })?;
        let (heads, head_dim) =
            (settings.required("attention.head_count")?, settings.required("attention.key_length")?);
        let encoder_layers = settings.required("block_count")?;
        // Redundant settings must agree with those above.
        let again = [("vocab_size", rows), ("attention.head_count_kv", heads), ("attention.value_length", head_dim)];
        for (key, value) in again {
            if let Some(found) = settings.integer(key)?.filter(|&found| found != value) {
                let found = format!("{} = {found}", settings.key(key));
                return Err(LoadError::Unsupported { what: "shape", found });
            }
        }
        let size =
            |key: &str, value: u64| usize::try_from(value).map_err(|_| invalid(&settings.key(key), value, "a size"));
        let read = |key: &str| size(key, settings.required(key)?);
        let hidden_size = read("embedding_length")?;
        let tied = shape_of(HEAD[0]).is_none();
        let start = settings.integer("decoder_start_token_id")?.unwrap_or(0);
        let config = Self {
            vocab_size: size("vocab_size", rows)?,
            hidden_size,
            intermediate_size: read("feed_forward_length")?,
            encoder_layers: size("block_count", encoder_layers)?,
            decoder_layers: size(
                "decoder_block_count",
                settings.integer("decoder_block_count")?.unwrap_or(encoder_layers),
            )?,
            heads: size("attention.head_count", heads)?,
            head_dim: size("attention.key_length", head_dim)?,
            norm_epsilon: settings.epsilon(Norm::Rms)?,
            feed_forward: if shape_of(FIRST_GATE).is_some() { GATED } else { PLAIN },
            position_buckets: read("attention.relative_buckets_count")?,
            position_distance: DISTANCE,
            tied_embeddings: tied,
            output_scale: output_scale(tied, hidden_size),
            start_token_id: u32::try_from(start).map_err(|_| invalid("decoder_start_token_id", start, "a token id"))?,
            eos_token_ids: settings.token("tokenizer.ggml.eos_token_id")?.into_iter().collect(),
        };
        // A second name of ε, and the maximum source length in training.
        for without_effect in ["attention.layer_norm_epsilon", "context_length"] {
            settings.get(without_effect);
        }
        settings.refuse_rest()?;
        config.validate()?;
        Ok((SPELLING, config))
    }

    fn settle(
        &mut self,
        container: Container,
        stored: &dyn Fn(&WeightName) -> Option<String>,
    ) -> Result<Vec<(WeightName, usize)>, LoadError> {
        // A stored head takes precedence, as in the reference implementation. An untied model without a stored head
        // fails later with a missing tensor.
        if container == Container::HuggingFace {
            self.tied_embeddings &= stored(&WeightName::plain(HEAD[0], HEAD[1], 0)).is_none();
        }
        Ok(Vec::new())
    }

    fn gather<S: WeightSource>(&self, source: &mut S) -> Result<EncoderDecoderWeights<S::Matrix>, S::Error> {
        EncoderDecoderWeights::gather(self, source)
    }

    /// Applies `generation_config.json`: the tokens that begin and end a text, as transformers does.
    fn amend(&mut self, file: Beside<'_>) -> Result<(), LoadError> {
        let GenerationConfig { eos_token_id, decoder_start_token_id, .. } = GenerationConfig::read(file)?;
        if let Some(ids) = eos_token_id {
            self.eos_token_ids = ids.tokens()?;
        }
        if let Some(id) = decoder_start_token_id {
            self.start_token_id = u32::try_from(id).map_err(|_| invalid("decoder_start_token_id", id, "a token id"))?;
        }
        self.validate()
    }
}

fn only_t5(what: &'static str, found: &str) -> Result<(), LoadError> {
    match found {
        T5 => Ok(()),
        other => Err(LoadError::Unsupported { what, found: other.to_owned() }),
    }
}

/// Feed-forward kind of `feed_forward_proj`. "gated-gelu" means the tanh approximation, as in transformers.
fn feed_forward(keys: &Keys) -> Result<FeedForward, LoadError> {
    let (feed_forward, activation) = match keys.get::<String>("feed_forward_proj")?.as_deref() {
        None | Some("relu") => (PLAIN, "relu"),
        Some("gated-gelu") => (GATED, "gelu_new"),
        Some(other) => return Err(unsupported("feed_forward_proj", &json!(other))),
    };
    // Derived settings in files of newer versions.
    keys.only("dense_act_fn", &[json!(activation)])?;
    keys.only("is_gated_act", &[json!(feed_forward == GATED)])?;
    Ok(feed_forward)
}

/// Factor of the last hidden state before the output head.
fn output_scale(is_scaled: bool, hidden_size: usize) -> f32 {
    if is_scaled { 1.0 / (hidden_size as f32).sqrt() } else { 1.0 }
}
