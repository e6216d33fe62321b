use std::{env, path::PathBuf};

use super::*;
use crate::pair;

/// Kinds of tokens (llama.cpp's `llama_token_type`).
const NORMAL: u32 = 1;
const CONTROL: u32 = 3;
const USER_DEFINED: u32 = 4;
const UNUSED: u32 = 5;

/// A vocabulary that no published model has.
const OWN: [(&str, u32); 4] = [("<|own|>", CONTROL), ("a", NORMAL), ("b", NORMAL), ("c", NORMAL)];

/// A temporary folder of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("outrider-tokens-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes of a GGUF file with this vocabulary and no tensors.
fn gguf(cut: &str, tokens: &[(&str, u32)]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let setting = |key: &str, code: u32, value: &[u8]| [&text(key), &code.to_le_bytes()[..], value].concat();
    let array = |code: u32, items: Vec<Vec<u8>>| {
        [&code.to_le_bytes()[..], &(items.len() as u64).to_le_bytes(), &items.concat()].concat()
    };
    let texts = array(8, tokens.iter().map(|(token, _)| text(token)).collect());
    let kinds = array(5, tokens.iter().map(|(_, kind)| kind.to_le_bytes().to_vec()).collect());
    let settings = [
        setting("tokenizer.ggml.model", 8, &text("gpt2")),
        setting("tokenizer.ggml.pre", 8, &text(cut)),
        setting("tokenizer.ggml.tokens", 9, &texts),
        setting("tokenizer.ggml.token_type", 9, &kinds),
    ];
    let (tensors, count) = (0u64.to_le_bytes(), 4u64.to_le_bytes());
    [b"GGUF", &3u32.to_le_bytes()[..], &tensors, &count, &settings.concat()].concat()
}

/// Bytes of the tokenizer.json of a vocabulary.
fn json(tokens: &[(&str, u32)]) -> Vec<u8> {
    GgufVocabulary::read(&mut &gguf("gpt-2", tokens)[..]).unwrap().unwrap().tokenizer_json().unwrap()
}

fn fingerprint(json: &[u8]) -> [u8; 32] {
    Tokenizer::from_bytes(json).unwrap().fingerprint()
}

/// Kinds of the two sources that disagree, one word each.
fn refusal(error: PairError) -> (&'static str, &'static str) {
    let PairError::Mismatch(mismatch) = error else { panic!("another error: {error}") };
    let word = |origin: &Origin| match origin {
        Origin::Given(_) => "tokenizer",
        Origin::Beside(..) => "beside",
        Origin::InFile(what, _) if *what == DRAFT => "draft",
        Origin::InFile(..) => "target",
        Origin::BuiltIn(what) => what,
    };
    (word(&mismatch.origin), word(&mismatch.other))
}

