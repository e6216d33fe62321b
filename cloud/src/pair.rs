//! The draft model, the target model and their tokenizer: files from the command line, or else the built-in pair.

use std::{
    borrow::Cow,
    fs,
    io::Cursor,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use outrider_codec::frame::{Limits, MAX_DRAFT_TOKENS};
use outrider_models::{
    ActivationBits, GuessChance, HeadsError, HeadsFile, LinearHead, LoadError, Model, ModelConfig, StoredModel,
    Tokenizer, checkpoint_in_one_file, gguf_part_names,
};
use outrider_speculation::{
    draft::{Head, HeadError, Heads},
    session::{cloud::TargetInfo, edge::DraftInfo},
};

use crate::{hub, target::gateway::Way};

mod downloads;
mod mismatch;
mod model_source;
mod published;
mod tokenizer_choice;

pub use self::{
    downloads::FetchError,
    mismatch::{Meaning, Mismatch, Origin},
    model_source::ModelSource,
    published::PublishedError,
    tokenizer_choice::Ends,
};

const DRAFT: &[u8] = include_bytes!("../../pair/draft/draft-q8_0.gguf");
const HEADS: &[u8] = include_bytes!("../../pair/draft/gate.safetensors");
const TARGET: &[u8] = include_bytes!("../../pair/target/target-f16.gguf");
const TOKENIZER: &[u8] = include_bytes!("../../pair/tokenizer.json");

/// Files in place of those in the binary. Draft and target must share the tokenizer.
#[derive(Debug, Clone, Default, clap::Args)]
#[allow(rustdoc::broken_intra_doc_links, reason = "users read it: what stands in brackets may be left out")]
pub struct PairPaths {
    /// Published chat model by its short name, with the draft made for it: smollm2 (SmolLM2-135M-Instruct, 98 MB,
    /// downloaded at the first use). NAME=MODEL gives it another name for clients; NAME=TARGET,DRAFT names files, as
    /// --target and --draft take them. `serve` takes several models, and clients select one by its name
    #[arg(long, value_name = "[NAME=]MODEL[,DRAFT]", conflicts_with = "target")]
    pub model: Vec<ModelSource>,
    /// Draft model: a GGUF file, a folder with config.json and model.safetensors, or
    /// hf:OWNER/NAME[@REVISION][:FILE] on Hugging Face's hub
    #[arg(long, value_name = "PATH")]
    pub draft: Option<PathBuf>,
    /// Target model: a GGUF file, a folder with config.json and model.safetensors,
    /// hf:OWNER/NAME[@REVISION][:FILE], or (for `serve` and `check`) openai:URL or vllm:URL
    ///
    /// hf:OWNER/NAME is downloaded to the cache that Hugging Face's tools use; @REVISION is a branch, tag or commit.
    /// HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT and HF_HUB_OFFLINE mean what they mean to these
    /// tools. openai:http://HOST:PORT is an engine that serves prompt
    /// log-probabilities, such as vLLM; it needs --tokenizer. vllm:http://HOST:PORT is vLLM that writes texts on its
    /// own and receives guesses at them (--guesses-to).
    #[arg(long, value_name = "PATH")]
    pub target: Option<PathBuf>,
    /// File tokenizer.json of both models; without it, the one beside a model, or the vocabulary in its GGUF file
    #[arg(long, value_name = "PATH")]
    pub tokenizer: Option<PathBuf>,
    /// Heads trained on the draft's hidden state (train-gate writes them); without this, a draft given by path has none
    #[arg(long, value_name = "PATH")]
    pub heads: Option<PathBuf>,
    /// Bits to which the target's activations are rounded before they are multiplied with quantized weights, on the
    /// processor
    ///
    /// 8 is what llama.cpp does; it changes some of a small model's answers. 16 gives nearly those of unrounded
    /// activations, and a pass takes as long as one of twice the tokens. If not given: 16 for smollm2, else 8.
    #[arg(long, value_name = "BITS", value_parser = activation_bits())]
    pub activation_bits: Option<ActivationBits>,
    /// Load models although they have this setting, which is not known here; can be given several times
    ///
    /// An unknown setting is refused because it may change the computation. The refusal names it.
    #[arg(long, value_name = "KEY")]
    pub ignore_setting: Vec<String>,
}

/// Reads the values of `--activation-bits`.
fn activation_bits() -> impl TypedValueParser<Value = ActivationBits> {
    PossibleValuesParser::new(["8", "16"]).map(|bits| match bits.as_str() {
        "16" => ActivationBits::Sixteen,
        _ => ActivationBits::Eight,
    })
}

/// Reason why a model or tokenizer cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A file cannot be read or is malformed.
    #[error("the {what} {path} cannot be loaded: {error}")]
    Load {
        /// Kind of file, such as "draft model".
        what: &'static str,
        /// Path of the file, or "in the binary".
        path: String,
        /// Error of the loader.
        error: LoadError,
    },
    /// The file of heads cannot be read, or they belong to another draft.
    #[error("the heads {path} cannot be used: {error}")]
    Heads {
        /// Path of the file of heads.
        path: String,
        /// Error of the reader, or the mismatch with the draft.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The draft is in several files, and browsers load one.
    #[error(
        "the draft model {path} is split into several GGUF files, but browsers load a single one: merge them with `gguf-split --merge`; `generate` can use them as they are"
    )]
    DraftForBrowsers {
        /// Path of the draft model.
        path: String,
    },
    /// The target is an engine elsewhere.
    #[error("the target {address} is a remote engine: only `outrider serve` and `outrider check` can use one")]
    Elsewhere {
        /// Address of the engine, as it was given.
        address: String,
    },
    /// The model has no tokenizer.
    #[error(
        "the {what} {path} comes without a tokenizer: give its tokenizer.json with --tokenizer, or put it beside the model"
    )]
    NoTokenizer {
        /// Kind of model, such as "draft model".
        what: &'static str,
        /// Path of the model, or "in the binary".
        path: String,
    },
    /// The path does not exist.
    #[error(
        "the {what} {path} does not exist: there is no such file or folder{}",
        .on_hub.as_deref().map_or(String::new(), hub_hint)
    )]
    Absent {
        /// Kind of model, such as "draft model".
        what: &'static str,
        /// Path that was given.
        path: String,
        /// The path as a name on the hub, if it could be one.
        on_hub: Option<String>,
    },
    /// Two sources of tokens disagree about an id.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// The tokenizer has more tokens than the model, or the model was not [cut](PairPaths::draft_with) to them.
    #[error("the tokenizer has {tokenizer} tokens, the {what} {model}: they do not belong together")]
    Vocabulary {
        /// Kind of model, such as "draft model".
        what: &'static str,
        /// Vocabulary size of the model.
        model: usize,
        /// Vocabulary size of the tokenizer.
        tokenizer: usize,
    },
}

