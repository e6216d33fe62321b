//! Reader for the reasoning before an answer: the text up to `</think>`, as Qwen, DeepSeek and others write it.

use super::calls::overlap;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Incremental reader that separates the reasoning at the beginning of a text from the answer after it.
#[derive(Debug, Clone)]
pub struct ReasoningReader {
    state: State,
    /// Text that has not been returned yet.
    held: String,
}

/// Part of the text that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first word, which may be the opening tag.
    Start,
    /// Before the first word of the reasoning.
    Opened,
    Reasoning,
    /// Before the first word of the answer.
    Between,
    Answer,
}

impl ReasoningReader {
    /// Tag that ends the reasoning.
    pub const END: &str = CLOSE;

    /// Creates a reader of the text after a prompt, of which `tail` is the end: some templates open the reasoning
    /// themselves.
    pub(super) fn after(tail: &str) -> Self {
        let opens = tail.trim_end().ends_with(OPEN);
        Self { state: if opens { State::Opened } else { State::Start }, held: String::new() }
    }

    /// Returns true if the text is within the reasoning: before any text, if the prompt has opened it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Opened | State::Reasoning)
    }

    /// Adds text and returns the reasoning and the answer that have become certain.
    pub fn push(&mut self, text: &str) -> (String, String) {
        self.held.push_str(text);
        let (mut reasoning, mut answer) = (String::new(), String::new());
        loop {
            match self.state {
                State::Start => {
                    let begin = self.held.trim_start();
                    if let Some(rest) = begin.strip_prefix(OPEN) {
                        (self.state, self.held) = (State::Opened, rest.to_owned());
                    } else if OPEN.starts_with(begin) {
                        return (reasoning, answer);
                    } else {
                        self.state = State::Answer;
                    }
                }
                State::Reasoning => {
                    if let Some(at) = self.held.find(CLOSE) {
                        reasoning.push_str(self.held[..at].trim_end());
                        self.held.drain(..at + CLOSE.len());
                        self.state = State::Between;
                        continue;
                    }
                    // White space before the closing tag is not part of the reasoning.
                    let certain = self.held.len() - overlap(&self.held, CLOSE);
                    let certain = self.held[..certain].trim_end().len();
                    reasoning.extend(self.held.drain(..certain));
                    return (reasoning, answer);
                }
                State::Opened | State::Between => {
                    let white = self.held.len() - self.held.trim_start().len();
                    self.held.drain(..white);
                    if self.held.is_empty() {
                        return (reasoning, answer);
                    }
                    self.state = if self.state == State::Opened { State::Reasoning } else { State::Answer };
                }
                State::Answer => {
                    answer.push_str(&std::mem::take(&mut self.held));
                    return (reasoning, answer);
                }
            }
        }
    }

    /// Ends the text and returns the rest of the reasoning and of the answer.
    pub fn finish(&mut self) -> (String, String) {
        let rest = std::mem::take(&mut self.held);
        match self.state {
            State::Opened | State::Reasoning => (rest, String::new()),
            State::Start | State::Between | State::Answer => (String::new(), rest),
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// Read in pieces of any length, a text gives the same reasoning and answer.
    fn read(tail: &str, text: &str) -> (String, String) {
        let mut found = None;
        for length in 1..=text.len().max(1) {
            let mut reader = ReasoningReader::after(tail);
            let (mut reasoning, mut answer) = (String::new(), String::new());
            let chars: Vec<char> = text.chars().collect();
            let pieces: Vec<String> = chars.chunks(length).map(|piece| piece.iter().collect()).collect();
            let parts = pieces.iter().map(|piece| reader.push(piece)).collect::<Vec<_>>();
            for (more, rest) in parts.into_iter().chain([reader.finish()]) {
                reasoning += &more;
                answer += &rest;
            }
            let pair = (reasoning, answer);
            assert_eq!(*found.get_or_insert_with(|| pair.clone()), pair, "pieces of {length}");
        }
        found.unwrap()
    }

    #[test]
    fn reasoning_ends_at_its_tag() {
        let of = |reasoning: &str, answer: &str| (reasoning.to_owned(), answer.to_owned());
        assert_eq!(read("", "<think>\nso  so\n</think>\n\nYes </think> no"), of("so  so", "Yes </think> no"));
        assert_eq!(read("assistant\n<think>\n", "so < </thin\n</think>Yes"), of("so < </thin", "Yes"));
        assert_eq!(read("<think>\n\n</think>\n\n", "Yes"), of("", "Yes"));
        assert_eq!(read("", " <thin ice"), of("", " <thin ice"));
        assert_eq!(read("", "\n<think>cut"), of("cut", ""));
        assert_eq!(read("", ""), of("", ""));
    }
}
