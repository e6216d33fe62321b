//! What a plan is chosen for: the edge's time, or the server's.

use outrider_codec::{choices, scheme::Description};

choices! {
    /// What a way to write ahead of a text is chosen for.
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
            travels: "the fewest forward passes of the server among the ways that are no slower than the server alone.",
            source: "Outrider",
            options: &[],
        },
    }
}

/// What a plan gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Tokens that are written while the target alone would write one.
    pub speed: f64,
    /// Forward passes of the target per token.
    pub passes: f64,
}

impl Outcome {
    /// Of a target that nobody guesses for.
    pub const ALONE: Self = Self { speed: 1.0, passes: 1.0 };
}

impl Goal {
    /// How good an outcome is: only the order counts. What is slower than the target alone is worse than what is not.
    pub fn merit(self, outcome: Outcome) -> f64 {
        match self {
            Self::Passes if outcome.speed >= 1.0 => 1.0 / outcome.passes.max(f64::MIN_POSITIVE),
            Self::Speed | Self::Passes => outcome.speed,
        }
    }
}
