//! Guesses from text that is at hand: what followed the same tokens earlier in the text itself, or in a passage that is
//! known beside it.
//!
//! As in prompt lookup (vLLM's `ngram`) and SuffixDecoding (arXiv 2411.04975), for work that copies: editing a text,
//! answering from a document, code with repetitions. Passages are known to the end that guesses alone: documents that
//! a user has open, earlier conversations. The other end learns of them what is guessed, and no guess is made before
//! [`MATCH`] tokens of the text have been those of the passage.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// Number of tokens in the same order after which a passage, or the text's last such place, is taken to go on.
const MATCH: usize = 4;
/// The same of the text itself, whose guesses reveal nothing. Half of all pairs go on otherwise.
const PAIR: usize = 2;
/// The most tokens of all passages; the oldest passage goes first.
const MOST_PASSAGE_TOKENS: usize = 1 << 18;
/// The most tokens by which two places are compared.
const LONGEST_MATCH: usize = 32;

/// Texts that are known beside the one that is written, with an index of their runs of four tokens.
#[derive(Debug, Clone, Default)]
pub struct Passages {
    /// Names and tokens, the oldest first.
    list: VecDeque<(String, Vec<u32>)>,
    /// Passage, counted from the first ever, and position in it after the latest occurrence of each run.
    after: HashMap<[u32; MATCH], (u32, u32)>,
    /// Number of passages that were dropped before the first of the list.
    dropped: u32,
}

impl Passages {
    /// Adds a passage, in place of one of the same name. A longer one than 262,144 tokens is cut.
    pub fn add(&mut self, name: &str, mut tokens: Vec<u32>) {
        self.remove(name);
        tokens.truncate(MOST_PASSAGE_TOKENS);
        let passage = self.dropped + self.list.len() as u32;
        for (run, end) in tokens.windows(MATCH).zip(MATCH..) {
            if let Some(run) = run.first_chunk::<MATCH>() {
                self.after.insert(*run, (passage, end as u32));
            }
        }
        self.list.push_back((name.to_owned(), tokens));
        let first = self.dropped;
        while self.tokens() > MOST_PASSAGE_TOKENS {
            self.list.pop_front();
            self.dropped += 1;
        }
        if self.dropped > first {
            self.after.retain(|_, (passage, _)| *passage >= self.dropped);
        }
    }

    /// Removes the passage of a name. Returns true if there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(index) = self.list.iter().position(|(of, _)| of == name) else { return false };
        self.list.remove(index);
        let kept = std::mem::take(self);
        kept.list.into_iter().for_each(|(name, tokens)| self.add(&name, tokens));
        true
    }

    /// Number of tokens in all passages.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.list.iter().map(|(_, tokens)| tokens.len()).sum()
    }

    fn get(&self, passage: u32) -> &[u32] {
        let index = passage.checked_sub(self.dropped).map(|index| index as usize);
        index.and_then(|index| self.list.get(index)).map_or(&[], |(_, tokens)| tokens)
    }
}

/// Index of a text's runs of tokens, with the place that the end of the text repeats.
#[derive(Debug, Default)]
pub struct Lookup {
    text: Vec<u32>,
    /// Position after the latest occurrence of each run of [`MATCH`] tokens.
    after: HashMap<[u32; MATCH], u32>,
    /// Position after the latest occurrence of each pair of tokens.
    after_pair: HashMap<[u32; PAIR], u32>,
    passages: Arc<Passages>,
    found: Option<Place>,
}

/// The place whose token is expected next.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The passage; `None` for the text itself.
    passage: Option<u32>,
    position: usize,
    /// Number of tokens before it that are the text's last ones, up to [`LONGEST_MATCH`] when it was found.
    matched: usize,
}

impl Lookup {
    /// An index of an empty text beside these passages.
    #[must_use]
    pub fn beside(passages: Arc<Passages>) -> Self {
        Self { passages, ..Self::default() }
    }

    /// Reads a text; quick if it continues the last one.
    pub fn read(&mut self, text: &[u32]) {
        if !text.starts_with(&self.text) {
            *self = Self::beside(std::mem::take(&mut self.passages));
        }
        for &token in &text[self.text.len()..] {
            self.push(token);
        }
    }

    fn push(&mut self, token: u32) {
        // A place that went on as expected is kept: it repeats more than the latest run.
        let kept = self.found.filter(|place| self.at(place) == Some(token));
        self.found = kept.map(|place| Place { position: place.position + 1, matched: place.matched + 1, ..place });
        self.text.push(token);
        let end = self.text.len() as u32;
        let pair = self.text.last_chunk().and_then(|pair| self.after_pair.insert(*pair, end));
        let run = self.text.last_chunk::<MATCH>();
        let earlier = run.and_then(|run| self.after.insert(*run, end));
        // A short match gives way to a longer one.
        if self.found.is_none_or(|place| place.matched < MATCH) {
            let passage = run.and_then(|run| self.passages.after.get(run));
            let other = passage.map(|&(passage, position)| self.place(Some(passage), position));
            let own = [pair, earlier].into_iter().flatten().map(|position| self.place(None, position));
            // The longer match; of equal ones the text's own, and the one that went on as expected.
            self.found = other.into_iter().chain(own).chain(self.found).max_by_key(|place| place.matched);
        }
    }

