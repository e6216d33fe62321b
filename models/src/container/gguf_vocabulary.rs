//! Vocabulary in a GGUF file, and its conversion to a tokenizer.

use std::{
    collections::HashMap,
    io::{ErrorKind, Read},
};

use serde_json::{Value, json};

use super::{
    gguf_fields::{check_magic, check_version},
    gguf_pre_tokenizer::PreTokenizer,
};
#[cfg(feature = "tokenizers")]
use crate::tokenizer::Tokenizer;
use crate::{error::LoadError, family::table::check_architecture};

/// Maximum length of an array and of a text in it, above those of any real vocabulary.
const MOST_ENTRIES: u64 = 1 << 21;
const LONGEST_ENTRY: u64 = 1 << 16;
/// Type codes of f32, boolean, string and array.
const FLOAT: u32 = 6;
const BOOL: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;
/// Kinds of tokens (llama.cpp's `llama_token_type`).
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;

/// Vocabulary and tokenization settings of a GGUF file.
#[derive(Debug, Clone, Default)]
pub struct GgufVocabulary {
    /// Value of `tokenizer.ggml.model`: `gpt2` is byte-level BPE, `llama` is SentencePiece.
    model: String,
    /// Value of `tokenizer.ggml.pre`, the name of the pre-tokenizer.
    pre: String,
    tokens: Vec<String>,
    kinds: Vec<u64>,
    merges: Vec<String>,
    /// SentencePiece scores: of two possible merges, the one with the greater score is applied.
    scores: Vec<f32>,
    /// SentencePiece flag: `Some(false)` if no space is prepended to a text.
    space_prefix: Option<bool>,
}

impl GgufVocabulary {
    /// Reads the metadata of a GGUF file; `None` if it has no vocabulary.
    ///
    /// # Errors
    /// [`LoadError`] if the file is not GGUF, malformed, truncated, or of a model that is not supported.
    pub fn read(reader: &mut impl Read) -> Result<Option<Self>, LoadError> {
        let mut file = File { reader, position: 0 };
        check_magic(file.bytes()?)?;
        check_version(u32::from_le_bytes(file.bytes()?))?;
        let (_tensors, settings) = (file.u64()?, file.u64()?);
        let mut vocabulary = Self::default();
        for _ in 0..settings {
            let key = file.text()?;
            let code = u32::from_le_bytes(file.bytes()?);
            match (&*key, code) {
                ("general.architecture", TEXT) => check_architecture(&file.text()?)?,
                ("tokenizer.ggml.model", TEXT) => vocabulary.model = file.text()?,
                ("tokenizer.ggml.pre", TEXT) => vocabulary.pre = file.text()?,
                ("tokenizer.ggml.tokens", ARRAY) => vocabulary.tokens = file.texts(&key)?,
                ("tokenizer.ggml.merges", ARRAY) => vocabulary.merges = file.texts(&key)?,
                ("tokenizer.ggml.token_type", ARRAY) => vocabulary.kinds = file.integers(&key)?,
                ("tokenizer.ggml.scores", ARRAY) => vocabulary.scores = file.floats(&key)?,
                ("tokenizer.ggml.add_space_prefix", BOOL) => {
                    vocabulary.space_prefix = Some(file.bytes::<1>()? != [0]);
                }
                _ => file.skip(&key, code, 0)?,
            }
        }
        Ok((!vocabulary.tokens.is_empty()).then_some(vocabulary))
    }

    /// Equivalent `tokenizer.json` of this vocabulary.
    ///
    /// # Errors
    /// [`LoadError::NoTokenizer`] for an unsupported kind of vocabulary.
    pub fn tokenizer_json(&self) -> Result<Vec<u8>, LoadError> {
        if !self.kinds.is_empty() && self.kinds.len() != self.tokens.len() {
            let (tokens, kinds) = (self.tokens.len(), self.kinds.len());
            let found = format!("a vocabulary of {tokens} tokens with {kinds} kinds (tokenizer.ggml.token_type)");
            return Err(LoadError::NoTokenizer { found });
        }
        let tokenizer = match &*self.model {
            "gpt2" => self.byte_level()?,
            "llama" if self.scores.len() == self.tokens.len() => self.sentence_piece(),
            other => return Err(LoadError::NoTokenizer { found: format!("a vocabulary of the kind {other:?}") }),
        };
        Ok(tokenizer.to_string().into_bytes())
    }

