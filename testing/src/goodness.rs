//! Goodness of fit of samples to a distribution: Pearson's χ² test, and how many samples it takes.
//!
//! With k cells the statistic of samples that follow the distribution is χ² with f = k − 1 degrees of freedom; they are
//! rejected above c, where a false alarm has the probability [`ALARM`]. Samples whose distribution is off by a total
//! variation of d have a noncentral χ², and its noncentrality λ is at least 4Nd² whatever cells the error sits in
//! (Cauchy–Schwarz). Its mean is f + λ and its variance 2(f + 2λ), so that
//!
//! ```text
//! f + λ − z·√(2(f + 2λ)) = c        N = λ / 4d²
//! ```
//!
//! gives the N at which such an error is missed once in 1/Φ(−z) = 1000 times. [`samples`] solves it for the error that
//! the profile is to see: 0.025 on each change, 0.01 with `OUTRIDER_FULL=1`, which `cargo xtask test --full` sets.

use std::{fmt, sync::LazyLock};

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The probability of a false alarm: samples at least as far from their distribution are seen this rarely.
pub const ALARM: f64 = 1e-6;
/// z: an error of the size that is to be seen is missed once in a thousand times.
const POWER: f64 = 3.09;
/// Total-variation errors that are seen: by tests on each change, and by the full ones.
pub const ERRORS: [f64; 2] = [0.025, 0.01];

static IS_FULL: LazyLock<bool> = LazyLock::new(|| std::env::var_os("OUTRIDER_FULL").is_some_and(|value| value == "1"));

/// The total-variation error that statistical tests see in this run.
pub fn error() -> f64 {
    ERRORS[usize::from(*IS_FULL)]
}

/// Number of samples over `cells` cells in which an [`error()`] is seen.
pub fn samples(cells: usize) -> u32 {
    samples_for(cells, error())
}

/// Number of samples over `cells` cells in which this total-variation error is seen.
pub fn samples_for(cells: usize, error: f64) -> u32 {
    let freedom = cells as f64 - 1.0;
    let threshold = ChiSquared::new(freedom).unwrap().inverse_cdf(1.0 - ALARM);
    let seen = |lambda: f64| freedom + lambda - POWER * (2.0 * (freedom + 2.0 * lambda)).sqrt() >= threshold;
    let lambda = (1..).map(f64::from).find(|&lambda| seen(lambda)).expect("it grows with λ");
    (lambda / (4.0 * error * error)).round() as u32
}

/// The cell of a text of `tokens`: the last token counts fastest.
pub fn cell(tokens: &[u32], vocab_size: u32) -> usize {
    tokens.iter().fold(0, |cell, &id| cell * vocab_size as usize + id as usize)
}

/// Counts of the texts of `length` tokens by [`cell`], over as many samples as a test needs; `write` returns the text
/// of a seed.
pub fn histogram(vocab_size: u32, length: usize, mut write: impl FnMut(u64) -> Vec<u32>) -> Vec<u32> {
    let mut counts = vec![0; (vocab_size as usize).pow(length as u32)];
    for seed in 0..samples(counts.len()).into() {
        counts[cell(&write(seed), vocab_size)] += 1;
    }
    counts
}

/// Goodness of fit of samples to a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Probability of samples at least as far from the distribution.
    pub p_value: f64,
    /// Total variation of the relative frequencies.
    pub distance: f64,
}

impl Fit {
    /// Compares samples, counted by cell, with a distribution.
    ///
    /// Cells of probability zero must be empty; cells that expect fewer than five samples are taken together.
    pub fn new(counts: &[u32], distribution: &[f64]) -> Self {
        let n = f64::from(counts.iter().sum::<u32>());
        let frequencies: Vec<f64> = counts.iter().map(|&seen| f64::from(seen) / n).collect();
        Self { p_value: p_value(counts, distribution), distance: distance(&frequencies, distribution) }
    }

    /// Returns true if the samples follow the distribution.
    pub fn is_good(&self) -> bool {
        self.p_value > ALARM
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p = {:e}, total variation {:.4}", self.p_value, self.distance)
    }
}

/// Fails unless samples follow a distribution; `what` names it in the message.
pub fn assert_follows(counts: &[u32], distribution: &[f64], what: impl fmt::Debug) {
    assert!((distribution.iter().sum::<f64>() - 1.0).abs() < 1e-9, "no distribution: {what:?}");
    let fit = Fit::new(counts, distribution);
    assert!(fit.is_good(), "{fit}: {what:?}");
}

/// Fails if samples in which an error was planted follow the distribution.
pub fn assert_caught(counts: &[u32], distribution: &[f64], what: impl fmt::Debug) {
    let fit = Fit::new(counts, distribution);
    assert!(!fit.is_good(), "missed: {fit}: {what:?}");
}

fn p_value(counts: &[u32], distribution: &[f64]) -> f64 {
    assert_eq!(counts.len(), distribution.len());
    let n = f64::from(counts.iter().sum::<u32>());
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut rare_seen, mut rare_expected) = (0.0, 0.0);
    for (&seen, &p) in counts.iter().zip(distribution) {
        let expected = p * n;
        if p == 0.0 && seen > 0 {
            return 0.0;
        } else if expected < 5.0 {
            rare_seen += f64::from(seen);
            rare_expected += expected;
        } else {
            statistic += (f64::from(seen) - expected).powi(2) / expected;
            cells += 1;
        }
    }
    if rare_expected > 0.0 {
        statistic += (rare_seen - rare_expected).powi(2) / rare_expected.max(1.0);
        cells += 1;
    }
    assert!(cells >= 2, "a distribution of one cell tests nothing");
    ChiSquared::new(f64::from(cells - 1)).unwrap().sf(statistic)
}

/// The total variation of two distributions.
pub fn distance(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - q).abs()).sum::<f64>() / 2.0
}
