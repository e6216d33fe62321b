//! Tokenizer: text to token ids and back.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokenizers::{Encoding, ModelWrapper, PostProcessor, PostProcessorWrapper, Token};

use self::{marks::MarkedEncoder, spelling::Spelling};
use crate::error::{EncodeError, LoadError};

mod channels;
mod marks;
mod oniguruma;
mod spelling;
mod stream;

pub(crate) use self::marks::{Marks, without_marks};
pub use self::stream::TextStream;

/// A tokenizer in Hugging Face's `tokenizer.json` form.
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    spelling: Spelling,
    marks: Marks,
    /// Encoder for chat prompts, created for the first conversation.
    marked: OnceLock<MarkedEncoder>,
    vocab_size: usize,
    /// Longest token in bytes, as stored in the vocabulary. Its text is never longer.
    longest_token: usize,
    fingerprint: [u8; 32],
    /// Ids that its template puts before a text, if it has a template.
    beginning: Option<Vec<u32>>,
    /// Marks of the channels of an answer, if it has them.
    channels: Option<channels::Marks>,
}

impl Tokenizer {
    /// Reads the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`LoadError::Tokenizer`] with the parser's message.
    pub fn from_bytes(json: &[u8]) -> Result<Self, LoadError> {
        let refused = |error: tokenizers::Error| LoadError::Tokenizer(error.to_string());
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(refused)?;
        if let Some(pre_tokenizer) = inner.get_pre_tokenizer().map(with_rubys_patterns).transpose()?.flatten() {
            inner.with_pre_tokenizer(Some(pre_tokenizer));
        }
        if let Some(normalizer) = inner.get_normalizer().map(with_rubys_patterns).transpose()?.flatten() {
            inner.with_normalizer(Some(normalizer)).map_err(refused)?;
        }
        // Truncation, padding and dropout are of a training run and do not apply to prompts.
        inner.with_truncation(None).map_err(refused)?.with_padding(None);
        let dropping = match inner.get_model() {
            ModelWrapper::BPE(bpe) if bpe.dropout.is_some() => Some(bpe.clone()),
            _ => None,
        };
        if let Some(mut bpe) = dropping {
            bpe.dropout = None;
            inner.with_model(bpe);
        }
        // Some normalizers cannot be used at all.
        let tried = catch_unwind(AssertUnwindSafe(|| inner.encode_fast("a b", false)));
        tried.map_err(|_| LoadError::Tokenizer("its normalizer or pre-tokenizer fails for any text".to_owned()))?.ok();
        let beginning = beginning(&inner);
        let entries: BTreeSet<(u32, String)> =
            inner.get_vocab(true).into_iter().map(|(token, id)| (id, token)).collect();
        let vocab_size = entries.last().map_or(0, |(id, _)| *id as usize + 1);
        let longest_token = entries.iter().map(|(_, token)| token.len()).max().unwrap_or_default();
        let fingerprint = fingerprint(&entries);
        let (spelling, marks) = (Spelling::of(&inner), Marks::of(&inner));
        let channels = channels::Marks::of(&inner);
        let (inner, marked) = (Arc::new(inner), OnceLock::new());
        Ok(Self { inner, spelling, marks, marked, vocab_size, longest_token, fingerprint, beginning, channels })
    }

    /// Encodes `text` without adding tokens at either end. Special tokens spelled out in `text` become their ids, as in
    /// the reference implementation, so untrusted text should not contain them.
    ///
    /// # Errors
    /// [`EncodeError`] if the vocabulary cannot express the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| EncodeError(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Encodes a prompt: the prefix of the tokenizer's template, or without a template `bos` if given, then the text.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode).
    pub fn encode_prompt(&self, bos: Option<u32>, text: &str) -> Result<Vec<u32>, EncodeError> {
        let mut ids = self.beginning.clone().unwrap_or_else(|| bos.into_iter().collect());
        ids.extend(self.encode(text)?);
        Ok(ids)
    }

    /// One more than the largest id. Models may have more rows than this, never fewer.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Largest number of bytes of text in a token.
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

    /// Id of a token given as it is stored in the vocabulary.
    #[must_use]
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// True if `token` is an added token that is marked as special.
    #[must_use]
    pub fn is_special(&self, token: &str) -> bool {
        self.inner.get_added_vocabulary().is_special_token(token)
    }

    /// True if answers have channels, as gpt-oss's do.
    #[must_use]
    pub fn has_channels(&self) -> bool {
        self.channels.is_some()
    }

    /// Token as it is stored in the vocabulary, given by its id.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Marks of special tokens, as read by [`encode_marked`](Self::encode_marked).
    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Encodes a text in which each mark stands for its special token. Special tokens that are spelled out stay text.
    ///
    /// # Errors
    /// [`EncodeError`] if the vocabulary cannot express the text.
    pub(crate) fn encode_marked(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        self.marked.get_or_init(|| MarkedEncoder::new(&self.inner, &self.marks)).encode(text)
    }
}

/// A part of a tokenizer whose patterns are translated from Oniguruma; `None` if none of them differs.
///
/// # Errors
/// [`LoadError::Tokenizer`] if a translated pattern is not valid.
fn with_rubys_patterns<T: Serialize + DeserializeOwned>(part: &T) -> Result<Option<T>, LoadError> {
    let refused = |error: serde_json::Error| LoadError::Tokenizer(error.to_string());
    let mut json = serde_json::to_value(part).map_err(refused)?;
    if translate(&mut json) { serde_json::from_value(json).map(Some).map_err(refused) } else { Ok(None) }
}

/// Translates all patterns in a value; true if one differs.
fn translate(json: &mut Value) -> bool {
    match json {
        Value::Array(items) => items.iter_mut().fold(false, |differs, item| translate(item) | differs),
        Value::Object(fields) => fields.iter_mut().fold(false, |differs, (key, field)| match field {
            Value::String(pattern) if key == "Regex" => {
                let translated = oniguruma::translated(pattern);
                let is_new = translated != *pattern;
                *pattern = translated;
                is_new | differs
            }
            other => translate(other) | differs,
        }),
        _ => false,
    }
}

/// Ids that a template puts before a text.
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

fn fingerprint(entries: &BTreeSet<(u32, String)>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (id, token) in entries {
        hash.update(id.to_le_bytes());
        hash.update((token.len() as u32).to_le_bytes());
        hash.update(token.as_bytes());
    }
    hash.finalize().into()
}
