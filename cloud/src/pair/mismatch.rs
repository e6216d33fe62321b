//! Places that say what the ids of tokens mean, and the error of two that differ.

use std::{fmt, path::PathBuf};

pub(super) const DRAFT: &str = "draft model";
pub(super) const TARGET: &str = "target model";

/// A place that says what the ids of tokens mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The file that `--tokenizer` names.
    Given(PathBuf),
    /// The tokenizer.json in a model's folder.
    Beside(&'static str, PathBuf),
    /// The vocabulary in a model's GGUF file.
    InFile(&'static str, PathBuf),
    /// The built-in draft, target or both.
    BuiltIn(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(path) => write!(f, "given tokenizer {}", path.display()),
            Self::Beside(what, path) => write!(f, "tokenizer.json beside the {what} {}", path.display()),
            Self::InFile(what, path) => write!(f, "{what} {}", path.display()),
            Self::BuiltIn(what) => write!(f, "built-in {what}"),
        }
    }
}

/// The first token of one place that is another token in another place, or none.
#[derive(Debug, thiserror::Error)]
#[error(
    "token {id} is {here:?} for the {origin} and {there} for the {other}: they do not belong together; {}",
    advice(.origin, .other)
)]
pub struct Mismatch {
    /// The id.
    pub id: u32,
    /// The token in the one place.
    pub here: String,
    /// The one place.
    pub origin: Origin,
    /// The token in the other place.
    pub there: Meaning,
    /// The other place.
    pub other: Origin,
}

/// The meaning of an id in a place that should have a token for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// This token.
    Token(String),
    /// No token: the place has fewer.
    Missing {
        /// Tokens of the place.
        tokens: usize,
        /// Tokens that were expected.
        expected: usize,
    },
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => write!(f, "{token:?}"),
            Self::Missing { tokens, expected } => write!(f, "absent ({tokens} tokens instead of {expected})"),
        }
    }
}

/// Advice to the user about two places that differ.
fn advice(origin: &Origin, other: &Origin) -> &'static str {
    use Origin::{Beside, BuiltIn, Given, InFile};
    match (origin, other) {
        (InFile(what, _), Beside(same, _)) if what == same => {
            "remove that tokenizer.json, or give the right one with --tokenizer"
        }
        (_, BuiltIn(what)) if *what == DRAFT => {
            "without --draft the built-in one drafts, which has another tokenizer: give a draft that shares this one \
             with --draft"
        }
        (_, BuiltIn(what)) if *what == TARGET => {
            "without --target the built-in one verifies, which has another tokenizer: give a target that shares this \
             one with --target"
        }
        (_, BuiltIn(_)) => "give the models of this tokenizer with --draft and --target",
        (_, Given(_)) => "give the model's own tokenizer.json with --tokenizer, or leave --tokenizer out",
        _ => "give a draft and a target that share one tokenizer",
    }
}
