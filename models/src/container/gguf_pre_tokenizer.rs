//! Pre-tokenizers of byte-level vocabularies in GGUF files: how a text is cut before its pieces are merged.
//!
//! GGUF files name a pre-tokenizer (`tokenizer.ggml.pre`) and do not store its patterns. The patterns here are those of
//! the `tokenizer.json` files from which llama.cpp's converter makes such files.

use serde_json::{Value, json};

/// Contractions and words of cl100k_base and its relatives, and everything but digits and words.
macro_rules! cl100k {
    ($digits:literal) => {
        concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
}

/// Words of o200k_base and its relatives, where a capital begins a new word, with `contraction` after each.
macro_rules! o200k {
    ($contraction:literal, $digits:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            $contraction,
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            $contraction,
            "|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
}

const CL100K: &str = cl100k!(r"\p{N}{1,3}");
const QWEN_2: &str = cl100k!(r"\p{N}");
const QWEN_35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const SEED_CODER: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = o200k!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}");
const TEKKEN: &str = o200k!("", r"\p{N}");
const CHINESE: &str = "[一-龥ࠀ-一가-퟿]+";
/// Latin, Greek, Cyrillic and other letters that have a case. Numbers stand for letters that Unicode's normal forms
/// replace by others.
const CASED: &str = concat!(
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}",
    r"ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓",
    r"𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
);
const DEEPSEEK_V3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r##"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
);

/// Pre-tokenizer of a vocabulary, as sections of a `tokenizer.json`.
pub(super) struct PreTokenizer {
    /// Section `normalizer`.
    pub(super) normalizer: Value,
    /// Section `pre_tokenizer`.
    pub(super) pre_tokenizer: Value,
    /// True if a piece that is a token is used as it is, without merging.
    pub(super) whole_words: bool,
}

impl PreTokenizer {
    /// Pre-tokenizer by its name in GGUF files; `None` for an unknown name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let nfc = || json!({ "type": "NFC" });
        let (normalizer, steps, whole_words) = match name {
            "gpt-2" | "gpt2" | "phi-2" | "granite-docling" => (Value::Null, vec![words()], false),
            "olmo" | "mpt" => (nfc(), vec![words()], false),
            "smollm" | "refact" | "starcoder" | "minerva-7b" => (Value::Null, vec![each_digit(), words()], false),
            "llama-bpe" | "llama3" | "llama-v3" | "smaug-bpe" | "falcon3" | "pixtral" => {
                (Value::Null, vec![split(CL100K), bytes()], true)
            }
            "dbrx" => (Value::Null, vec![split(CL100K), bytes()], false),
            "qwen2" | "deepseek-r1-qwen" | "stablelm2" | "megrez" => (nfc(), vec![split(QWEN_2), bytes()], false),
            "qwen35" => (nfc(), vec![split(QWEN_35), bytes()], false),
            "seed-coder" => (Value::Null, vec![split(SEED_CODER), bytes()], false),
            "gpt-4o" | "llama4" => (Value::Null, vec![split(O200K), bytes()], false),
            "tekken" => (Value::Null, vec![split(TEKKEN), bytes()], true),
            "deepseek-coder" => {
                let patterns = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CHINESE].map(split);
                (Value::Null, patterns.into_iter().chain([each_digit(), bytes()]).collect(), false)
            }
            "deepseek-llm" => {
                let patterns = [r"[\r\n]", CASED, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", CHINESE].map(split);
                (Value::Null, patterns.into_iter().chain([each_digit(), bytes()]).collect(), false)
            }
            "deepseek-v3" => {
                let patterns = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3].map(split);
                (Value::Null, patterns.into_iter().chain([bytes()]).collect(), false)
            }
            "falcon" => {
                let punctuation = json!({ "type": "Punctuation", "behavior": "Contiguous" });
                let digits = json!({ "type": "Digits", "individual_digits": false });
                (Value::Null, vec![punctuation, words(), digits, split("[0-9][0-9][0-9]")], false)
            }
            "default" => {
                let patterns = [r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"].map(split);
                (Value::Null, patterns.into_iter().chain([bytes()]).collect(), false)
            }
            _ => return None,
        };
        let pre_tokenizer = json!({ "type": "Sequence", "pretokenizers": steps });
        Some(Self { normalizer, pre_tokenizer, whole_words })
    }
}

const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Step that cuts a text at the matches of a pattern.
fn split(pattern: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false })
}

/// Step that makes each digit a piece.
fn each_digit() -> Value {
    json!({ "type": "Digits", "individual_digits": true })
}

/// Step that writes bytes as characters.
fn bytes() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false })
}

/// Step that cuts a text into words as GPT-2 does, and writes bytes as characters.
fn words() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true })
}