    /// Byte-level BPE with the merges of the file.
    fn byte_level(&self) -> Result<Value, LoadError> {
        let Some(pre_tokenizer) = PreTokenizer::named(&self.pre) else {
            let found = match &*self.pre {
                "" => "a vocabulary without a pre-tokenizer (tokenizer.ggml.pre)".to_owned(),
                other => format!("the pre-tokenizer {other:?} (tokenizer.ggml.pre)"),
            };
            return Err(LoadError::NoTokenizer { found });
        };
        let PreTokenizer { normalizer, pre_tokenizer, whole_words } = pre_tokenizer;
        let merges = self.merges.iter().map(|merge| merge.split_once(' ').map(|(a, b)| json!([a, b])));
        // Bytes and special tokens need none.
        let is_small = self.tokens.len() <= 512;
        let merges = merges.collect::<Option<Vec<_>>>().filter(|merges| is_small || !merges.is_empty());
        let found = || "a vocabulary without merges of two pieces each (tokenizer.ggml.merges)".to_owned();
        let merges = merges.ok_or_else(|| LoadError::NoTokenizer { found: found() })?;
        Ok(json!({
            "version": "1.0",
            "added_tokens": self.added(),
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
            "model": {
                "type": "BPE", "ignore_merges": whole_words, "vocab": self.vocabulary(),
                "merges": merges,
            },
        }))
    }

    /// SentencePiece BPE (Kudo & Richardson 2018): spaces are `▁`, a text begins with one, and text without a piece is
    /// spelled in bytes. The file has scores instead of merges: of all adjacent pairs that form a piece, the one with
    /// the greatest score is merged first.
    fn sentence_piece(&self) -> Value {
        let begins = self.space_prefix != Some(false);
        let mut normalizers = vec![json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" })];
        let mut decoders = vec![
            json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " }),
            json!({ "type": "ByteFallback" }),
            json!({ "type": "Fuse" }),
        ];
        if begins {
            normalizers.insert(0, json!({ "type": "Prepend", "prepend": "▁" }));
            decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
        }
        let unknown = self.known().find(|(id, _)| self.kind(*id as usize) == UNKNOWN).map(|(_, token)| token);
        json!({
            "version": "1.0",
            "added_tokens": self.added(),
            "normalizer": { "type": "Sequence", "normalizers": normalizers },
            "pre_tokenizer": null,
            "decoder": { "type": "Sequence", "decoders": decoders },
            "model": {
                "type": "BPE", "unk_token": unknown, "fuse_unk": true, "byte_fallback": true,
                "vocab": self.vocabulary(), "merges": self.merges_by_score(),
            },
        })
    }

    /// All merges of two pieces into one, by descending score.
    fn merges_by_score(&self) -> Vec<[&str; 2]> {
        let ids: HashMap<&str, usize> = self.known().map(|(id, token)| (token, id as usize)).collect();
        let mut merges = Vec::new();
        for (id, piece) in self.known() {
            let cuts = piece.char_indices().skip(1).map(|(at, _)| piece.split_at(at));
            let pairs = cuts.filter_map(|(a, b)| Some(([a, b], [*ids.get(a)?, *ids.get(b)?])));
            merges.extend(pairs.map(|(pair, parts)| (self.scores[id as usize], pair, parts)));
        }
        // Merges into the same piece are ordered as in transformers: longer first part, then ids.
        merges.sort_by(|(score, [a, _], parts), (other_score, [other_a, _], other_parts)| {
            let longer = other_a.chars().count().cmp(&a.chars().count());
            other_score.total_cmp(score).then(longer).then(parts.cmp(other_parts))
        });
        merges.into_iter().map(|(_, pair, _)| pair).collect()
    }

    fn kind(&self, id: usize) -> u64 {
        self.kinds.get(id).copied().unwrap_or_default()
    }

    /// Tokens that are matched before the text is split.
    fn added(&self) -> Vec<Value> {
        let is_added = |(id, _): &(usize, &String)| matches!(self.kind(*id), UNKNOWN | CONTROL | USER_DEFINED);
        let added = self.tokens.iter().enumerate().filter(is_added).map(|(id, token)| {
            json!({
                "id": id, "content": token, "special": self.kind(id) != USER_DEFINED,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            })
        });
        added.collect()
    }

    fn vocabulary(&self) -> serde_json::Map<String, Value> {
        self.known().map(|(id, token)| (token.to_owned(), id.into())).collect()
    }

    /// First id with different tokens in this vocabulary and in `tokenizer`: the id, the file's token and the
    /// tokenizer's. Ids missing in the tokenizer are skipped. llama.cpp's converter writes the `▁` of user-defined
    /// tokens as a space, which does not count as a difference.
    #[cfg(feature = "tokenizers")]
    #[must_use]
    pub fn differs_from(&self, tokenizer: &Tokenizer) -> Option<(u32, String, String)> {
        self.known().find_map(|(id, here)| {
            let there = tokenizer.token(id)?;
            let is_same = there == here || self.kind(id as usize) == USER_DEFINED && there.replace('▁', " ") == here;
            (!is_same).then(|| (id, here.to_owned(), there))
        })
    }

    /// First token missing in a tokenizer, with its id. User-defined tokens may be missing, because converters pad
    /// vocabularies with them.
    #[cfg(feature = "tokenizers")]
    #[must_use]
    pub fn missing_in(&self, tokenizer: &Tokenizer) -> Option<(u32, &str)> {
        let mut own = self.known().filter(|(id, _)| self.kind(*id as usize) != USER_DEFINED);
        own.find(|(id, _)| tokenizer.token(*id).is_none())
    }

    /// Number of tokens, without padding entries.
    #[must_use]
    pub fn token_count(&self) -> usize {
        self.known().count()
    }

    /// Tokens by id, without padding entries.
    fn known(&self) -> impl Iterator<Item = (u32, &str)> {
        let is_known = |id: &usize| self.kinds.get(*id) != Some(&UNUSED);
        self.tokens.iter().enumerate().filter(move |(id, _)| is_known(id)).map(|(id, token)| (id as u32, &**token))
    }
}

/// File that is read sequentially from its start.
struct File<'r, R> {
    reader: &'r mut R,
    position: u64,
}

