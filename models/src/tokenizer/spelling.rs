//! Bytes and characters in the tokens of a vocabulary.

use tokenizers::{DecoderWrapper, Tokenizer};

/// The part of a text that a token is.
pub(super) enum Part {
    /// Bytes, which may be a part of a character.
    Bytes(Vec<u8>),
    /// Whole characters, by the configured decoder.
    Text,
}

/// The spelling of bytes in a vocabulary.
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
    /// The part of a text that a token is; `None` for special and unknown tokens.
    pub(super) fn part(self, tokenizer: &Tokenizer, id: u32) -> Option<Part> {
        let token = tokenizer.id_to_token(id)?;
        if tokenizer.get_added_vocabulary().is_special_token(&token) {
            return None;
        }
        Some(match self {
            Self::ByteLevel => {
                let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
                Part::Bytes(bytes.unwrap_or_else(|| token.into_bytes()))
            }
            Self::ByteFallback => match fallback_byte(&token) {
                Some(byte) => Part::Bytes(vec![byte]),
                None => Part::Text,
            },
            Self::Text => Part::Text,
        })
    }

    pub(super) fn of(tokenizer: &Tokenizer) -> Self {
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

/// Checks if a decoder, or one nested in it, is of a kind.
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
