//! The command line: what can be asked for, and the text that teaches it.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::bench::Bench;
use crate::demo::DemoOptions;
use crate::fuzz::{self, FuzzOptions};
use crate::pair::Pair;
use crate::test::{Step, TestOptions};
use crate::times::Column;

/// What `cargo xtask help` prints.
pub const HELP: &str = "\
Outrider's build and test commands.

Usage: cargo xtask <command>

  demo                 build the edge in the one form that every browser runs, the page and the server, then serve the
                       demo until Ctrl-C
      --port N         port on 127.0.0.1 (default 8787; 0 takes a free one)
      --built-in       serve the built-in target as it is; else it is grown to the cost of 135M parameters, since what
                       answers within a millisecond needs no help
      --check          instead of waiting for you: open the page in Chromium, generate a text, exit 0 if it worked
      --screenshots D  with --check: leave pictures of the three views in the folder D, as page-*.png

  test [STEP...]       everything, in this order; naming steps runs only those
      --full           all steps, statistical tests large enough to see errors of 0.01 in total variation, not only of
                       0.025, all builds of the edge, the npm package in every bundler, Firefox and WebKitGTK
      --record C       write the times of this run into the table in CONTRIBUTING.md, column C: first or later
      check            what `cargo xtask check` does
      native           the Rust tests of all crates on this machine
      wasm             the tests of the crates that run in a browser, in Node and Chromium
      page             type check, unit tests and build of web/
      python           formatting, lints, types and tests of integrations/vllm/
      e2e              the page in Chromium against the real server, and OpenAI's client for Python
    and with --full, or by name:
      device           the target on candle's CPU device
      fuzz             what `cargo xtask fuzz` does, ten seconds for each target
      wasm-pack        the commands for wasm-pack in CONTRIBUTING.md

  fuzz [TARGET] [SECONDS]
                       libFuzzer on the codec and the state machines (default: every target, 60 seconds for each);
                       the targets are frame, payload, edge, cloud, session and ahead

  bench WHAT           measurements, as tables and plots in target/bench
      capacity [quick] how many sessions one core of a 1.1B target serves, alone, drafting itself and with guesses;
                       half an hour
      codec            bits and time per token of the codes, here and in Chromium
      dssd [quick]     DSSD's Tables 2 and 3 with Chromium at the edge and models that cost what 135M and 1.1B do; a
                       quarter of an hour, 1.3 GB of disk
      edge [quick]     decoding in Chromium beside wllama's and candle's, on random weights in the shapes of drafts,
                       which take 1.5 GB of disk; an hour, and the first time ten minutes to build the others
      fleet [quick]    guesses for vLLM beside vLLM alone, with the vLLM that OUTRIDER_VLLM names; an hour
      hostile [quick]  a server attacked from one address, beside a session of another; five minutes
      link [quick]     the page against the server alone in Chromium, over emulated rates and round trips, with targets
                       of three sizes: one and a half hours, quick half of one; 1.3 GB of disk
      native [quick]   the server's passes on this processor beside llama.cpp's and candle's, on random weights in
                       real shapes, which take 2 GB of disk; twenty minutes, and the first time as many to build
                       the others from PyPI and crates.io
      page [quick]     visits to the page in Chromium, first and second, over emulated links: bytes, and time until the
                       page is ready and has its first token; four minutes
      rules            every acceptance rule on the default pair: rejections against quality; five minutes
      sampling         time from logits to coded bytes and to verdicts, here and in Chromium
      schemes          every uplink scheme on the default pair: acceptance, bits, passes
      serve [quick]    one server with up to 256 sessions at a time, then with 1000 of which 50 are active; five minutes

  pair                 the built-in pair grown to the cost of real models, as GGUF files in target/pair: they write the
                       small ones' texts; for measuring, and for seeing what a large target is like
      --grow-target S  135M or 1.1B, in --element E: f16, q8_0 (default) or q4_0
      --grow-draft S   the same of the draft
      --verify         compare texts and times with the small ones and with random weights: some minutes
      --published      files as they are published, of Qwen2.5-0.5B's and 1.5B's shapes with random weights: sharded
                       safetensors and Q4_K_M, 5 GB in target/pair/published

  check                formatting, clippy (native and wasm), docs, licences and sources, spelling
      --cuda           instead: clippy on the server with CUDA, whose compiler comes from PyPI (1 GB of disk), and its
                       program, in target/cuda/release; half an hour the first time, no GPU needed
  help                 this text

The first run installs what is missing: the wasm32-unknown-unknown target; wasm-bindgen's test runner, cargo-deny,
typos and cargo-fuzz under target/tools; npm packages under web/node_modules; on Debian with root also Chromium and a
C++ compiler. Node 20.19 or newer and Python 3 have to be there already. Environment variables that
count:

  CHROMIUM_PATH, CHROMEDRIVER_PATH   a browser and its driver at an unusual place
  BENCH_MODELS                       shapes that `bench edge` and `bench native` measure, such as 15M,135M
  CARGO_TARGET_DIR                   where everything is built (default: target)
";

/// How long a target is fuzzed if nothing is said: longer than among all tests.
const FUZZ_SECONDS: u32 = 60;

