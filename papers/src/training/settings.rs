//! Settings of a training.

use outrider_codec::frame::SamplingParameters;

/// Settings of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Texts of all kinds together; four for every prompt.
    pub texts: usize,
    /// Tokens of a text at most, its beginning included.
    pub length: usize,
    /// Sampling parameters S of both models.
    pub sampling: SamplingParameters,
    /// λ: a token is acceptable if q ≤ λ·p.
    pub lambda: f64,
    /// τ: the gate passes a token at this score and above.
    pub threshold: f64,
    /// True if the heads see the token that they judge.
    pub sees_token: bool,
    /// Decides everything that is drawn.
    pub seed: u64,
}

impl Default for Settings {
    /// Settings for the sampling that sessions have by default.
    fn default() -> Self {
        Self {
            texts: 600,
            length: 128,
            sampling: SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 },
            lambda: 1.2,
            threshold: 0.5,
            sees_token: true,
            seed: 1,
        }
    }
}
