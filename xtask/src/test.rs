//! `cargo xtask test`: everything, step by step, with a verdict at the end.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::binaries::{self, TestBinary};
use crate::check;
use crate::chromium;
use crate::demo::Demo;
use crate::fuzz::{self, FuzzOptions};
use crate::manifests;
use crate::openai;
use crate::page::Page;
use crate::process;
use crate::python;
use crate::times::{self, Column};
use crate::wasm::{self, Build};
use crate::workspace::{WITH_CANDLE, Workspace};

/// One step of the whole; each brings its own prerequisites, so that it can run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Static checks.
    Check,
    /// Rust tests on this machine.
    Native,
    /// Rust tests in Node and Chromium.
    Wasm,
    /// Checks and tests of the npm package.
    Page,
    /// Checks and tests of the Python package.
    Python,
    /// Page and server together in Chromium; OpenAI's client and the server; manifests by their schemas.
    EndToEnd,
    /// Tests of the target on candle's CPU device, in a build of their own.
    Device,
    /// libFuzzer on each target, briefly.
    Fuzz,
    /// The commands that CONTRIBUTING.md gives for wasm-pack.
    WasmPack,
}

impl Step {
    /// Every step, in the order of the whole.
    pub const ALL: [Self; 9] = [
        Self::Check,
        Self::Native,
        Self::Wasm,
        Self::Page,
        Self::Python,
        Self::EndToEnd,
        Self::Device,
        Self::Fuzz,
        Self::WasmPack,
    ];

    /// The step's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Native => "native",
            Self::Wasm => "wasm",
            Self::Page => "page",
            Self::Python => "python",
            Self::EndToEnd => "e2e",
            Self::Device => "device",
            Self::Fuzz => "fuzz",
            Self::WasmPack => "wasm-pack",
        }
    }

    /// The step called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == name)
    }

    /// True for steps that run only with `--full` or by name.
    pub const fn is_extra(self) -> bool {
        matches!(self, Self::Device | Self::Fuzz | Self::WasmPack)
    }

    const fn purpose(self) -> &'static str {
        match self {
            Self::Check => "formatting, spelling, licences, clippy and docs",
            Self::Native => "the Rust tests of all crates on this machine",
            Self::Wasm => "the tests of the crates that run in a browser, in Node and Chromium",
            Self::Python => "formatting, lints, types and tests of the package for vLLM in integrations/vllm/",
            Self::Page => "type check, unit tests and build of the npm package in web/",
            Self::EndToEnd => {
                "page and server together in Chromium; OpenAI's client against the server; manifests of docs/"
            }
            Self::Device => "the target on candle's CPU device, which runs the code that GPUs run",
            Self::Fuzz => "libFuzzer on the codec and the state machines, ten seconds each",
            Self::WasmPack => "wasm-pack's commands, as CONTRIBUTING.md has them",
        }
    }

    fn run(self, workspace: &Workspace, full: bool) -> Result<()> {
        match self {
            Self::Check => check::run(workspace),
            Self::Native => test_native(workspace, full),
            Self::Wasm => wasm::test(workspace, full),
            Self::Page => test_page(workspace, full),
            Self::Python => python::test(workspace),
            Self::EndToEnd => test_end_to_end(workspace, full),
            Self::Device => test_device(workspace, full),
            Self::Fuzz => fuzz::run(workspace, &FuzzOptions { target: None, seconds: fuzz::SMOKE_SECONDS }),
            Self::WasmPack => wasm::test_with_wasm_pack(workspace),
        }
    }
}

/// Everything `test` was asked to do.
#[derive(Debug, PartialEq, Eq)]
pub struct TestOptions {
    /// Steps to run, in the order of the whole.
    pub steps: Vec<Step>,
    /// Full size for statistical tests, the whole matrix for everything else.
    pub full: bool,
    /// Column of CONTRIBUTING's table of times that this run rewrites.
    pub record: Option<Column>,
}

