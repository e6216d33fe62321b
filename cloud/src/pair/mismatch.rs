//! Sources of the meaning of token ids, and the error of two that disagree.

use std::{fmt, path::PathBuf};

pub(super) const DRAFT: &str = "draft model";
pub(super) const TARGET: &str = "target model";

/// Source of the meaning of token ids.
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

/// First token id to which two sources give different tokens, or one gives none.
#[derive(Debug, thiserror::Error)]
#[error(
    "token {id} is {here:?} for the {origin} and {there} for the {other}: they do not belong together; {}",
    advice(.origin, .other)
)]
pub struct Mismatch {
    /// Token id in question.
    pub id: u32,
    /// Token of the id in the first source.
    pub here: String,
    /// First source of tokens.
    pub origin: Origin,
    /// Meaning of the id in the other source.
    pub there: Meaning,
    /// Other source of tokens.
    pub other: Origin,
}

/// Meaning of an id in a source that should have a token for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// Text of the id's token.
    Token(String),
    /// No token: the source has fewer tokens.
    Missing {
        /// Number of tokens in the source.
        tokens: usize,
        /// Number of tokens that was expected.
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

/// Advice to the user about two sources that disagree.
fn advice(origin: &Origin, other: &Origin) -> &'static str {
    use Origin::{Beside, BuiltIn, Given, InFile};
    match (origin, other) {
        (InFile(what, _), Beside(same, _)) if what == same => {
            "remove that tokenizer.json, or give the right one with --tokenizer"
        }
        (BuiltIn(what), _) | (_, BuiltIn(what)) if *what == DRAFT => {
            "without --draft the built-in one drafts, which has another tokenizer: give a draft that shares this one \
             with --draft, or serve without a draft model with --own-draft lookup"
        }
        (BuiltIn(what), _) | (_, BuiltIn(what)) if *what == TARGET => {
            "without --target the built-in one verifies, which has another tokenizer: give a target that shares this \
             one with --target"
        }
        (BuiltIn(_), _) | (_, BuiltIn(_)) => "give the models of this tokenizer with --draft and --target",
        (_, Given(_)) => "give the model's own tokenizer.json with --tokenizer, or leave --tokenizer out",
        _ => "give a draft and a target that share one tokenizer",
    }
}
