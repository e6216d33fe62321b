//! Incremental detokenization of token ids to text.
//!
//! The text of a token depends on its left context: SentencePiece's `▁upon` is `upon` at the beginning of a text and `
//! upon` after another token, and a character may consist of several tokens. A [`TextStream`] keeps the left context,
//! which for a completion is the prompt. For well-formed text its output equals that of the tokenizers crate's
//! `DecodeStream`.

use super::{
    Tokenizer,
    channels::{Channels, Mark},
    spelling::Part,
};

/// Decoder for one token at a time that never returns part of a character.
///
/// The pieces together, including [`finish`](Self::finish), equal [`Tokenizer::decode`] of all ids.
#[derive(Debug, Clone, Default)]
pub struct TextStream {
    /// Bytes of an incomplete character, fewer than four.
    pending: Vec<u8>,
    /// Last token with a text, which determines how the next one is joined.
    context: Option<u32>,
    /// Position among the channels of an answer, if the tokenizer has them.
    channels: Channels,
}

impl TextStream {
    /// Creates a stream at the beginning of a text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a stream that continues a prompt. The prompt's own text is not returned, except that a character it has
    /// begun is returned whole.
    #[must_use]
    pub fn after(tokenizer: &Tokenizer, prompt: &[u32]) -> Self {
        let mut stream = Self::new();
        // The last message says whose text goes on.
        let is_start = |id: &u32| tokenizer.mark(*id) == Some(Mark::Start);
        if let Some(start) = prompt.iter().rposition(is_start) {
            prompt[start..].iter().for_each(|&id| drop(stream.push(tokenizer, id)));
            stream.channels.begin_answer();
            return stream;
        }
        // A character has at most four bytes, and special tokens add none.
        let mut with_text: Vec<u32> =
            prompt.iter().rev().copied().filter(|&id| tokenizer.part(id).is_some()).take(MOST_BYTES).collect();
        while let Some(id) = with_text.pop() {
            stream.push(tokenizer, id);
        }
        stream
    }

    /// Adds token `id` and returns the text that has become certain: often the token's own, sometimes none.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        let Some(part) = tokenizer.part(id) else {
            let Some(mark) = tokenizer.mark(id) else { return String::new() };
            return self.finish() + &self.channels.take(mark);
        };
        let text = self.next(tokenizer, part, id);
        self.channels.text(text)
    }

    /// Adds a token with a text and returns the text that has become certain.
    fn next(&mut self, tokenizer: &Tokenizer, part: Part, id: u32) -> String {
        let context = self.context.replace(id);
        match part {
            Part::Bytes(bytes) => {
                self.pending.extend(bytes);
                take_characters(&mut self.pending)
            }
            Part::Text => {
                let mut text = self.rest();
                text.push_str(&tokenizer.joined_to(context, id));
                text
            }
        }
    }

    /// Text of token `id` alone if it came next: U+FFFD for bytes that do not form a character, nothing for a special
    /// token.
    #[must_use]
    pub fn text_of(&self, tokenizer: &Tokenizer, id: u32) -> String {
        match tokenizer.part(id) {
            None => String::new(),
            Some(Part::Bytes(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Some(Part::Text) => tokenizer.joined_to(self.context, id),
        }
    }

    /// Ends the text and returns the rest: U+FFFD for an incomplete character.
    pub fn finish(&mut self) -> String {
        let rest = self.rest();
        self.channels.text(rest)
    }

    fn rest(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// Maximum number of bytes of a character in UTF-8.
const MOST_BYTES: usize = 4;

impl Tokenizer {
    /// Decodes the tokens `ids` to text. Special tokens and ids outside the vocabulary have no text, except that
    /// gpt-oss's channels get the tags of reasoning and calls; bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = TextStream::new();
        let mut text: String = ids.iter().map(|&id| stream.push(self, id)).collect();
        text.push_str(&stream.finish());
        text
    }

    /// Bytes that a token adds to a text in which another token came before; `None` for special and unknown tokens.
    #[must_use]
    pub fn bytes_of(&self, id: u32) -> Option<Vec<u8>> {
        Some(match self.part(id)? {
            Part::Bytes(bytes) => bytes,
            Part::Text => self.joined_to(Some(id), id).into_bytes(),
        })
    }

    fn mark(&self, id: u32) -> Option<Mark> {
        self.channels.as_ref()?.mark(id)
    }

    fn part(&self, id: u32) -> Option<Part> {
        self.spelling.part(&self.inner, id)
    }

    /// Text that a token of whole characters adds after token `context`, or at the beginning of a text.
    fn joined_to(&self, context: Option<u32>, id: u32) -> String {
        // A decoder fails only on a malformed configuration, for which there is no text.
        let text = |ids: &[u32]| self.inner.decode(ids, true).unwrap_or_default();
        match context {
            None => text(&[id]),
            Some(context) => text(&[context, id]).get(text(&[context]).len()..).unwrap_or_default().to_owned(),
        }
    }
}

/// Takes all complete characters from the front of `pending`, and U+FFFD for bytes that cannot become one.
fn take_characters(pending: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut used = 0;
    for chunk in pending.utf8_chunks() {
        text.push_str(chunk.valid());
        used += chunk.valid().len();
        let invalid = chunk.invalid();
        // Bytes at the very end that could still be continued are kept.
        let incomplete = used + invalid.len() == pending.len()
            && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if !invalid.is_empty() && !incomplete {
            text.push(char::REPLACEMENT_CHARACTER);
            used += invalid.len();
        }
    }
    pending.drain(..used);
    text
}
