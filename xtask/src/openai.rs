//! Python against the server: the official client of OpenAI's API, and the example of one that speaks the protocol.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use crate::interrupt::Interrupt;
use crate::process::{self, Running};
use crate::python;
use crate::server;
use crate::workspace::Workspace;

/// The client, at the one version that we have seen working.
const CLIENT: &str = "openai==3.54.0";

/// Starts `server` on a free port and has both clients use it.
pub fn test(workspace: &Workspace, server: &Path) -> Result<()> {
    let python = python::environment(workspace, &CLIENT.replace("==", "-"), &[CLIENT])?;
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