impl PairPaths {
    /// Loads the draft model as its file has it.
    pub fn draft(&self) -> Result<Model, PairError> {
        open("draft model", self.draft.as_deref(), DRAFT)
    }

    /// Loads the draft model, with its vocabulary cut to the tokens of a tokenizer. A draft and a target whose tables
    /// differ in length have one vocabulary then.
    pub fn draft_with(&self, tokenizer: &Tokenizer) -> Result<Model, PairError> {
        let mut draft = self.draft()?;
        self.fit_draft(&mut draft, tokenizer)?;
        Ok(draft)
    }

    /// Returns true if no model is named: both ends are the built-in pair's.
    pub(crate) fn is_built_in(&self) -> bool {
        self.draft.is_none() && self.target.is_none() && self.model.is_empty()
    }

    /// Cuts the vocabulary of a draft model to the tokens of a tokenizer.
    pub fn fit_draft(&self, draft: &mut Model, tokenizer: &Tokenizer) -> Result<(), PairError> {
        fit("draft model", draft.config().vocab_size, tokenizer, |tokens| draft.cut_vocabulary(tokens))
    }

    /// Address of the target and the way it is used, if it is an engine elsewhere.
    pub fn engine_address(&self) -> Option<(Way, &str)> {
        remote_engine(self.target.as_deref()?)
    }

