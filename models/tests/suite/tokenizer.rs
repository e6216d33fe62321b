//! Text to ids and back, streams, and the fingerprint.

use std::collections::{BTreeSet, HashMap};

use outrider_models::{LoadError, TextStream, Tokenizer};
use serde_json::json;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{fixture::TOKENIZER, vocabularies};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn text_survives_the_round_trip() {
    let tokenizer = Tokenizer::from_bytes(TOKENIZER).unwrap();
    assert_eq!(tokenizer.vocab_size(), 4096);
    assert_eq!(tokenizer.token_id("<|endoftext|>"), Some(0));
    assert_eq!(tokenizer.token_id("no such token"), None);
    for text in ["", "Once upon a time", "  two  spaces\n\nand lines\t", "naïve façade — “quoted” 🦊 日本語"]
    {
        let ids = tokenizer.encode(text).unwrap();
        assert!(!ids.contains(&0));
        assert_eq!(tokenizer.decode(&ids), text);
    }
    // Special tokens and ids that do not exist have no text.
    assert_eq!(tokenizer.decode(&[0, 4096, u32::MAX]), "");
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut stream = TextStream::new();
    let mut text: String = ids.iter().map(|&id| stream.push(tokenizer, id)).collect();
    text.push_str(&stream.finish());
    text
}

#[test]
fn streams_give_the_same_text_as_decoding_at_once() {
    let byte_level = Tokenizer::from_bytes(TOKENIZER).unwrap();
    let byte_fallback = Tokenizer::from_bytes(BYTE_FALLBACK.as_bytes()).unwrap();
    for (tokenizer, vocabulary) in [(&byte_level, 4100), (&byte_fallback, 265)] {
        let mut state = 1u32;
        for round in 0..400 {
            let mut ids = Vec::new();
            for _ in 0..round % 40 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Mostly single bytes, so that characters begin, continue and break off in all ways.
                let range = if state & 3 == 0 { vocabulary } else { 260 };
                ids.push((state >> 8) % range);
            }
            assert_eq!(streamed(tokenizer, &ids), tokenizer.decode(&ids), "{ids:?}");
        }
    }
}

#[test]
fn well_formed_text_decodes_as_in_the_reference_implementation() {
    for json in [TOKENIZER, BYTE_FALLBACK.as_bytes()] {
        let tokenizer = Tokenizer::from_bytes(json).unwrap();
        let reference = tokenizers::Tokenizer::from_bytes(json).unwrap();
        for text in ["naïve 🦊🦊 日本語", " a b", "🦊 é\u{fffd}", "the the"] {
            let text = text.replace(' ', if json == TOKENIZER { " " } else { "▁" });
            let ids = tokenizer.encode(&text).unwrap();
            assert_eq!(ids, reference.encode_fast(text.as_str(), false).unwrap().get_ids());
            assert_eq!(tokenizer.decode(&ids), reference.decode(&ids, true).unwrap());
        }
    }
}

#[test]
fn a_stream_never_shows_half_a_character() {
    let tokenizer = Tokenizer::from_bytes(TOKENIZER).unwrap();
    let ids = tokenizer.encode("🦊é").unwrap();
    assert!(ids.len() > 2, "the fox is several tokens");
    let mut stream = TextStream::new();
    let pieces: Vec<String> = ids.iter().map(|&id| stream.push(&tokenizer, id)).collect();
    assert!(pieces.iter().all(|piece| !piece.contains(char::REPLACEMENT_CHARACTER)));
    assert_eq!(pieces[0], "");
    assert_eq!(pieces.concat(), "🦊é");
    let mut cut = TextStream::new();
    assert_eq!(cut.push(&tokenizer, ids[0]), "");
    assert_eq!(cut.finish(), "\u{fffd}");
    assert_eq!(cut.finish(), "");
}

/// Every cut of a text into prompt and completion gives the pieces of the tokenizers crate's `DecodeStream`, which has
/// read the prompt.
#[test]
fn a_completion_reads_as_in_the_reference_implementation() {
    for (name, json) in vocabularies::all() {
        let (tokenizer, reference) = vocabularies::both(&json);
        for text in ["Once upon a time.", " a  b", "naïve 🦙 x", "🦙🦙", "a . b, <x>"] {
            let ids = tokenizer.encode(text).unwrap();
            for cut in 0..ids.len() {
                let mut expected = reference.decode_stream(true);
                let before: String = ids[..cut].iter().filter_map(|&id| expected.step(id).unwrap()).collect();
                if before.len() != reference.decode(&ids[..cut], true).unwrap().len() {
                    continue; // Within a character: the reference has not given it yet.
                }
                let expected: String = ids[cut..].iter().filter_map(|&id| expected.step(id).unwrap()).collect();
                let mut stream = TextStream::after(&tokenizer, &ids[..cut]);
                let mut pieces: String = ids[cut..].iter().map(|&id| stream.push(&tokenizer, id)).collect();
                pieces.push_str(&stream.finish());
                assert_eq!(pieces, expected, "{name}: {text:?} after {cut} tokens");
            }
        }
    }
}

