//! Python environments under target/tools, and the checks of the Python package.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// What checks and tests the package for vLLM; vLLM itself is not among it.
const CHECKERS: [&str; 4] = ["numpy==2.4.6", "mypy==2.4.1", "pytest==9.2.0", "ruff==0.17.6"];

/// The package for vLLM: formatting, lints, types and tests.
pub fn test(workspace: &Workspace) -> Result<()> {
    let python = environment(workspace, "python-package", &CHECKERS)?;
    let package = workspace.root().join("integrations/vllm");
    for module in [&["ruff", "format", "--check"][..], &["ruff", "check"], &["mypy"], &["pytest", "--quiet"]] {
        process::run(workspace.command(&python).current_dir(&package).arg("-m").args(module))?;
    }
    Ok(())
}

/// A Python that has `packages`, in the folder `name`.
pub fn environment(workspace: &Workspace, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = workspace.target().join("tools").join(name);
    let python = folder.join("bin").join("python");
    // Written when all is installed, so that an interrupted installation, or one of other versions, is begun again.
    let mark = folder.join("complete");
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&mark).ok().as_ref() != Some(&wanted) {
        let found =
            process::find_on_path("python3").context("Python 3 is needed, and there is no `python3` in PATH")?;
        process::run(workspace.command(found).args(["-m", "venv"]).arg(&folder))?;
        let mut pip = workspace.command(folder.join("bin").join("pip"));
        process::run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
        std::fs::write(&mark, wanted).with_context(|| format!("{} cannot be written", mark.display()))?;
    }
    Ok(python)
}

/// A program that comes prebuilt in `package`, as `name==version`.
pub fn program(workspace: &Workspace, name: &str, package: &str) -> Result<PathBuf> {
    let python = environment(workspace, name, &[package])?;
    Ok(python.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
}
