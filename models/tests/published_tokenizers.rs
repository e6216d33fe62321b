//! Published tokenizers against Hugging Face's own program: ids, text, and text as it is streamed.
//!
//! `cargo xtask test native --full` downloads the tokenizers, and `published/make_expected.py` writes what is expected.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{env, fs, path::PathBuf};

use outrider_models::{TextStream, Tokenizer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    text: String,
    ids: Vec<u32>,
    pieces: Vec<String>,
    decoded: String,
}

#[test]
#[ignore = "it needs published tokenizers, in the folder that OUTRIDER_TOKENIZERS names"]
fn ids_texts_and_streams_are_those_of_the_tokenizers_package() {
    let folder = PathBuf::from(env::var_os("OUTRIDER_TOKENIZERS").unwrap());
    let mut compared = 0;
    for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let tokenizer = Tokenizer::from_bytes(&fs::read(&file).unwrap()).unwrap();
        for line in fs::read_to_string(file.with_extension("expected")).unwrap().lines() {
            let expected: Expected = serde_json::from_str(line).unwrap();
            let at = format!("{}, {:?}", file.display(), expected.text);
            assert_eq!(tokenizer.encode(&expected.text).unwrap(), expected.ids, "{at}");
            assert_eq!(tokenizer.decode(&expected.ids), expected.decoded, "{at}");
            let mut stream = TextStream::new();
            // Theirs keeps a token back until all of its characters are whole; ours gives the whole ones.
            let (mut ours, mut theirs) = (String::new(), String::new());
            for (&id, piece) in expected.ids.iter().zip(&expected.pieces) {
                ours += &stream.push(&tokenizer, id);
                theirs += piece;
                assert!(ours.starts_with(&theirs), "{at}: {ours:?} and {theirs:?}");
            }
            assert_eq!((ours + &stream.finish(), theirs), (expected.decoded.clone(), expected.decoded), "{at}");
            compared += 1;
        }
    }
    assert!(compared > 0, "{} has no tokenizer", folder.display());
}
