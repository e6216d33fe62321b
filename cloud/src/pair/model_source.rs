//! Values of `--model`: published pairs, and pairs of files under a name.

use std::{path::PathBuf, str::FromStr};

use super::published;

/// A pair as one value of `--model`: `MODEL`, or `NAME=MODEL[,DRAFT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSource {
    /// Name of the pair for clients, if it is given.
    pub name: Option<String>,
    /// Short name of a published pair; after a name also a path, as `--target` takes it.
    pub target: String,
    /// Draft model, as `--draft` takes it.
    pub draft: Option<PathBuf>,
}

impl FromStr for ModelSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let Some((name, files)) = text.split_once('=') else {
            return Ok(Self { name: None, target: text.to_owned(), draft: None });
        };
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/".contains(letter);
        if name.is_empty() || !name.chars().all(is_allowed) {
            return Err("a model's name has letters, digits, -, _, ., : and / only");
        }
        let (target, draft) = files.split_once(',').map_or((files, None), |(target, draft)| (target, Some(draft)));
        if target.is_empty() || draft.is_some_and(str::is_empty) {
            return Err("after the name come a model and, if it is no published one, a comma and its draft model");
        }
        Ok(Self { name: Some(name.to_owned()), target: target.to_owned(), draft: draft.map(PathBuf::from) })
    }
}

impl ModelSource {
    /// Name by which clients ask for the pair if it is the only one: the given one, or that of a published pair.
    pub fn given_name(&self) -> Option<&str> {
        self.name.as_deref().or(published::is_known(&self.target).then_some(&self.target))
    }

    /// Name by which clients ask for the pair where there are several.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_a_target_and_a_draft_are_read() {
        let source = |name: Option<&str>, target: &str, draft: Option<&str>| {
            Ok(ModelSource {
                name: name.map(str::to_owned),
                target: target.to_owned(),
                draft: draft.map(PathBuf::from),
            })
        };
        for (text, expected) in [
            ("smollm2", source(None, "smollm2", None)),
            ("chat=smollm2", source(Some("chat"), "smollm2", None)),
            ("a/b:8=hf:a/b@main:c.gguf,d.gguf", source(Some("a/b:8"), "hf:a/b@main:c.gguf", Some("d.gguf"))),
            ("s=with=sign.gguf", source(Some("s"), "with=sign.gguf", None)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
        for text in ["=a", "a b=c", "a=", "a=,b", "a=b,", "\"=c"] {
            assert!(text.parse::<ModelSource>().is_err(), "{text}");
        }
    }
}
