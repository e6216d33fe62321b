//! Python against the server, in an environment under target/tools: the official client of OpenAI's API, and the
//! example of one that speaks the protocol.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::interrupt::Interrupt;
use crate::process::{self, Running};
use crate::server;
use crate::workspace::Workspace;

/// The client, at the one version that we have seen working.
const CLIENT: &str = "openai==3.54.0";

/// Starts `server` on a free port and has both clients use it.
pub fn test(workspace: &Workspace, server: &Path) -> Result<()> {
    let python = environment(workspace)?;
    let address: SocketAddr = server::free_address(0)?;
    let interrupt = Interrupt::listen()?;
    let web = workspace.web().join("dist");
    let mut running = Running::start(&mut server::command(workspace, server, address, &web))?;
    server::wait_until_healthy(&mut running, address, &interrupt)?;
    let mut client = workspace.command(&python);
    client.arg(workspace.root().join("tests/server/openai_client.py")).arg(format!("http://{address}/v1"));
    process::run(&mut client)?;
    let mut example = workspace.command(&python);
    example.arg(workspace.root().join("examples/client.py")).arg(format!("http://{address}"));
    process::run(example.args(["Once upon a time", "0"]))
}

/// A Python that has the client.
fn environment(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target().join("tools").join(CLIENT.replace("==", "-"));
    let python = folder.join("bin").join("python");
    // Written when all is installed, so that an interrupted installation is begun again.
    let mark = folder.join("complete");
    if !mark.is_file() {
        let found = process::find_on_path("python3")
            .context("Python 3 is needed to test with OpenAI's client, and there is no `python3` in PATH")?;
        process::run(workspace.command(found).args(["-m", "venv"]).arg(&folder))?;
        let mut pip = workspace.command(folder.join("bin").join("pip"));
        process::run(pip.args(["install", "--quiet", "--disable-pip-version-check", CLIENT]))?;
        std::fs::write(&mark, CLIENT).with_context(|| format!("{} cannot be written", mark.display()))?;
    }
    Ok(python)
}