    /// Fails if the target is an engine elsewhere.
    fn check_is_here(&self) -> Result<(), PairError> {
        match self.engine_address() {
            Some(_) => Err(PairError::Elsewhere { address: place(self.target.as_deref()) }),
            None => Ok(()),
        }
    }

    /// Loads the target model as its file has it.
    pub fn target(&self) -> Result<Model, PairError> {
        self.check_is_here()?;
        let mut target = open("target model", self.target.as_deref(), TARGET)?;
        target.set_activation_bits(self.activation_bits.unwrap_or_default());
        Ok(target)
    }

    /// Loads the target model, with its vocabulary cut to the tokens of a tokenizer.
    pub fn target_with(&self, tokenizer: &Tokenizer) -> Result<Model, PairError> {
        let mut target = self.target()?;
        let rows = target.config().vocab_size;
        fit("target model", rows, tokenizer, |tokens| target.cut_vocabulary(tokens))?;
        Ok(target)
    }

    /// Loads [`stored_target`](Self::stored_target), with its vocabulary cut to the tokens of a tokenizer.
    pub fn stored_target_with(&self, tokenizer: &Tokenizer) -> Result<StoredModel, PairError> {
        let mut target = self.stored_target()?;
        let rows = target.config.vocab_size;
        fit("target model", rows, tokenizer, |tokens| target.config.cut_vocabulary(tokens))?;
        Ok(target)
    }

    /// Loads the target model as its file has it, for another device than this processor.
    pub fn stored_target(&self) -> Result<StoredModel, PairError> {
        self.check_is_here()?;
        let model = match &self.target {
            Some(path) => StoredModel::open(path),
            None => StoredModel::from_gguf(&mut Cursor::new(TARGET)),
        };
        model.map_err(|error| failure("target model", self.target.as_deref(), error))
    }

    /// Loads the draft's trained heads, if it has any.
    pub fn heads(&self, draft: &Model, tokenizer: &Tokenizer) -> Result<Option<HeadsFile>, PairError> {
        let Some(bytes) = self.heads_safetensors()? else { return Ok(None) };
        let checked = |bytes: &[u8]| -> Result<HeadsFile, HeadsError> {
            let heads = HeadsFile::from_bytes(bytes)?;
            heads.check_draft(draft.config(), tokenizer)?;
            Ok(heads)
        };
        checked(&bytes).map(Some).map_err(|error| self.heads_failure(error.into()))
    }

    /// Bytes of the draft's trained heads, for the browser.
    pub fn heads_safetensors(&self) -> Result<Option<Cow<'static, [u8]>>, PairError> {
        match (&self.heads, &self.draft) {
            (Some(path), _) => Ok(Some(fs::read(path).map_err(|error| self.heads_failure(error.into()))?.into())),
            (None, None) => Ok(Some(HEADS.into())),
            (None, Some(_)) => Ok(None),
        }
    }

    fn heads_failure(&self, error: Box<dyn std::error::Error + Send + Sync>) -> PairError {
        PairError::Heads { path: place(self.heads.as_deref()), error }
    }

    /// Bytes of the target model, if it is a file.
    pub fn target_gguf(&self) -> Result<Cow<'static, [u8]>, PairError> {
        read(self.target.as_deref(), TARGET).map_err(|error| failure("target model", self.target.as_deref(), error))
    }

    /// Bytes of the draft model as one file, for the browser: GGUF as it is, a checkpoint as [`checkpoint_in_one_file`]
    /// makes it.
    pub fn draft_file(&self) -> Result<Cow<'static, [u8]>, PairError> {
        let path = self.draft.as_deref();
        let bytes = match path.filter(|path| path.extension().is_none_or(|kind| kind != "gguf")) {
            Some(path) => checkpoint_in_one_file(path).map(Cow::Owned),
            None if path.and_then(gguf_part_names).is_some_and(|names| names.len() > 1) => {
                return Err(PairError::DraftForBrowsers { path: place(path) });
            }
            None => read(path, DRAFT),
        };
        bytes.map_err(|error| failure("draft model", path, error))
    }
}

