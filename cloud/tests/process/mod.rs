//! The `outrider` command as a process of a test.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use outrider_testing::process::Server;

/// Builds the command, without arguments.
pub fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_outrider"))
}

/// Runs the command to its end.
pub fn outrider(arguments: &[&str]) -> Output {
    command().args(arguments).output().unwrap()
}

/// Standard output of a run, which has to succeed.
pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Line that a failing run writes to standard error.
pub fn complaint(arguments: &[&str]) -> String {
    let output = outrider(arguments);
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    line
}

/// Writes a temporary file for this test.
pub fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Starts `outrider serve` on a free port.
pub fn start(flags: &[&str]) -> Server {
    start_at("127.0.0.1:0", flags)
}

/// Starts `outrider serve` at an address. It stops without a time for balancers, unless the flags set one.
pub fn start_at(address: &str, flags: &[&str]) -> Server {
    let mut command = command();
    Server::start(
        command.env("OUTRIDER_DRAIN", "0").args(["serve", "--listen", address]).args(flags).stderr(Stdio::null()),
    )
    .unwrap()
}
