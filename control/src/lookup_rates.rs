//! The chance that a looked-up guess is the target's token, by the number of tokens that the text's end repeats.
//!
//! A guess costs no draft, and whether it would have been right is known wherever the text goes on, sent or not. So the
//! rates are measured everywhere, and guesses are made where they are better than the draft model's.

use crate::measure::Mean;

/// Least numbers of repeated tokens of the classes after the first.
const LONGER: [usize; 2] = [8, 16];
/// Rates before any is measured, the number of guesses that they count for, and the most that the past counts for.
const PRIORS: [f64; 3] = [0.4, 0.7, 0.8];
const WEIGHT: f64 = 4.0;
const MEMORY: f64 = 64.0;

/// Shares of right guesses by the length of their match.
#[derive(Debug, Clone, PartialEq)]
pub struct LookupRates([Mean; 3]);

impl Default for LookupRates {
    fn default() -> Self {
        Self(PRIORS.map(|prior| Mean::new(prior, WEIGHT, MEMORY)))
    }
}

impl LookupRates {
    /// Counts a guess after a match of `matched` tokens.
    pub fn observe(&mut self, matched: usize, is_right: bool) {
        self.0[class(matched)].observe(f64::from(u8::from(is_right)));
    }

    /// The rate after a match of `matched` tokens.
    pub fn rate(&self, matched: usize) -> f64 {
        self.0[class(matched)].get()
    }
}

fn class(matched: usize) -> usize {
    LONGER.iter().filter(|least| matched >= **least).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_of_match_has_a_rate_of_its_own() {
        let mut rates = LookupRates::default();
        for _ in 0..200 {
            rates.observe(4, false);
            rates.observe(9, true);
        }
        assert!(rates.rate(7) < 0.05 && rates.rate(8) > 0.95 && rates.rate(15) > 0.95);
        assert_eq!(rates.rate(16), PRIORS[2]);
    }
}