/// Draft, target and tokenizer, each built in or another, as commands use them: `generate --server` runs one end;
/// `generate --local`, `check` and `serve` run both, and the target of `serve` may be an engine elsewhere.
#[test]
fn every_combination_has_one_tokenizer_or_says_what_to_give() {
    type Expected = Result<&'static str, (&'static str, &'static str)>;
    const BUILT_IN: Expected = Ok("built-in");
    const OTHER: Expected = Ok("own");
    const NO_DRAFT: Expected = Err(("target", DRAFT));
    const NO_TARGET: Expected = Err(("draft", TARGET));
    let folder = Folder::new("table");
    let own = folder.file("own/model.gguf", &gguf("gpt-2", &OWN));
    let copy = folder.file("copy/model.gguf", pair::DRAFT);
    let given = folder.file("tokenizer/tokenizer.json", &json(&OWN));
    let engine = PathBuf::from("openai:http://127.0.0.1:9");
    let (own, copy, given, engine) = (Some(&own), Some(&copy), Some(&given), Some(&engine));
    // draft, target, tokenizer: with one end, with both
    let table: [(_, _, _, Expected, Expected); 18] = [
        (None, None, None, BUILT_IN, BUILT_IN),
        (own, None, None, OTHER, NO_TARGET),
        (None, own, None, NO_DRAFT, NO_DRAFT),
        (own, own, None, OTHER, OTHER),
        (None, None, given, Err(("tokenizer", DRAFT)), Err(("tokenizer", "pair"))),
        (own, None, given, OTHER, Err(("tokenizer", TARGET))),
        (None, own, given, Err(("tokenizer", DRAFT)), Err(("tokenizer", DRAFT))),
        (own, own, given, OTHER, OTHER),
        // Files with the built-in tokenizer work with the other built-in model, and with no other.
        (copy, None, None, BUILT_IN, BUILT_IN),
        (None, copy, None, BUILT_IN, BUILT_IN),
        (copy, copy, None, BUILT_IN, BUILT_IN),
        (copy, own, None, Err(("draft", "target")), Err(("draft", "target"))),
        (own, copy, None, Err(("draft", "target")), Err(("draft", "target"))),
        (copy, None, given, Err(("draft", "tokenizer")), Err(("draft", "tokenizer"))),
        // Only the draft is compared where an engine verifies.
        (None, engine, None, BUILT_IN, BUILT_IN),
        (own, engine, None, OTHER, OTHER),
        (None, engine, given, Err(("tokenizer", DRAFT)), Err(("tokenizer", DRAFT))),
        (own, engine, given, OTHER, OTHER),
    ];
    for (draft, target, tokenizer, one, both) in table {
        let paths = PairPaths {
            draft: draft.cloned(),
            target: target.cloned(),
            tokenizer: tokenizer.cloned(),
            ..PairPaths::default()
        };
        for (ends, expected) in [(Ends::Draft, one), (Ends::Both, both)] {
            let taken = paths.tokenizer_for(ends).map_err(refusal).map(|(tokenizer, json)| {
                assert_eq!(tokenizer.fingerprint(), fingerprint(&json), "the bytes are another tokenizer's");
                match tokenizer.fingerprint() {
                    own if own == fingerprint(&json) && tokenizer.vocab_size() == OWN.len() => "own",
                    built_in if built_in == fingerprint(TOKENIZER) => "built-in",
                    _ => "neither",
                }
            });
            assert_eq!(taken, expected, "{ends:?} of {paths:?}");
        }
    }
}

#[test]
fn refusals_name_the_option_that_is_missing() {
    let folder = Folder::new("advice");
    let own = folder.file("model.gguf", &gguf("gpt-2", &OWN));
    let says = |paths: PairPaths| paths.tokenizer().map(|_| ()).unwrap_err().to_string();
    let line = says(PairPaths { target: Some(own.clone()), ..PairPaths::default() });
    assert!(line.starts_with("token 0 is \"<|own|>\" for the target model"), "{line}");
    assert!(line.contains("for the built-in draft model") && line.contains("with --draft"), "{line}");
    assert!(line.ends_with("with --own-draft lookup"), "{line}");
    let line = says(PairPaths { draft: Some(own), ..PairPaths::default() });
    assert!(line.contains("for the built-in target model") && line.ends_with("with --target"), "{line}");
}

/// Tokenizer for a draft of this file with this tokenizer.json beside it, and perhaps another given.
fn drafting(folder: &Folder, file: &[u8], beside: Option<&[u8]>, given: Option<&[u8]>) -> Result<Tokenizer, PairError> {
    let model = folder.file("model/model.gguf", file);
    let _ = fs::remove_file(folder.0.join("model/tokenizer.json"));
    if let Some(json) = beside {
        folder.file("model/tokenizer.json", json);
    }
    let tokenizer = given.map(|json| folder.file("given.json", json));
    let paths = PairPaths { draft: Some(model), tokenizer, ..PairPaths::default() };
    paths.tokenizer_for(Ends::Draft).map(|(tokenizer, _)| tokenizer)
}

#[test]
fn a_tokenizer_beside_a_file_has_the_files_tokens() {
    let folder = Folder::new("beside");
    let own = json(&OWN);
    let other = json(&[OWN[0], OWN[1], ("B", NORMAL), OWN[3]]);
    let fewer = json(&OWN[..2]);
    // An unknown pre-tokenizer is compared by its tokens, too.
    for cut in ["gpt-2", "of-a-model-to-come"] {
        let file = gguf(cut, &OWN);
        assert_eq!(drafting(&folder, &file, Some(&own), None).unwrap().fingerprint(), fingerprint(&own));
        let line = drafting(&folder, &file, Some(&other), None).map(|_| ()).unwrap_err().to_string();
        assert!(line.starts_with("token 2 is \"b\" for the draft model"), "{line}");
        assert!(line.contains("\"B\" for the tokenizer.json beside the draft model"), "{line}");
        assert!(line.contains("remove that tokenizer.json, or give the right one with --tokenizer"), "{line}");
        let line = drafting(&folder, &file, Some(&fewer), None).map(|_| ()).unwrap_err().to_string();
        assert!(line.contains("token 2 is \"b\"") && line.contains("absent (2 tokens instead of 4)"), "{line}");
        // A given tokenizer replaces it, and is compared in the same way.
        let given = drafting(&folder, &file, Some(&other), Some(&own)).unwrap();
        assert_eq!(given.fingerprint(), fingerprint(&own));
        for wrong in [&other, &fewer] {
            let refused = drafting(&folder, &file, Some(&own), Some(wrong)).map(|_| ()).map_err(refusal);
            assert_eq!(refused, Err(("draft", "tokenizer")));
        }
    }
}