/// Default limit on the rounds of a session in flight.
pub const MAX_IN_FLIGHT: u8 = 8;

/// Limit on the live branches of guesses: more than are ever worth their rows.
pub const MAX_BRANCHES: u8 = 16;

/// Description of a target for sessions, with at most [`MAX_IN_FLIGHT`] rounds in flight.
pub fn target_info(target: &Model, tokenizer: &Tokenizer, max_draft_tokens: u8) -> Result<TargetInfo, PairError> {
    info_of(target.config(), tokenizer, max_draft_tokens)
}

/// Description of a target with this configuration, for sessions, wherever it runs.
pub fn info_of(config: &ModelConfig, tokenizer: &Tokenizer, max_draft_tokens: u8) -> Result<TargetInfo, PairError> {
    check_vocabulary("target model", config.vocab_size, tokenizer)?;
    Ok(TargetInfo {
        vocab_size: config.vocab_size as u32,
        tokenizer_hash: tokenizer.fingerprint(),
        limits: Limits {
            context_length: config.context_length as u32,
            max_draft_tokens,
            max_in_flight: MAX_IN_FLIGHT,
            max_guesses: MAX_DRAFT_TOKENS,
            max_branches: MAX_BRANCHES,
            own_draws: false,
            fewest_passes: false,
        },
        eos_ids: end_ids(config, tokenizer),
    })
}

