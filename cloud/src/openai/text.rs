//! Text of tokens, up to a stop sequence.
//!
//! Text that could be the beginning of a stop sequence is kept back until it is known whether it is.

use outrider_models::{Reach, StopStrings, TextStream, Tokenizer};

/// Puts text together.
#[derive(Debug, Clone)]
pub(super) struct Assembler {
    stream: TextStream,
    stops: StopStrings,
    /// Not given yet. Holds no stop sequence; a proper prefix of one, at most.
    held: String,
}

impl Assembler {
    /// The state before the first token; `stream` knows what stands before that.
    pub(super) fn new(stops: Vec<String>, stream: TextStream) -> Self {
        Self { stream, stops: StopStrings::new(stops), held: String::new() }
    }

    /// The text that is certain with one more token, and whether a stop sequence followed it.
    pub(super) fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> (String, bool) {
        let text = self.stream.push(tokenizer, token);
        self.add(&text)
    }

    /// The text of a token alone, were it the next.
    pub(super) fn text_of(&self, tokenizer: &Tokenizer, token: u32) -> String {
        self.stream.text_of(tokenizer, token)
    }

    /// The rest, at the end of all tokens.
    pub(super) fn finish(&mut self) -> (String, bool) {
        let rest = self.stream.finish();
        let (mut text, stopped) = self.add(&rest);
        if !stopped {
            text.push_str(&std::mem::take(&mut self.held));
        }
        (text, stopped)
    }

    fn add(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        match self.stops.reach(&self.held) {
            Reach::Stop(begin) => {
                let mut given = std::mem::take(&mut self.held);
                given.truncate(begin);
                (given, true)
            }
            Reach::Certain(bytes) => {
                let held = self.held.split_off(bytes);
                (std::mem::replace(&mut self.held, held), false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What comes out of pieces, and what is still held after each.
    fn given(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut assembler = Assembler::new(stops.iter().map(|stop| (*stop).to_owned()).collect(), TextStream::new());
        let mut text = String::new();
        for piece in pieces {
            let (more, stopped) = assembler.add(piece);
            text.push_str(&more);
            if stopped {
                return (text, true);
            }
        }
        let (more, stopped) = assembler.finish();
        (text + &more, stopped)
    }

    #[test]
    fn a_stop_sequence_ends_the_text_wherever_it_is_cut() {
        assert_eq!(given(&["\n\n"], &["a", "\n", "\n", "b"]), ("a".to_owned(), true));
        assert_eq!(given(&["\n\n"], &["a", "\n", "b\n"]), ("a\nb\n".to_owned(), false));
        assert_eq!(given(&["END", "N"], &["aEN", "D"]), ("aE".to_owned(), true));
        assert_eq!(given(&["éé"], &["é", "a", "éé"]), ("éa".to_owned(), true));
        assert_eq!(given(&["aab"], &["a", "a", "a", "b"]), ("a".to_owned(), true));
        assert_eq!(given(&[], &["a", "b"]), ("ab".to_owned(), false));
    }

    #[test]
    fn only_what_may_become_a_stop_sequence_is_kept_back() {
        let mut assembler = Assembler::new(vec!["stop".to_owned()], TextStream::new());
        assert_eq!(assembler.add("a st"), ("a ".to_owned(), false));
        assert_eq!(assembler.add("a"), ("sta".to_owned(), false));
        assert_eq!(assembler.add("b"), ("b".to_owned(), false));
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(text in "[abé]{0,12}", stops in prop::collection::vec("[abé]{1,3}", 0..3), cut in 0usize..12) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let first = stops.iter().filter_map(|stop| text.find(stop)).min();
            let expected = (text[..first.unwrap_or(text.len())].to_owned(), first.is_some());
            let cut = text.floor_char_boundary(cut.min(text.len()));
            let characters: Vec<String> = text.chars().map(String::from).collect();
            let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
            // A stop sequence that is complete sooner ends the text, even if a longer one began before it.
            let (by_character, stopped) = given(&stops, &characters);
            prop_assert!(text.starts_with(&by_character) && stopped == expected.1);
            prop_assert!(stops.iter().all(|stop| !by_character.contains(stop)));
            let (in_two, stopped) = given(&stops, &[&text[..cut], &text[cut..]]);
            prop_assert!(text.starts_with(&in_two) && stopped == expected.1);
            prop_assert_eq!(given(&stops, &[&text]), expected);
        }
    }
}
