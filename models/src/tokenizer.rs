//! Text to token ids and back.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use tokenizers::DecoderWrapper;

use crate::error::{EncodeError, LoadError};

/// A tokenizer in Hugging Face's `tokenizer.json` form.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    vocab_size: usize,
    fingerprint: [u8; 32],
}

impl Tokenizer {
    /// Reads the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`LoadError::Tokenizer`] with the parser's message.
    pub fn from_bytes(json: &[u8]) -> Result<Self, LoadError> {
        let inner = tokenizers::Tokenizer::from_bytes(json)
            .map_err(|error| LoadError::Tokenizer(error.to_string()))?;
        let entries: BTreeSet<(u32, String)> = inner
            .get_vocab(true)
            .into_iter()
            .map(|(token, id)| (id, token))
            .collect();
        let vocab_size = entries.last().map_or(0, |(id, _)| *id as usize + 1);
        let fingerprint = fingerprint(&entries);
        Ok(Self {
            inner,
            vocab_size,
            fingerprint,
        })
    }

    /// The token ids of `text`. No token is added at either end: callers put the model's first token
    /// themselves. Special tokens that are spelled out in `text` become their ids, as in the reference
    /// implementation; text that is not trusted should not reach this function with them in it.
    ///
    /// # Errors
    /// [`EncodeError`] if the vocabulary cannot express the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let encoding = self
            .inner
            .encode_fast(text, false)
            .map_err(|error| EncodeError(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of `ids`. Special tokens and ids outside the vocabulary give no text; bytes that are not UTF-8
    /// become U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        // A decoder fails only on a malformed configuration, for which there is no text to give.
        self.inner.decode(ids, true).unwrap_or_default()
    }

    /// One more than the largest id. Models may have more rows than that, never fewer.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
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

    /// An incremental decoder, at the beginning of a text.
    #[must_use]
    pub fn decode_stream(&self) -> TextStream {
        TextStream::new(self)
    }

    fn is_byte_level(&self) -> bool {
        matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)))
    }

    /// The bytes a byte-level token stands for; none for special and unknown tokens.
    fn token_bytes(&self, id: u32) -> Vec<u8> {
        let Some(token) = self.inner.id_to_token(id) else {
            return Vec::new();
        };
        if self.inner.get_added_vocabulary().is_special_token(&token) {
            return Vec::new();
        }
        let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
        bytes.unwrap_or_else(|| token.into_bytes())
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
        code => (0..=0xff)
            .filter(|byte| !printable(byte))
            .nth(code as usize - 0x100),
    }
}

/// Decodes token by token without ever giving half a character.
///
/// All pieces together, [`finish`](Self::finish) included, are what [`Tokenizer::decode`] gives for all ids.
#[derive(Debug, Clone)]
pub struct TextStream {
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Byte-level vocabularies: the bytes that do not yet make a character, fewer than four.
    Bytes(Vec<u8>),
    /// Others, whose decoders may look at neighbouring tokens: ids whose text has been given (`..shown`), kept
    /// as context, and ids whose text has not.
    Window { ids: Vec<u32>, shown: usize },
}

impl TextStream {
    /// A stream at the beginning of a text.
    #[must_use]
    pub fn new(tokenizer: &Tokenizer) -> Self {
        let state = match tokenizer.is_byte_level() {
            true => State::Bytes(Vec::new()),
            false => State::Window {
                ids: Vec::new(),
                shown: 0,
            },
        };
        Self { state }
    }

    /// The text that has become certain with the token `id`; often the token's own, sometimes none.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        match &mut self.state {
            State::Bytes(pending) => {
                pending.extend(tokenizer.token_bytes(id));
                take_characters(pending)
            }
            State::Window { ids, shown } => {
                ids.push(id);
                let text = new_text(tokenizer, ids, *shown);
                if text.is_empty() || text.ends_with(char::REPLACEMENT_CHARACTER) {
                    return String::new();
                }
                ids.drain(..*shown);
                *shown = ids.len();
                text
            }
        }
    }

    /// What remains at the end of the text: U+FFFD for an incomplete character.
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> String {
        match &mut self.state {
            State::Bytes(pending) => String::from_utf8_lossy(&std::mem::take(pending)).into_owned(),
            State::Window { ids, shown } => {
                let text = new_text(tokenizer, ids, *shown);
                *shown = ids.len();
                text
            }
        }
    }
}

/// The text that `ids[shown..]` add to that of `ids[..shown]`.
fn new_text(tokenizer: &Tokenizer, ids: &[u32], shown: usize) -> String {
    let before = tokenizer.decode(&ids[..shown]);
    let text = tokenizer.decode(ids);
    text.get(before.len()..).unwrap_or_default().to_owned()
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
