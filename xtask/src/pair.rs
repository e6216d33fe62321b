//! `cargo xtask pair`: the built-in pair and SmolLM2 at the cost of larger models.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// Element type of the weights unless another is given.
const ELEMENT: &str = "q8_0";
/// Short name of the published chat model, and its role among the models that grow.
pub const SMOLLM2: &str = "smollm2";

/// Options of the command `pair`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Pair {
    /// Grow the target to the cost of 135M or 1.1B parameters
    #[arg(long, value_name = "SIZE", required_unless_present_any = ["grow_draft", "grow_smollm2", "published"])]
    grow_target: Option<String>,
    /// Grow the draft in the same way
    #[arg(long, value_name = "SIZE")]
    grow_draft: Option<String>,
    /// Grow SmolLM2-135M-Instruct (98 MB, downloaded) to the cost of 1.1B parameters, in target/pair/smollm2
    #[arg(long, value_name = "SIZE")]
    grow_smollm2: Option<String>,
    /// Element type of the weights: f16, q8_0 or q4_0
    #[arg(long, default_value = ELEMENT)]
    element: String,
    /// Compare texts and times with the small models and with random weights: some minutes
    #[arg(long)]
    verify: bool,
    /// Also write files as they are published, of Qwen2.5-0.5B's and 1.5B's shapes with random weights: sharded
    /// safetensors and Q4_K_M, 5 GB in target/pair/published
    #[arg(long)]
    published: bool,
}

impl Pair {
    /// Writes the files, and compares them if that is asked for.
    pub fn run(&self, workspace: &Workspace) -> Result<()> {
        let program = program(workspace)?;
        let roles = [("target", &self.grow_target), ("draft", &self.grow_draft), (SMOLLM2, &self.grow_smollm2)];
        for (role, size) in roles {
            let Some(size) = size else { continue };
            let mut program = workspace.command(&program);
            program.arg("grow").arg(folder_of(workspace, role)).args(self.verify.then_some("check"));
            process::run(program.args([role, size, &self.element]))?;
        }
        if self.published {
            process::run(workspace.command(&program).arg("published").arg(folder(workspace).join("published")))?;
        }
        Ok(())
    }
}

/// Gives the file of a grown model, written if it is not there.
pub fn grow(workspace: &Workspace, role: &str, size: &str) -> Result<PathBuf> {
    let folder = folder_of(workspace, role);
    process::run(workspace.command(program(workspace)?).arg("grow").arg(&folder).args([role, size, ELEMENT]))?;
    Ok(folder.join(format!("{size}-{role}-{ELEMENT}.gguf")))
}

/// Gives the files of SmolLM2-135M-Instruct, grown to a size if one is given, and of the draft made for it.
pub fn smollm2(workspace: &Workspace, server: &Path, size: Option<&str>) -> Result<[PathBuf; 2]> {
    let mut fetch = workspace.command(server);
    let paths = process::capture_shown(fetch.args(["fetch", "--model", SMOLLM2]))?;
    let mut paths = paths.lines().map(PathBuf::from);
    let (Some(target), Some(draft)) = (paths.next(), paths.next()) else {
        bail!("`outrider fetch` names no target and no draft")
    };
    Ok([size.map_or(Ok(target), |size| grow(workspace, SMOLLM2, size))?, draft])
}

/// Builds the program that grows models and measures, as part of the workspace: its dependencies are compiled once.
pub fn program(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = workspace.cargo("build");
    process::run(build.args(["--quiet", "--release", "--workspace", "--bin", "outrider-bench"]))?;
    Ok(workspace.target().join("release").join(format!("outrider-bench{}", std::env::consts::EXE_SUFFIX)))
}

pub fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("pair")
}

/// Folder of a role's grown models, with the tokenizer that they share.
fn folder_of(workspace: &Workspace, role: &str) -> PathBuf {
    if role == SMOLLM2 { folder(workspace).join(SMOLLM2) } else { folder(workspace) }
}
