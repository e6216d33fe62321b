//! Mapping between the tokens of a vocabulary and bytes or characters.

use tokenizers::{DecoderWrapper, Tokenizer};

/// Contribution of a token to a text.
pub(super) enum Part {
    /// Bytes, possibly part of a character.
    Bytes(Vec<u8>),
    /// Whole characters, produced by the configured decoder.
    Text,
}

/// Representation of bytes in a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Every token is a string of bytes, each stored as one character.
    ByteLevel,
    /// Tokens of the form `<0x41>` are bytes; all others are text.
    ByteFallback,
    /// All tokens are text, without byte tokens.
    Text,
}

impl Spelling {
    /// Contribution of a token to a text; `None` for special and unknown tokens.
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

/// Returns whether `is` holds for a decoder or for one nested in it.
fn contains(decoder: &DecoderWrapper, is: fn(&DecoderWrapper) -> bool) -> bool {
    match decoder {
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().any(|decoder| contains(decoder, is)),
        decoder => is(decoder),
    }
}

/// Byte of a token of the form `<0x41>`.
pub(super) fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    match digits.len() {
        2 => u8::from_str_radix(digits, 16).ok(),
        _ => None,
    }
}

/// Byte for which a character stands in byte-level vocabularies. Printable Latin-1 characters stand for themselves; the
/// characters from U+0100 stand for the other 68 bytes in ascending order.
fn byte_of(c: char) -> Option<u8> {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(c) {
        code @ 0..=0xff => u8::try_from(code).ok().filter(printable),
        code => (0..=0xff).filter(|byte| !printable(byte)).nth(code as usize - 0x100),
    }
}
