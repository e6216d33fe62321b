//! The repository's habits, as `cargo xtask <command>`: run the demo, run every test, run every check, fuzz,
//! measure.
//!
//! Files by noun: [`cli`] reads the command line; [`demo`], [`mod@test`], [`fuzz`], [`mod@bench`], [`pair`] and
//! [`check`] are the commands; [`wasm`], [`page`] and [`server`] build the three things the commands need; [`tools`],
//! [`chromium`], [`cuda`], [`python`] and [`mod@openai`] find or install what building and testing ask of the machine;
//! [`workspace`], [`process`], [`lockfile`] and [`version`] are what these stand on. Every failure ends in one sentence
//! on stderr and exit status 1.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to whoever runs it")]

mod bench;
mod binaries;
mod check;
mod chromium;
mod cli;
mod cuda;
mod debian;
mod demo;
mod fuzz;
mod interrupt;
mod lockfile;
mod manifests;
mod openai;
mod page;
mod pair;
mod peers;
mod process;
mod prose;
mod python;
mod server;
mod test;
mod times;
mod tools;
mod version;
mod wasm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::Request;
use crate::workspace::Workspace;

fn main() -> ExitCode {
    match obey() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn obey() -> Result<()> {
    match Request::parse(std::env::args_os().skip(1))? {
        Request::Help => {
            print!("{}", cli::HELP);
            Ok(())
        }
        Request::Check => check::run(&Workspace::find()?),
        Request::CheckCuda => cuda::check(&Workspace::find()?),
        Request::Test(options) => test::run(&Workspace::find()?, &options),
        Request::Fuzz(options) => fuzz::run(&Workspace::find()?, &options),
        Request::Bench { bench, quick } => bench.run(&Workspace::find()?, quick),
        Request::Pair(pair) => pair.run(&Workspace::find()?),
        Request::Demo(options) => demo::run(&Workspace::find()?, &options),
    }
}
