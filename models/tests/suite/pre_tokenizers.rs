//! Pre-tokenizers that GGUF files name, against the tokenizers crate with the sections of published `tokenizer.json`
//! files (`../golden/pre_tokenizers.json`).

use std::collections::{BTreeMap, HashMap};

use outrider_models::{GgufVocabulary, LoadError, Tokenizer};
use outrider_testing::gguf::Gguf;
use serde_json::{Value, json};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Texts at which families cut differently: capitals, contractions, digits, marks, line ends, spaces, scripts.
const TEXTS: [&str; 16] = [
    "Hello World, it's OpenAI's GPT-4o; I'LL say WE'VE HelloWorld camelCaseWord",
    "3 33 333 3333 33333 333333 3333333 1.50 ½ ²³ Ⅷ ٣٤٥ १२३",
    "  two   spaces\tand\ttabs   \n\n  lines \r\n\r\n \n\t x   ",
    "a/b //comment\n/// more///\n/path/to//file.rs:12\n",
    "naïve façade e\u{301}te\u{301} n\u{303}o Å\u{30a} हिन्दी में ไทยนะ",
    "日本語のテキスト、中文文本。한국어 텍스트 カタカナひらがな",
    "🦊🦊 👩‍👩‍👧 ✂️ — “quoted” ‘single’ … ¿qué? ¡sí!",
    "$100 + 20% = <tag attr=\"x\"> ~^|` #hash @at \\back {brace} [x]",
    "ПРИВЕТ Мир ΑΒΓ αβγ ǅ ƻ ʔ ª º Ⅻ ͅ",
    "don't DON'T can'T 'tis 'S y'all'd",
    "__init__(self, *args): return x==y!=z<=w->v::u",
    "\u{a0}nbsp\u{2003}em\u{3000}wide\u{feff}bom\u{200b}zero \u{85}nel\u{2028}ls",
    "\r\r\n\n\r a\rb\nc \r\n",
    "word    \n    indented\n\n\n        more   ",
    "!!!wow!!! ...and?? (yes) x.y,z 'a' \"b\" ！？。，",
    "A1b2C3 1a2B 12ab34CD ABCdef ABC dEF",
];

/// Byte-level vocabulary of 256 bytes and merges of the most frequent pairs in the uncut texts, across all limits.
fn vocabulary() -> (Vec<String>, Vec<String>) {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..=255u8).filter(|byte| !printable(byte)).zip('\u{100}'..);
    let alphabet: HashMap<u8, char> =
        (0..=255u8).filter(printable).map(|byte| (byte, char::from(byte))).chain(others).collect();
    let mut tokens: Vec<String> = (0..=255u8).map(|byte| alphabet[&byte].to_string()).collect();
    let mut merges = Vec::new();
    let mut texts: Vec<Vec<String>> =
        TEXTS.iter().map(|text| text.bytes().map(|byte| alphabet[&byte].to_string()).collect()).collect();
    for _ in 0..400 {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for pair in texts.iter().flat_map(|text| text.windows(2)) {
            *counts.entry((&pair[0], &pair[1])).or_default() += 1;
        }
        let Some(((a, b), _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { break };
        let (a, b) = (a.to_owned(), b.to_owned());
        let merged = format!("{a}{b}");
        merges.push(format!("{a} {b}"));
        for text in &mut texts {
            let mut at = 0;
            while at + 1 < text.len() {
                if text[at] == a && text[at + 1] == b {
                    text[at].clone_from(&merged);
                    text.remove(at + 1);
                }
                at += 1;
            }
        }
        if !tokens.contains(&merged) {
            tokens.push(merged);
        }
    }
    (tokens, merges)
}

fn read(pre: &str, tokens: &[String], merges: &[String]) -> GgufVocabulary {
    let file = Gguf::default()
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .texts("tokenizer.ggml.tokens", tokens)
        .texts("tokenizer.ggml.merges", merges)
        .finish();
    GgufVocabulary::read(&mut &file[..]).unwrap().unwrap()
}

#[test]
fn every_pre_tokenizer_gives_the_ids_of_its_tokenizer_json() {
    let published: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../golden/pre_tokenizers.json")).unwrap();
    assert!(published.len() >= 20);
    let (tokens, merges) = vocabulary();
    let vocab: HashMap<&String, usize> = tokens.iter().enumerate().map(|(id, token)| (token, id)).collect();
    let pairs: Vec<Vec<&str>> = merges.iter().map(|merge| merge.split(' ').collect()).collect();
    for (name, sections) in published {
        let reference = json!({
            "version": "1.0", "added_tokens": [], "decoder": null,
            "normalizer": sections["normalizer"], "pre_tokenizer": sections["pre_tokenizer"],
            "model": { "type": "BPE", "vocab": vocab, "merges": pairs, "ignore_merges": sections["ignore_merges"] },
        });
        let reference = tokenizers::Tokenizer::from_bytes(reference.to_string()).unwrap();
        let json = read(&name, &tokens, &merges).tokenizer_json();
        let made = Tokenizer::from_bytes(&json.unwrap_or_else(|error| panic!("{name}: {error}"))).unwrap();
        for text in TEXTS {
            let expected = reference.encode_fast(text, false).unwrap().get_ids().to_vec();
            assert_eq!(made.encode(text).unwrap(), expected, "{name}: {text:?}");
        }
    }
}

#[test]
fn an_unknown_pre_tokenizer_is_refused_by_name() {
    let (tokens, merges) = vocabulary();
    let found = read("of-next-year", &tokens, &merges).tokenizer_json().unwrap_err();
    assert!(matches!(found, LoadError::NoTokenizer { .. }));
    let message = found.to_string();
    assert!(message.contains("of-next-year") && message.contains("tokenizer.json"), "{message}");
}

/// A tokenizer would not help.
#[test]
fn an_unsupported_architecture_is_reported_before_a_missing_tokenizer() {
    let file = Gguf::default()
        .text("general.architecture", "mamba")
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "of-next-year")
        .texts("tokenizer.ggml.tokens", &["a".to_owned()])
        .finish();
    let found = GgufVocabulary::read(&mut &file[..]).unwrap_err();
    assert!(matches!(&found, LoadError::UnknownFamily { found, .. } if found == "mamba"), "{found}");
}
