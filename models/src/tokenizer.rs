//! Text to token ids and back.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use tokenizers::{DecoderWrapper, Encoding, PostProcessor, PostProcessorWrapper, Token};

use crate::error::{EncodeError, LoadError};

/// A tokenizer in Hugging Face's `tokenizer.json` form.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    bytes: Bytes,
    vocab_size: usize,
    /// In bytes, as it stands in the vocabulary: what it is in a text is no longer.
    longest_token: usize,
    fingerprint: [u8; 32],
    /// The ids that its template puts before a text, if it has one.
    beginning: Option<Vec<u32>>,
}

impl Tokenizer {
    /// Reads the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`LoadError::Tokenizer`] with the parser's message.
    pub fn from_bytes(json: &[u8]) -> Result<Self, LoadError> {
        let refused = |error: tokenizers::Error| LoadError::Tokenizer(error.to_string());
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(refused)?;
        // Limits of a training run, which are none of a prompt's.
        inner.with_truncation(None).map_err(refused)?.with_padding(None);
        let beginning = beginning(&inner);
        let entries: BTreeSet<(u32, String)> =
            inner.get_vocab(true).into_iter().map(|(token, id)| (id, token)).collect();
        let vocab_size = entries.last().map_or(0, |(id, _)| *id as usize + 1);
        let longest_token = entries.iter().map(|(_, token)| token.len()).max().unwrap_or_default();
        let fingerprint = fingerprint(&entries);
        let bytes = Bytes::of(&inner);
        Ok(Self { inner, bytes, vocab_size, longest_token, fingerprint, beginning })
    }

    /// The token ids of `text`. No token is added at either end. Special tokens that are spelled out in `text` become
    /// their ids, as in the reference implementation; text that is not trusted should not reach this function with them
    /// in it.
    ///
    /// # Errors
    /// [`EncodeError`] if the vocabulary cannot express the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| EncodeError(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The ids of a prompt: what the tokenizer's template puts before a text, or without one the model's
    /// begin-of-sequence token, if it has one; then the text's.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode).
    pub fn encode_prompt(&self, bos: Option<u32>, text: &str) -> Result<Vec<u32>, EncodeError> {
        let mut ids = self.beginning.clone().unwrap_or_else(|| bos.into_iter().collect());
        ids.extend(self.encode(text)?);
        Ok(ids)
    }

    /// The text of `ids`. Special tokens and ids outside the vocabulary give no text; bytes that are not UTF-8
    /// become U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = TextStream::new();
        let mut text: String = ids.iter().map(|&id| stream.push(self, id)).collect();
        text.push_str(&stream.finish());
        text
    }

    /// One more than the largest id. Models may have more rows than that, never fewer.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The most bytes of text that a token is.
    #[must_use]
    pub fn longest_token(&self) -> usize {
        self.longest_token
    }

    /// SHA-256 of what ids mean; two tokenizers with equal fingerprints give every id the same token.
    ///
    /// The hashed bytes are, for every entry of the vocabulary (added tokens included) in ascending order
    /// of id, and of token bytes where an id has several:
    ///
    /// 1. the id as u32, little-endian;
    /// 2. the length of the token in bytes as u32, little-endian;
    /// 3. the UTF-8 bytes of the token as stored in the vocabulary (for byte-level BPE, that is the form in
    ///    which a space is `Ġ`).
    ///
    /// Neither merges nor the layout of the JSON enter. This definition is part of the wire format.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The id of a token given as it is stored in the vocabulary.
    #[must_use]
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// A token as it is stored in the vocabulary, given by its id.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The texts of special tokens: those that mark what a text is, and give no text themselves.
    #[must_use]
    pub fn special_tokens(&self) -> Vec<String> {
        let added = self.inner.get_added_tokens_decoder();
        let texts = added.values().filter(|token| token.special).map(|token| token.content.clone());
        texts.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// An incremental decoder, at the beginning of a text.
    #[must_use]
    pub fn decode_stream(&self) -> TextStream {
        TextStream::new()
    }

    /// What a token contributes to the text; nothing for special and unknown tokens.
    fn meaning(&self, id: u32) -> Option<Meaning> {
        let token = self.inner.id_to_token(id)?;
        if self.inner.get_added_vocabulary().is_special_token(&token) {
            return None;
        }
        Some(match self.bytes {
            Bytes::Level => {
                let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
                Meaning::Bytes(bytes.unwrap_or_else(|| token.into_bytes()))
            }
            Bytes::Fallback => match fallback_byte(&token) {
                Some(byte) => Meaning::Bytes(vec![byte]),
                None => Meaning::Text,
            },
            Bytes::None => Meaning::Text,
        })
    }

    /// The text of a few tokens by the configured decoder.
    fn joined(&self, ids: &[u32]) -> String {
        // A decoder fails only on a malformed configuration, for which there is no text to give.
        self.inner.decode(ids, true).unwrap_or_default()
    }
}

