//! Choice of the tokenizer of a command's models, with a check that all sources of tokens agree.
//!
//! | source of tokens | compared with |
//! |---|---|
//! | `--tokenizer` | every model; it replaces a tokenizer.json beside a GGUF file that has a vocabulary of its own |
//! | tokenizer.json beside a GGUF file | the vocabulary in that file, of which it must have all tokens |
//! | vocabulary in a GGUF file | the chosen tokenizer |
//! | the built-in pair | the chosen tokenizer, where one of its models is used |
//! | none, for a draft | nothing: drafts made for a target have the target's tokens |
//!
//! The chosen tokenizer is the first of `--tokenizer`, the target's, the draft's and the built-in one.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{BufReader, ErrorKind},
    path::{Path, PathBuf},
};

use outrider_models::{GgufVocabulary, LoadError, Tokenizer, check_model_type, gguf_part_names};

use super::{
    PairError, PairPaths, TOKENIZER, failure,
    mismatch::{DRAFT, Meaning, Mismatch, Origin, TARGET},
    place,
};
use crate::hub::{HubName, PREFIX};

/// Ends of a session that a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The target alone, without a draft model.
    Target,
    /// The draft alone, with the target on a server. A target that is given must have the same tokenizer all the same.
    Draft,
    /// Both the draft and the target.
    Both,
}

impl PairPaths {
    /// Tokenizer of the draft and the target.
    ///
    /// # Errors
    /// The errors of [`tokenizer_for`](Self::tokenizer_for).
    pub fn tokenizer(&self) -> Result<Tokenizer, PairError> {
        Ok(self.tokenizer_with_json()?.0)
    }

    /// Tokenizer of the draft and the target with its tokenizer.json, for the browser.
    ///
    /// # Errors
    /// The errors of [`tokenizer_for`](Self::tokenizer_for).
    pub fn tokenizer_with_json(&self) -> Result<(Tokenizer, Cow<'static, [u8]>), PairError> {
        self.tokenizer_for(Ends::Both)
    }

    /// Tokenizer of the models at these ends, with its tokenizer.json. All sources of tokens have to agree.
    ///
    /// # Errors
    /// [`PairError::NoTokenizer`] if a model has no source of tokens; [`PairError::Mismatch`] if two sources disagree;
    /// [`PairError::Absent`] or [`PairError::Load`] if a file does not exist or cannot be read.
    pub fn tokenizer_for(&self, ends: Ends) -> Result<(Tokenizer, Cow<'static, [u8]>), PairError> {
        let mut taken = self.tokenizer.as_deref().map(Taken::given).transpose()?;
        let is_elsewhere = self.engine_address().is_some();
        let models = [(TARGET, self.target.as_deref().filter(|_| !is_elsewhere)), (DRAFT, self.draft.as_deref())];
        for (what, path) in models {
            if let Some(path) = path {
                taken = Some(self.join(taken, what, path)?);
            }
        }
        let is_built_in = |path: &Option<PathBuf>, without: Ends| path.is_none() && ends != without;
        let built_in = match (is_built_in(&self.draft, Ends::Target), is_built_in(&self.target, Ends::Draft)) {
            (true, true) => Some("pair"),
            (true, false) => Some(DRAFT),
            (false, true) => Some(TARGET),
            (false, false) => None,
        };
        let built_in = built_in.map(|what| Taken::new(Origin::BuiltIn(what), TOKENIZER.into())).transpose()?;
        match (taken, built_in) {
            (Some(taken), Some(built_in)) => {
                taken.belongs_to(&built_in)?;
                Ok(taken.into_parts())
            }
            (Some(one), None) | (None, Some(one)) => Ok(one.into_parts()),
            // A given draft has a tokenizer, or was refused above.
            (None, None) => Err(PairError::NoTokenizer { what: DRAFT, path: place(self.draft.as_deref()) }),
        }
    }

