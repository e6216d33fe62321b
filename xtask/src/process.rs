//! Running other programs: shown, checked, found, and ended with us.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use semver::Version;

use crate::interrupt::Interrupt;

/// Interval at which a process that may be interrupted is polled.
const POLL: Duration = Duration::from_millis(50);

/// Prints `command`, runs it on our own terminal and fails unless it exits with 0.
pub fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("`{}` could not be started", shown(command)))?;
    ensure!(status.success(), "`{}` failed ({status}); its own messages are above", shown(command));
    Ok(())
}

/// Runs `command` like [`run`], and calls `line` with each line of its standard output.
pub fn run_watched(command: &mut Command, mut line: impl FnMut(&str)) -> Result<()> {
    println!("$ {}", shown(command));
    let mut child = Running::start(command.stdout(Stdio::piped()))?;
    if let Some(output) = child.0.stdout.take() {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        while output.read_until(b'\n', &mut bytes).unwrap_or(0) > 0 {
            let mut stdout = std::io::stdout().lock();
            // A closed pipe needs no more output, but the command's status still counts.
            let _ = stdout.write_all(&bytes).and_then(|()| stdout.flush());
            line(&String::from_utf8_lossy(&bytes));
            bytes.clear();
        }
    }
    let status = child.0.wait().context("a child process got lost")?;
    ensure!(status.success(), "`{}` failed ({status}); its own messages are above", shown(command));
    Ok(())
}

/// Prints `command`, runs it with its messages on our own terminal, and returns its standard output.
pub fn capture_shown(command: &mut Command) -> Result<String> {
    println!("$ {}", shown(command));
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("`{}` could not be started", shown(command)))?;
    ensure!(output.status.success(), "`{}` failed ({}); its own messages are above", shown(command), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `command` silently and returns its standard output.
pub fn capture(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("`{}` could not be started", shown(command)))?;
    ensure!(
        output.status.success(),
        "`{}` failed ({}): {}",
        shown(command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Gives the first version in what `program` prints for `--version`, such as `wasm-bindgen 0.2.130` or `v20.20.2`.
pub fn version(program: &Path) -> Result<Version> {
    let output = capture(Command::new(program).arg("--version"))?;
    version_in(&output).with_context(|| format!("there is no version in {:?}", output.trim()))
}

/// Gives the first word of a text that is a version, with or without a `v` before it.
pub fn version_in(text: &str) -> Option<Version> {
    text.split_whitespace().find_map(|word| Version::parse(word.strip_prefix('v').unwrap_or(word)).ok())
}

/// The first file called `name` (with the platform's ending) in a folder of PATH.
pub fn find_on_path(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(&file)).find(|path| path.is_file())
}

/// Puts `folder` before everything else on the PATH that `command` sees.
pub fn prepend_path(command: &mut Command, folder: &Path) -> Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    let set = command.get_envs().find(|(name, _)| *name == OsStr::new("PATH"));
    let path = match set {
        Some((_, path)) => path.map(OsStr::to_os_string),
        None => std::env::var_os("PATH"),
    };
    folders.extend(path.iter().flat_map(std::env::split_paths));
    let joined = std::env::join_paths(folders).with_context(|| format!("{} cannot stand in PATH", folder.display()))?;
    command.env("PATH", joined);
    Ok(())
}

/// A child process that is killed when this value goes away.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts `command` without waiting for it.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("`{}` could not be started", shown(command)))?;
        Ok(Self(child))
    }

    /// Waits for the process to end and fails unless its status is 0; returns early when `interrupt` is raised.
    pub fn wait(&mut self, interrupt: &Interrupt) -> Result<()> {
        while !interrupt.is_raised() {
            let status = self.0.try_wait().context("a child process got lost")?;
            if let Some(status) = status {
                ensure!(status.success(), "it ended with {status}; its own messages are above");
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Fails if the process is no longer running.
    pub fn ensure_alive(&mut self) -> Result<()> {
        match self.0.try_wait() {
            Ok(Some(status)) => bail!("it ended by itself ({status}); its own messages are above"),
            Ok(None) => Ok(()),
            Err(error) => Err(error).context("its state cannot be read"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if the process has ended already, which is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command as a user would type it; for the eye, not for a shell.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| {
            let word = word.to_string_lossy();
            if word.contains(' ') { format!("'{word}'") } else { word.into_owned() }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The command, held to a core of its own by `taskset`.
pub fn hold(command: Command, core: usize) -> Command {
    let mut held = Command::new("taskset");
    held.args(["--cpu-list", &core.to_string()]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => held.env(name, value),
            None => held.env_remove(name),
        };
    }
    command.get_current_dir().map(|folder| held.current_dir(folder));
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["test", "--", "two words"]);
        assert_eq!(shown(&command), "cargo test -- 'two words'");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_with_its_name() {
        let error = capture(&mut Command::new("outrider-no-such-program")).unwrap_err();
        assert!(error.to_string().contains("outrider-no-such-program"), "{error}");
        assert_eq!(find_on_path("outrider-no-such-program"), None);
    }

    #[test]
    fn versions_are_words() {
        assert_eq!(version_in("Tool 1.2.3.4 wasm-bindgen 0.2.130"), Some(Version::new(0, 2, 130)));
        assert_eq!(version_in("v20.20.2\n"), Some(Version::new(20, 20, 2)));
        assert_eq!(version_in("command not found: 1.2"), None);
    }

    #[test]
    fn prepended_folders_pile_up() {
        let mut command = Command::new("true");
        prepend_path(&mut command, Path::new("b")).unwrap();
        prepend_path(&mut command, Path::new("a")).unwrap();
        let (_, path) = command.get_envs().next().unwrap();
        let folders: Vec<_> = std::env::split_paths(path.unwrap()).take(2).collect();
        assert_eq!(folders, [Path::new("a"), Path::new("b")]);
    }
}
