//! Checkpoints as folders, with what lies beside their weights.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{
    env, fs,
    path::PathBuf,
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

use outrider_models::{LoadError, Model};

const CONFIG: &[u8] = include_bytes!("golden/grouped.config.json");
const WEIGHTS: &[u8] = include_bytes!("golden/grouped.safetensors");

/// A folder of its own, which is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn with(files: &[(&str, &[u8])]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("outrider-folder-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        for (name, bytes) in files {
            fs::write(path.join(name), bytes).unwrap();
        }
        Self(path)
    }

    /// A whole checkpoint, with a file beside it.
    fn checkpoint(name: &str, text: &str) -> Model {
        let files = [("config.json", CONFIG), ("model.safetensors", WEIGHTS), (name, text.as_bytes())];
        Model::open(&Self::with(&files).0).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As transformers generates: by generation_config.json, if it says so.
#[test]
fn what_ends_a_text_is_said_beside_the_config() {
    let ends = |text: &str| Folder::checkpoint("generation_config.json", text).config().eos_token_ids.clone();
    assert_eq!(ends("{\"eos_token_id\": [3, 4, 5], \"temperature\": 0.6}"), [3, 4, 5]);
    assert_eq!(ends("{\"eos_token_id\": 7}"), [7]);
    assert_eq!(ends("{\"temperature\": 0.6}"), [1, 2], "the config's own");
}

#[test]
fn what_begins_a_prompt_is_said_beside_the_config() {
    let begins = |text: &str| Folder::checkpoint("tokenizer_config.json", text).config().first_token();
    assert_eq!(begins("{\"add_bos_token\": true}"), Some(0));
    assert_eq!(begins("{\"add_bos_token\": false}"), None);
    assert_eq!(begins("{\"tokenizer_class\": \"LlamaTokenizer\"}"), Some(0));
    assert_eq!(begins("{\"tokenizer_class\": \"GPT2Tokenizer\"}"), None);
    assert_eq!(begins("{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_bos_token\": true}"), Some(0));
    assert_eq!(Folder::checkpoint("README.md", "").config().first_token(), Some(0), "nothing else is known");
}

/// Not "no such file": what is there, and what is wanted.
#[test]
fn a_folder_without_a_checkpoint_says_what_it_has() {
    let none: &[u8] = &[];
    for (files, said) in [
        (&["config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json"][..], "in shards"),
        (&["config.json", "pytorch_model.bin"], "pytorch_model.bin"),
        (&["model-Q8_0.gguf"], "model-Q8_0.gguf, which can be named itself"),
        (&["model.safetensors"], "no config.json beside model.safetensors"),
        (&[], "neither"),
    ] {
        let folder = Folder::with(&files.iter().map(|name| (*name, none)).collect::<Vec<_>>());
        let error = Model::open(&folder.0).err().unwrap();
        assert!(matches!(error, LoadError::IncompleteFolder { .. }) && error.to_string().contains(said), "{error}");
    }
}
