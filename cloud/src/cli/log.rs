//! Log of the process, on standard error.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{IsTerminal, stderr},
    panic,
    sync::{Mutex, PoisonError},
};

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::{EnvFilter, filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt};

use super::output::{CommandError, within_patience};
#[cfg(feature = "otel")]
use crate::otel::{self, Traces};
use crate::{log_filter, log_writer};

/// Level in the settings that were read last.
static SETTING: Mutex<LevelFilter> = Mutex::new(LevelFilter::OFF);

/// Format of the log's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Text for people, in colour on a terminal.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// A log that has been started. Dropping it writes the queued lines, unless standard error blocks.
#[derive(Debug)]
pub(super) struct Log {
    guard: Option<WorkerGuard>,
    #[cfg(feature = "otel")]
    traces: Option<Traces>,
}

impl Drop for Log {
    fn drop(&mut self) {
        #[cfg(feature = "otel")]
        let traces = self.traces.take();
        let guard = self.guard.take();
        within_patience(move || {
            #[cfg(feature = "otel")]
            drop(traces);
            drop(guard);
        });
    }
}

/// Starts the log, which RUST_LOG filters; without that variable, it has events of `level` and above.
pub(super) fn init(format: LogFormat, level: LevelFilter) -> Log {
    *SETTING.lock().unwrap_or_else(PoisonError::into_inner) = level;
    let (filter, wrong) = match log_filter::of_environment() {
        Some(Ok(filter)) => (Some(filter), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let filter = filter.unwrap_or_else(|| EnvFilter::new(level.to_string()));
    let (writer, guard) = log_writer::start();
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(stderr().is_terminal())
        .with_writer(writer)
        // Internal errors would be written to standard error directly, with a panic if that fails.
        .log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(log_filter::layer(filter));
    #[cfg(feature = "otel")]
    let (layer, traces) = otel::start().unzip();
    #[cfg(feature = "otel")]
    let registry = registry.with(layer);
    match format {
        LogFormat::Text => registry.with(log).init(),
        // At the top level, the session's fields would collide with those of an event.
        LogFormat::Json => registry.with(log.json().flatten_event(true).with_span_list(true)).init(),
    }
    if let Some(error) = wrong {
        tracing::warn!("RUST_LOG is ignored: {error}");
    }
    // At their level TRACE, libraries write whole frames to the log: prompts, and the secrets of tickets.
    ::log::set_max_level(::log::LevelFilter::Debug);
    Log {
        guard: Some(guard),
        #[cfg(feature = "otel")]
        traces,
    }
}

/// Sets the level of the running log if the setting has changed, so that a filter set at the admin port stays. Returns
/// false if it has not, or if RUST_LOG filters the log instead.
pub(super) fn set_level(level: LevelFilter) -> Result<bool, CommandError> {
    let mut setting = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
    if *setting == level || matches!(log_filter::of_environment(), Some(Ok(_))) {
        return Ok(false);
    }
    log_filter::set(&level.to_string())?;
    *setting = level;
    Ok(true)
}

/// Writes panics to the log from now on. A panic written to standard error directly could block its thread forever.
pub(super) fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let trace = Backtrace::capture();
        let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
        tracing::error!(place, reason = panic.payload_as_str(), trace, "panicked");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_setting_keeps_the_filter_of_the_admin_port() {
        let _layer = log_filter::layer(EnvFilter::new("info"));
        *SETTING.lock().unwrap() = LevelFilter::INFO;
        log_filter::set("info,outrider_cloud=debug").unwrap();
        assert!(!set_level(LevelFilter::INFO).unwrap());
        assert!(log_filter::get().unwrap().contains("outrider_cloud=debug"));
        assert!(set_level(LevelFilter::WARN).unwrap());
        assert_eq!(log_filter::get().as_deref(), Some("warn"));
        // It can be set back.
        assert!(set_level(LevelFilter::INFO).unwrap());
        assert_eq!(log_filter::get().as_deref(), Some("info"));
    }
}
