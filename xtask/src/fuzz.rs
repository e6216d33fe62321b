//! `cargo xtask fuzz`: libFuzzer on the targets of fuzz/, by the stable toolchain.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::system::Program;
use crate::tools::Tool;
use crate::workspace::Workspace;

/// The targets of fuzz/Cargo.toml, from the bytes outwards.
const TARGETS: [&str; 6] = ["frame", "payload", "edge", "cloud", "session", "ahead"];

/// Seconds for each target unless they are given.
const SECONDS: u32 = 60;
/// Seconds for each target as part of all tests.
const SMOKE_SECONDS: u32 = 10;

/// An input that takes longer has found something as well.
const INPUT_SECONDS: u32 = 20;

/// Targets and a number of seconds, in any order.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub struct FuzzOptions {
    /// frame, payload, edge, cloud, session or ahead (default: all of them), and seconds for each (default: 60)
    #[arg(value_name = "TARGET|SECONDS", value_parser = Word::parse)]
    words: Vec<Word>,
}

/// An argument of `cargo xtask fuzz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Target(&'static str),
    Seconds(u32),
}

impl Word {
    fn parse(word: &str) -> Result<Self, String> {
        if let Some(target) = TARGETS.into_iter().find(|&target| target == word) {
            return Ok(Self::Target(target));
        }
        let seconds = word.parse().ok().filter(|&seconds| seconds > 0).map(Self::Seconds);
        seconds
            .ok_or_else(|| format!("neither a number of seconds nor a target; the targets are {}", TARGETS.join(", ")))
    }
}

impl FuzzOptions {
    /// Every target, briefly: part of all tests.
    pub fn smoke() -> Self {
        Self { words: vec![Word::Seconds(SMOKE_SECONDS)] }
    }

    fn targets(&self) -> Vec<&'static str> {
        let named = |target: &'static str| self.words.contains(&Word::Target(target));
        let any = TARGETS.into_iter().any(named);
        TARGETS.into_iter().filter(|target| !any || named(target)).collect()
    }

    fn seconds(&self) -> u32 {
        let seconds = self.words.iter().find_map(|word| match word {
            Word::Seconds(seconds) => Some(*seconds),
            Word::Target(_) => None,
        });
        seconds.unwrap_or(SECONDS)
    }
}

/// Runs each chosen target over its corpus and goes on from there; stops at the first that finds something.
///
/// New inputs are kept under target/fuzz/corpus for the next time; it begins with the golden frames.
pub fn run(workspace: &Workspace, options: &FuzzOptions) -> Result<()> {
    let folder = workspace.target().join("fuzz");
    let host = host()?;
    Program::CXX.find_or_install()?;
    let cargo_fuzz = Tool::CARGO_FUZZ.find_or_install(workspace)?;
    // No sanitizer: they need a nightly toolchain, and look for what safe code cannot do.
    process::run(
        workspace
            .command(cargo_fuzz)
            .args(["build", "--sanitizer", "none", "--features", "libfuzzer", "--target", &host, "--target-dir"])
            .arg(&folder),
    )?;
    let binaries = folder.join(&host).join("release");
    let seeds = created(folder.join("seeds"))?;
    for (number, frame) in golden_frames(workspace)?.iter().enumerate() {
        let path = seeds.join(number.to_string());
        fs::write(&path, frame).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    for target in options.targets() {
        println!("\n-- {target}");
        fuzz(workspace, &folder, &binaries, target, options.seconds())?;
    }
    Ok(())
}

fn fuzz(workspace: &Workspace, folder: &Path, binaries: &Path, target: &str, seconds: u32) -> Result<()> {
    let found = created(folder.join("corpus").join(target))?;
    let crashes = created(folder.join("artifacts").join(target))?;
    // libFuzzer says a lot; of a run that found nothing, two numbers are of interest.
    let log = folder.join(format!("{target}.log"));
    let output = fs::File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
    let mut fuzzer = workspace.command(binaries.join(target));
    fuzzer
        // New inputs go into the first folder.
        .args([&found, &folder.join("seeds")])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        // A folder, so it ends with a separator.
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .arg("-print_final_stats=1")
        .stderr(output);
    let outcome = process::run(&mut fuzzer);
    let said = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    outcome.with_context(|| {
        eprintln!("{}", last_lines(&said));
        format!(
            "fuzzing `{target}` has found something: the input is the newest file in {}, and fuzz/README.md says what to do with it",
            crashes.display()
        )
    })?;
    let number = |name| statistic(&said, name).unwrap_or("?");
    println!("{} inputs tried, {} kept", number("number_of_executed_units"), number("new_units_added"));
    Ok(())
}

/// The frames of tests/golden, each of which is in a line `"hex":"…"`.
fn golden_frames(workspace: &Workspace) -> Result<Vec<Vec<u8>>> {
    let folder = workspace.root().join("tests/golden");
    let mut frames = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            for rest in text.split("\"hex\":\"").skip(1) {
                let hex = rest.split('"').next().unwrap_or_default();
                let byte = |at| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16);
                frames.push((0..hex.len()).step_by(2).map(byte).collect::<Result<_, _>>()?);
            }
        }
    }
    Ok(frames)
}

/// The last lines of a fuzzer's output: the panic and its location.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(80)..].join("\n")
}

/// A number that libFuzzer ends with, such as `stat::new_units_added:          730`.
fn statistic<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    said.lines().find_map(|line| Some(line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

fn created(folder: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    Ok(folder)
}

/// Target triple of this machine, which is part of the path of build outputs.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = process::capture(Command::new(rustc).arg("-vV"))?;
    host_in(&version).map(str::to_owned)
}

fn host_in(version: &str) -> Result<&str> {
    version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not say which machine it is for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_in_the_manifest() {
        let workspace = Workspace::find().unwrap();
        let manifest = fs::read_to_string(workspace.root().join("fuzz/Cargo.toml")).unwrap();
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        for target in TARGETS {
            assert!(manifest.contains(&format!("name = \"{target}\"\n")), "{target}");
        }
        assert!(golden_frames(&workspace).unwrap().len() > 200);
    }

    #[test]
    fn targets_and_seconds_come_in_any_order() {
        let parsed = |line: &str| -> Result<FuzzOptions, String> {
            Ok(FuzzOptions { words: line.split_whitespace().map(Word::parse).collect::<Result<_, _>>()? })
        };
        for (line, targets, seconds) in [
            ("", TARGETS.to_vec(), SECONDS),
            ("300", TARGETS.to_vec(), 300),
            ("edge", vec!["edge"], SECONDS),
            ("300 edge frame", vec!["frame", "edge"], 300),
        ] {
            let options = parsed(line).unwrap();
            assert_eq!((options.targets(), options.seconds()), (targets, seconds), "{line}");
        }
        assert!(parsed("nothing").is_err() && parsed("0").is_err());
    }

    #[test]
    fn statistics_are_found_and_the_end_is_kept() {
        let said = "INFO: Seed: 1\nstat::new_units_added:          730\nstat::peak_rss_mb:              35\n";
        assert_eq!(statistic(said, "new_units_added"), Some("730"));
        assert_eq!(statistic(said, "new_units"), None);
        assert_eq!(last_lines(said), said.trim_end());
        assert_eq!(last_lines(&"a line\n".repeat(200)).lines().count(), 80);
    }

    #[test]
    fn the_host_is_read_from_what_rustc_prints() {
        let version =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(host_in(version).unwrap(), "x86_64-unknown-linux-gnu");
        assert!(host_in("rustc 1.95.0").is_err());
    }
}
