//! The chance that a guess of the draft model is the target's token.
//!
//! The draft model's own probability q of its guess is no such chance: a small model may be too sure. So guesses are
//! sorted into bins of q, and each bin's chance is the measured share of right guesses.
//! With `n` guesses of which `r` were right and a prior worth `w` guesses at √m, `m` the bin's middle, it is
//! `(r + w·√m) / (n + w)`. The root is a fit: with the shared noise and the built-in pair at T = 0.7 guesses of q =
//! 0.15, 0.33, 0.45 and 0.54 are right at a rate of 0.32, 0.53, 0.63 and 0.77. The chance that several guesses in a row
//! hold is the product of theirs, because each is compared only where those before it were right.

/// Upper ends of the bins of q. Most guesses of a useful draft are in the upper ones.
const ENDS: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
/// Weight of the prior, in guesses.
const PRIOR_WEIGHT: f64 = 8.0;
/// Prior chance of a guess whose probability is not known.
const UNKNOWN: f64 = 0.6;
/// Number of guesses in a bin at which both its counts are halved, so that recent text weighs more.
const MEMORY: f64 = 1024.0;

/// Share of right guesses by the draft model's probability of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    bins: [Bin; ENDS.len()],
    /// Guesses that an engine chose without giving their probability.
    unknown: Bin,
}

/// Counts of one bin of guesses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bin {
    compared: f64,
    right: f64,
}

impl Bin {
    fn observe(&mut self, is_right: bool) {
        if self.compared >= MEMORY {
            (self.compared, self.right) = (self.compared / 2.0, self.right / 2.0);
        }
        self.compared += 1.0;
        self.right += f64::from(is_right);
    }

    fn chance(&self, prior: f64) -> f64 {
        (self.right + PRIOR_WEIGHT * prior) / (self.compared + PRIOR_WEIGHT)
    }
}

impl Calibration {
    /// Records a guess to which the draft model gave the probability `q`, if that is known, and whether the target
    /// wrote the same token.
    pub fn observe(&mut self, q: Option<f64>, is_right: bool) {
        match q {
            Some(q) => self.bins[bin_of(q)].observe(is_right),
            None => self.unknown.observe(is_right),
        }
    }

    /// Chance that a guess of probability `q` is the target's token, if all guesses before it are.
    pub fn chance(&self, q: Option<f64>) -> f64 {
        let Some(q) = q else { return self.unknown.chance(UNKNOWN) };
        let bin = bin_of(q);
        let start = if bin == 0 { 0.0 } else { ENDS[bin - 1] };
        self.bins[bin].chance(((start + ENDS[bin]) / 2.0).sqrt())
    }
}

/// The bin of a probability; what is no probability counts as the nearest.
fn bin_of(q: f64) -> usize {
    ENDS.iter().position(|end| q <= *end).unwrap_or(ENDS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Randomness;

    #[test]
    fn without_measurements_the_chance_is_the_root_of_the_bins_middle() {
        let calibration = Calibration::default();
        for (q, middle) in [(0.0, 0.05), (0.1, 0.05), (0.15, 0.15), (0.93, 0.925), (1.0, 0.995)] {
            assert!((calibration.chance(Some(q)).powi(2) - middle).abs() < 1e-12, "{q}");
        }
        assert_eq!(calibration.chance(None), UNKNOWN);
        assert_eq!(calibration.chance(Some(f64::NAN)), calibration.chance(Some(1.0)));
    }

    /// A draft model that is right with the probability q² has to be believed that, not q. Predicted and measured
    /// shares agree within 0.05 in every bin; the draft's own q does not pass the same test.
    #[test]
    fn chances_become_the_measured_shares() {
        let mut random = Randomness::edge(3);
        let mut calibration = Calibration::default();
        let mut draw = || {
            let q = random.unit();
            (q, random.unit() < q * q)
        };
        for _ in 0..20_000 {
            let (q, is_right) = draw();
            calibration.observe(Some(q), is_right);
        }
        let mut of_bins = [[0.0; 4]; 10];
        for _ in 0..20_000 {
            let (q, is_right) = draw();
            let bin = &mut of_bins[(q * 10.0) as usize];
            for (sum, value) in bin.iter_mut().zip([1.0, f64::from(is_right), calibration.chance(Some(q)), q]) {
                *sum += value;
            }
        }
        let off =
            |which: usize| of_bins.map(|bin| ((bin[which] - bin[1]) / bin[0]).abs()).into_iter().fold(0.0, f64::max);
        assert!(off(2) < 0.05, "calibrated: {}", off(2));
        assert!(off(3) > 0.05, "the planted error, the draft's own probability, is caught");
    }

    #[test]
    fn recent_guesses_weigh_more() {
        let mut calibration = Calibration::default();
        (0..100_000).for_each(|_| calibration.observe(None, true));
        (0..2_048).for_each(|_| calibration.observe(None, false));
        assert!(calibration.chance(None) < 0.3);
    }
}
