//! `cargo xtask bench`: measurements that anyone can repeat. They are not tests; nothing fails for being slow.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::chromium;
use crate::page::Page;
use crate::process;
use crate::wasm;
use crate::workspace::Workspace;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// Bits and time of the codes.
    Codec,
    /// Quality against rejections, for every acceptance rule.
    Rules,
    /// Every uplink scheme on the default pair.
    Schemes,
}

impl Bench {
    /// Every measurement.
    pub const ALL: [Self; 3] = [Self::Codec, Self::Rules, Self::Schemes];

    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Codec => "codec",
            Self::Rules => "rules",
            Self::Schemes => "schemes",
        }
    }

    /// The measurement called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bench| bench.name() == name)
    }

    /// Measures, prints tables and leaves them in target/bench.
    pub fn run(self, workspace: &Workspace) -> Result<()> {
        let folder = workspace.target().join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        match self {
            Self::Codec => codec(workspace, &folder),
            Self::Rules | Self::Schemes => program(workspace, self, &[], &folder),
        }
    }
}

/// The drafts are made here, timed in the browser, and timed here.
fn codec(workspace: &Workspace, folder: &Path) -> Result<()> {
    let browser = chromium::browser()?;
    let page = Page::install(workspace)?;
    wasm::build_bench(workspace, folder)?;
    program(workspace, Bench::Codec, &["prepare"], folder)?;
    println!("Timing in Chromium: a minute or two.");
    let times = process::capture(page.node("e2e/bench.mjs").arg(folder).env("CHROMIUM_PATH", browser))?;
    let path = folder.join("codec-browser.txt");
    fs::write(&path, times).with_context(|| format!("{} cannot be written", path.display()))?;
    program(workspace, Bench::Codec, &["report"], folder)
}

/// tests/bench/NAME.rs with these arguments and the folder for its results.
fn program(workspace: &Workspace, bench: Bench, arguments: &[&str], folder: &Path) -> Result<()> {
    let mut command = workspace.cargo("bench");
    command.args(["--quiet", "--package", "outrider-tests", "--bench", bench.name(), "--"]);
    process::run(command.args(arguments).arg(folder))
}
