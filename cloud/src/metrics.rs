//! What is counted, for `/metrics`, in the OpenMetrics text format that Prometheus reads.
//!
//! Names begin with `outrider_`; counters end with `_total`, times with `_seconds`, sizes with `_bytes`. Every label
//! has a few values that are known beforehand: schemes, error codes, positions up to 16. docs/operating.md says what to
//! look at.

use std::time::Duration;

use outrider_codec::frame::ErrorCode;
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Registry, Unit},
};

use crate::target::engine::EngineSettings;

mod meter;

pub(crate) use meter::SessionMeter;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) engine: EngineMetrics,
    pub(crate) sessions: SessionMetrics,
}

/// What the engine does.
#[derive(Debug)]
pub(crate) struct EngineMetrics {
    /// From a pass being asked for to the first run that takes something of it.
    pub(crate) queue: Histogram,
    /// From a pass being asked for to its logits.
    pub(crate) pass: Histogram,
    pub(crate) passes: Counter,
    pub(crate) runs: Counter,
    run: Histogram,
    run_rows: Histogram,
    pub(crate) tokens: Counter,
    pub(crate) tokens_again: Counter,
    pub(crate) parkings: Counter,
    pub(crate) parked: Gauge,
    pub(crate) kv: Gauge,
}

/// One label.
type Label = [(&'static str, &'static str); 1];

/// What sessions do.
#[derive(Debug)]
pub(crate) struct SessionMetrics {
    pub(crate) connected: Gauge,
    pub(crate) opened: Counter,
    refused: Family<Label, Counter>,
    generating: Gauge,
    errors: Family<Label, Counter>,
    received: Family<Label, Counter>,
    sent: Family<Label, Counter>,
    committed: Family<Label, Counter>,
    proposed: Family<Label, Counter>,
    accepted: Family<Label, Counter>,
    resampled: Family<Label, Counter>,
    guesses: Family<Label, Counter>,
    guesses_late: Family<Label, Counter>,
    guesses_judged: Family<Label, Counter>,
    guesses_right: Family<Label, Counter>,
    /// How long passes were held for guesses.
    pub(crate) held: Histogram,
    proposed_at: Family<Label, Counter>,
    accepted_at: Family<Label, Counter>,
    first_token: Histogram,
    inter_token: Histogram,
}

impl Metrics {
    /// `multiplies` names what computes, `batching` what sharing a run does to a row.
    pub(crate) fn new(settings: &EngineSettings, multiplies: &'static str, batching: &'static str) -> Self {
        let mut registry = Registry::with_prefix("outrider");
        let build = [("version", env!("CARGO_PKG_VERSION")), ("instruction_set", multiplies), ("batching", batching)];
        registry.register("build", "What runs here", Info::new(build));
        for (name, help, value) in [
            ("sessions_limit", "Sessions there may be", settings.sessions as u64),
            ("run_rows_limit", "Rows a run of the model may have", settings.batch_rows as u64),
            ("kv_limit_bytes", "Bytes of KV caches there may be", settings.kv_memory.as_u64()),
        ] {
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        }
        let engine = EngineMetrics::new(&mut registry);
        let sessions = SessionMetrics::new(&mut registry);
        Self { registry, engine, sessions }
    }

    /// A session that was not begun.
    pub fn refused(&self, cause: ErrorCode) {
        self.sessions.refused.get_or_create(&[("cause", cause.name())]).inc();
    }

    /// All of it, of media type [`MEDIA_TYPE`].
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl EngineMetrics {
    fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            queue: times(),
            pass: times(),
            passes: Counter::default(),
            runs: Counter::default(),
            run: times(),
            run_rows: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            tokens: Counter::default(),
            tokens_again: Counter::default(),
            parkings: Counter::default(),
            parked: Gauge::default(),
            kv: Gauge::default(),
        };
        let seconds = Unit::Seconds;
        registry.register_with_unit(
            "queue",
            "From a pass being asked for to the first run of the model that takes something of it",
            seconds.clone(),
            metrics.queue.clone(),
        );
        registry.register_with_unit(
            "pass",
            "From a pass being asked for to its logits",
            seconds.clone(),
            metrics.pass.clone(),
        );
        registry.register_with_unit("run", "One run of the model, for all who share it", seconds, metrics.run.clone());
        registry.register("run_rows", "Tokens in one run of the model, of all sessions", metrics.run_rows.clone());
        registry.register("passes", "Passes answered", metrics.passes.clone());
        registry.register("runs", "Runs of the model", metrics.runs.clone());
        registry.register("tokens_read", "Tokens that passes asked to be read", metrics.tokens.clone());
        registry.register(
            "tokens_read_again",
            "Tokens read again because their session had been parked",
            metrics.tokens_again.clone(),
        );
        registry.register("parkings", "Caches of sessions dropped to make room", metrics.parkings.clone());
        registry.register("sessions_parked", "Sessions without the cache they had", metrics.parked.clone());
        registry.register_with_unit("kv", "Bytes of KV caches held", Unit::Bytes, metrics.kv.clone());
        metrics
    }

    /// One run of the model.
    pub(crate) fn run(&self, rows: usize, took: Duration) {
        self.runs.inc();
        self.run.observe(took.as_secs_f64());
        self.run_rows.observe(rows as f64);
    }
}