    /// Compares a model's own tokens with the chosen tokenizer, or chooses them if there is none yet.
    fn join(&self, taken: Option<Taken>, what: &'static str, path: &Path) -> Result<Taken, PairError> {
        let Sources { beside, own } = Sources::of(what, path)?;
        let own = own.map(|own| (Origin::InFile(what, path.to_owned()), own));
        // A given tokenizer replaces the tokenizer.json beside the model.
        let given = taken.as_ref().filter(|_| self.tokenizer.is_some());
        if let (Some(given), Some((origin, own))) = (given, &own) {
            given.is_of(origin, own)?;
        }
        let beside = match beside.filter(|_| given.is_none() || own.is_none()) {
            None => None,
            Some(json) => {
                let beside = Taken::new(Origin::Beside(what, path.to_owned()), json.into())?;
                if let Some((origin, own)) = &own {
                    beside.is_of(origin, own)?;
                }
                Some(beside)
            }
        };
        match (taken, beside, own) {
            (None, Some(beside), _) => Ok(beside),
            (None, None, Some((origin, own))) => {
                let json = own.tokenizer_json().map_err(|error| failure(what, Some(path), error))?;
                Taken::new(origin, json.into())
            }
            (Some(taken), Some(beside), _) => {
                beside.belongs_to(&taken)?;
                Ok(taken)
            }
            (Some(taken), None, Some((origin, own))) => {
                differ(own.differs_from(&taken.tokenizer), &origin, &taken.origin)?;
                if !are_alike(own.token_count(), taken.tokenizer.vocab_size()) {
                    taken.is_of(&origin, &own)?;
                    return Err(taken.longer_than(own.token_count(), &origin));
                }
                Ok(taken)
            }
            // A draft made for the target, as by outrider-draft, has the target's tokens.
            (Some(taken), None, None) if self.tokenizer.is_some() || what == DRAFT => Ok(taken),
            (_, None, None) => Err(PairError::NoTokenizer { what, path: place(Some(path)) }),
        }
    }
}

/// The chosen tokenizer and its source.
struct Taken {
    origin: Origin,
    json: Cow<'static, [u8]>,
    tokenizer: Tokenizer,
}

impl Taken {
    fn new(origin: Origin, json: Cow<'static, [u8]>) -> Result<Self, PairError> {
        let tokenizer = Tokenizer::from_bytes(&json).map_err(|error| {
            let path = match &origin {
                Origin::Given(path) => path.clone(),
                Origin::Beside(_, path) => folder(path).join("tokenizer.json"),
                Origin::InFile(_, path) => path.clone(),
                Origin::BuiltIn(_) => return failure("tokenizer", None, error),
            };
            failure("tokenizer", Some(&path), error)
        })?;
        Ok(Self { origin, json, tokenizer })
    }

    fn given(path: &Path) -> Result<Self, PairError> {
        let json = fs::read(path).map_err(|error| failure("tokenizer", Some(path), error.into()))?;
        Self::new(Origin::Given(path.to_owned()), json.into())
    }

    /// Fails if a file's own vocabulary differs from this tokenizer, or has a token that it lacks. Models may have more
    /// rows, since padding rows are no tokens.
    fn is_of(&self, origin: &Origin, own: &GgufVocabulary) -> Result<(), PairError> {
        differ(own.differs_from(&self.tokenizer), origin, &self.origin)?;
        let Some((id, here)) = own.missing_in(&self.tokenizer) else { return Ok(()) };
        let there = Meaning::Missing { tokens: self.tokenizer.vocab_size(), expected: own.token_count() };
        Err(mismatch(id, here.to_owned(), origin, there, &self.origin))
    }

    /// Fails if the tokenizers differ.
    fn belongs_to(&self, other: &Self) -> Result<(), PairError> {
        differ(difference(&self.tokenizer, &other.tokenizer), &self.origin, &other.origin)?;
        let [here, there] = [self, other].map(|taken| taken.tokenizer.vocab_size());
        match are_alike(here, there) {
            true => Ok(()),
            false if here > there => Err(self.longer_than(there, &other.origin)),
            false => Err(other.longer_than(here, &self.origin)),
        }
    }

