//! Stop strings in streamed text.
//!
//! Text that may be the beginning of a stop string is held back until this is decided. Returned text is never taken
//! back and never contains any part of a stop string that followed.

use std::collections::VecDeque;

use crate::tokenizer::{TextStream, Tokenizer};

/// List of strings that end a text.
#[derive(Debug, Clone, Default)]
pub struct StopStrings(Vec<String>);

/// Result of searching a text for stop strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Stop string found, starting at this byte.
    Stop(usize),
    /// No stop string found. This many bytes cannot be part of one, whatever follows.
    Certain(usize),
}

impl StopStrings {
    /// Creates a list; empty strings are dropped.
    #[must_use]
    pub fn new(strings: Vec<String>) -> Self {
        Self(strings.into_iter().filter(|string| !string.is_empty()).collect())
    }

    /// Searches a text that may be continued.
    #[must_use]
    pub fn reach(&self, text: &str) -> Reach {
        if let Some(begin) = self.0.iter().filter_map(|stop| text.find(stop)).min() {
            return Reach::Stop(begin);
        }
        Reach::Certain(text.len() - self.0.iter().map(|stop| overlap(text, stop)).max().unwrap_or(0))
    }
}

/// Length of the longest suffix of `text` that is a proper prefix of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len() - 1);
    (1..=longest).rev().find(|&length| stop.is_char_boundary(length) && text.ends_with(&stop[..length])).unwrap_or(0)
}

/// Text of each token, up to a stop string.
///
/// A token is held back while its text may belong to a stop string. The texts together equal the output of
/// [`TextStream`] up to the first stop string.
#[derive(Debug, Clone, Default)]
pub struct TokenTexts {
    stream: TextStream,
    stops: StopStrings,
    /// Texts of the tokens held back. Together they contain no stop string.
    waiting: VecDeque<String>,
    has_stopped: bool,
}

impl TokenTexts {
    /// Creates the state before the first token; `stream` holds the preceding text.
    #[must_use]
    pub fn new(stops: StopStrings, stream: TextStream) -> Self {
        Self { stops, stream, ..Self::default() }
    }

    /// Text of token `id` alone if it came next (see [`TextStream::text_of`]).
    #[must_use]
    pub fn text_of(&self, tokenizer: &Tokenizer, id: u32) -> String {
        self.stream.text_of(tokenizer, id)
    }

    /// Adds a token and returns the texts of all tokens that have become certain, oldest first. The tokens of a stop
    /// string and those after it get no text.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Vec<String> {
        let text = self.stream.push(tokenizer, id);
        self.add(text)
    }

    /// Ends the text and returns the texts of the tokens held back, and the replacement for an incomplete character.
    pub fn finish(&mut self) -> (Vec<String>, String) {
        let rest = if self.has_stopped { String::new() } else { self.stream.finish() };
        (self.waiting.drain(..).collect(), rest)
    }

    /// Returns true once a stop string has been found.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    fn add(&mut self, text: String) -> Vec<String> {
        if self.has_stopped {
            return Vec::new();
        }
        if self.stops.0.is_empty() {
            return vec![text];
        }
        self.waiting.push_back(text);
        let mut end = match self.stops.reach(&self.waiting.iter().map(String::as_str).collect::<String>()) {
            Reach::Certain(bytes) => bytes,
            Reach::Stop(begin) => {
                self.has_stopped = true;
                return self.before(begin);
            }
        };
        let mut given = Vec::new();
        while self.waiting.front().is_some_and(|text| text.len() <= end) {
            let text = self.waiting.pop_front().unwrap_or_default();
            end -= text.len();
            given.push(text);
        }
        given
    }

    /// Texts that begin before byte `end`; the last one is cut there.
    fn before(&mut self, mut end: usize) -> Vec<String> {
        let mut given = Vec::new();
        for mut text in self.waiting.drain(..) {
            if end == 0 {
                break;
            }
            text.truncate(end);
            end -= text.len();
            given.push(text);
        }
        given
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// Texts returned with each piece and at the end, and the value of `has_stopped`.
    fn given(stops: &[&str], pieces: &[&str]) -> (Vec<Vec<String>>, bool) {
        let mut texts =
            TokenTexts::new(StopStrings::new(stops.iter().map(|&stop| stop.to_owned()).collect()), TextStream::new());
        let mut all: Vec<Vec<String>> = pieces.iter().map(|&piece| texts.add(piece.to_owned())).collect();
        all.push(texts.finish().0);
        (all, texts.has_stopped())
    }

    fn check(stops: &[&str], pieces: &[&str], expected: &[&[&str]], stopped: bool) {
        let expected: Vec<Vec<String>> =
            expected.iter().map(|texts| texts.iter().map(|&text| text.to_owned()).collect()).collect();
        assert_eq!(given(stops, pieces), (expected, stopped), "{stops:?} in {pieces:?}");
    }

    #[test]
    fn a_token_waits_while_it_may_belong_to_a_stop_string() {
        check(&[], &["a", "b"], &[&["a"], &["b"], &[]], false);
        check(&["\n\n"], &["a\n", "b"], &[&[], &["a\n", "b"], &[]], false);
        check(&["\n\n"], &["a\n", "\nb", "c"], &[&[], &["a"], &[], &[]], true);
        check(&["END"], &["x", "E", "N"], &[&["x"], &[], &[], &["E", "N"]], false);
        check(&["END"], &["x", "E", "N", "D."], &[&["x"], &[], &[], &[], &[]], true);
        // A token without text, such as half a character, is returned with its neighbours.
        check(&["éé"], &["", "é", "", "éa"], &[&[""], &[], &[], &[], &[]], true);
        check(&["", "b"], &["a", "cbd"], &[&["a"], &["c"], &[]], true);
    }

    /// The returned text ends at the first stop string, however the text is cut into tokens.
    #[test]
    fn every_way_to_cut_a_text_gives_the_same() {
        let text = "ab\n\nabEND cEN";
        for (stops, end) in [(vec!["\n\n"], 2), (vec!["END", "zz"], 6), (vec!["END!"], 13), (vec!["ab", "b\n"], 0)] {
            for cuts in 0u32..1 << (text.len() - 1) {
                let mut pieces = vec![String::new()];
                for (index, character) in text.chars().enumerate() {
                    pieces.last_mut().unwrap().push(character);
                    if cuts >> index & 1 == 1 {
                        pieces.push(String::new());
                    }
                }
                let (all, stopped) = given(&stops, &pieces.iter().map(String::as_str).collect::<Vec<_>>());
                assert_eq!((all.concat().concat().as_str(), stopped), (&text[..end], end < text.len()), "{pieces:?}");
            }
        }
    }
}