impl SessionMetrics {
    fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            connected: Gauge::default(),
            opened: Counter::default(),
            refused: Family::default(),
            generating: Gauge::default(),
            errors: Family::default(),
            received: Family::default(),
            sent: Family::default(),
            committed: Family::default(),
            proposed: Family::default(),
            accepted: Family::default(),
            resampled: Family::default(),
            guesses: Family::default(),
            guesses_late: Family::default(),
            guesses_judged: Family::default(),
            guesses_right: Family::default(),
            held: times(),
            proposed_at: Family::default(),
            accepted_at: Family::default(),
            first_token: times(),
            inter_token: times(),
        };
        // There from the start, so that its rate is known when it is first counted.
        metrics.refused.get_or_create_owned(&[("cause", ErrorCode::ServerFull.name())]);
        metrics.errors.get_or_create_owned(&[("cause", ErrorCode::Internal.name())]);
        registry.register("sessions_connected", "Sessions that are connected", metrics.connected.clone());
        registry.register("sessions", "Sessions begun", metrics.opened.clone());
        registry.register("sessions_refused", "Sessions refused, by cause", metrics.refused.clone());
        registry.register("sessions_generating", "Sessions that generate", metrics.generating.clone());
        registry.register("errors", "Errors that clients were told, by cause", metrics.errors.clone());
        registry.register_with_unit("received", "Bytes of frames from clients", Unit::Bytes, metrics.received.clone());
        registry.register_with_unit("sent", "Bytes of frames to clients", Unit::Bytes, metrics.sent.clone());
        registry.register("tokens_committed", "Tokens added to texts", metrics.committed.clone());
        registry.register("draft_tokens_proposed", "Drafts that came for verification", metrics.proposed.clone());
        registry.register("draft_tokens_accepted", "Drafts that were accepted", metrics.accepted.clone());
        registry.register("tokens_resampled", "Rejected drafts that another token replaced", metrics.resampled.clone());
        registry.register("guesses", "Guesses that came ahead of a text, or late", metrics.guesses.clone());
        registry.register("guesses_late", "Guesses at tokens that were written already", metrics.guesses_late.clone());
        registry.register("guesses_judged", "Guesses that a pass judged", metrics.guesses_judged.clone());
        registry.register("guesses_right", "Guesses that a pass judged and found right", metrics.guesses_right.clone());
        registry.register_with_unit(
            "pass_held",
            "How long a pass was held for guesses on their way",
            Unit::Seconds,
            metrics.held.clone(),
        );
        registry.register(
            "draft_positions_proposed",
            "Drafts that came for verification, by their position in the round",
            metrics.proposed_at.clone(),
        );
        registry.register(
            "draft_positions_accepted",
            "Drafts that were accepted, by their position in the round",
            metrics.accepted_at.clone(),
        );
        registry.register_with_unit(
            "time_to_first_token",
            "From a request to the first tokens that are sent for it",
            Unit::Seconds,
            metrics.first_token.clone(),
        );
        registry.register_with_unit(
            "inter_token",
            "Time between tokens, those of a verdict spread evenly",
            Unit::Seconds,
            metrics.inter_token.clone(),
        );
        metrics
    }
}

/// From a quarter of a millisecond to half a minute.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 18))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_as_prometheus_wants_them() {
        let metrics = Metrics::new(&EngineSettings::default(), "portable", "bit-identical");
        metrics.refused(ErrorCode::ServerFull);
        metrics.engine.run(5, Duration::from_millis(3));
        let text = metrics.text();
        for line in [
            "outrider_sessions_refused_total{cause=\"server-full\"} 1",
            "outrider_run_seconds_count 1",
            "outrider_run_rows_bucket{le=\"8.0\"} 1",
            "outrider_kv_limit_bytes 1073741824",
            "outrider_runs_total 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        let names: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert!(names.iter().all(|name| name.starts_with("outrider_")), "{names:?}");
    }
}
