//! Where the draft, the target and their tokenizer come from: the command line, or else the pair in the binary.

use std::{
    borrow::Cow,
    fs,
    io::Cursor,
    path::{Path, PathBuf},
    sync::Arc,
};

use outrider_codec::frame::MAX_DRAFT_TOKENS;
use outrider_models::{HeadsError, HeadsFile, LinearHead, LoadError, Model, ModelConfig, StoredModel, Tokenizer};
use outrider_speculation::{
    policy::heads::{Head, HeadError, Heads},
    session::{cloud::TargetInfo, edge::DraftInfo},
};

const DRAFT: &[u8] = include_bytes!("../../pair/draft/draft-q8_0.gguf");
const HEADS: &[u8] = include_bytes!("../../pair/draft/gate.safetensors");
const TARGET: &[u8] = include_bytes!("../../pair/target/target-f16.gguf");
const TOKENIZER: &[u8] = include_bytes!("../../pair/tokenizer.json");

/// Files in place of those in the binary. Draft and target must share the tokenizer.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct PairPaths {
    /// Draft model: a GGUF file, or (for `generate` only) a folder with config.json and model.safetensors
    #[arg(long, value_name = "PATH")]
    pub draft: Option<PathBuf>,
    /// Target model: a GGUF file, a folder with config.json and model.safetensors, or (for `serve` only) openai:URL
    ///
    /// openai:http://HOST:PORT is an engine that serves prompt log-probabilities, such as vLLM; it needs --tokenizer.
    #[arg(long, value_name = "PATH")]
    pub target: Option<PathBuf>,
    /// The tokenizer.json of both
    #[arg(long, value_name = "PATH")]
    pub tokenizer: Option<PathBuf>,
    /// Heads trained on the draft's hidden state (train-gate writes them); a draft given by path has none without
    #[arg(long, value_name = "PATH")]
    pub heads: Option<PathBuf>,
}

/// Why a model or tokenizer cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A file cannot be read or is not what it should be.
    #[error("the {what} {path} cannot be loaded: {error}")]
    Load {
        /// Which.
        what: &'static str,
        /// Where from.
        path: String,
        /// Why not.
        error: LoadError,
    },
    /// The file of heads cannot be read, or they are another draft's.
    #[error("the heads {path} cannot be used: {error}")]
    Heads {
        /// Where from.
        path: String,
        /// Why not.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The target is an engine elsewhere.
    #[error("the target openai:{address} is an engine elsewhere: only `outrider serve` can use one")]
    Elsewhere {
        /// Where.
        address: String,
    },
    /// The tokenizer has more tokens than the model.
    #[error("the tokenizer has {tokenizer} tokens, the {what} only {model}: they do not belong together")]
    Vocabulary {
        /// Which model.
        what: &'static str,
        /// Its vocabulary.
        model: usize,
        /// The tokenizer's.
        tokenizer: usize,
    },
}

impl PairPaths {
    /// The tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer, PairError> {
        let load = |bytes: Result<Cow<'_, [u8]>, LoadError>| Tokenizer::from_bytes(&bytes?);
        load(self.tokenizer_json()).map_err(|error| failure("tokenizer", self.tokenizer.as_deref(), error))
    }

    /// The draft model.
    pub fn draft(&self) -> Result<Model, PairError> {
        open("draft model", self.draft.as_deref(), DRAFT)
    }

    /// The address of the target, if it is an engine elsewhere.
    pub fn engine_address(&self) -> Option<&str> {
        self.target.as_ref()?.to_str()?.strip_prefix("openai:")
    }

    /// The target model.
    pub fn target(&self) -> Result<Model, PairError> {
        if let Some(address) = self.engine_address() {
            return Err(PairError::Elsewhere { address: address.to_owned() });
        }
        open("target model", self.target.as_deref(), TARGET)
    }

    /// The target model as its file has it, for another device than this processor.
    pub fn stored_target(&self) -> Result<StoredModel, PairError> {
        if let Some(address) = self.engine_address() {
            return Err(PairError::Elsewhere { address: address.to_owned() });
        }
        let model = match &self.target {
            Some(path) => StoredModel::open(path),
            None => StoredModel::from_gguf(&mut Cursor::new(TARGET)),
        };
        model.map_err(|error| failure("target model", self.target.as_deref(), error))
    }

    /// The draft's trained heads, if it has any.
    pub fn heads(&self, draft: &Model, tokenizer: &Tokenizer) -> Result<Option<HeadsFile>, PairError> {
        let Some(bytes) = self.heads_safetensors()? else { return Ok(None) };
        let checked = |bytes: &[u8]| -> Result<HeadsFile, HeadsError> {
            let heads = HeadsFile::from_bytes(bytes)?;
            heads.check_draft(draft.config(), tokenizer)?;
            Ok(heads)
        };
        checked(&bytes).map(Some).map_err(|error| self.heads_failure(error.into()))
    }

    /// Their bytes, for the browser.
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

    /// The bytes of the tokenizer, for the browser.
    pub fn tokenizer_json(&self) -> Result<Cow<'static, [u8]>, LoadError> {
        read(self.tokenizer.as_deref(), TOKENIZER)
    }

    /// The bytes of the target model, if it is a file.
    pub fn target_gguf(&self) -> Result<Cow<'static, [u8]>, PairError> {
        read(self.target.as_deref(), TARGET).map_err(|error| failure("target model", self.target.as_deref(), error))
    }

    /// The bytes of the draft model, for the browser.
    pub fn draft_gguf(&self) -> Result<Cow<'static, [u8]>, PairError> {
        read(self.draft.as_deref(), DRAFT).map_err(|error| failure("draft model", self.draft.as_deref(), error))
    }
}

