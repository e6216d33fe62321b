//! The log, on standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// How lines of the log look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// Starts the log; RUST_LOG says what goes into it, `level` and above if it does not.
pub(super) fn init(format: LogFormat, level: LevelFilter) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level.to_string()));
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(stderr().is_terminal()).with_writer(stderr);
    match format {
        LogFormat::Text => builder.init(),
        // The session's fields on the top level would collide with an event's own.
        LogFormat::Json => builder.json().flatten_event(true).with_span_list(false).init(),
    }
}
