//! The command line of `cargo xtask`.

use clap::{Parser, Subcommand};

use crate::bench::BenchOptions;
use crate::demo::DemoOptions;
use crate::fuzz::FuzzOptions;
use crate::pair::Pair;
use crate::test::TestOptions;

/// Outrider's build and test commands
///
/// The first run installs what is missing: the wasm32-unknown-unknown target; wasm-bindgen's test runner, cargo-deny,
/// typos and cargo-fuzz under target/tools; npm packages under web/node_modules; on Debian with root also Chromium and
/// a C++ compiler. Node 20.19 or newer and Python 3 have to be there already.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = VARIABLES)]
pub struct CommandLine {
    /// The command, or none to print help.
    #[command(subcommand)]
    pub request: Option<Request>,
}

const VARIABLES: &str = "\
Environment variables:
  CHROMIUM_PATH, CHROMEDRIVER_PATH   a browser and its driver at an unusual place
  BENCH_MODELS                       shapes that `bench edge` and `bench native` measure, such as 15M,135M
  BENCH_PAIRS                        parts of `bench link`: small-draft, real-draft, published, one-machine
  CARGO_TARGET_DIR                   folder of everything that is built (default: target)";

/// A command line, fully read.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum Request {
    /// Build the edge in the one form that every browser runs, the page and the server, then serve it until Ctrl-C
    Demo(DemoOptions),
    /// Make the npm package, target/outrider-0.1.0.tgz, with the build of the engine that every browser runs
    Pack {
        /// With the three faster builds as well, two of which compile the standard library
        #[arg(long)]
        full: bool,
    },
    /// Run every test, or the steps that are named
    Test(TestOptions),
    /// Fuzz the codec and the state machines with libFuzzer
    Fuzz(FuzzOptions),
    /// Measure: tables and plots go to target/bench
    Bench(BenchOptions),
    /// Grow the built-in pair or SmolLM2 to the cost of real models, as GGUF files in target/pair, for measuring and
    /// for trying a large target: the grown models write the small ones' texts
    Pair(Pair),
    /// Build the documentation site, target/site, from the Markdown of the repository and the package's types; a dead
    /// link fails
    Docs,
    /// Check formatting, clippy (native and wasm), docs, licences and sources, spelling
    Check {
        /// Instead: clippy on the server with CUDA, whose compiler comes from PyPI (1 GB of disk), and its program, in
        /// target/cuda/release; half an hour the first time, no GPU needed
        #[arg(long)]
        cuda: bool,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn is_read(line: &str) -> bool {
        CommandLine::try_parse_from(["cargo xtask"].into_iter().chain(line.split_whitespace())).is_ok()
    }

    #[test]
    fn the_command_line_has_no_contradictions() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn documented_commands_are_read() {
        for line in [
            "",
            "check --cuda",
            "demo --screenshots docs --port 0 --check --built-in",
            "test wasm native --full --record later",
            "fuzz edge 300",
            "bench codec quick",
            "docs",
            "pack --full",
            "pair --grow-target 1.1B --grow-draft 135M --element f16 --verify",
            "pair --published",
            "pair --grow-smollm2 1.1B --verify",
        ] {
            assert!(is_read(line), "{line:?}");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for line in [
            "dmeo",
            "check now",
            "demo --port 65536",
            "demo --screenshots docs",
            "test everything",
            "fuzz nothing",
            "bench",
            "bench speed",
            "bench codec schemes",
            "pair --element f16",
        ] {
            assert!(!is_read(line), "{line:?}");
        }
    }
}