impl<R: Read> File<'_, R> {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), LoadError> {
        let (offset, needed) = (self.position, buffer.len() as u64);
        self.position += needed;
        self.reader.read_exact(buffer).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                LoadError::Truncated { what: "metadata".to_owned(), offset, needed, remaining: 0 }
            }
            _ => error.into(),
        })
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], LoadError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u64(&mut self) -> Result<u64, LoadError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn text(&mut self) -> Result<String, LoadError> {
        let length = self.limited("a text", LONGEST_ENTRY)?;
        let (mut bytes, offset) = (vec![0; length as usize], self.position);
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| LoadError::NotUtf8 { what: "metadata".to_owned(), offset })
    }

    /// Reads a length and checks it against a limit.
    fn limited(&mut self, what: &str, limit: u64) -> Result<u64, LoadError> {
        let found = self.u64()?;
        match found <= limit {
            true => Ok(found),
            false => Err(LoadError::OverLimit { what: format!("length of {what}"), found, limit }),
        }
    }

    /// Reads the element type and length of an array.
    fn array(&mut self, key: &str) -> Result<(u32, u64), LoadError> {
        Ok((u32::from_le_bytes(self.bytes()?), self.limited(key, MOST_ENTRIES)?))
    }

    fn texts(&mut self, key: &str) -> Result<Vec<String>, LoadError> {
        match self.array(key)? {
            (TEXT, count) => (0..count).map(|_| self.text()).collect(),
            (code, _) => Err(LoadError::MetadataTypeCode { key: key.to_owned(), code }),
        }
    }

    fn integers(&mut self, key: &str) -> Result<Vec<u64>, LoadError> {
        let (code, count) = self.array(key)?;
        let integer = |_| match code {
            4 | 5 => Ok(u32::from_le_bytes(self.bytes()?).into()),
            _ => Err(LoadError::MetadataTypeCode { key: key.to_owned(), code }),
        };
        (0..count).map(integer).collect()
    }

    fn floats(&mut self, key: &str) -> Result<Vec<f32>, LoadError> {
        match self.array(key)? {
            (FLOAT, count) => (0..count).map(|_| Ok(f32::from_le_bytes(self.bytes()?))).collect(),
            (code, _) => Err(LoadError::MetadataTypeCode { key: key.to_owned(), code }),
        }
    }

    /// Skips a value of any type.
    fn skip(&mut self, key: &str, code: u32, depth: usize) -> Result<(), LoadError> {
        let bytes = match code {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            TEXT => self.limited(key, 1 << 24)?,
            ARRAY if depth < 4 => {
                let (element, count) = self.array(key)?;
                return (0..count).try_for_each(|_| self.skip(key, element, depth + 1));
            }
            code => return Err(LoadError::MetadataTypeCode { key: key.to_owned(), code }),
        };
        let passed = std::io::copy(&mut self.reader.take(bytes), &mut std::io::sink())?;
        let offset = self.position;
        self.position += bytes;
        match passed == bytes {
            true => Ok(()),
            false => Err(LoadError::Truncated { what: key.to_owned(), offset, needed: bytes, remaining: passed }),
        }
    }
}
