//! The server: built, started, and waited for.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::interrupt::Interrupt;
use crate::process::{self, Running};
use crate::workspace::Workspace;

/// Time limit for the server to load its model and answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Builds the server and gives the executable's path.
pub fn build(workspace: &Workspace) -> Result<PathBuf> {
    process::run(workspace.cargo_without_candle("build").args(["--bin", "outrider"]))?;
    let file = format!("outrider{}", std::env::consts::EXE_SUFFIX);
    let binary = workspace.target().join("release").join(file);
    ensure!(binary.is_file(), "the server was built, but is not at {}", binary.display());
    Ok(binary)
}

/// `outrider serve` on `address`, with the files of `web`.
pub fn command(workspace: &Workspace, binary: &Path, address: SocketAddr, web: &Path) -> Command {
    let mut command = workspace.command(binary);
    command.args(["serve", "--listen", &address.to_string(), "--web"]).arg(web);
    command
}

/// The address of `port` on this machine, or of any free port for 0; fails if the port is taken.
pub fn free_address(port: u16) -> Result<SocketAddr> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(listener) => listener.local_addr().context("the system does not say which port is free"),
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
            "port {port} is taken by another program: end it, or choose a port with --port N (0 takes a free one)"
        ),
        Err(error) => Err(error).with_context(|| format!("port {port} cannot be listened on")),
    }
}

/// Starts a server on `address` and returns once /healthz answers 200; fails when it ends or takes more than two
/// minutes.
pub fn start(command: &mut Command, address: SocketAddr, interrupt: &Interrupt) -> Result<Running> {
    let mut server = Running::start(command)?;
    let start = Instant::now();
    while !is_healthy(address) {
        interrupt.ensure_not_raised()?;
        server.ensure_alive().context("the server did not come up")?;
        ensure!(
            start.elapsed() < PATIENCE,
            "the server did not answer on http://{address}/healthz within {} seconds",
            PATIENCE.as_secs()
        );
        thread::sleep(Duration::from_millis(100));
    }
    Ok(server)
}

fn is_healthy(address: SocketAddr) -> bool {
    status_line(address).is_ok_and(|line| &line == b"HTTP/1.1 200 ")
}

/// The first bytes of the answer to `GET /healthz`.
fn status_line(address: SocketAddr) -> std::io::Result<[u8; 13]> {
    let second = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&address, second)?;
    stream.set_read_timeout(Some(second))?;
    stream.set_write_timeout(Some(second))?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut line = [0; 13];
    stream.read_exact(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_in_one_sentence() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = free_address(port).unwrap_err().to_string();
        assert!(error.starts_with(&format!("port {port} is taken")), "{error}");
    }

    #[test]
    fn port_zero_is_some_free_port() {
        assert_ne!(free_address(0).unwrap().port(), 0);
    }

    #[test]
    fn only_status_200_is_healthy() {
        let answer = |response: &'static str| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let length = stream.read(&mut request).unwrap();
                assert!(request[..length].starts_with(b"GET /healthz HTTP/1.1\r\n"));
                stream.write_all(response.as_bytes()).unwrap();
            });
            let healthy = is_healthy(address);
            server.join().unwrap();
            healthy
        };
        assert!(answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
        assert!(!answer("HTTP/1.1 503 Service Unavailable\r\n\r\n"));
        assert!(!answer("SSH-2.0-OpenSSH\r\n"));
        assert!(!answer("HTTP"));
        assert!(!is_healthy(free_address(0).unwrap()), "no server listens there");
    }
}
