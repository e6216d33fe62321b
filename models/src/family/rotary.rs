//! Rotary position embedding: rotated elements of a head, and their frequencies.

use crate::error::{LoadError, invalid};

/// Rotary embedding of queries and keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    /// Base θ of the frequencies.
    pub theta: f32,
    /// Scaling of the frequencies for long contexts.
    pub scaling: RopeScaling,
    /// Pairing of the rotated elements.
    pub layout: RopeLayout,
    /// Number of rotated elements at the start of a head, even; all of them if absent.
    pub dimensions: Option<usize>,
    /// Factor of sines and cosines.
    pub magnitude: f32,
}

/// Scaling of rotary frequencies relative to θ^(−2i/d).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Frequencies are not scaled.
    None,
    /// All frequencies are divided by one factor.
    Linear {
        /// Divisor of all frequencies.
        factor: f32,
    },
    /// Each frequency has its own divisor; there are half as many as rotated elements.
    PerFrequency {
        /// Divisors, highest frequency first.
        factors: Vec<f32>,
    },
}

/// Pairing of a head's elements into planes of rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Elements 2i and 2i + 1: some architectures' GGUF files, whose query and key rows are permuted accordingly.
    Interleaved,
    /// Elements i and i + n/2 of n rotated ones: Hugging Face checkpoints.
    HalfSplit,
}

impl Default for Rotary {
    fn default() -> Self {
        Self {
            theta: 10_000.0,
            scaling: RopeScaling::None,
            layout: RopeLayout::HalfSplit,
            dimensions: None,
            magnitude: 1.0,
        }
    }
}

impl Rotary {
    /// Number of rotated elements in a head.
    #[must_use]
    pub fn rotated(&self, head_dim: usize) -> usize {
        self.dimensions.unwrap_or(head_dim)
    }

    /// Radians per position for each pair of rotated elements, highest first.
    #[must_use]
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let dimensions = self.rotated(head_dim);
        let frequency = |i: usize| {
            let exponent = 2.0 * i as f64 / dimensions as f64;
            let frequency = libm::pow(f64::from(self.theta), -exponent) as f32;
            match &self.scaling {
                RopeScaling::None => frequency,
                RopeScaling::Linear { factor } => frequency / factor,
                RopeScaling::PerFrequency { factors } => frequency / factors[i],
            }
        };
        (0..dimensions / 2).map(frequency).collect()
    }

    pub(super) fn validate(&self, head_dim: usize) -> Result<(), LoadError> {
        let rotated = self.rotated(head_dim);
        if rotated == 0 || rotated > head_dim || !rotated.is_multiple_of(2) {
            return Err(invalid("rotary dimensions", rotated, "even, at most head_dim"));
        }
        for (key, value) in [("rope_theta", self.theta), ("rotary attention factor", self.magnitude)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(invalid(key, value, "finite and positive"));
            }
        }
        let factors: &[f32] = match &self.scaling {
            RopeScaling::None => &[],
            RopeScaling::Linear { factor } => std::slice::from_ref(factor),
            RopeScaling::PerFrequency { factors } => factors,
        };
        if let Some(factor) = factors.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
            return Err(invalid("rope_scaling", factor, "factors that are finite and positive"));
        }
        match &self.scaling {
            RopeScaling::PerFrequency { factors } if factors.len() != rotated / 2 => {
                Err(invalid("rope_scaling", factors.len(), "half as many factors as elements are rotated"))
            }
            _ => Ok(()),
        }
    }
}

/// Llama 3.1's scaling by frequency: wavelengths below `context / high` are kept and those above `context / low`
/// stretched by `factor`. In between, the two frequencies are interpolated linearly.
pub(super) struct Llama3Scaling {
    pub(super) factor: f32,
    pub(super) low: f32,
    pub(super) high: f32,
    pub(super) context: f32,
}

impl Llama3Scaling {
    pub(super) fn factors(&self, theta: f32, dimensions: usize) -> Vec<f32> {
        let scale = |i: usize| {
            let exponent = 2.0 * i as f64 / dimensions as f64;
            let frequency = f64::from(theta).powf(-exponent);
            let wavelength = std::f64::consts::TAU / frequency;
            let turns = f64::from(self.context) / wavelength;
            if turns > f64::from(self.high) {
                1.0
            } else if turns < f64::from(self.low) {
                self.factor
            } else {
                let kept = (turns - f64::from(self.low)) / f64::from(self.high - self.low);
                mixed(kept, self.factor)
            }
        };
        (0..dimensions / 2).map(scale).collect()
    }
}

/// YaRN scaling (Peng et al. 2023, <https://arxiv.org/abs/2309.00071>, §3.2). Frequencies that turn more than `fast`
/// times in the original context are kept, and those that turn less than `slow` times are stretched by `factor`. In
/// between, the two are interpolated linearly by index.
pub(super) struct Yarn {
    pub(super) factor: f32,
    pub(super) fast: f32,
    pub(super) slow: f32,
    pub(super) context: f32,
    /// True if the bounds of the interpolation are rounded to whole indices.
    pub(super) whole: bool,
}

impl Yarn {
    pub(super) fn factors(&self, theta: f32, dimensions: usize) -> Vec<f32> {
        let index = |turns: f32| {
            let wavelengths = f64::from(self.context) / (f64::from(turns) * std::f64::consts::TAU);
            dimensions as f64 * wavelengths.ln() / (2.0 * f64::from(theta).ln())
        };
        let (low, high) = (index(self.fast), index(self.slow));
        let (low, high) = if self.whole { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(dimensions as f64 - 1.0));
        let width = if low == high { 0.001 } else { high - low };
        let scale = |i: usize| mixed(1.0 - ((i as f64 - low) / width).clamp(0.0, 1.0), self.factor);
        (0..dimensions / 2).map(scale).collect()
    }

    /// Factor of sines and cosines if a file has none: §3.4's √(1/t), for `weight` 1.
    pub(super) fn magnitude(factor: f32, weight: f32) -> f32 {
        if factor > 1.0 { 0.1 * weight * factor.ln() + 1.0 } else { 1.0 }
    }
}

/// Divisor of a frequency of which the fraction `kept` is unscaled and the rest stretched by `factor`.
fn mixed(kept: f64, factor: f32) -> f32 {
    (1.0 / ((1.0 - kept) / f64::from(factor) + kept)) as f32
}
