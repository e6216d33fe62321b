//! The `outrider` command as a process.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Runs the command to its end.
pub fn outrider(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outrider")).args(arguments).output().unwrap()
}

/// What a run that succeeds says.
pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one line that a failing run says on stderr.
pub fn complaint(arguments: &[&str]) -> String {
    let output = outrider(arguments);
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    line
}

/// `outrider serve`, until dropped.
pub struct Server {
    process: Child,
    /// `127.0.0.1:…`
    pub address: String,
    /// `ws://…/session`
    pub url: String,
}

impl Server {
    /// On a free port.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", flags)
    }

    /// At an address.
    pub fn start_at(address: &str, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrider"));
        Self::of(command.args(["serve", "--listen", address]).args(flags).stderr(Stdio::null()))
    }

    /// Starts a command that serves on a free port.
    pub fn of(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().rsplit_once("http://").unwrap().1.to_owned();
        Self { url: format!("ws://{address}/session"), address, process }
    }

    /// Tells it to stop, as an operator's machine does.
    pub fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// How it ended, if it does in so long a time.
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
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
