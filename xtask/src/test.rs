//! `cargo xtask test`: everything, step by step, with a verdict at the end.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::check;
use crate::chromium;
use crate::demo::Demo;
use crate::fuzz::{self, FuzzOptions};
use crate::manifests;
use crate::openai;
use crate::page::Page;
use crate::process;
use crate::python;
use crate::wasm::{self, Build};
use crate::workspace::Workspace;

/// One step of the whole; each brings its own prerequisites, so that it can run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Static checks.
    Check,
    /// Rust tests on this machine.
    Native,
    /// The fuzz targets, briefly.
    Fuzz,
    /// Rust tests in Chromium.
    Wasm,
    /// The npm package's own checks and tests.
    Page,
    /// The Python package's own checks and tests.
    Python,
    /// Page and server together in Chromium; OpenAI's client and the server; manifests by their schemas.
    EndToEnd,
}

impl Step {
    /// Every step, in the order of the whole.
    pub const ALL: [Self; 7] =
        [Self::Check, Self::Native, Self::Fuzz, Self::Wasm, Self::Page, Self::Python, Self::EndToEnd];

    /// What the step is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Native => "native",
            Self::Fuzz => "fuzz",
            Self::Wasm => "wasm",
            Self::Page => "page",
            Self::Python => "python",
            Self::EndToEnd => "e2e",
        }
    }

    /// The step called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == name)
    }

    /// What the step does.
    const fn purpose(self) -> &'static str {
        match self {
            Self::Check => "formatting, spelling, licences, clippy and docs",
            Self::Native => "the Rust tests of all crates on this machine",
            Self::Fuzz => "libFuzzer on the codec and the state machines, ten seconds each",
            Self::Wasm => "the tests of the crates that run in a browser, in Chromium",
            Self::Python => "formatting, lints, types and tests of the package for vLLM in integrations/vllm/",
            Self::Page => "type check, unit tests and build of the npm package in web/",
            Self::EndToEnd => {
                "page and server together in Chromium; OpenAI's client against the server; manifests of docs/"
            }
        }
    }

    /// How many minutes it usually takes on two cores: the first time, when all is compiled, and later.
    const fn minutes(self) -> (u32, u32) {
        match self {
            Self::Check => (5, 1),
            Self::Native => (9, 3),
            Self::Fuzz => (3, 2),
            Self::Wasm => (5, 1),
            Self::Page => (4, 1),
            Self::Python => (1, 1),
            Self::EndToEnd => (5, 4),
        }
    }

    fn run(self, workspace: &Workspace, full: bool) -> Result<()> {
        match self {
            Self::Check => check::run(workspace),
            Self::Native => {
                let mut tests = workspace.cargo("test");
                if full {
                    tests.env("OUTRIDER_FULL", "1");
                }
                process::run(tests.args(["--release", "--workspace"]))
            }
            Self::Fuzz => fuzz::run(workspace, &FuzzOptions { target: None, seconds: fuzz::SMOKE_SECONDS }),
            Self::Wasm => wasm::test(workspace),
            Self::Page => test_page(workspace),
            Self::Python => python::test(workspace),
            Self::EndToEnd => test_end_to_end(workspace, full),
        }
    }
}

/// Runs `steps`, stops at the first failure, and ends with the line `N passed, N failed`.
pub fn run(workspace: &Workspace, steps: &[Step], full: bool) -> Result<()> {
    let mut report = Report::default();
    for (index, &step) in steps.iter().enumerate() {
        let (first, later) = step.minutes();
        println!(
            "\n=== {} of {}, {}: {}; {first} minutes the first time, {later} later\n",
            index + 1,
            steps.len(),
            step.name(),
            step.purpose()
        );
        let start = Instant::now();
        let outcome = step.run(workspace, full);
        let time = start.elapsed();
        println!("\n=== {} took {}", step.name(), Seconds(time));
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
    Ok(())
}

fn test_page(workspace: &Workspace) -> Result<()> {
    let page = Page::install(workspace)?;
    // The page's types come from the edge.
    wasm::build_edge(workspace, &Build::ALL)?;
    process::run(&mut page.script("check")?)?;
    process::run(&mut page.script("test")?)?;
    page.build()
}

fn test_end_to_end(workspace: &Workspace, full: bool) -> Result<()> {
    let browser = chromium::browser()?;
    let demo = Demo::build(workspace, &Build::ALL)?;
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Row { step, passed, time } in &self.0 {
            let verdict = if *passed { "PASS" } else { "FAIL" };
            let time = Seconds(*time).to_string();
            writeln!(f, "{:<8}{time:>9}  {verdict}", step.name())?;
        }
        let total: Duration = self.0.iter().map(|row| row.time).sum();
        writeln!(f, "{:<8}{:>9}\n", "total", Seconds(total).to_string())?;
        let passed = self.0.iter().filter(|row| row.passed).count();
        writeln!(f, "{passed} passed, {} failed", self.0.len() - passed)
    }
}

/// A duration for people: `4.2 s`, `7m 05 s`.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds < 60 {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        } else {
            write!(f, "{}m {:02} s", seconds / 60, seconds % 60)
        }
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
            "check       9.2 s  PASS\n\
             native    7m 05 s  PASS\n\
             total     7m 14 s\n\
             \n\
             2 passed, 0 failed\n"
        );
        let report = Report(vec![row(Step::Check, true, 1.0), row(Step::Native, false, 1.0)]);
        assert!(report.to_string().ends_with("\n1 passed, 1 failed\n"));
    }
}
