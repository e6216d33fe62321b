//! Python environments under target/tools, and the tests that are Python programs: of the packages in integrations/, of
//! the server by OpenAI's client, and of manifests by their schemas.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::interrupt::Interrupt;
use crate::process;
use crate::server;
use crate::workspace::Workspace;

/// Programs that check and test the package for vLLM; vLLM itself is not needed.
const CHECKERS: [&str; 4] = ["numpy==2.4.6", "mypy==2.4.1", "pytest==9.2.0", "ruff==0.17.6"];
/// The official client of OpenAI's API.
const CLIENT: [&str; 1] = ["openai==3.54.0"];
/// Programs that bring the schemas of Compose and Kubernetes.
const SCHEMAS: [&str; 2] = ["check-jsonschema==0.39.0", "kubernetes-validate==1.37.0"];

/// Installs `packages` from PyPI in the folder `name`, unless they are there; gives the path of its Python.
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
        let mut pip = workspace.command(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        process::run(pip.args(packages))?;
        std::fs::write(&mark, wanted).with_context(|| format!("{} cannot be written", mark.display()))?;
    }
    Ok(python)
}

/// Checks and tests the packages in integrations/: formatting, lints, types and tests. Tests of the package that trains
/// drafts that need torch are skipped where it is absent.
pub fn test_packages(workspace: &Workspace) -> Result<()> {
    let python = environment(workspace, "python-package", &CHECKERS)?;
    for package in ["vllm", "draft"] {
        let package = workspace.root().join("integrations").join(package);
        for module in [&["ruff", "format", "--check"][..], &["ruff", "check"], &["mypy"], &["pytest", "--quiet"]] {
            process::run(workspace.command(&python).current_dir(&package).arg("-m").args(module))?;
        }
    }
    Ok(())
}

/// Starts `server` on a free port and has OpenAI's client and our example of a client use it.
pub fn test_clients(workspace: &Workspace, server: &Path) -> Result<()> {
    let python = environment(workspace, "openai", &CLIENT)?;
    let address: SocketAddr = server::free_address(0)?;
    let interrupt = Interrupt::listen()?;
    let web = workspace.web().join("dist");
    let _running = server::start(&mut server::command(workspace, server, address, &web), address, &interrupt)?;
    let client = |script: &str, url: String, arguments: &[&str]| {
        process::run(workspace.command(&python).arg(workspace.root().join(script)).arg(url).args(arguments))
    };
    client("tests/server/openai_client.py", format!("http://{address}/v1"), &[])?;
    client("examples/client.py", format!("http://{address}"), &["Once upon a time", "0"])
}

/// Checks the files for containers in docs/gateway by the schemas of Compose and Kubernetes.
pub fn test_manifests(workspace: &Workspace) -> Result<()> {
    let python = environment(workspace, "manifests", &SCHEMAS)?;
    let validate = |module: &str, options: &[&str], file: &str| {
        let file = workspace.root().join("docs/gateway").join(file);
        process::run(workspace.command(&python).args(["-m", module]).args(options).arg(file))
    };
    validate("check_jsonschema", &["--builtin-schema", "vendor.compose-spec"], "compose.yaml")?;
    validate("kubernetes_validate", &["--strict", "--quiet"], "kubernetes.yaml")
}

/// Gives the path of a program that comes prebuilt in `package`, as `name==version`.
pub fn program(workspace: &Workspace, name: &str, package: &str) -> Result<PathBuf> {
    let python = environment(workspace, name, &[package])?;
    Ok(python.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
}
