//! Small tokenizers of the kinds that published models have, as `tokenizer.json`.

use outrider_models::Tokenizer;
use serde_json::{Map, Value, json};

/// The special tokens of all of them.
pub const SPECIAL: [&str; 6] = ["<unk>", "<s>", "</s>", "<|user|>", "<|im_end|>", "€"];

/// All of these tokenizers, each with a name.
pub fn all() -> Vec<(&'static str, Value)> {
    let drop = json!({ "type": "Replace", "pattern": { "String": "\u{200b}" }, "content": "" });
    let lower = json!({ "type": "Sequence", "normalizers": [{ "type": "Lowercase" }, { "type": "NFKC" }] });
    vec![
        ("byte level", byte_level(None, false)),
        ("byte level, NFKC", byte_level(Some(json!({ "type": "NFKC" })), true)),
        ("byte level, lower case", byte_level(Some(lower), true)),
        ("byte level, a dropped character", byte_level(Some(drop), true)),
        ("SentencePiece", sentence_piece()),
        ("Metaspace, first", metaspace("first")),
        ("Metaspace, always", metaspace("always")),
        ("Unigram", unigram()),
    ]
}

/// Our tokenizer and the reference implementation.
pub fn both(json: &Value) -> (Tokenizer, tokenizers::Tokenizer) {
    let bytes = json.to_string().into_bytes();
    (Tokenizer::from_bytes(&bytes).unwrap(), tokenizers::Tokenizer::from_bytes(&bytes).unwrap())
}

fn added(vocabulary: &Map<String, Value>, normalized: bool) -> Value {
    let tokens = SPECIAL.iter().map(|&content| {
        // One that swallows the white space to its right, as some of Phi-3's do.
        let rstrip = content == "<|user|>";
        json!({
            "id": vocabulary[content], "content": content, "special": true, "normalized": normalized,
            "single_word": false, "lstrip": false, "rstrip": rstrip,
        })
    });
    tokens.collect()
}

fn whole(vocabulary: Map<String, Value>, normalized: bool, parts: Value, model: Value) -> Value {
    let mut json = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null, "added_tokens": added(&vocabulary, normalized),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false, "ignore_merges": true,
            "merges": [], "vocab": vocabulary,
        },
    });
    for (key, value) in parts.as_object().unwrap() {
        json[key] = value.clone();
    }
    for (key, value) in model.as_object().unwrap() {
        json["model"][key] = value.clone();
    }
    json
}

fn numbered(tokens: impl IntoIterator<Item = String>) -> Map<String, Value> {
    let mut vocabulary = Map::new();
    for token in SPECIAL.map(str::to_owned).into_iter().chain(tokens) {
        let id = vocabulary.len();
        vocabulary.entry(token).or_insert_with(|| json!(id));
    }
    vocabulary
}

/// A tokenizer like GPT-2's, without merges.
pub fn byte_level(normalizer: Option<Value>, normalized: bool) -> Value {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..=255u8).filter(|byte| !printable(byte)).zip('\u{100}'..).map(|(_, c)| c);
    let alphabet = (0..=255u8).filter(printable).map(char::from).chain(others);
    let level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    let parts = json!({ "normalizer": normalizer, "pre_tokenizer": level, "decoder": level });
    whole(numbered(alphabet.map(String::from)), normalized, parts, json!({}))
}

const WORDS: [&str; 8] = ["▁", "▁Once", "▁upon", "▁a", "▁time", ".", "▁b", "<"];

fn characters() -> impl Iterator<Item = String> {
    ('!'..='~').map(String::from).chain(WORDS.map(str::to_owned))
}

fn all_bytes() -> impl Iterator<Item = String> {
    (0..=255u8).map(|byte| format!("<0x{byte:02X}>"))
}

/// A tokenizer like Llama 2's: a text begins with a space of its own, which the decoder drops again.
pub fn sentence_piece() -> Value {
    sentence_piece_of(all_bytes())
}

/// A tokenizer like Llama 2's, with these bytes alone.
pub fn sentence_piece_with<const N: usize>(bytes: [&str; N]) -> Value {
    sentence_piece_of(bytes.map(str::to_owned).into_iter())
}

fn sentence_piece_of(bytes: impl Iterator<Item = String>) -> Value {
    let replace = |from: &str, to: &str| json!({ "type": "Replace", "pattern": { "String": from }, "content": to });
    let parts = json!({
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{ "type": "Prepend", "prepend": "▁" }, replace(" ", "▁")],
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                replace("▁", " "), { "type": "ByteFallback" }, { "type": "Fuse" },
                { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
            ],
        },
    });
    let model = json!({ "unk_token": "<unk>", "byte_fallback": true });
    whole(numbered(bytes.chain(characters())), false, parts, model)
}

fn metaspace(scheme: &str) -> Value {
    let metaspace = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true });
    let fallback = json!([{ "type": "ByteFallback" }, metaspace]);
    let parts = json!({ "pre_tokenizer": metaspace, "decoder": { "type": "Sequence", "decoders": fallback } });
    let model = json!({ "unk_token": "<unk>", "byte_fallback": true });
    whole(numbered(all_bytes().chain(characters())), false, parts, model)
}

/// A tokenizer like T5's: the vocabulary has special tokens among its pieces.
fn unigram() -> Value {
    let vocabulary = numbered(all_bytes().chain(characters()));
    let scores: Vec<Value> =
        vocabulary.keys().map(|token| json!([token, -(token.chars().count() as f64).recip()])).collect();
    let metaspace = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true });
    let fallback = json!([{ "type": "ByteFallback" }, metaspace]);
    let parts = json!({ "pre_tokenizer": metaspace, "decoder": { "type": "Sequence", "decoders": fallback } });
    let mut json = whole(vocabulary, false, parts, json!({}));
    json["model"] = json!({ "type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": true });
    json
}
