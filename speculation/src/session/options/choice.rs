//! Choice of a scheme: who waits for whom, and the content of a draft.

use outrider_codec::{choice::Choice, scheme::SchemeName};

/// A scheme: who waits for whom, and the content of a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemeChoice {
    /// [`Ahead`](Self::Ahead) where server and rule allow it, else rounds of K-SQS.
    Auto,
    /// The target writes, and the edge drafts ahead of it.
    Ahead,
    /// The edge drafts, and the target verifies round by round.
    Rounds(SchemeName),
}

/// All choices: first those that are not names of schemes, then the schemes.
const SCHEME_CHOICES: [SchemeChoice; SchemeName::ALL.len() + 2] = {
    let mut choices = [SchemeChoice::Auto; SchemeName::ALL.len() + 2];
    choices[1] = SchemeChoice::Ahead;
    let mut index = 0;
    while index < SchemeName::ALL.len() {
        choices[index + 2] = SchemeChoice::Rounds(SchemeName::ALL[index]);
        index += 1;
    }
    choices
};

impl Choice for SchemeChoice {
    const ALL: &'static [Self] = &SCHEME_CHOICES;

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ahead => "ahead",
            Self::Rounds(scheme) => scheme.name(),
        }
    }
}

impl From<SchemeName> for SchemeChoice {
    fn from(scheme: SchemeName) -> Self {
        Self::Rounds(scheme)
    }
}

impl SchemeChoice {
    /// The scheme of its rounds, where there are any.
    pub(crate) fn rounds(self) -> SchemeName {
        if let Self::Rounds(scheme) = self { scheme } else { SchemeName::KSqs }
    }
}