/// Published models have more rows than their tokenizers have tokens.
#[test]
fn rows_without_a_token_are_no_difference() {
    let folder = Folder::new("padding");
    let own = json(&OWN);
    let padded = [&OWN[..], &[("[PAD4]", UNUSED), ("[PAD5]", USER_DEFINED), ("[PAD6]", UNUSED)]].concat();
    for (beside, given) in [(Some(&own[..]), None), (None, Some(&own[..]))] {
        let tokenizer = drafting(&folder, &gguf("gpt-2", &padded), beside, given).unwrap();
        assert_eq!(tokenizer.vocab_size(), OWN.len());
    }
    // The same holds for a space that the converter has written as a space.
    let spaced = |spaces| [&OWN[..], &[(spaces, USER_DEFINED)]].concat();
    let tokenizer = drafting(&folder, &gguf("gpt-2", &spaced("  ")), Some(&json(&spaced("▁▁"))), None).unwrap();
    assert_eq!(tokenizer.token(4).as_deref(), Some("▁▁"));
    // A token that ends a turn is no padding.
    let more = [&OWN[..], &[("<|end|>", CONTROL)]].concat();
    let refused = drafting(&folder, &gguf("gpt-2", &more), Some(&own), None).map(|_| ()).map_err(refusal);
    assert_eq!(refused, Err(("draft", "beside")));
}

#[test]
fn a_file_without_a_vocabulary_has_the_tokenizer_beside_it() {
    let folder = Folder::new("nameless");
    let (file, own) = (gguf("gpt-2", &[]), json(&OWN));
    assert_eq!(drafting(&folder, &file, Some(&own), None).unwrap().fingerprint(), fingerprint(&own));
    assert_eq!(drafting(&folder, &file, None, Some(&own)).unwrap().fingerprint(), fingerprint(&own));
    // The file has no tokens of its own: a given tokenizer has to equal the one beside it.
    let other = json(&[("x", NORMAL)]);
    let refused = drafting(&folder, &file, Some(&own), Some(&other)).map(|_| ()).map_err(refusal);
    assert_eq!(refused, Err(("beside", "tokenizer")));
    let refused = drafting(&folder, &file, None, None).map(|_| ());
    assert!(matches!(refused, Err(PairError::NoTokenizer { what: DRAFT, .. })));
}

#[test]
fn any_part_of_a_model_has_the_first_ones_vocabulary() {
    let folder = Folder::new("parts");
    let first = folder.file("m-00001-of-00002.gguf", &gguf("gpt-2", &OWN));
    let second = folder.file("m-00002-of-00002.gguf", &gguf("gpt-2", &[]));
    let of = |path: &PathBuf| {
        let paths = PairPaths { draft: Some(path.clone()), ..PairPaths::default() };
        paths.tokenizer_for(Ends::Draft).map(|(tokenizer, _)| tokenizer.fingerprint())
    };
    assert_eq!(of(&first).unwrap(), of(&second).unwrap());
    folder.file("tokenizer.json", &json(&[("x", NORMAL)]));
    assert_eq!(of(&second).map_err(refusal), Err(("draft", "beside")));
    fs::remove_file(&first).unwrap();
    let line = of(&second).unwrap_err().to_string();
    assert!(line.contains("m-00001-of-00002.gguf"), "{line}");
}

#[test]
fn a_path_that_leads_nowhere_is_called_that() {
    let says = |path: &str| {
        let paths = PairPaths { draft: Some(path.into()), target: Some(path.into()), ..PairPaths::default() };
        paths.tokenizer().map(|_| ()).unwrap_err().to_string()
    };
    let line = says("no/such/folder");
    assert_eq!(line, "the target model no/such/folder does not exist: there is no such file or folder");
    assert!(
        says("Owner/Model-1B").ends_with("; write hf:Owner/Model-1B for the model of this name on Hugging Face's hub")
    );
    assert!(!says("models/draft.gguf").contains("hf:"));
}