    /// The token expected at a place; none past the end of a passage.
    fn at(&self, place: &Place) -> Option<u32> {
        match place.passage {
            None => self.text.get(place.position).copied(),
            Some(passage) => self.passages.get(passage).get(place.position).copied(),
        }
    }

    fn place(&self, passage: Option<u32>, position: u32) -> Place {
        let position = position as usize;
        let before = &passage.map_or(&self.text[..], |passage| self.passages.get(passage))[..position];
        let same = before.iter().rev().zip(self.text.iter().rev()).take(LONGEST_MATCH).take_while(|(a, b)| a == b);
        Place { passage, position, matched: same.count() }
    }

    /// Number of tokens that the text's end repeats; 0 where it is new.
    #[must_use]
    pub fn matched(&self) -> usize {
        self.found.map_or(0, |place| place.matched)
    }

    /// At most `count` tokens that followed the same end of a text before; none if it is new.
    #[must_use]
    pub fn guess(&self, count: usize) -> Vec<u32> {
        let Some(Place { passage, position, .. }) = self.found else { return Vec::new() };
        match passage {
            Some(passage) => self.passages.get(passage).iter().skip(position).take(count).copied().collect(),
            None => {
                // Past its end the text is expected to repeat itself.
                let period = self.text.len() - position;
                (0..count).map(|index| self.text[position + index % period]).collect()
            }
        }
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

    /// Guesses after a text beside passages.
    fn beside(passages: &[(&str, &[u32])], text: &[u32], count: usize) -> Vec<u32> {
        let mut all = Passages::default();
        passages.iter().for_each(|(name, tokens)| all.add(name, tokens.to_vec()));
        let mut lookup = Lookup::beside(Arc::new(all));
        lookup.read(text);
        lookup.guess(count)
    }

    #[test]
    fn what_followed_the_same_two_tokens_is_guessed() {
        assert_eq!(guesses(&[1, 2, 5, 6, 9, 1, 2], 3), [5, 6, 9]);
        assert!(guesses(&[1, 2, 5, 6, 9, 2], 3).is_empty());
        assert!(guesses(&[], 3).is_empty());
    }

    #[test]
    fn the_latest_place_is_taken_unless_an_earlier_one_has_gone_on_as_expected() {
        assert_eq!(guesses(&[1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 6, 0, 1, 2, 3, 4], 1), [6]);
        // The fifth token agrees with the first place alone.
        assert_eq!(guesses(&[1, 2, 3, 4, 5, 7, 8, 1, 2, 3, 4, 6, 0, 0, 1, 2, 3, 4, 5], 2), [7, 8]);
    }

    #[test]
    fn a_short_match_gives_way_to_a_longer_one() {
        // After 3, 4 the latest place is 9's; the fourth token shows that the text repeats its beginning.
        let text = [3, 4, 1, 2, 5, 6, 0, 1, 2, 9, 3, 4, 7, 3, 4, 1, 2];
        assert_eq!(guesses(&text[..15], 1), [7]);
        assert_eq!(guesses(&text, 2), [5, 6]);
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

    #[test]
    fn passages_are_continued_up_to_their_ends_after_four_tokens_of_the_text() {
        let passage: &[u32] = &[1, 2, 3, 4, 5, 6];
        assert!(beside(&[("a", passage)], &[0, 2, 3, 4], 3).is_empty(), "three tokens are no match");
        assert_eq!(beside(&[("a", passage)], &[0, 1, 2, 3, 4], 3), [5, 6]);
        assert!(beside(&[("a", passage)], &[0, 1, 2, 3, 4, 9], 3).is_empty());
        assert!(beside(&[("a", passage)], &[1, 2, 3, 4, 5, 6], 3).is_empty());
    }

    #[test]
    fn the_place_with_the_longer_match_is_taken() {
        let (short, long): (&[u32], &[u32]) = (&[8, 1, 2, 3, 4, 5], &[7, 1, 2, 3, 4, 6]);
        for (first, second) in [(short, long), (long, short)] {
            let text = [first, &[0, 7, 1, 2, 3, 4]].concat();
            assert_eq!(beside(&[("a", second)], &text, 1), [6], "{first:?}");
        }
    }

    #[test]
    fn a_passage_is_replaced_removed_and_dropped_once_there_are_too_many() {
        let text = [1, 2, 3, 4];
        let mut passages = Passages::default();
        let after = |passages: &Passages| {
            let mut lookup = Lookup::beside(Arc::new(passages.clone()));
            lookup.read(&text);
            lookup.guess(1)
        };
        passages.add("a", vec![1, 2, 3, 4, 5]);
        passages.add("b", vec![1, 2, 3, 4, 6]);
        assert_eq!(after(&passages), [6]);
        passages.add("b", vec![1, 2, 3, 4, 7]);
        assert_eq!(after(&passages), [7]);
        assert!(passages.remove("b") && !passages.remove("b"));
        assert_eq!(after(&passages), [5]);
        passages.add("long", vec![0; MOST_PASSAGE_TOKENS + 1]);
        assert!(after(&passages).is_empty());
        assert_eq!(passages.tokens(), MOST_PASSAGE_TOKENS);
    }
}
