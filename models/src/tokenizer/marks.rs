//! Marks of the special tokens that a template writes, to tell them from text that spells them.
//!
//! A message may spell a special token in many ways: literally, in characters that the normalizer maps to it, or in
//! parts that meet only in the prompt. Therefore a prompt is not searched for special tokens. Those of the template are
//! written as *marks*, sequences of Unicode noncharacters, which are removed from messages. A [`MarkedEncoder`] maps
//! marks to their ids and reads everything else as text. It is the same tokenizer (model, normalizer, pre-tokenizer)
//! with another list of added tokens, so text between marks gets the same ids as between special tokens.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokenizers::{
    AddedToken, DecoderWrapper, Model, ModelWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper,
    Token, TokenizerImpl,
};

use super::spelling::fallback_byte;
use crate::error::EncodeError;

/// First noncharacter of the block that marks use. A mark begins with the first of the block and ends with the second.
/// In between is the number of its token, with the following noncharacters as digits.
const FIRST: char = '\u{fdd0}';
const BEGIN: char = FIRST;
const END: char = '\u{fdd1}';
const DIGITS: u32 = 28;
const DIGIT_ZERO: u32 = 0xfdd2;
/// Placeholder for a character of a message that must not become part of a special token.
pub(crate) const VEIL: char = '\u{fdef}';

/// The special tokens of a tokenizer and their marks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    /// Longest first, so that a token is found before its prefixes.
    tokens: Vec<Marked>,
    /// Punctuation characters that occur in special tokens.
    punctuation: HashSet<char>,
}

#[derive(Debug, Clone)]
struct Marked {
    token: AddedToken,
    id: u32,
    mark: String,
}

impl Marks {
    pub(super) fn of(tokenizer: &tokenizers::Tokenizer) -> Self {
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let mut special: Vec<(u32, AddedToken)> =
            added.iter().filter(|(_, token)| token.special).map(|(&id, token)| (id, token.clone())).collect();
        special.sort_unstable_by(|(a, one), (b, other)| (other.content.len(), a).cmp(&(one.content.len(), b)));
        let characters = special.iter().flat_map(|(_, token)| token.content.chars());
        let punctuation = characters.filter(|&c| is_punctuation(c)).collect();
        let tokens = (0..).zip(special).map(|(number, (id, token))| Marked { token, id, mark: mark(number) });
        Self { punctuation, tokens: tokens.collect() }
    }

    /// Mark of a special token; other tokens are returned unchanged.
    pub(crate) fn mark_of<'a>(&'a self, token: &'a str) -> &'a str {
        self.tokens.iter().find(|marked| marked.token.content == token).map_or(token, |marked| &marked.mark)
    }

