//! The aim of a plan: to save the edge's time, or the server's.

use outrider_codec::{choices, scheme::Description};

choices! {
    /// The aim by which a mode of drafting ahead is chosen.
    #[derive(Default)]
    Goal: Description {
        /// The most tokens per second.
        #[default]
        Speed = Description {
            name: "speed",
            label: "Speed",
            travels: "the most tokens per second.",
            source: "Outrider",
            options: &[],
        },
        /// The fewest forward passes of the target that cost no speed.
        Passes = Description {
            name: "passes",
            label: "Fewest passes",
            travels: "the fewest forward passes of the server among the modes that are no slower than the server \
                      alone.",
            source: "Outrider",
            options: &[],
        },
    }
}

/// Speed and passes that a plan gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Tokens that are written while the target alone would write one.
    pub speed: f64,
    /// Forward passes of the target per token.
    pub passes: f64,
}

impl Outcome {
    /// The outcome of the target alone, without guesses.
    pub const ALONE: Self = Self { speed: 1.0, passes: 1.0 };
}

impl Goal {
    /// Ranks an outcome: only the order of the values counts. A plan slower than the target alone ranks below one that
    /// is not.
    pub fn merit(self, outcome: Outcome) -> f64 {
        match self {
            Self::Passes if outcome.speed >= 1.0 => 1.0 / outcome.passes.max(f64::MIN_POSITIVE),
            Self::Speed | Self::Passes => outcome.speed,
        }
    }
}
