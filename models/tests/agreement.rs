//! Table of the families, containers and oracles in docs/models.md.
//!
//! `OUTRIDER_WRITE_TABLES=1 cargo test -p outrider-models --test agreement` writes it; without the variable the test
//! checks it. The suite compares with the oracles that the table counts.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{collections::BTreeMap, env, fmt::Write, fs};

use outrider_testing::{
    families::{goldens, mixtures},
    golden::Golden,
};
use serde_json::Value;

/// Lines of the document around the table.
const BOUNDS: [&str; 2] = ["<!-- agreement -->\n\n", "\n<!-- end of agreement -->"];

/// Pre-tokenizers and kinds of vocabularies of a family's published files, and manners of its chat templates. They are
/// assigned by hand: the oracles know nothing of families.
type Files = (&'static [&'static str], &'static [&'static str]);

fn files(family: &str) -> Files {
    match family {
        "llama" => (&["llama-bpe", "sentencepiece"], &["headers"]),
        "mistral" => (&["tekken", "sentencepiece"], &["marks"]),
        "mixtral" => (&["sentencepiece"], &["marks"]),
        "qwen2" | "qwen3" | "qwen3_moe" => (&["qwen2"], &["chatml", "tagged"]),
        "gemma" | "gemma2" | "gemma3_text" | "phi3" => (&["sentencepiece"], &[]),
        "smollm3" => (&["smaug-bpe"], &["chatml"]),
        "olmo2" => (&["dbrx"], &[]),
        "granite" => (&["refact"], &[]),
        "stablelm" => (&["stablelm2"], &["chatml"]),
        "gpt2" => (&["gpt-2"], &[]),
        "gpt_oss" => (&["gpt-4o"], &["harmony"]),
        "gpt_neo" | "opt" => (&[], &[]),
        other => panic!("{other} has no line in this table"),
    }
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "–".to_owned() } else { names.join(", ") }
}

fn table() -> String {
    let pre_tokenizers: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("golden/pre_tokenizers.json")).unwrap();
    let chat: Value = serde_json::from_str(include_str!("golden/chat.json")).unwrap();
    let conversations =
        |manner: &str| chat["cases"].as_array().unwrap().iter().filter(|case| case["name"] == manner).count();
    let mut families: Vec<(String, Vec<Golden>)> = Vec::new();
    for golden in goldens().into_iter().chain(mixtures()) {
        match families.last_mut().filter(|(family, _)| *family == golden.family) {
            Some((_, models)) => models.push(golden),
            None => families.push((golden.family.clone(), vec![golden])),
        }
    }
    let mut text = "| family | container | tokens | chat | greedy |\n|---|---|---|---|---|\n".to_owned();
    for (family, models) in families {
        let (vocabularies, manners) = files(&family);
        for name in vocabularies {
            assert!(*name == "sentencepiece" || pre_tokenizers.contains_key(*name), "{name} has no oracle");
        }
        let manners: Vec<String> =
            manners.iter().map(|manner| format!("{manner} ({} conversations)", conversations(manner))).collect();
        assert!(manners.iter().all(|manner| !manner.contains("(0 ")), "{manners:?}");
        let chat = list(&manners.iter().map(String::as_str).collect::<Vec<_>>());
        for (container, models) in [
            ("safetensors", models.iter().collect::<Vec<_>>()),
            ("GGUF", models.iter().filter(|model| model.gguf().is_some()).collect()),
        ] {
            let greedy = match models.iter().map(|model| model.greedy.len()).sum::<usize>() {
                0 => "–".to_owned(),
                tokens => format!("{tokens} tokens"),
            };
            // A `tokenizer.json` is read by the crate that would be its oracle.
            let (tokens, chat) = match (container, greedy.as_str()) {
                (_, "–") => ("–".to_owned(), "–"),
                ("GGUF", _) => (list(vocabularies), chat.as_str()),
                _ => ("–".to_owned(), chat.as_str()),
            };
            writeln!(text, "| {family} | {container} | {tokens} | {chat} | {greedy} |").unwrap();
        }
    }
    text
}

#[test]
fn the_table_of_families_is_in_the_documents() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/models.md");
    let document = fs::read_to_string(path).unwrap();
    let [begin, end] = BOUNDS.map(|bound| document.find(bound).unwrap_or_else(|| panic!("{bound:?} is not there")));
    let begin = begin + BOUNDS[0].len();
    let table = table();
    if env::var_os("OUTRIDER_WRITE_TABLES").is_some() {
        fs::write(path, format!("{}{table}{}", &document[..begin], &document[end..])).unwrap();
    } else {
        let command = "OUTRIDER_WRITE_TABLES=1 cargo test -p outrider-models --test agreement";
        assert!(document[begin..end] == table, "docs/models.md has another table; write it: {command}");
    }
}
