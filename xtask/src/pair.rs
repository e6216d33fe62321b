//! `cargo xtask pair`: the built-in pair at the cost of larger models.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::workspace::Workspace;

/// How weights are stored unless it is said.
const ELEMENT: &str = "q8_0";

/// What is to grow, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Roles, as in the file names, and sizes.
    grown: Vec<(&'static str, String)>,
    element: String,
    verify: bool,
    /// Whether pairs as they are published are wanted, at real size with random weights.
    published: bool,
}

impl Pair {
    /// Reads the arguments behind `pair`.
    pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self> {
        let mut pair = Self { grown: Vec::new(), element: ELEMENT.to_owned(), verify: false, published: false };
        while let Some(argument) = arguments.next() {
            let argument = argument.to_string_lossy().into_owned();
            let mut value = || {
                let value = arguments.next().with_context(|| format!("{argument} needs a value after it"))?;
                anyhow::Ok(value.to_string_lossy().into_owned())
            };
            match argument.as_str() {
                "--grow-target" => pair.grown.push(("target", value()?)),
                "--grow-draft" => pair.grown.push(("draft", value()?)),
                "--element" => pair.element = value()?,
                "--verify" => pair.verify = true,
                "--published" => pair.published = true,
                _ => bail!(
                    "`pair` takes --grow-target SIZE, --grow-draft SIZE, --element E, --verify and --published, not \
                     {argument}"
                ),
            }
        }
        ensure!(
            pair.published || !pair.grown.is_empty(),
            "`pair` needs --grow-target SIZE or --grow-draft SIZE, 135M or 1.1B, or --published"
        );
        Ok(pair)
    }

    /// Writes the files, and compares them if that is asked for.
    pub fn run(&self, workspace: &Workspace) -> Result<()> {
        let (folder, program) = (folder(workspace), program(workspace)?);
        for (role, size) in &self.grown {
            let mut program = workspace.command(&program);
            program.arg("grow").arg(&folder);
            if self.verify {
                program.arg("check");
            }
            process::run(program.args([role, size.as_str(), &self.element]))?;
        }
        if self.published {
            process::run(workspace.command(&program).arg("published").arg(folder.join("published")))?;
        }
        Ok(())
    }
}

/// The file of a grown model, written if it is not there.
pub fn grow(workspace: &Workspace, role: &'static str, size: &str) -> Result<PathBuf> {
    let pair =
        Pair { grown: vec![(role, size.to_owned())], element: ELEMENT.to_owned(), verify: false, published: false };
    pair.run(workspace)?;
    Ok(folder(workspace).join(format!("{size}-{role}-{ELEMENT}.gguf")))
}

/// What grows them and measures, built. As part of the workspace, so that what it rests on is compiled once.
pub fn program(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = workspace.cargo("build");
    process::run(build.args(["--quiet", "--release", "--workspace", "--bin", "outrider-bench"]))?;
    Ok(workspace.target().join("release").join(format!("outrider-bench{}", std::env::consts::EXE_SUFFIX)))
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("pair")
}
