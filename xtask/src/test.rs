//! `cargo xtask test`: everything, step by step, with a verdict at the end.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::binaries::{self, TestBinary};
use crate::check;
use crate::choice;
use crate::demo::Demo;
use crate::fuzz::{self, FuzzOptions};
use crate::page::Page;
use crate::process;
use crate::python;
use crate::system::Program;
use crate::times::{self, Column};
use crate::tokenizers;
use crate::wasm::{self, Build};
use crate::workspace::{WITH_CANDLE, Workspace};

/// A step of the test; each brings its own prerequisites, so that it can run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Formatting, spelling, licences, clippy and docs
    Check,
    /// The Rust tests of all crates on this machine
    Native,
    /// The tests of the crates that run in a browser, in Node and Chromium
    Wasm,
    /// Type check, unit tests and build of the npm package in web/
    Page,
    /// Formatting, lints, types and tests of the packages in integrations/
    Python,
    /// Page and server together in Chromium; OpenAI's client against the server; manifests of docs/
    #[value(name = "e2e")]
    EndToEnd,
    /// With --full or by name: the target on candle's CPU device, which runs the code that GPUs run
    Device,
    /// With --full or by name: libFuzzer on the codec and the state machines, ten seconds for each target
    Fuzz,
    /// With --full or by name: the commands for wasm-pack in CONTRIBUTING.md
    WasmPack,
    /// With --full or by name: the documentation site, with its links
    Docs,
}

impl Step {
    /// The step's name on the command line.
    pub fn name(self) -> String {
        choice::name(self)
    }

    /// True for steps that run only with `--full` or by name.
    pub const fn is_extra(self) -> bool {
        matches!(self, Self::Device | Self::Fuzz | Self::WasmPack | Self::Docs)
    }

    fn run(self, workspace: &Workspace, full: bool) -> Result<()> {
        match self {
            Self::Check => check::run(workspace),
            Self::Native => test_native(workspace, full),
            Self::Wasm => wasm::test(workspace, full),
            Self::Page => test_page(workspace, full),
            Self::Python => python::test_packages(workspace),
            Self::EndToEnd => test_end_to_end(workspace, full),
            Self::Device => test_device(workspace, full),
            Self::Fuzz => fuzz::run(workspace, &FuzzOptions::smoke()),
            Self::WasmPack => wasm::test_with_wasm_pack(workspace),
            Self::Docs => build_site(workspace),
        }
    }
}

/// Options of the command `test`.
#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
pub struct TestOptions {
    /// Steps to run, in the order of this list (default: all but those that --full adds)
    #[arg(value_enum, value_name = "STEP")]
    named: Vec<Step>,
    /// Run all steps, statistical tests large enough to see errors of 0.01 in total variation, not only of 0.025, all
    /// builds of the edge, the npm package in every bundler, Firefox and WebKitGTK
    #[arg(long)]
    full: bool,
    /// Write the times of this run into a column of the table in CONTRIBUTING.md
    #[arg(long, value_enum, value_name = "COLUMN")]
    record: Option<Column>,
}

impl TestOptions {
    /// Steps in the order of the whole, once each.
    fn steps(&self) -> Vec<Step> {
        let runs = |step: &Step| match self.named.is_empty() {
            true => self.full || !step.is_extra(),
            false => self.named.contains(step),
        };
        Step::value_variants().iter().copied().filter(runs).collect()
    }
}

/// Runs the steps, stops at the first failure, and ends with the line `N passed, N failed`.
pub fn run(workspace: &Workspace, options: &TestOptions) -> Result<()> {
    let (mut report, steps) = (Report::default(), options.steps());
    for (index, &step) in steps.iter().enumerate() {
        let (name, usual) = (step.name(), times::usual(&step.name()));
        println!("\n=== {} of {}, {name}: {}; {usual}\n", index + 1, steps.len(), choice::help(step));
        let start = Instant::now();
        let outcome = step.run(workspace, options.full);
        let time = start.elapsed();
        println!("\n=== {name} took {}", times::shown(time));
        report.0.push(Row { step, passed: outcome.is_ok(), time });
        if outcome.is_err() {
            print!("\n{report}");
            return outcome
                .with_context(|| format!("test step `{name}` failed (again, alone: `cargo xtask test {name}`)"));
        }
    }
    print!("\n{report}");
    if let Some(column) = options.record {
        let mut times: Vec<_> = report.0.iter().map(|row| (row.step.name(), row.time)).collect();
        if *options == (TestOptions { record: options.record, ..TestOptions::default() }) {
            times.push(("cargo xtask test".to_owned(), report.total()));
        }
        times::record(workspace, column, &times)?;
    }
    Ok(())
}

fn test_native(workspace: &Workspace, full: bool) -> Result<()> {
    let binaries = TestBinary::build(&mut workspace.cargo_without_candle("test"))?;
    let command = |binary: &TestBinary| {
        let mut command = workspace.command(&binary.path);
        if full {
            command.env("OUTRIDER_FULL", "1");
        }
        command
    };
    // Quick checks of the repository, and strangers whose patience is measured in seconds.
    let (alone, together) = binaries.into_iter().partition(|binary| ["whole", "hostile"].contains(&&*binary.name));
    binaries::run_in_lanes(alone, &[], command)?;
    // Tests of the server wait for its timers, the statistical ones compute.
    binaries::run_in_lanes(together, &["server", "laws"], command)?;
    process::run(workspace.cargo_without_candle("test").arg("--doc"))?;
    if full {
        published_tokenizers(workspace)?;
        package(workspace)?;
    }
    Ok(())
}