    /// Replaces each special token in the source of a template by its mark. Within Jinja tags, tokens that could be
    /// syntax are left.
    pub(crate) fn in_template(&self, source: &str) -> String {
        let (mut out, mut rest) = (String::with_capacity(source.len()), source);
        while let Some(begin) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
            let end = if rest[begin..].starts_with("{{") { "}}" } else { "%}" };
            let end = rest[begin..].find(end).map_or(rest.len(), |length| begin + length);
            let (text, tag) = (&rest[..begin], &rest[begin..end]);
            out += &self.marked(text, text, |_| true);
            out += &self.marked(tag, tag, is_no_syntax);
            rest = &rest[end..];
        }
        out + &self.marked(rest, rest, |_| true)
    }

    /// Returns whether a text spells a special token.
    pub(crate) fn are_spelled_in(&self, text: &str) -> bool {
        self.tokens.iter().any(|marked| text.contains(&marked.token.content))
    }

    /// Marks the special tokens of a prompt that the template composed itself, such as `<|user|>` from `<|` and a role.
    /// `veiled` is the prompt of the same messages with their punctuation [veiled](Self::veil), so tokens spelled in it
    /// come from the template. If the two prompts differ otherwise, nothing is marked and all stays text.
    pub(crate) fn composed(&self, prompt: &str, veiled: &str) -> String {
        let same = prompt.chars().map(|c| self.veil(c)).eq(veiled.chars().map(|c| self.veil(c)));
        if same { self.marked(veiled, prompt, |token| token.contains(is_punctuation)) } else { prompt.to_owned() }
    }

    /// Maps punctuation of special tokens to [`VEIL`], other characters to themselves.
    pub(crate) fn veil(&self, c: char) -> char {
        if self.punctuation.contains(&c) { VEIL } else { c }
    }

    /// Copies `shown`, replacing each wanted token that `spelled` has at the same place by its mark. Both have the same
    /// number of characters.
    fn marked(&self, spelled: &str, shown: &str, is_wanted: fn(&str) -> bool) -> String {
        let is_there = |token: &str| is_wanted(token) && spelled.contains(token);
        let tokens: Vec<&Marked> = self.tokens.iter().filter(|marked| is_there(&marked.token.content)).collect();
        let (mut out, mut characters, mut rest) = (String::with_capacity(shown.len()), shown.chars(), spelled);
        while let Some(first) = rest.chars().next() {
            let length = match tokens.iter().find(|marked| rest.starts_with(&marked.token.content)) {
                Some(Marked { token, mark, .. }) => {
                    out.push_str(mark);
                    token.content.chars().for_each(|_| _ = characters.next());
                    token.content.len()
                }
                None => {
                    out.extend(characters.next());
                    first.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        out
    }
}

/// Removes the noncharacters that marks consist of.
pub(crate) fn without_marks(text: &str) -> String {
    text.replace(|c| (FIRST..=VEIL).contains(&c), "")
}

/// Returns whether a token can only be part of a string literal: it is in brackets of some kind, as almost all are.
fn is_no_syntax(token: &str) -> bool {
    let is_bracket = |c: Option<char>| c.is_some_and(|c| !c.is_alphanumeric() && !c.is_whitespace());
    token.chars().count() > 2
        && is_bracket(token.chars().next())
        && is_bracket(token.chars().next_back())
        && !token.contains(['{', '}', '%', '#', '\'', '"', '\\'])
}

fn is_punctuation(c: char) -> bool {
    !c.is_alphanumeric() && !c.is_whitespace() && c != '_'
}

fn mark(mut number: u32) -> String {
    let mut mark = String::from(BEGIN);
    loop {
        mark.extend(char::from_u32(DIGIT_ZERO + number % DIGITS));
        number /= DIGITS;
        if number == 0 {
            break;
        }
    }
    mark.push(END);
    mark
}

type Encoder = TokenizerImpl<TextModel, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// Encoder for text with marks.
pub(super) struct MarkedEncoder {
    encoder: Encoder,
    /// Ids of added tokens by their ids in `encoder`.
    ids: HashMap<u32, u32>,
}

impl MarkedEncoder {
    pub(super) fn new(tokenizer: &Arc<tokenizers::Tokenizer>, marks: &Marks) -> Self {
        let mut encoder = Encoder::new(TextModel { tokenizer: Arc::clone(tokenizer) });
        encoder.with_pre_tokenizer(tokenizer.get_pre_tokenizer().cloned());
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let text: Vec<(u32, AddedToken)> =
            added.iter().filter(|(_, token)| !token.special).map(|(&id, token)| (id, token.clone())).collect();
        let marks = marks.tokens.iter().map(|Marked { token, id, mark }| {
            let token = AddedToken { content: mark.clone(), normalized: false, special: false, ..token.clone() };
            (*id, token)
        });
        let tokens: Vec<(u32, AddedToken)> = text.into_iter().chain(marks).collect();
        // These fail only if the normalizer fails on an added token, and then the tokenizer could not have been loaded.
        let _ = encoder.with_normalizer(tokenizer.get_normalizer().cloned());
        let _ = encoder.add_tokens(tokens.iter().map(|(_, token)| token.clone()));
        let ids = tokens.iter().filter_map(|(id, token)| Some((encoder.token_to_id(&token.content)?, *id)));
        Self { ids: ids.collect(), encoder }
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let encoding = self.encoder.encode_fast(text, false).map_err(|error| EncodeError(error.to_string()))?;
        Ok(encoding.get_ids().iter().map(|id| *self.ids.get(id).unwrap_or(id)).collect())
    }
}

/// Model of a tokenizer that produces no special token for text that spells it. SentencePiece vocabularies hold `</s>`
/// among the pieces of text.
struct TextModel {
    tokenizer: Arc<tokenizers::Tokenizer>,
}

impl TextModel {
    fn model(&self) -> &ModelWrapper {
        self.tokenizer.get_model()
    }

    /// Splits the text of a special token into ordinary tokens.
    fn as_text(&self, token: Token, text: &str) -> tokenizers::Result<Vec<Token>> {
        let mut characters = text.chars();
        let is_one = characters.next().is_some() && characters.as_str().is_empty();
        let (start, end) = token.offsets;
        if !is_one {
            let first = text.len() - characters.as_str().len();
            let mut tokens = Vec::new();
            for (from, part) in [(start, &text[..first]), (start + first, &text[first..])] {
                for mut token in self.tokenize(part)? {
                    token.offsets = (from + token.offsets.0, from + token.offsets.1);
                    tokens.push(token);
                }
            }
            return Ok(tokens);
        }
        let bytes = text.bytes().map(|byte| {
            let value = format!("<0x{byte:02X}>");
            debug_assert_eq!(fallback_byte(&value), Some(byte));
            Some(Token::new(self.model().token_to_id(&value)?, value, (start, end)))
        });
        bytes.collect::<Option<_>>().ok_or_else(|| {
            format!("the text contains {text:?}, which this tokenizer has as a special token alone; leave it out")
                .into()
        })
    }
}

impl Model for TextModel {
    type Trainer = <ModelWrapper as Model>::Trainer;

    fn tokenize(&self, sequence: &str) -> tokenizers::Result<Vec<Token>> {
        let added = self.tokenizer.get_added_vocabulary();
        let tokens = self.model().tokenize(sequence)?;
        if !tokens.iter().any(|token| added.is_special_token(&token.value)) {
            return Ok(tokens);
        }
        let mut out = Vec::with_capacity(tokens.len());
        for token in tokens {
            // The token for unknown text is special too, but the text does not spell it.
            match sequence.get(token.offsets.0..token.offsets.1) {
                Some(text) if text == token.value && added.is_special_token(text) => {
                    out.extend(self.as_text(token, text)?);
                }
                _ => out.push(token),
            }
        }
        Ok(out)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.model().token_to_id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.model().id_to_token(id)
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        self.model().get_vocab()
    }

    /// Larger than every id, so that the ids of marks are free.
    fn get_vocab_size(&self) -> usize {
        1 << 31
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        self.model().save(folder, prefix)
    }

    fn get_trainer(&self) -> Self::Trainer {
        self.model().get_trainer()
    }
}
