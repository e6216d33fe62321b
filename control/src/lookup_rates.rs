//! The chance that a looked-up guess is the target's token, by the number of tokens that the text's end repeats.
//!
//! A guess costs no draft, and whether it would have been right is known wherever the text goes on, sent or not. So the
//! chances are measured everywhere, and guesses are made where they are better than the draft model's. The longer a
//! match the clearer its guess: what one length shows is known of the others as well, within a text of fifty tokens.

use crate::calibration::{Calibration, Clarity};

/// Repeated tokens for which a guess is as clear as one of a draft model with a margin of 1. Before anything was
/// measured the chance is 0.39 after two tokens, 0.52 after four, 0.69 after eight and 0.86 after sixteen.
const CLEAR: f64 = 8.0;
/// Longest match that makes a difference: a copy errs at any length.
const LONG: usize = 16;

/// Chances of right guesses by the length of their match.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LookupRates(Calibration);

impl LookupRates {
    /// Counts a guess after a match of `matched` tokens.
    pub fn observe(&mut self, matched: usize, is_right: bool) {
        self.0.observe(clarity(matched), is_right);
    }

    /// The chance after a match of `matched` tokens.
    pub fn rate(&self, matched: usize) -> f64 {
        self.0.chance(clarity(matched))
    }
}

fn clarity(matched: usize) -> Option<Clarity> {
    Some(Clarity { margin: matched.min(LONG) as f64 / CLEAR, probability: 0.0, run: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_matches_are_right_more_often_as_far_as_they_are() {
        let mut rates = LookupRates::default();
        let before = [2, 4, 8, 16].map(|matched| (100.0 * rates.rate(matched)).round());
        assert_eq!(before, [39.0, 52.0, 69.0, 86.0]);
        assert_eq!(rates.rate(100), rates.rate(16));
        for _ in 0..200 {
            rates.observe(4, false);
            rates.observe(12, true);
        }
        assert!(rates.rate(4) < 0.15 && rates.rate(12) > 0.85, "{rates:?}");
    }

    /// A text that copies another has some forty tokens; the first ten must show it.
    #[test]
    fn ten_guesses_tell_a_copy_from_a_chat() {
        for (is_right, least, most) in [(true, 0.85, 1.0), (false, 0.0, 0.15)] {
            let mut rates = LookupRates::default();
            (2..12).for_each(|matched| rates.observe(if is_right { matched } else { 2 + matched % 3 }, is_right));
            let chances = [3, 8].map(|matched| rates.rate(matched));
            assert!(chances[usize::from(!is_right)] <= most && chances[1] >= least, "{chances:?}");
        }
    }
}
