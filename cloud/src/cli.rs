//! Command line of `outrider`.

use std::{
    io::{Write, stderr},
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

mod bench;
mod check;
#[cfg(feature = "papers")]
mod choose;
mod config;
mod drafting;
#[cfg(feature = "papers")]
mod experiment;
mod explain;
mod fetch;
mod generate;
mod log;
mod output;
#[cfg(feature = "papers")]
mod reproduce;
mod rules;
mod serve;
#[cfg(feature = "papers")]
mod sweep;
#[cfg(feature = "papers")]
mod theory;
#[cfg(feature = "papers")]
mod train_gate;

use log::LogFormat;
use output::CommandError;
use tracing_subscriber::filter::LevelFilter;

use crate::{rules_file, version};

/// Examples of the commands for researchers.
const RESEARCH: &str = if cfg!(feature = "papers") {
    concat!(
        "  outrider generate --local --explain \"Once\"       the papers' predictions beside the measurements\n",
        "  outrider theory                                  the papers' tables, from their closed forms\n",
        "  outrider reproduce                               the papers' tables and figures, by experiments\n",
        "  outrider sweep --support-size 4,8,16             settings side by side, on your own prompts too\n",
        "  outrider train-gate --out gate.safetensors       train SPRINTER's gate and SpecDec++'s stop head\n",
    )
} else {
    ""
};

/// Draft text with a small model at the edge, verify it with a large one on a server.
///
/// A browser (or `outrider generate`) drafts a few tokens and sends them with their compressed probabilities; the
/// server checks all of them in one pass of the large model and keeps those the large model might as well have
/// written itself. The text is distributed exactly as the large model's own.
#[derive(Debug, Parser)]
#[command(
    name = "outrider",
    version = version::SHOWN.as_str(),
    max_term_width = 100,
    after_help = format!("\
Try it:
  outrider serve                                   the server, on http://127.0.0.1:8787
  outrider serve --model smollm2                   the same, with a published chat model (98 MB)
  outrider generate \"Once upon a time\"             a native edge that drafts for it
  outrider generate --local \"Once upon a time\"     both ends in this process
  outrider generate --local --cloud-only \"Once\"    the large model alone, for comparison
  outrider check --draft A.gguf --target B.gguf    whether two models make a pair, and what it gains
  outrider rules                                   the acceptance rules, gates and stop rules
  outrider bench verify                            what a verify pass costs here, beside reading the weights
{RESEARCH}
Without --draft, --target and --tokenizer the small pair in the binary is used.")
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// TOML file of acceptance rules of your own for --rule, which both ends of a session need; see docs/papers.md
    #[arg(long, value_name = "FILE", global = true)]
    rules: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Serve>),
    Generate(Box<generate::Generate>),
    Check(check::Check),
    Fetch(fetch::Fetch),
    Rules(rules::Rules),
    #[cfg(feature = "papers")]
    Theory(theory::Theory),
    #[cfg(feature = "papers")]
    Reproduce(Box<reproduce::Reproduce>),
    #[cfg(feature = "papers")]
    Sweep(Box<sweep::Sweep>),
    #[cfg(feature = "papers")]
    Choose(Box<choose::Choose>),
    #[cfg(feature = "papers")]
    TrainGate(train_gate::TrainGate),
    Bench(bench::Bench),
}

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            complain(&error);
            return ExitCode::FAILURE;
        }
    };
    let log = match &cli.command {
        Command::Serve(serve) => {
            let log = log::init(serve.log_format, serve.log_level);
            log::log_panics();
            log
        }
        // The other commands write their results to standard output.
        _ => log::init(LogFormat::Text, LevelFilter::WARN),
    };
    if let Some(path) = &cli.rules
        && let Err(error) = rules_file::register(path)
    {
        complain(&error);
        return ExitCode::FAILURE;
    }
    let result = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            match cli.command {
                Command::Serve(serve) => serve.run().await,
                Command::Generate(generate) => generate.run().await,
                Command::Check(check) => check.run().await,
                Command::Fetch(fetch) => fetch.run().await,
                Command::Rules(rules) => rules.run(),
                #[cfg(feature = "papers")]
                Command::Theory(theory) => theory.run(),
                #[cfg(feature = "papers")]
                Command::Reproduce(reproduce) => reproduce.run().await,
                #[cfg(feature = "papers")]
                Command::Sweep(sweep) => sweep.run().await,
                #[cfg(feature = "papers")]
                Command::Choose(choose) => choose.run().await,
                #[cfg(feature = "papers")]
                Command::TrainGate(train_gate) => train_gate.run().await,
                Command::Bench(bench) => bench.run().await,
            }
        })
    });
    // Flushes the log, so that the error is the last line.
    drop(log);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Reads the arguments, environment and configuration file. Exits the process with an error if they are invalid.