/// One command, fully read.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Serve the demo, or check it.
    Demo(DemoOptions),
    /// Run test steps, all or some.
    Test(TestOptions),
    /// Run the fuzz targets.
    Fuzz(FuzzOptions),
    /// Measure something.
    Bench {
        /// What.
        bench: Bench,
        /// In its shorter form.
        quick: bool,
    },
    /// Grow the built-in pair.
    Pair(Pair),
    /// Run the static checks.
    Check,
    /// Check the build with CUDA.
    CheckCuda,
    /// Print [`HELP`].
    Help,
}

impl Request {
    /// Reads the arguments that follow `cargo xtask`.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self> {
        let mut arguments = arguments.into_iter();
        let Some(command) = arguments.next() else {
            return Ok(Self::Help);
        };
        match command.to_str() {
            Some("help" | "--help" | "-h") => Ok(Self::Help),
            Some("demo") => parse_demo(arguments),
            Some("test") => parse_test(arguments),
            Some("fuzz") => parse_fuzz(arguments),
            Some("bench") => parse_bench(arguments),
            Some("pair") => Ok(Self::Pair(Pair::parse(arguments)?)),
            Some("check") => parse_check(arguments),
            _ => bail!(
                "there is no command {command:?}; `cargo xtask help` lists demo, test, fuzz, bench, pair, check and help"
            ),
        }
    }
}

fn parse_demo(mut arguments: impl Iterator<Item = OsString>) -> Result<Request> {
    let mut options = DemoOptions::default();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--help" | "-h") => return Ok(Request::Help),
            Some("--check") => options.check = true,
            Some("--built-in") => options.built_in = true,
            Some("--port") => {
                let port = arguments.next().context("--port needs a number after it, such as --port 8787")?;
                options.port = port
                    .to_str()
                    .and_then(|port| port.parse().ok())
                    .with_context(|| format!("--port needs a number from 0 to 65535, not {port:?}"))?;
            }
            Some("--screenshots") => {
                let folder = arguments.next().context("--screenshots needs the name of a folder after it")?;
                options.screenshots = Some(PathBuf::from(folder));
            }
            _ => {
                bail!("`demo` takes --check, --port N, --built-in and --screenshots DIR, but not {argument:?}")
            }
        }
    }
    ensure!(
        options.check || options.screenshots.is_none(),
        "--screenshots are taken by the automatic check, so that they need --check as well"
    );
    Ok(Request::Demo(options))
}

fn parse_check(mut arguments: impl Iterator<Item = OsString>) -> Result<Request> {
    let request = match arguments.next() {
        None => return Ok(Request::Check),
        Some(argument) if is_help(&argument) => return Ok(Request::Help),
        Some(argument) if argument == "--cuda" => Request::CheckCuda,
        Some(argument) => bail!("`check` takes --cuda, but not {argument:?}"),
    };
    match arguments.next() {
        None => Ok(request),
        Some(argument) => bail!("`check --cuda` takes no argument {argument:?}"),
    }
}

fn parse_test(mut arguments: impl Iterator<Item = OsString>) -> Result<Request> {
    let (mut chosen, mut full, mut record) = (Vec::new(), false, None);
    while let Some(argument) = arguments.next() {
        if is_help(&argument) {
            return Ok(Request::Help);
        }
        match argument.to_str() {
            Some("--full") => full = true,
            Some("--record") => record = Some(parse_column(arguments.next())?),
            name => chosen.push(name.and_then(Step::from_name).with_context(|| {
                let names = Step::ALL.map(Step::name).join(", ");
                format!("there is no test step {argument:?}; the steps are {names}")
            })?),
        }
    }
    // Named steps run in the order of the whole, once each, however they were typed.
    let runs = |step: &Step| if chosen.is_empty() { full || !step.is_extra() } else { chosen.contains(step) };
    let steps = Step::ALL.into_iter().filter(runs).collect();
    Ok(Request::Test(TestOptions { steps, full, record }))
}

fn parse_column(argument: Option<OsString>) -> Result<Column> {
    let argument = argument.context("--record needs first or later after it")?;
    Column::parse(&argument.to_string_lossy())
}

fn parse_fuzz(arguments: impl Iterator<Item = OsString>) -> Result<Request> {
    let (mut target, mut seconds) = (None, None);
    for argument in arguments {
        if is_help(&argument) {
            return Ok(Request::Help);
        }
        let word = argument.to_str().unwrap_or_default();
        if let Some(name) = fuzz::TARGETS.into_iter().find(|&name| name == word) {
            ensure!(target.replace(name).is_none(), "`fuzz` takes one target, or none for all");
        } else {
            let number = word.parse().ok().filter(|&number| number > 0).with_context(|| {
                let names = fuzz::TARGETS.join(", ");
                format!("{argument:?} is neither a number of seconds nor a target; the targets are {names}")
            })?;
            ensure!(seconds.replace(number).is_none(), "`fuzz` takes one number of seconds");
        }
    }
    Ok(Request::Fuzz(FuzzOptions { target, seconds: seconds.unwrap_or(FUZZ_SECONDS) }))
}

