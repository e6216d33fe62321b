//! `outrider serve` as a process.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A server in a process of its own, until dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    /// Address that it listens at, such as `127.0.0.1:8100`.
    pub address: String,
    /// Address of sessions, `ws://…/session`.
    pub url: String,
}

impl Server {
    /// Starts a command that serves, and waits until it listens.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or begins with another line than the one that says where it listens.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut server = Self { process, address: String::new(), url: String::new() };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim_end().rsplit_once("http://");
        address
            .ok_or_else(|| io::Error::other(format!("the server began with {line:?}")))?
            .1
            .clone_into(&mut server.address);
        server.url = format!("ws://{}/session", server.address);
        Ok(server)
    }

    /// Bytes of memory that the process holds.
    ///
    /// # Errors
    ///
    /// If the system does not say so.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
        kib.map(|kib: u64| kib * 1024)
            .ok_or_else(|| io::Error::other("the system does not say how much memory is held"))
    }

    /// Asks it to stop, as an operator's machine does.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Asks it to read its settings again.
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Status with which it ended, if it does within this time.
    pub fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            let status = self.process.try_wait().unwrap();
            if status.is_some() || start.elapsed() > limit {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if the process has ended already, which is what we want.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