fn parse() -> Result<Cli, config::ConfigError> {
    let command = config::with_environment(Cli::command());
    let mut matches = command.clone().try_get_matches().unwrap_or_else(|error| {
        if let Some(name) = config::variable_of(&error) {
            complain(&config::FromVariable(name));
        }
        error.exit()
    });
    let serve = |matches: &clap::ArgMatches| matches.subcommand_matches(config::COMMAND).cloned();
    if let Some(path) = serve(&matches).and_then(|serve| serve.get_one::<PathBuf>("config").cloned()) {
        matches = config::with_file(command.clone(), &path)?.get_matches();
    }
    let shown = serve(&matches).map(|serve| config::show(&command, &serve));
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let Command::Serve(serve) = &mut cli.command {
        serve.configuration = shown.unwrap_or_default();
        serve.unknown_variables = config::unknown_variables(&command);
        serve.read_again = Some(read_again);
    }
    Ok(cli)
}

/// Reads the settings of a running server again: the same arguments and environment, and the file as it is now.
fn read_again() -> Result<Box<serve::Serve>, CommandError> {
    let mut command = config::with_environment(Cli::command());
    let matches = command.clone().try_get_matches()?;
    let serve = matches.subcommand_matches(config::COMMAND);
    if let Some(path) = serve.and_then(|serve| serve.get_one::<PathBuf>("config")) {
        command = config::with_file(command, path)?;
    }
    match Cli::from_arg_matches(&command.try_get_matches()?)?.command {
        Command::Serve(serve) => Ok(serve),
        _ => Err("the process does not serve".into()),
    }
}

/// Writes an error to standard error, ignoring failures to write.
fn complain(error: &dyn std::error::Error) {
    let line = format!("outrider: {error}\n");
    output::within_patience(move || {
        let _ = stderr().write_all(line.as_bytes());
    });
}

#[cfg(all(test, feature = "papers"))]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    /// Appends the help of a command and of its own commands, one after the other.
    fn append_help(command: &mut clap::Command, name: &str, out: &mut String) {
        let help = command.render_long_help().to_string();
        *out += &format!("$ {name} --help\n{}\n\n\n", help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"));
        for command in command.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let name = format!("{name} {}", command.get_name());
            append_help(command, &name, out);
        }
    }

    /// With OUTRIDER_WRITE_TABLES set, the test writes the file instead.
    #[test]
    fn the_manual_is_the_help_of_all_commands() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/command-line.txt");
        let mut command = Cli::command().term_width(100);
        command.build();
        let mut help = String::new();
        append_help(&mut command, "outrider", &mut help);
        let help = help.trim_end().to_owned() + "\n";
        if env::var_os("OUTRIDER_WRITE_TABLES").is_some() {
            fs::write(&file, &help).unwrap();
        }
        let command = "OUTRIDER_WRITE_TABLES=1 cargo test --release -p outrider-cloud the_manual";
        assert_eq!(fs::read_to_string(&file).unwrap(), help, "write it again: {command}");
    }
}
