//! Token ids to text, one by one.
//!
//! The text of a token depends on what stands to its left: SentencePiece's `▁upon` is `upon` at the beginning of a
//! text and ` upon` after another token, and a character may be the bytes of several tokens. A [`TextStream`] knows the
//! left context, which for a completion is the prompt. For well-formed text it gives what the tokenizers crate's
//! `DecodeStream` gives.

use tokenizers::DecoderWrapper;

use super::Tokenizer;

/// Decodes token by token without ever giving half a character.
///
/// All pieces together, [`finish`](Self::finish) included, are what [`Tokenizer::decode`] gives for all ids.
#[derive(Debug, Clone, Default)]
pub struct TextStream {
    /// Bytes that do not yet make a character, fewer than four.
    pending: Vec<u8>,
    /// The last token with a text, which says how the next one joins on.
    context: Option<u32>,
}

impl TextStream {
    /// A stream at the beginning of a text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A stream that continues a prompt, of which it gives no text. A character that the prompt has begun is given
    /// whole.
    #[must_use]
    pub fn after(tokenizer: &Tokenizer, prompt: &[u32]) -> Self {
        let mut stream = Self::new();
        // A character has at most four bytes, and special tokens add none.
        let mut with_text: Vec<u32> =
            prompt.iter().rev().copied().filter(|&id| tokenizer.part(id).is_some()).take(MOST_BYTES).collect();
        while let Some(id) = with_text.pop() {
            stream.push(tokenizer, id);
        }
        stream
    }

    /// The text that has become certain with the token `id`; often the token's own, sometimes none.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        let Some(part) = tokenizer.part(id) else { return String::new() };
        let context = self.context.replace(id);
        match part {
            Part::Bytes(bytes) => {
                self.pending.extend(bytes);
                take_characters(&mut self.pending)
            }
            Part::Text => {
                let mut text = self.finish();
                text.push_str(&tokenizer.joined_to(context, id));
                text
            }
        }
    }

    /// The text of the token `id` alone, were it the next: U+FFFD for bytes that make no character by themselves,
    /// nothing for a special token.
    #[must_use]
    pub fn text_of(&self, tokenizer: &Tokenizer, id: u32) -> String {
        match tokenizer.part(id) {
            None => String::new(),
            Some(Part::Bytes(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Some(Part::Text) => tokenizer.joined_to(self.context, id),
        }
    }

    /// What remains at the end of the text: U+FFFD for an incomplete character.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// The most bytes of a character in UTF-8.
const MOST_BYTES: usize = 4;

/// What a token adds to a text.
enum Part {
    /// Bytes, which may be a part of a character.
    Bytes(Vec<u8>),
    /// Whole characters, by the configured decoder.
    Text,
}

impl Tokenizer {
    /// What a token adds to a text; `None` for special and unknown tokens.
    fn part(&self, id: u32) -> Option<Part> {
        let token = self.inner.id_to_token(id)?;
        if self.inner.get_added_vocabulary().is_special_token(&token) {
            return None;
        }
        Some(match self.spelling {
            Spelling::ByteLevel => {
                let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
                Part::Bytes(bytes.unwrap_or_else(|| token.into_bytes()))
            }
            Spelling::ByteFallback => match fallback_byte(&token) {
                Some(byte) => Part::Bytes(vec![byte]),
                None => Part::Text,
            },
            Spelling::Text => Part::Text,
        })
    }

    /// The text that a token of whole characters adds after another token, or at the beginning of a text.
    fn joined_to(&self, context: Option<u32>, id: u32) -> String {
        // A decoder fails only on a malformed configuration, for which there is no text to give.
        let text = |ids: &[u32]| self.inner.decode(ids, true).unwrap_or_default();
        match context {
            None => text(&[id]),
            Some(context) => text(&[context, id]).get(text(&[context]).len()..).unwrap_or_default().to_owned(),
        }
    }
}

/// How a vocabulary spells bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Every token is a string of bytes, each written as a character.
    ByteLevel,
    /// Tokens of the form `<0x41>` are bytes, and others are text.
    ByteFallback,
    /// All tokens are text.
    Text,
}

impl Spelling {
    pub(super) fn of(tokenizer: &tokenizers::Tokenizer) -> Self {
        let has =
            |is: fn(&DecoderWrapper) -> bool| tokenizer.get_decoder().is_some_and(|decoder| contains(decoder, is));
        if has(|decoder| matches!(decoder, DecoderWrapper::ByteLevel(_))) {
            Self::ByteLevel
        } else if has(|decoder| matches!(decoder, DecoderWrapper::ByteFallback(_))) {
            Self::ByteFallback
        } else {
            Self::Text
        }
    }
}

/// Whether a decoder, or one nested in it, is of a kind.
fn contains(decoder: &DecoderWrapper, is: fn(&DecoderWrapper) -> bool) -> bool {
    match decoder {
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().any(|decoder| contains(decoder, is)),
        decoder => is(decoder),
    }
}

/// The byte of a token of the form `<0x41>`.
pub(super) fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    match digits.len() {
        2 => u8::from_str_radix(digits, 16).ok(),
        _ => None,
    }
}

/// The byte that a character stands for in byte-level vocabularies: printable characters of Latin-1 stand for
/// themselves, the other 68 bytes, in ascending order, for the characters from U+0100.
fn byte_of(c: char) -> Option<u8> {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(c) {
        code @ 0..=0xff => u8::try_from(code).ok().filter(printable),
        code => (0..=0xff).filter(|byte| !printable(byte)).nth(code as usize - 0x100),
    }
}

/// Takes all complete characters, and U+FFFD for bytes that cannot become one, from the front of `pending`.
fn take_characters(pending: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut used = 0;
    for chunk in pending.utf8_chunks() {
        text.push_str(chunk.valid());
        used += chunk.valid().len();
        let invalid = chunk.invalid();
        // At the very end, bytes that could still be continued stay.
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