/// How many rounds of a session may be in flight unless the operator says otherwise.
pub const MAX_IN_FLIGHT: u8 = 8;

/// What a session needs to know of a target. [`MAX_IN_FLIGHT`] rounds may be in flight.
pub fn target_info(target: &Model, tokenizer: &Tokenizer, max_draft_tokens: u8) -> Result<TargetInfo, PairError> {
    info_of(target.config(), tokenizer, max_draft_tokens)
}

/// The same of a target of this shape, wherever it runs.
pub fn info_of(config: &ModelConfig, tokenizer: &Tokenizer, max_draft_tokens: u8) -> Result<TargetInfo, PairError> {
    check_vocabulary("target model", config.vocab_size, tokenizer)?;
    Ok(TargetInfo {
        vocab_size: config.vocab_size as u32,
        tokenizer_hash: tokenizer.fingerprint(),
        context_length: config.context_length as u32,
        max_draft_tokens,
        max_in_flight: MAX_IN_FLIGHT,
        max_guesses: MAX_DRAFT_TOKENS,
        eos_ids: config.eos_token_ids.clone(),
    })
}

/// What a model is called: as its file, or as the folder that it is in.
pub fn name(path: Option<&Path>, built_in: &str) -> String {
    let Some(path) = path else { return built_in.to_owned() };
    // All safetensors of the hub have the same name.
    let is_nameless = path.file_name().is_some_and(|name| name == "model.safetensors");
    let named = if is_nameless { path.parent().unwrap_or(path) } else { path };
    let name = if named.is_dir() { named.file_name() } else { named.file_stem() };
    name.map_or_else(|| built_in.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What a session needs to know of a draft.
pub fn draft_info(draft: &Model, tokenizer: &Tokenizer) -> Result<DraftInfo, PairError> {
    let config = draft.config();
    check_vocabulary("draft model", config.vocab_size, tokenizer)?;
    Ok(DraftInfo {
        vocab_size: config.vocab_size as u32,
        tokenizer_hash: tokenizer.fingerprint(),
        context_length: config.context_length as u32,
        heads: None,
    })
}

/// Heads as sessions use them.
///
/// # Errors
/// If their numbers are none that score anything.
pub fn heads(file: &HeadsFile) -> Result<Arc<Heads>, HeadError> {
    let head = |head: &Option<LinearHead>| {
        let seeing = |head: &LinearHead| Head::seeing(head.weights.clone(), head.bias, head.token.clone());
        head.as_ref().map(seeing).transpose()
    };
    Ok(Arc::new(Heads { gate: head(&file.gate)?, stop: head(&file.stop)?, threshold: file.metadata.tau }))
}

fn check_vocabulary(what: &'static str, model: usize, tokenizer: &Tokenizer) -> Result<(), PairError> {
    let tokenizer = tokenizer.vocab_size();
    if tokenizer > model { Err(PairError::Vocabulary { what, model, tokenizer }) } else { Ok(()) }
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

fn failure(what: &'static str, path: Option<&Path>, error: LoadError) -> PairError {
    PairError::Load { what, path: place(path), error }
}

fn place(path: Option<&Path>) -> String {
    path.map_or("in the binary".to_owned(), |path| path.display().to_string())
}
