//! `outrider serve` as a process.

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
};

use outrider_testing::process;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::passes::Failure;

/// All sessions come from one address.
const NO_ADDRESS_LIMIT: [&str; 2] = ["--max-sessions-per-address", "0"];

/// Returns a command that runs on one core.
pub fn on_core(core: u32, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &core.to_string()]).arg(program);
    command
}

/// A server on a free port, until dropped.
pub struct Server(process::Server);

impl Server {
    /// Starts it with these arguments and waits until it listens.
    pub fn start(outrider: &Path, arguments: &[&str]) -> Result<Self, Failure> {
        Self::run(Command::new(outrider), &[&NO_ADDRESS_LIMIT, arguments].concat())
    }

    /// Starts it on one core, like [`start`](Self::start) otherwise.
    pub fn start_on_core(core: u32, outrider: &Path, arguments: &[&str]) -> Result<Self, Failure> {
        Self::run(on_core(core, outrider), &[&NO_ADDRESS_LIMIT, arguments].concat())
    }

    /// Starts it with its default limits, like [`start`](Self::start) otherwise.
    pub fn guarded(outrider: &Path, arguments: &[&str]) -> Result<Self, Failure> {
        Self::run(Command::new(outrider), arguments)
    }

    fn run(mut command: Command, arguments: &[&str]) -> Result<Self, Failure> {
        // The page's folder need not be there.
        command.args(["serve", "--listen", "127.0.0.1:0", "--web", "no-page"]).args(arguments);
        // A log line for each session would be measured as well.
        Ok(Self(process::Server::start(command.env("RUST_LOG", "warn"))?))
    }

    /// Starts it with its default limits and a log of all requests into a pipe that is never read.
    pub fn with_unread_log(outrider: &Path, arguments: &[&str]) -> Result<Self, Failure> {
        let mut command = Command::new(outrider);
        command.args(["serve", "--listen", "127.0.0.1:0", "--web", "no-page"]).args(arguments);
        // The server's process keeps the pipe's other end.
        Ok(Self(process::Server::start(command.env("RUST_LOG", "debug").stderr(Stdio::piped()))?))
    }

    pub fn address(&self) -> &str {
        &self.0.address
    }

    pub fn session_url(&self) -> String {
        self.0.url.clone()
    }

    /// Bytes of memory that the process holds.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.0.resident_bytes()
    }

    /// Reads the present values of `/metrics`.
    pub async fn metrics(&self) -> Result<Scrape, Failure> {
        let mut stream = TcpStream::connect(self.address()).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address());
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(Scrape(text))
    }
}

/// The text of `/metrics`.
pub struct Scrape(pub String);

impl Scrape {
    /// The number after a name without labels; not a number if there is none.
    pub fn value(&self, name: &str) -> f64 {
        let mut values = self.0.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        values.next().unwrap_or(f64::NAN)
    }

    /// The sum over all labels of a name.
    pub fn sum(&self, name: &str) -> f64 {
        let values = self.0.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.sum()
    }
}