/// The ids that end a text: the model's own, and the special token that ends a turn in the chat template of a GGUF
/// file.
///
/// Many converted files name only the end of a document (`tokenizer.ggml.eos_token_id`), without `eot_token_id`.
/// llama.cpp looks for the same texts.
fn end_ids(config: &ModelConfig, tokenizer: &Tokenizer) -> Vec<u32> {
    const TURN_ENDS: [&str; 5] = ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|END_OF_TURN_TOKEN|>"];
    // In channels a turn has several messages, each with an <|end|>.
    const CHANNEL_ENDS: [&str; 2] = ["<|return|>", "<|call|>"];
    let mut ids = config.eos_token_ids.clone();
    let has_channels = tokenizer.has_channels();
    let template = config.chat_template.as_deref().unwrap_or_default();
    let ends: &[&str] = if has_channels { &CHANNEL_ENDS } else { &TURN_ENDS };
    let ends = ends.iter().filter(|text| (has_channels || template.contains(**text)) && tokenizer.is_special(text));
    for id in ends.filter_map(|text| tokenizer.token_id(text)) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// Display name of a model: that of its file without extension, of its folder, or of its repository on the hub.
pub fn name(path: Option<&Path>, built_in: &str) -> String {
    let Some(path) = path else { return built_in.to_owned() };
    // All safetensors files of the hub have the same name.
    let is_nameless = path.file_name().is_some_and(|name| name == "model.safetensors");
    let named = if is_nameless { path.parent().unwrap_or(path) } else { path };
    if let Some(name) = hub::name_of_snapshot(named) {
        return name;
    }
    let name = if named.is_dir() { named.file_name() } else { named.file_stem() };
    name.map_or_else(|| built_in.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Description of a draft for sessions, without its heads.
pub fn draft_info(draft: &Model, tokenizer: &Tokenizer) -> Result<DraftInfo, PairError> {
    let config = draft.config();
    check_vocabulary("draft model", config.vocab_size, tokenizer)?;
    Ok(DraftInfo {
        vocab_size: config.vocab_size as u32,
        tokenizer_hash: tokenizer.fingerprint(),
        context_length: config.context_length as u32,
        heads: None,
        guess_chance: config.guess_chance.map(GuessChance::weights),
    })
}

/// Converts heads from their file for use in sessions.
///
/// # Errors
/// If numbers are missing or not finite, or if there is a wrong number of them.
pub fn heads(file: &HeadsFile) -> Result<Arc<Heads>, HeadError> {
    let head = |head: &Option<LinearHead>| {
        let seeing = |head: &LinearHead| Head::new(head.weights.clone(), head.bias, head.token.clone());
        head.as_ref().map(seeing).transpose()
    };
    Ok(Arc::new(Heads { gate: head(&file.gate)?, stop: head(&file.stop)?, threshold: file.metadata.tau }))
}

/// Cuts a model of `rows` rows to the tokens of a tokenizer, by calling `cut`.
fn fit(
    what: &'static str,
    rows: usize,
    tokenizer: &Tokenizer,
    cut: impl FnOnce(usize) -> Result<(), LoadError>,
) -> Result<(), PairError> {
    let tokens = tokenizer.vocab_size();
    if tokens > rows {
        return Err(PairError::Vocabulary { what, model: rows, tokenizer: tokens });
    }
    // A draft whose rows stand for tokens that the tokenizer lacks.
    cut(tokens).map_err(|_| PairError::Vocabulary { what, model: rows, tokenizer: tokens })
}

/// Fails unless model and tokenizer have equally many tokens: with an extra row at one end, the distributions that a
/// session compares would differ.
fn check_vocabulary(what: &'static str, model: usize, tokenizer: &Tokenizer) -> Result<(), PairError> {
    let tokenizer = tokenizer.vocab_size();
    if tokenizer == model { Ok(()) } else { Err(PairError::Vocabulary { what, model, tokenizer }) }
}

fn open(what: &'static str, path: Option<&Path>, built_in: &[u8]) -> Result<Model, PairError> {
    let model = match path {
        Some(path) => Model::open(path),
        None => Model::from_gguf(&mut Cursor::new(built_in)),
    };
    model.map_err(|error| failure(what, path, error))
}

fn read(path: Option<&Path>, built_in: &'static [u8]) -> Result<Cow<'static, [u8]>, LoadError> {
    Ok(match path {
        Some(path) => fs::read(path)?.into(),
        None => built_in.into(),
    })
}

/// Address of a target that is an engine elsewhere, and the way it is used.
fn remote_engine(target: &Path) -> Option<(Way, &str)> {
    let (name, address) = target.to_str()?.split_once(':')?;
    match name {
        "openai" => Some((Way::Asked, address)),
        "vllm" => Some((Way::Streamed, address)),
        _ => None,
    }
}

fn hub_hint(name: &str) -> String {
    format!("; write {name} for the model of this name on Hugging Face's hub")
}

fn failure(what: &'static str, path: Option<&Path>, error: LoadError) -> PairError {
    PairError::Load { what, path: place(path), error }
}

fn place(path: Option<&Path>) -> String {
    path.map_or("in the binary".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// llama.cpp ends a turn at these texts too: only control tokens count, and only those that the template writes.
    #[test]
    fn a_turn_ends_where_the_files_template_ends_it() {
        let special = |id: u32, content: &str, special: bool| {
            json!({
                "id": id, "content": content, "special": special, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false,
            })
        };
        let tokenizer = json!({
            "version": "1.0", "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "added_tokens": [special(1, "<|im_end|>", true), special(2, "<|end|>", false), special(3, "<|eot_id|>", true)],
            "model": {
                "type": "WordLevel", "unk_token": "a",
                "vocab": { "a": 0, "<|im_end|>": 1, "<|end|>": 2, "<|eot_id|>": 3 },
            },
        });
        let tokenizer = Tokenizer::from_bytes(tokenizer.to_string().as_bytes()).unwrap();
        let mut config = PairPaths::default().draft().unwrap().config().clone();
        config.eos_token_ids = vec![0];
        for (template, expected) in [
            (None, vec![0]),
            (Some("{{ message.content }}<|im_end|><|end|>"), vec![0, 1]),
            (Some("<|eot_id|>"), vec![0, 3]),
        ] {
            config.chat_template = template.map(ToOwned::to_owned);
            assert_eq!(end_ids(&config, &tokenizer), expected, "{template:?}");
        }
    }
}