fn parse_bench(mut arguments: impl Iterator<Item = OsString>) -> Result<Request> {
    let names = Bench::ALL.map(Bench::name).join(", ");
    let argument = arguments.next().with_context(|| format!("`bench` needs to know what to measure: {names}"))?;
    if is_help(&argument) {
        return Ok(Request::Help);
    }
    let bench = argument
        .to_str()
        .and_then(Bench::from_name)
        .with_context(|| format!("`bench` measures {names}, but not {argument:?}"))?;
    match arguments.next() {
        None => Ok(Request::Bench { bench, quick: false }),
        Some(argument) if is_help(&argument) => Ok(Request::Help),
        Some(argument) if argument == "quick" && bench.has_quick_form() => match arguments.next() {
            None => Ok(Request::Bench { bench, quick: true }),
            Some(argument) => bail!("`bench {} quick` takes no argument {argument:?}", bench.name()),
        },
        Some(argument) => bail!("`bench {}` takes no argument {argument:?}", bench.name()),
    }
}

fn is_help(argument: &OsString) -> bool {
    argument == "--help" || argument == "-h"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request> {
        Request::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn nothing_and_help_teach() {
        for line in ["", "help", "--help", "-h", "check --help", "demo -h", "test --help"] {
            assert_eq!(parse(line).unwrap(), Request::Help, "{line:?}");
        }
    }

    #[test]
    fn the_check_of_cuda_is_apart() {
        assert_eq!(parse("check").unwrap(), Request::Check);
        assert_eq!(parse("check --cuda").unwrap(), Request::CheckCuda);
        assert!(HELP.contains("--cuda"));
    }

    #[test]
    fn demo_options_in_any_order() {
        let expected = Request::Demo(DemoOptions {
            check: true,
            port: 9000,
            screenshots: Some(PathBuf::from("docs")),
            built_in: false,
        });
        assert_eq!(parse("demo --screenshots docs --port 9000 --check").unwrap(), expected);
        assert_eq!(parse("demo").unwrap(), Request::Demo(DemoOptions::default()));
    }

    #[test]
    fn test_steps_keep_their_order_and_come_once() {
        let test = |steps: &[Step], full| Request::Test(TestOptions { steps: steps.to_vec(), full, record: None });
        let (extra, usual): (Vec<_>, Vec<_>) = Step::ALL.into_iter().partition(|step| step.is_extra());
        assert_eq!(parse("test").unwrap(), test(&usual, false));
        assert_eq!(parse("test --full").unwrap(), test(&[usual, extra].concat(), true));
        let recording = TestOptions { steps: vec![Step::Fuzz], full: false, record: Some(Column::Later) };
        assert_eq!(parse("test fuzz --record later").unwrap(), Request::Test(recording));
        assert_eq!(parse("test wasm native wasm").unwrap(), test(&[Step::Native, Step::Wasm], false));
        assert_eq!(parse("test native --full").unwrap(), test(&[Step::Native], true));
    }

    #[test]
    fn a_target_and_its_seconds_may_be_named() {
        let fuzz = |target, seconds| Request::Fuzz(FuzzOptions { target, seconds });
        assert_eq!(parse("fuzz").unwrap(), fuzz(None, FUZZ_SECONDS));
        assert_eq!(parse("fuzz edge").unwrap(), fuzz(Some("edge"), FUZZ_SECONDS));
        assert_eq!(parse("fuzz edge 300").unwrap(), fuzz(Some("edge"), 300));
        assert_eq!(parse("fuzz 300").unwrap(), fuzz(None, 300));
        assert_eq!(parse("fuzz --help").unwrap(), Request::Help);
        assert!(fuzz::TARGETS.iter().all(|target| HELP.contains(target)));
    }

    #[test]
    fn a_measurement_is_named() {
        for bench in Bench::ALL {
            let line = format!("bench {}", bench.name());
            assert_eq!(parse(&line).unwrap(), Request::Bench { bench, quick: false });
            match parse(&format!("{line} quick")) {
                Ok(request) => assert_eq!(request, Request::Bench { bench, quick: true }),
                Err(_) => assert!(!bench.has_quick_form(), "{line}"),
            }
            assert!(HELP.contains(&format!("\n      {} ", bench.name())), "{}", bench.name());
        }
        assert_eq!(parse("bench codec -h").unwrap(), Request::Help);
    }

    #[test]
    fn mistakes_are_told_not_guessed() {
        for line in [
            "dmeo",
            "check now",
            "check --cuda now",
            "demo --port",
            "demo --port 65536",
            "demo --port -1",
            "demo --screenshots",
            "demo --screenshots docs",
            "demo --open",
            "test everything",
            "fuzz nothing",
            "fuzz 0",
            "fuzz 5 6",
            "fuzz edge cloud",
            "bench",
            "bench speed",
            "bench codec schemes",
            "bench codec quick",
            "bench native quick quick",
        ] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn help_names_every_test_step() {
        for step in Step::ALL {
            let indented = format!("\n      {} ", step.name());
            assert!(HELP.contains(&indented), "{}", step.name());
        }
    }
}
