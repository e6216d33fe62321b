//! Guesses that are looked up: what followed the text's end earlier, in itself or in passages beside it.

use std::sync::Arc;

use super::{learned::Lessons, text::Text};
use crate::{control::lookup_rates::LookupRates, draft::Lookup};

/// Least probability that a guess and those before it are right, for the guess to be worth its row.
const LEAST: f64 = 0.05;
/// Highest rate that is believed: it ends a run of guesses after some 300.
const SUREST: f64 = 0.99;

/// The index of one text, and the rates at which its guesses were right.
#[derive(Debug)]
pub(super) struct Recall {
    lookup: Lookup,
    rates: LookupRates,
}

impl Recall {
    pub(super) fn new(lessons: &mut Lessons) -> Self {
        Self { lookup: Lookup::beside(Arc::clone(&lessons.passages)), rates: std::mem::take(&mut lessons.lookup_rates) }
    }

    /// Passes on the rates to the next generation.
    pub(super) fn teach(self, lessons: &mut Lessons) {
        lessons.lookup_rates = self.rates;
    }

    /// The rate at which guesses after a match of `matched` tokens are right.
    pub(super) fn rate(&self, matched: usize) -> f64 {
        self.rates.rate(matched)
    }

    /// At most `most` guesses after the text, and the length of their match; none if fewer than the share `least` would
    /// be right.
    pub(super) fn guesses(&mut self, text: &Text, least: f64, most: usize) -> (Vec<u32>, usize) {
        self.lookup.read(text.ids());
        let matched = self.lookup.matched();
        let rate = self.rate(matched);
        if matched == 0 || rate < least {
            return (Vec::new(), matched);
        }
        let worth = (LEAST.ln() / rate.min(SUREST).ln()) as usize;
        let guesses = self.lookup.guess(worth.min(most));
        // Nothing follows the end of a text.
        let end = guesses.iter().position(|&id| text.is_end(id)).map_or(guesses.len(), |end| end + 1);
        let known = guesses[..end].iter().take_while(|&&id| id < text.vocab_size());
        (known.copied().collect(), matched)
    }

    /// The text is about to go on by a token.
    pub(super) fn observe(&mut self, text: &Text, token: u32) {
        self.lookup.read(text.ids());
        if let [expected] = self.lookup.guess(1)[..] {
            self.rates.observe(self.lookup.matched(), expected == token);
        }
    }
}
