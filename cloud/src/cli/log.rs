//! The log, on standard error.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{IsTerminal, stderr},
    panic,
};

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::output::within_patience;
use crate::log_writer;

/// How lines of the log look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// A log that has been started. Dropped, it writes the lines that still wait, unless standard error blocks.
#[derive(Debug)]
pub(super) struct Log(Option<WorkerGuard>);

impl Drop for Log {
    fn drop(&mut self) {
        let guard = self.0.take();
        within_patience(move || drop(guard));
    }
}

/// Starts the log; RUST_LOG says what goes into it, `level` and above if it does not.
pub(super) fn init(format: LogFormat, level: LevelFilter) -> Log {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level.to_string()));
    let (writer, guard) = log_writer::start();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(stderr().is_terminal())
        .with_writer(writer)
        // These would be written to standard error directly, with a panic where that fails.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => builder.init(),
        // The session's fields on the top level would collide with an event's own.
        LogFormat::Json => builder.json().flatten_event(true).with_span_list(false).init(),
    }
    Log(Some(guard))
}

/// Writes panics to the log from now on. Written to standard error directly, one could block its thread for ever.
pub(super) fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let trace = Backtrace::capture();
        let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
        tracing::error!(place, reason = panic.payload_as_str(), trace, "panicked");
    }));
}