#[test]
fn a_tokens_text_is_what_it_adds_to_the_prompt() {
    let tokenizer = vocabularies::both(&vocabularies::sentence_piece()).0;
    let id = |token: &str| tokenizer.token_id(token).unwrap();
    let (once, upon, end) = (id("▁Once"), id("▁upon"), id("</s>"));
    for (prompt, text) in [(vec![], "upon"), (vec![once], " upon"), (vec![once, end], " upon"), (vec![end], "upon")] {
        assert_eq!(TextStream::after(&tokenizer, &prompt).text_of(&tokenizer, upon), text, "{prompt:?}");
        assert_eq!(TextStream::after(&tokenizer, &prompt).text_of(&tokenizer, end), "");
    }
    // The rest of a character that the prompt has begun.
    let bytes: Vec<u32> = "é".bytes().map(|byte| id(&format!("<0x{byte:02X}>"))).collect();
    let mut stream = TextStream::after(&tokenizer, &[once, bytes[0], end]);
    assert_eq!(stream.push(&tokenizer, bytes[1]), "é");
}

/// A decoder may be nested in others, and a vocabulary need not have a token for every byte.
#[test]
fn bytes_make_characters_whatever_the_decoder_is_nested_in() {
    let mut json = vocabularies::byte_level(None, false);
    json["decoder"] = json!({ "type": "Sequence", "decoders": [json["decoder"].clone(), { "type": "Fuse" }] });
    let few = vocabularies::sentence_piece_with(["<0xF0>", "<0x9F>", "<0xA6>", "<0x99>"]);
    for json in [json, few] {
        let (tokenizer, reference) = vocabularies::both(&json);
        let ids = tokenizer.encode("a🦙").unwrap();
        assert_eq!(tokenizer.decode(&ids), reference.decode(&ids, true).unwrap());
        assert_eq!(tokenizer.decode(&ids), "a🦙");
    }
}

/// Texts are cut as Oniguruma cuts them, which transformers' tokenizers use (`golden/make_oniguruma.py`): classes in
/// brackets are Unicode's, joiners are not of a word, and `{1,3}+` is three digits at most, once or more often.
#[test]
fn patterns_are_those_of_oniguruma() {
    #[derive(serde::Deserialize)]
    struct Golden {
        pattern: String,
        pieces: Vec<String>,
    }
    let golden: Vec<Golden> = serde_json::from_str(include_str!("../golden/oniguruma.json")).unwrap();
    assert!(golden.len() >= 60);
    let mut failures = Vec::new();
    for Golden { pattern, pieces } in golden {
        // A vocabulary of these pieces: any other is unknown.
        let distinct: BTreeSet<&String> = pieces.iter().collect();
        let mut vocab: HashMap<&str, usize> = distinct.into_iter().map(String::as_str).zip(1..).collect();
        vocab.insert("<unk>", 0);
        let split =
            json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false });
        let json = json!({
            "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": split, "post_processor": null,
            "decoder": null, "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "<unk>" },
        });
        match Tokenizer::from_bytes(json.to_string().as_bytes()) {
            Ok(tokenizer) => {
                let ids = tokenizer.encode(&pieces.concat()).unwrap();
                let found: Vec<String> = ids.iter().filter_map(|&id| tokenizer.token(id)).collect();
                if found != pieces {
                    failures.push(format!("{pattern}: {found:?}, not {pieces:?}"));
                }
            }
            Err(error) => failures.push(format!("{pattern}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_fingerprint_is_that_of_the_vocabulary() {
    let tokenizer = Tokenizer::from_bytes(TOKENIZER).unwrap();
    assert_eq!(hex(&tokenizer.fingerprint()), PAIR_FINGERPRINT);

    // Layout of the JSON and merges do not matter, tokens do.
    let value: serde_json::Value = serde_json::from_slice(TOKENIZER).unwrap();
    let compact = Tokenizer::from_bytes(value.to_string().as_bytes()).unwrap();
    assert_eq!(compact.fingerprint(), tokenizer.fingerprint());
    let small = |tokens: &str| {
        let json = format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
            "pre_tokenizer":null,"post_processor":null,"decoder":null,
            "model":{{"type":"WordLevel","vocab":{tokens},"unk_token":"a"}}}}"#
        );
        Tokenizer::from_bytes(json.as_bytes()).unwrap()
    };
    let (one, other) = (small(r#"{"a":0,"bé":1}"#), small(r#"{"bé":1, "a":0}"#));
    assert_eq!(one.fingerprint(), other.fingerprint());
    assert_ne!(one.fingerprint(), small(r#"{"a":1,"bé":0}"#).fingerprint());
    assert_ne!(one.fingerprint(), small(r#"{"a":0,"be":1}"#).fingerprint());
    // SHA-256 of 00000000 01000000 61 01000000 03000000 62c3a9.
    assert_eq!(hex(&one.fingerprint()), SMALL_FINGERPRINT);
}

#[test]
fn malformed_json_is_an_error() {
    for json in ["", "{}", "[1]", r#"{"version":"1.0"}"#] {
        assert!(matches!(Tokenizer::from_bytes(json.as_bytes()), Err(LoadError::Tokenizer(_))));
    }
}

const PAIR_FINGERPRINT: &str = "5d8343c348bd6480b2fd7916cc0509aea9bd31ecb87a5f36097baa7bc191e446";
const SMALL_FINGERPRINT: &str = "9c5d248d2a869a0baa9121f154f1b8378e3e62c3c1d2c58db1680f3d85efa290";

/// A vocabulary in SentencePiece's manner: all bytes, and a few words with `▁` for a space.
const BYTE_FALLBACK: &str = include_str!("../golden/byte_fallback.tokenizer.json");
