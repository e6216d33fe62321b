//! Guesses from the text itself: what followed the same tokens the last time they were written.
//!
//! As in prompt lookup (vLLM's `ngram`) and SuffixDecoding (arXiv 2411.04975), for work that copies: editing a text,
//! answering from a document, code with repetitions.

use std::collections::HashMap;

/// Number of tokens that must have been written before in the same order.
const MATCH: usize = 4;

/// Index of a text's runs of tokens, with the place in it that the end of the text repeats.
#[derive(Debug, Default)]
pub struct Lookup {
    text: Vec<u32>,
    /// Position after the latest occurrence of each run of [`MATCH`] tokens.
    after: HashMap<[u32; MATCH], u32>,
    /// Position in the text whose token is expected next.
    next: Option<usize>,
}

impl Lookup {
    /// Reads a text; quick if it continues the last one.
    pub fn read(&mut self, text: &[u32]) {
        if !text.starts_with(&self.text) {
            *self = Self::default();
        }
        for &token in &text[self.text.len()..] {
            self.push(token);
        }
    }

    fn push(&mut self, token: u32) {
        // A place that went on as expected is kept: it repeats more than the latest run.
        self.next = self.next.filter(|&next| self.text[next] == token).map(|next| next + 1);
        self.text.push(token);
        let Some(run) = self.text.last_chunk::<MATCH>() else { return };
        let earlier = self.after.insert(*run, self.text.len() as u32);
        self.next = self.next.or(earlier.map(|next| next as usize));
    }

    /// At most `count` tokens that followed the same end of a text before; none if it is new.
    #[must_use]
    pub fn guess(&self, count: usize) -> Vec<u32> {
        let Some(next) = self.next else { return Vec::new() };
        // Past its end the text is expected to repeat itself.
        let period = self.text.len() - next;
        (0..count).map(|index| self.text[next + index % period]).collect()
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn guesses(text: &[u32], count: usize) -> Vec<u32> {
        let mut lookup = Lookup::default();
        lookup.read(text);
        lookup.guess(count)
    }

    #[test]
    fn what_followed_the_same_four_tokens_is_guessed() {
        assert_eq!(guesses(&[1, 2, 3, 4, 5, 6, 9, 1, 2, 3, 4], 3), [5, 6, 9]);
        assert!(guesses(&[1, 2, 3, 4, 5, 6, 9, 2, 3, 4], 3).is_empty());
        assert!(guesses(&[], 3).is_empty());
    }

    #[test]
    fn the_latest_place_is_taken_unless_an_earlier_one_has_gone_on_as_expected() {
        assert_eq!(guesses(&[1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 6, 0, 1, 2, 3, 4], 1), [6]);
        // The fifth token agrees with the first place alone.
        assert_eq!(guesses(&[1, 2, 3, 4, 5, 7, 8, 1, 2, 3, 4, 6, 0, 0, 1, 2, 3, 4, 5], 2), [7, 8]);
    }

    #[test]
    fn a_text_that_repeats_itself_is_expected_to_go_on_so() {
        assert_eq!(guesses(&[1, 2, 3, 1, 2, 3, 1], 7), [2, 3, 1, 2, 3, 1, 2]);
    }

    #[test]
    fn a_text_read_in_pieces_gives_the_guesses_of_one_read_at_once() {
        let text: Vec<u32> = (0..200).map(|index: u32| index * index % 7).collect();
        let mut lookup = Lookup::default();
        for end in 0..text.len() {
            lookup.read(&text[..end]);
            assert_eq!(lookup.guess(5), guesses(&text[..end], 5), "after {end} tokens");
        }
        // Another text is read from its beginning.
        lookup.read(&text[5..90]);
        assert_eq!(lookup.guess(5), guesses(&text[5..90], 5));
    }
}
