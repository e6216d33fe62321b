//! Typed access to the settings of a `config.json`.
//!
//! Settings that were never read are rejected by name unless they are known to have no effect. Otherwise a setting
//! introduced later would be ignored, and the logits would be silently wrong.

use std::{cell::RefCell, collections::BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{LoadError, invalid};

/// Settings without effect on logits: names and versions, training, sampling, other heads and tools.
const WITHOUT_EFFECT: &[&str] = &[
    // Names, versions, number types, other tools.
    "_attn_implementation_autoset",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "_num_labels",
    "architectures",
    "attn_implementation",
    "auto_map",
    "dtype",
    "is_llama_config",
    "model_name",
    "model_type",
    "name",
    "tokenizer_class",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "cache_implementation",
    "pretraining_tp",
    "use_cache",
    // Training.
    "activation_dropout",
    "attention_dropout",
    "attn_pdrop",
    "dropout",
    "embd_pdrop",
    "embed_dropout",
    "gradient_checkpointing",
    "hidden_dropout",
    "init_std",
    "initializer_range",
    "layerdrop",
    "neftune_noise_alpha",
    "resid_dropout",
    "resid_pdrop",
    // Sampling, which the caller controls.
    "bad_words_ids",
    "begin_suppress_tokens",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "pad_token_id",
    "prefix",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "unk_token_id",
    // Other heads, other outputs.
    "chunk_size_feed_forward",
    "classifier_dropout",
    "finetuning_task",
    "id2label",
    "label2id",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "problem_type",
    "return_dict",
    "router_aux_loss_coef",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "tie_encoder_decoder",
    "torchscript",
    "use_bfloat16",
];

/// Settings of a `config.json`, with the record of those read.
pub(super) struct Keys {
    values: Map<String, Value>,
    /// Synonyms of the family: our name, which is Llama's, and the family's own.
    synonyms: &'static [(&'static str, &'static str)],
    read: RefCell<BTreeSet<String>>,
}

impl Keys {
    pub(super) fn new(json: &[u8]) -> Result<Self, LoadError> {
        let values: Map<String, Value> = serde_json::from_slice(json)?;
        Ok(Self { values, synonyms: &[], read: RefCell::default() })
    }

    pub(super) fn with_synonyms(self, synonyms: &'static [(&'static str, &'static str)]) -> Self {
        Self { synonyms, ..self }
    }

    /// Value of a setting, if present and not null.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, LoadError> {
        let own = self.own(key);
        self.read.borrow_mut().insert(own.to_owned());
        let Some(value) = self.values.get(own) else { return Ok(None) };
        serde_json::from_value(value.clone()).map_err(|_| invalid(own, value, "a value of another type"))
    }

    /// Returns whether a setting is present and null.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.values.get(self.own(key)).is_some_and(Value::is_null)
    }

    /// Name of a setting in this family.
    fn own<'k>(&self, key: &'k str) -> &'k str {
        self.synonyms.iter().find(|(ours, _)| *ours == key).map_or(key, |(_, own)| own)
    }

    /// Value of a required setting.
    pub(super) fn required<T: DeserializeOwned>(&self, key: &str) -> Result<T, LoadError> {
        self.get(key)?.ok_or_else(|| LoadError::MissingSetting { key: self.own(key).to_owned() })
    }

    /// Value of a boolean setting; false if absent.
    pub(super) fn flag(&self, key: &str) -> Result<bool, LoadError> {
        Ok(self.get(key)?.unwrap_or(false))
    }

    /// Rejects a setting unless it is absent or one of `computed`.
    pub(super) fn only(&self, key: &'static str, computed: &[Value]) -> Result<(), LoadError> {
        match self.get::<Value>(key)? {
            Some(found) if !computed.contains(&found) => Err(unsupported(key, &found)),
            _ => Ok(()),
        }
    }

    /// Rejects settings that were never read.
    pub(super) fn refuse_rest(&self) -> Result<(), LoadError> {
        let read = self.read.borrow();
        let mut rest = self.values.iter().filter(|(key, value)| !value.is_null() && !read.contains(*key));
        match rest.find(|(key, _)| !WITHOUT_EFFECT.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, value)) => Err(LoadError::UnknownSetting { key: key.clone(), found: value.to_string() }),
        }
    }
}

pub(super) fn unsupported(what: &'static str, found: &Value) -> LoadError {
    let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    LoadError::Unsupported { what, found }
}
