//! `cargo xtask check`: all checks that run no program of the workspace.

use anyhow::Result;

use crate::process;
use crate::prose;
use crate::python;
use crate::tools::Tool;
use crate::wasm;
use crate::workspace::Workspace;

/// The package on PyPI that brings the program, at the one version that we have seen working.
const TYPOS: &str = "typos==1.52.0";

/// Runs every check, the quick ones first, and stops at the first that fails.
pub fn run(workspace: &Workspace) -> Result<()> {
    heading("formatting");
    process::run(workspace.cargo("fmt").args(["--all", "--", "--check"]))?;

    heading("spelling");
    process::run(&mut workspace.command(python::program(workspace, "typos", TYPOS)?))?;

    heading("comments and documents");
    prose::check(workspace)?;

    heading("licences, duplicates and sources of dependencies");
    let cargo_deny = Tool::CARGO_DENY.find_or_install(workspace)?;
    // Not `advisories`: its database is a git repository on the network, and a check that depends on today's state of
    // it fails or passes without a change here. `cargo deny check advisories` belongs to a release.
    process::run(workspace.command(cargo_deny).args([
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]))?;

    // Release throughout, so that build scripts and macros are compiled once for checks and tests together.
    heading("clippy on this machine");
    process::run(workspace.cargo("clippy").args([
        "--release",
        "--workspace",
        "--all-targets",
        "--",
        "--deny",
        "warnings",
    ]))?;

    heading("clippy for the browser");
    wasm::lint(workspace)?;

    heading("docs");
    process::run(
        workspace.cargo("doc").args(["--release", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "--deny warnings"),
    )
}

fn heading(what: &str) {
    println!("\n-- {what}");
}
