//! Test binaries: built by cargo, listed by its JSON messages, run here.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;
use crate::times;

/// An executable, or a wasm module, with tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestBinary {
    /// The name of its target in Cargo.toml.
    pub name: String,
    /// The folder of its package, in which cargo would run it.
    pub folder: PathBuf,
    /// The path of the built file.
    pub path: PathBuf,
}

impl TestBinary {
    /// Runs `cargo test --no-run`, as `command` says, and returns the test binaries that it built.
    pub fn build(command: &mut Command) -> Result<Vec<Self>> {
        let messages = process::capture_shown(command.args(["--no-run", "--message-format=json-render-diagnostics"]))?;
        Ok(messages.lines().filter_map(Self::in_message).collect())
    }

    /// Reads one of cargo's messages; `None` for those that report no test binary.
    fn in_message(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        // The profile of the unit says whether it was built as a test; a program is listed as well.
        message["profile"]["test"].as_bool().filter(|&is_test| is_test)?;
        Some(Self {
            name: message["target"]["name"].as_str()?.to_owned(),
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf(),
            path: message["executable"].as_str()?.into(),
        })
    }
}

/// Runs binaries in two lanes, the ones in `first` before all others: those that mostly wait beside those that compute.
/// `command` starts a binary; what it prints is shown if it fails. Returns the number of tests that passed in each.
pub fn run_in_lanes(
    mut binaries: Vec<TestBinary>,
    first: &[&str],
    command: impl Fn(&TestBinary) -> Command + Sync,
) -> Result<Vec<(TestBinary, u64)>> {
    binaries.sort_by_key(|binary| first.iter().position(|name| *name == binary.name).unwrap_or(first.len()));
    let queue = Mutex::new(VecDeque::from(binaries));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let lane = || -> Result<Vec<_>> {
        let mut done = Vec::new();
        while let Some(binary) = next() {
            let passed = run(&binary, command(&binary)).inspect_err(|_| {
                // The other lane ends with the binary that it is at.
                queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
            })?;
            done.push((binary, passed));
        }
        Ok(done)
    };
    thread::scope(|scope| {
        let other = scope.spawn(lane);
        let outcome = lane();
        let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok([outcome?, other?].concat())
    })
}

/// Runs a binary by its command. Returns the number of tests that passed.
fn run(binary: &TestBinary, mut command: Command) -> Result<u64> {
    let start = Instant::now();
    let output = command.current_dir(&binary.folder).output().with_context(|| format!("{binary:?} did not start"))?;
    let package = binary.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("{package}, {}", binary.name);
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        eprint!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    }
    ensure!(output.status.success(), "tests of {name} failed ({}); their messages are above", output.status);
    let passed = printed.lines().map(tests_passed).sum();
    println!("{name}: {passed} passed in {}", times::shown(start.elapsed()));
    Ok(passed)
}

/// The number in `test result: ok. 12 passed; …`, else 0.
pub fn tests_passed(line: &str) -> u64 {
    line.trim()
        .strip_prefix("test result: ok. ")
        .and_then(|counts| counts.split_once(" passed"))
        .and_then(|(count, _)| count.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = concat!(
        r#"{"reason":"compiler-artifact","package_id":"path+file:///r/shared-codec#outrider-codec@0.1.0","#,
        r#""manifest_path":"/r/shared-codec/Cargo.toml","target":{"kind":["test"],"name":"bijection","test":true},"#,
        r#""profile":{"opt_level":"3","test":true},"features":[],"filenames":[],"executable":"/t/a-1","fresh":true}"#
    );

    #[test]
    fn test_binaries_are_read_from_cargos_messages() {
        let binary = TestBinary::in_message(MESSAGE).unwrap();
        assert_eq!(binary.name, "bijection");
        assert_eq!(
            (binary.folder.as_path(), binary.path.as_path()),
            (Path::new("/r/shared-codec"), Path::new("/t/a-1"))
        );
        assert_eq!(TestBinary::in_message(&MESSAGE.replace("\"/t/a-1\"", "null")), None);
        assert_eq!(
            TestBinary::in_message(&MESSAGE.replace("\"test\":true},\"features", "\"test\":false},\"features")),
            None
        );
    }

    #[test]
    fn counts_only_successful_results() {
        let line = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 filtered out";
        assert_eq!(tests_passed(line), 12);
        assert_eq!(tests_passed("    test result: ok. 3 passed; 0 failed\n"), 3);
        for line in ["", "no tests to run!", "test result: FAILED. 1 passed; 1 failed", "test a::b ... ok"] {
            assert_eq!(tests_passed(line), 0, "{line:?}");
        }
    }
}
