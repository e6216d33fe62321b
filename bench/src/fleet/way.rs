//! Ways in which texts are written: by vLLM alone, with its own drafts, in rounds, with guesses.

use serde::Serialize;

/// A way in which texts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Way {
    Alone,
    Ngrams,
    OwnDraft,
    Rounds,
    Idle,
    Guesses,
    TwoAlone,
    TwoGuesses,
}

impl Way {
    pub const OF_ONE: [Self; 6] = [Self::Alone, Self::Ngrams, Self::OwnDraft, Self::Rounds, Self::Idle, Self::Guesses];
    pub const OF_TWO: [Self; 2] = [Self::TwoAlone, Self::TwoGuesses];

    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "vLLM alone",
            Self::Ngrams => "vLLM's own n-grams",
            Self::OwnDraft => "vLLM's own draft model",
            Self::Rounds => "openai:",
            Self::Idle => "the proposer, no guesses",
            Self::Guesses => "vllm: with guesses",
            Self::TwoAlone => "two workers alone",
            Self::TwoGuesses => "two workers, vllm: with guesses",
        }
    }

    /// The way that this one is compared with.
    pub fn alone(self) -> Self {
        if Self::OF_TWO.contains(&self) { Self::TwoAlone } else { Self::Alone }
    }
}