/// Runs the steps, stops at the first failure, and ends with the line `N passed, N failed`.
pub fn run(workspace: &Workspace, TestOptions { steps, full, record }: &TestOptions) -> Result<()> {
    let mut report = Report::default();
    for (index, &step) in steps.iter().enumerate() {
        println!(
            "\n=== {} of {}, {}: {}; {}\n",
            index + 1,
            steps.len(),
            step.name(),
            step.purpose(),
            times::usual(step.name())
        );
        let start = Instant::now();
        let outcome = step.run(workspace, *full);
        let time = start.elapsed();
        println!("\n=== {} took {}", step.name(), times::shown(time));
        report.0.push(Row { step, passed: outcome.is_ok(), time });
        if outcome.is_err() {
            print!("\n{report}");
            return outcome.with_context(|| {
                let name = step.name();
                format!("test step `{name}` failed (again, alone: `cargo xtask test {name}`)")
            });
        }
    }
    print!("\n{report}");
    if let Some(column) = *record {
        let mut times: Vec<_> = report.0.iter().map(|row| (row.step.name(), row.time)).collect();
        if !full && steps.len() == Step::ALL.iter().filter(|step| !step.is_extra()).count() {
            times.push(("cargo xtask test", report.total()));
        }
        times::record(workspace, column, &times)?;
    }
    Ok(())
}

fn test_native(workspace: &Workspace, full: bool) -> Result<()> {
    let binaries = TestBinary::build(&mut workspace.cargo_without_candle("test"))?;
    // Quick checks of the repository, and strangers whose patience is measured in seconds.
    let (alone, together) = binaries.into_iter().partition(|binary| ["whole", "hostile"].contains(&&*binary.name));
    binaries::run_in_lanes(workspace, alone, full, &[])?;
    // Tests of the server wait for its timers, the statistical ones compute.
    binaries::run_in_lanes(workspace, together, full, &["server", "laws"])?;
    process::run(workspace.cargo_without_candle("test").arg("--doc"))?;
    if full { package(workspace) } else { Ok(()) }
}

/// Packs the crates that others can depend on, as for crates.io, and checks the one with optional features without them.
fn package(workspace: &Workspace) -> Result<()> {
    let manifest = |package: &&str| ["--package".to_owned(), format!("outrider-{package}")];
    let packages = ["codec", "speculation", "models", "webgpu", "edge"];
    let packages = packages.iter().flat_map(manifest);
    // Their code has just been compiled and tested.
    process::run(workspace.cargo("publish").args(["--dry-run", "--no-verify", "--allow-dirty"]).args(packages))?;
    process::run(workspace.cargo("check").args(["--release", "--package", "outrider-models", "--no-default-features"]))
}

/// The packages that link candle.
fn test_device(workspace: &Workspace, full: bool) -> Result<()> {
    let mut tests = workspace.cargo("test");
    if full {
        tests.env("OUTRIDER_FULL", "1");
    }
    process::run(tests.arg("--release").args(WITH_CANDLE.iter().flat_map(|package| ["--package", package])))
}

/// Builds of the edge that are tested: the two with threads take a standard library of their own.
fn builds(full: bool) -> &'static [Build] {
    if full { &Build::ALL } else { &[Build::SIMD128, Build::RELAXED] }
}

fn test_page(workspace: &Workspace, full: bool) -> Result<()> {
    let page = Page::install(workspace)?;
    // The page's types come from the edge.
    wasm::build_edge(workspace, builds(full))?;
    process::run(&mut page.script("check")?)?;
    process::run(&mut page.script("test")?)?;
    page.build()
}

fn test_end_to_end(workspace: &Workspace, full: bool) -> Result<()> {
    let browser = chromium::browser()?;
    let demo = Demo::build(workspace, builds(full))?;
    let mut tests = demo.page.script("e2e")?;
    if full {
        tests.env("OUTRIDER_FULL", "1");
    }
    process::run(tests.env("CHROMIUM_PATH", browser).env("OUTRIDER_BIN", &demo.server))?;
    openai::test(workspace, &demo.server)?;
    manifests::test(workspace)
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
    fn names_lead_back_to_their_steps() {
        for step in Step::ALL {
            assert_eq!(Step::from_name(step.name()), Some(step));
        }
        assert_eq!(Step::from_name("all"), None);
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
