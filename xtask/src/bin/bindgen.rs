//! `bindgen --target KIND --out-dir DIR [--out-name NAME] [--remove-name-section] MODULE`: wasm-bindgen's library
//! behind those flags of its command line that xtask uses.
//!
//! The command line itself brings a server, an HTTP client and its encryption along, for tests; without them a page is
//! built minutes sooner.
#![allow(clippy::print_stderr, reason = "a command-line tool talks to whoever runs it")]

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    match generate(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn generate(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let mut bindgen = Bindgen::new();
    let mut folder = None;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--target" => {
                match value()?.as_str() {
                    "web" => bindgen.web(true)?,
                    "no-modules" => bindgen.no_modules(true)?,
                    other => bail!("the target {other} is not known here"),
                };
            }
            "--remove-name-section" => {
                bindgen.remove_name_section(true);
            }
            "--out-dir" => folder = Some(value()?),
            "--out-name" => {
                bindgen.out_name(&value()?);
            }
            module => {
                bindgen.input_path(module);
            }
        }
    }
    bindgen.typescript(true).generate(folder.context("--out-dir is missing")?)
}
