//! Whether samples follow a law: Pearson's χ² test.
//!
//! With N samples a total-variation error d moves the statistic by at least 4Nd² (Cauchy–Schwarz), whatever cells it
//! sits in. At N = 400 000 and d = 0.01 that is 160; with 63 degrees of freedom (deviation 11) the threshold for one
//! false alarm in a million is 132, so such an error is caught with near certainty.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Samples that suffice for a total-variation error of 0.01 on up to 64 cells.
pub const SAMPLES: u32 = 400_000;
/// A law is rejected if samples at least as far from it would be seen this rarely.
pub const ALARM: f64 = 1e-6;

/// How often samples at least as far from `law` as `counts` are seen if it is true. Cells of probability zero must be
/// empty; cells that expect fewer than five samples are taken together.
pub fn p_value(counts: &[u32], law: &[f64]) -> f64 {
    assert_eq!(counts.len(), law.len());
    let n = f64::from(counts.iter().sum::<u32>());
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut rare_seen, mut rare_expected) = (0.0, 0.0);
    for (&seen, &p) in counts.iter().zip(law) {
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
    assert!(cells >= 2, "a law of one cell tests nothing");
    ChiSquared::new(f64::from(cells - 1)).unwrap().sf(statistic)
}

/// Half the summed distance of the relative frequencies from the law.
pub fn total_variation(counts: &[u32], law: &[f64]) -> f64 {
    let n = f64::from(counts.iter().sum::<u32>());
    counts.iter().zip(law).map(|(&seen, &p)| (f64::from(seen) / n - p).abs()).sum::<f64>() / 2.0
}