fn published_tokenizers(workspace: &Workspace) -> Result<()> {
    let folder = tokenizers::with_expectations(workspace)?;
    let mut tests = workspace.cargo_without_candle("test");
    tests.args(["--test", "published_tokenizers", "--", "--ignored"]);
    process::run(tests.env("OUTRIDER_TOKENIZERS", folder))
}

/// Builds the documentation site. The package's types need web/'s packages.
pub fn build_site(workspace: &Workspace) -> Result<()> {
    Page::install(workspace)?;
    process::run(&mut Page::install_site(workspace)?.script("build")?)
}

/// Packs the crates that others can depend on, as for crates.io, and tests features that no other step compiles.
fn package(workspace: &Workspace) -> Result<()> {
    let manifest = |package: &&str| ["--package".to_owned(), format!("outrider-{package}")];
    let packages = ["codec", "control", "speculation", "models", "webgpu", "edge"];
    let packages = packages.iter().flat_map(manifest);
    // Each is compiled from what it packs.
    process::run(workspace.cargo("publish").args(["--dry-run", "--allow-dirty"]).args(packages))?;
    process::run(workspace.cargo("check").args(["--release", "--package=outrider-models", "--no-default-features"]))?;
    process::run(workspace.cargo_without_candle("test").args(["--features=outrider-cloud/otel", "--test=traces"]))
}

/// The packages that link candle.
fn test_device(workspace: &Workspace, full: bool) -> Result<()> {
    let mut tests = workspace.cargo("test");
    if full {
        tests.env("OUTRIDER_FULL", "1");
    }
    process::run(tests.arg("--release").args(WITH_CANDLE.iter().flat_map(|package| ["--package", package])))
}

/// Builds of the edge that are tested: relaxed SIMD takes all dependencies once more, threads a standard library.
fn builds(full: bool) -> &'static [Build] {
    if full { &Build::ALL } else { &[Build::SIMD128] }
}

fn test_page(workspace: &Workspace, full: bool) -> Result<()> {
    let page = Page::install(workspace)?;
    // The page's types come from the edge.
    wasm::build_edge(workspace, builds(full))?;
    let (mut check, mut tests) = (page.script("check")?, page.script("test")?);
    // Each keeps one core busy.
    thread::scope(|scope| {
        let tests = scope.spawn(|| process::run(&mut tests));
        let checked = process::run(&mut check);
        tests.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(checked)
    })?;
    page.build()
}

fn test_end_to_end(workspace: &Workspace, full: bool) -> Result<()> {
    let browser = Program::CHROMIUM.find_or_install()?;
    let demo = Demo::build(workspace, builds(full))?;
    let mut tests = demo.page.script("e2e")?;
    if full {
        tests.env("OUTRIDER_FULL", "1");
    }
    process::run(tests.env("CHROMIUM_PATH", browser).env("OUTRIDER_BIN", &demo.server))?;
    python::test_clients(workspace, &demo.server)?;
    python::test_manifests(workspace)
}

struct Row {
    step: Step,
    passed: bool,
    time: Duration,
}

#[derive(Default)]
struct Report(Vec<Row>);

impl Report {
    fn total(&self) -> Duration {
        self.0.iter().map(|row| row.time).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Row { step, passed, time } in &self.0 {
            let verdict = if *passed { "PASS" } else { "FAIL" };
            writeln!(f, "{:<10}{:>12}  {verdict}", step.name(), times::shown(*time))?;
        }
        writeln!(f, "{:<10}{:>12}\n", "total", times::shown(self.total()))?;
        let passed = self.0.iter().filter(|row| row.passed).count();
        writeln!(f, "{passed} passed, {} failed", self.0.len() - passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_steps_keep_their_order_and_come_once() {
        let steps = |named: &[Step], full| TestOptions { named: named.to_vec(), full, record: None }.steps();
        assert_eq!(steps(&[], true), Step::value_variants());
        let usual = steps(&[], false);
        assert!(usual.len() == 6 && !usual.iter().any(|step| step.is_extra()), "{usual:?}");
        assert_eq!(steps(&[Step::Wasm, Step::Native, Step::Wasm], false), [Step::Native, Step::Wasm]);
        assert_eq!(steps(&[Step::Fuzz], true), [Step::Fuzz]);
    }

    #[test]
    fn the_last_line_counts_steps() {
        let row = |step, passed, seconds| Row { step, passed, time: Duration::from_secs_f64(seconds) };
        let report = Report(vec![row(Step::Check, true, 9.25), row(Step::Native, true, 425.0)]);
        assert_eq!(
            report.to_string(),
            "check              9 s  PASS\n\
             native       7 min 5 s  PASS\n\
             total       7 min 14 s\n\
             \n\
             2 passed, 0 failed\n"
        );
        let report = Report(vec![row(Step::Check, true, 1.0), row(Step::Native, false, 1.0)]);
        assert!(report.to_string().ends_with("\n1 passed, 1 failed\n"));
    }
}
