//! wasm-bindgen's library with those flags of its command line that xtask uses.
//!
//! The command line itself brings a server, an HTTP client and its encryption along, for tests; without them a page is
//! built minutes sooner.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use wasm_bindgen_cli_support::Bindgen;

/// Adds JavaScript to a module of rustc for wasm32
#[derive(Parser)]
struct Options {
    module: PathBuf,
    #[arg(long)]
    target: String,
    #[arg(long)]
    out_dir: PathBuf,
    #[arg(long)]
    out_name: Option<String>,
    #[arg(long)]
    remove_name_section: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(options.target == "web", "the target {} is not known here", options.target);
    let mut bindgen = Bindgen::new();
    bindgen.web(true)?.typescript(true).remove_name_section(options.remove_name_section).input_path(options.module);
    if let Some(name) = &options.out_name {
        bindgen.out_name(name);
    }
    bindgen.generate(options.out_dir)
}