    /// Error of a source that has the first `tokens` tokens of this tokenizer.
    fn longer_than(&self, tokens: usize, origin: &Origin) -> PairError {
        let here = self.tokenizer.token(tokens as u32).unwrap_or_default();
        let there = Meaning::Missing { tokens, expected: self.tokenizer.vocab_size() };
        mismatch(tokens as u32, here, &self.origin, there, origin)
    }

    fn into_parts(self) -> (Tokenizer, Cow<'static, [u8]>) {
        (self.tokenizer, self.json)
    }
}

/// True for numbers of tokens of one tokenizer. A model may have some more tokens than its draft, but a short tokenizer
/// that begins as a longer one does, such as all single bytes, is another.
fn are_alike(here: usize, there: usize) -> bool {
    here.min(there) >= here.max(there) / 10 * 9
}

/// Fails if there is a difference: an id, its token in the first source and its token in the other.
fn differ(found: Option<(u32, String, String)>, origin: &Origin, other: &Origin) -> Result<(), PairError> {
    match found {
        None => Ok(()),
        Some((id, here, there)) => Err(mismatch(id, here, origin, Meaning::Token(there), other)),
    }
}

fn mismatch(id: u32, here: String, origin: &Origin, there: Meaning, other: &Origin) -> PairError {
    let (origin, other) = (origin.clone(), other.clone());
    PairError::Mismatch(Box::new(Mismatch { id, here, origin, there, other }))
}

/// First id that means different tokens in two tokenizers; one may have more tokens than the other.
fn difference(here: &Tokenizer, there: &Tokenizer) -> Option<(u32, String, String)> {
    let shared = 0..here.vocab_size().min(there.vocab_size()) as u32;
    let mut both = shared.filter_map(|id| Some((id, here.token(id)?, there.token(id)?)));
    both.find(|(_, here, there)| here != there)
}

/// Sources of token ids' meaning that come with a model.
struct Sources {
    /// Bytes of the tokenizer.json in the model's folder.
    beside: Option<Vec<u8>>,
    /// Vocabulary in the model's GGUF file.
    own: Option<GgufVocabulary>,
}

impl Sources {
    fn of(what: &'static str, path: &Path) -> Result<Self, PairError> {
        if !path.exists() {
            return Err(absent(what, path));
        }
        let wrong = |error: LoadError| failure(what, Some(path), error);
        let beside = match fs::read(folder(path).join("tokenizer.json")) {
            Ok(json) => Some(json),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // The family comes first: a tokenizer would not help.
                if let Ok(json) = fs::read(folder(path).join("config.json")) {
                    check_model_type(&json).map_err(wrong)?;
                }
                None
            }
            Err(error) => return Err(wrong(error.into())),
        };
        if path.is_dir() || path.extension().is_none_or(|extension| extension != "gguf") {
            return Ok(Self { beside, own: None });
        }
        // The first file of a model in several files has its metadata.
        let first = gguf_part_names(path).and_then(|names| names.into_iter().next());
        let file = match first {
            None => File::open(path).map_err(LoadError::from),
            Some(name) => File::open(path.with_file_name(&name)).map_err(|error| match error.kind() {
                ErrorKind::NotFound => LoadError::MissingPart { name },
                _ => error.into(),
            }),
        };
        let mut file = BufReader::new(file.map_err(wrong)?);
        Ok(Self { beside, own: GgufVocabulary::read(&mut file).map_err(wrong)? })
    }
}

/// Folder of a model: the model's path, or that of its file.
fn folder(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) }
}

/// Error of a path that does not exist, with the model on the hub that may have been meant.
fn absent(what: &'static str, path: &Path) -> PairError {
    let is_file = |path: &&str| path.ends_with(".gguf") || path.ends_with(".safetensors");
    let name = path.to_str().filter(|path| path.contains(':') || !is_file(path)).map(|path| format!("{PREFIX}{path}"));
    let on_hub = name.filter(|name| matches!(HubName::of(Path::new(name)), Ok(Some(_))));
    PairError::Absent { what, path: place(Some(path)), on_hub }
}

#[cfg(test)]
mod tests;