/// The ids that a template puts before a text.
fn beginning(tokenizer: &tokenizers::Tokenizer) -> Option<Vec<u32>> {
    let template = match tokenizer.get_post_processor()? {
        PostProcessorWrapper::Template(template) => template,
        PostProcessorWrapper::Sequence(sequence) => sequence.as_ref().iter().find_map(|processor| match processor {
            PostProcessorWrapper::Template(template) => Some(template),
            _ => None,
        })?,
        _ => return None,
    };
    let ids = |encoding: Encoding| encoding.get_ids().to_vec();
    let (one, text) = (Encoding::from_tokens(vec![Token::new(u32::MAX, String::new(), (0, 0))], 0), u32::MAX);
    let whole = template.process(one, None, true).ok().map(ids)?;
    Some(whole.into_iter().take_while(|&id| id != text).collect())
}

/// How a vocabulary spells bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bytes {
    /// Every token is a string of bytes, each written as a character.
    Level,
    /// There is a token `<0x41>` for each byte, and others are text.
    Fallback,
    /// All tokens are text.
    None,
}

enum Meaning {
    Bytes(Vec<u8>),
    Text,
}

impl Bytes {
    fn of(tokenizer: &tokenizers::Tokenizer) -> Self {
        if matches!(tokenizer.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return Self::Level;
        }
        // The decoder may be nested in others: see what it does.
        let capital_a = tokenizer.token_to_id("<0x41>");
        match capital_a.map(|id| tokenizer.decode(&[id], true)) {
            Some(Ok(text)) if text == "A" => Self::Fallback,
            _ => Self::None,
        }
    }
}

/// The byte of a token of the form `<0x41>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    match digits.len() {
        2 => u8::from_str_radix(digits, 16).ok(),
        _ => None,
    }
}

fn fingerprint(entries: &BTreeSet<(u32, String)>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (id, token) in entries {
        hash.update(id.to_le_bytes());
        hash.update((token.len() as u32).to_le_bytes());
        hash.update(token.as_bytes());
    }
    hash.finalize().into()
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

/// Decodes token by token without ever giving half a character.
///
/// All pieces together, [`finish`](Self::finish) included, are what [`Tokenizer::decode`] gives for all ids.
#[derive(Debug, Clone, Default)]
pub struct TextStream {
    /// Bytes that do not yet make a character, fewer than four.
    pending: Vec<u8>,
    /// The last token with a text, which says how the next one joins on (a first space may be dropped).
    context: Option<u32>,
}

impl TextStream {
    /// A stream at the beginning of a text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that has become certain with the token `id`; often the token's own, sometimes none.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        let Some(meaning) = tokenizer.meaning(id) else {
            return String::new();
        };
        let context = self.context.replace(id);
        match meaning {
            Meaning::Bytes(bytes) => {
                self.pending.extend(bytes);
                take_characters(&mut self.pending)
            }
            Meaning::Text => {
                let mut text = self.finish();
                let before = context.map_or_else(String::new, |context| tokenizer.joined(&[context]));
                let both = context.map_or_else(|| tokenizer.joined(&[id]), |context| tokenizer.joined(&[context, id]));
                text.push_str(both.get(before.len()..).unwrap_or_default());
                text
            }
        }
    }

    /// What remains at the end of the text: U+FFFD for an incomplete character.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
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
