//! The repository's habits, as `cargo xtask <command>`: run the demo, run every test, run every check, fuzz,
//! measure.
//!
//! Files by noun: [`cli`] reads the command line; [`demo`], [`mod@test`], [`fuzz`], [`mod@bench`], [`pair`] and
//! [`check`] are the commands; [`wasm`], [`page`] and [`server`] build the three things the commands need. Whatever
//! these need from elsewhere is found or installed by [`tools`] (crates), [`python`] (PyPI) and [`system`] (Debian).
//! [`workspace`] and [`process`] are below all of them. Every failure ends in one sentence on stderr and exit status 1,
//! a mistake on the command line in 2.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its user")]

mod bench;
mod binaries;
mod check;
mod choice;
mod chromium;
mod cli;
mod cuda;
mod demo;
mod fuzz;
mod interrupt;
mod page;
mod pair;
mod peers;
mod process;
mod prose;
mod python;
mod server;
mod system;
mod test;
mod times;
mod tokenizers;
mod tools;
mod wasm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser};

use crate::cli::{CommandLine, Request};
use crate::wasm::Build;
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
    let Some(request) = CommandLine::parse().request else { return Ok(CommandLine::command().print_long_help()?) };
    let workspace = Workspace::find()?;
    match request {
        Request::Check { cuda: false } => check::run(&workspace),
        Request::Check { cuda: true } => cuda::check(&workspace),
        Request::Docs => test::build_site(&workspace),
        Request::Pack { full: false } => page::pack(&workspace, &[Build::SIMD128]),
        Request::Pack { full: true } => page::pack(&workspace, &Build::ALL),
        Request::Test(options) => test::run(&workspace, &options),
        Request::Fuzz(options) => fuzz::run(&workspace, &options),
        Request::Bench(options) => bench::run(&workspace, &options),
        Request::Pair(pair) => pair.run(&workspace),
        Request::Demo(options) => demo::run(&workspace, &options),
    }
}
