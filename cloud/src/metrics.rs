//! Metrics for `/metrics`, in the OpenMetrics text format that Prometheus reads.
//!
//! Names begin with `outrider_`; counters end with `_total`, times with `_seconds`, sizes with `_bytes`. Every label
//! has few values, all known beforehand: schemes, error codes, positions up to 16, keys, routes, statuses, models.
//! docs/operating.md describes which to watch.

use std::{fmt, fs, time::Duration};

use outrider_codec::{choice::Choice, frame::ErrorCode, scheme::SchemeName};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeMetric,
        text::{encode_eof, encode_registry},
    },
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric, Registry, Unit},
};

use self::key_usage::KeyUsage;
use crate::{keys::Keys, log_writer};

mod by_model;
mod key_usage;
mod meter;

pub(crate) use meter::SessionMeter;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics of an engine and its sessions, and those of the server.
#[derive(Debug)]
pub struct Metrics {
    /// Metrics of the engine, its sessions and its gateway.
    registry: Registry,
    /// Metrics of the server; with several engines, those of the first are the server's.
    of_server: Registry,
    keys: KeyUsage,
    requests: Family<[(&'static str, String); 2], Counter>,
    pub(crate) engine: EngineMetrics,
    pub(crate) sessions: SessionMetrics,
    pub(crate) gateway: GatewayMetrics,
}

/// Limits of an engine, exported beside its current use of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EngineLimits {
    pub(crate) sessions: usize,
    /// Rows in one run of the model.
    pub(crate) run_rows: usize,
    /// Memory limit of the KV caches, in bytes.
    pub(crate) kv_bytes: u64,
}

/// Metrics of a gateway to an engine that streams. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct GatewayMetrics {
    pub(crate) chunk_tokens: Histogram,
    pub(crate) streams_cut: Counter,
    workers: Family<Label, Gauge>,
    pub(crate) guesses_sent: Counter,
    pub(crate) guesses_dropped: Counter,
}

/// Metrics of the engine's passes and runs.
#[derive(Debug)]
pub(crate) struct EngineMetrics {
    /// Time from the request of a pass to the first run that takes some of its rows.
    pub(crate) queue: Histogram,
    /// Time from the request of a pass to its logits.
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

/// Scheme label of a generation that the target writes alone.
const CLOUD_ONLY: &str = "cloud-only";

/// Label of a metric family, name and value.
type Label = [(&'static str, &'static str); 1];

/// Metrics of sessions and generations.
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
    guesses_branched: Family<Label, Counter>,
    own_drafts: Family<Label, Counter>,
    own_drafts_right: Family<Label, Counter>,
    /// Times for which passes were held for guesses.
    pub(crate) held: Histogram,
    proposed_at: Family<Label, Counter>,
    accepted_at: Family<Label, Counter>,
    first_token: Histogram,
    inter_token: Histogram,
}

impl Metrics {
    /// Registers all metrics. `multiplies` names the instruction set or device that computes, `batching` the effect of
    /// sharing a run on a row's bits.
    pub(crate) fn new(limits: EngineLimits, multiplies: &'static str, batching: &'static str) -> Self {
        let [mut registry, mut of_server] = [(); 2].map(|()| Registry::with_prefix("outrider"));
        let build = [("version", env!("CARGO_PKG_VERSION")), ("instruction_set", multiplies), ("batching", batching)];
        // A gauge rather than an OpenMetrics info, which not every reader of Prometheus's format knows.
        let what_runs: Family<[(&str, &str); 3], Gauge> = Family::default();
        what_runs.get_or_create(&build).set(1);
        of_server.register("build_info", "What runs here", what_runs);
        let limit = |registry: &mut Registry, name: &str, help: &str, value: u64| {
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        };
        limit(&mut of_server, "sessions_limit", "Sessions there may be", limits.sessions as u64);
        limit(&mut registry, "run_rows_limit", "Rows a run of the model may have", limits.run_rows as u64);
        limit(&mut registry, "kv_limit_bytes", "Bytes of KV caches there may be", limits.kv_bytes);
        let help = "HTTP requests answered, by route and status; addresses without a route of their own are the page";
        let requests = Adder(&mut of_server).metric("http_requests", help);
        let engine = EngineMetrics::new(&mut registry);
        let sessions = SessionMetrics::new(&mut registry);
        let gateway = GatewayMetrics::new(&mut registry);
        of_server.register_collector(Box::new(LogLines));
        let keys = KeyUsage::default();
        of_server.register_collector(Box::new(keys.clone()));
        of_server.register_collector(Box::new(Process));
        Self { registry, of_server, keys, requests, engine, sessions, gateway }
    }

    /// Counts a session that was refused.
    pub fn refused(&self, cause: ErrorCode) {
        self.sessions.refused.get_or_create(&[("cause", cause.name())]).inc();
    }

    /// Counts a response to a request of a route.
    pub(crate) fn answered(&self, route: &str, status: u16) {
        self.requests.get_or_create(&[("route", route.to_owned()), ("status", status.to_string())]).inc();
    }

    /// Exports the usage of these keys from now on.
    pub(crate) fn export_usage(&self, keys: Keys) {
        // Another router of the same engine may have set the same keys.
        let _ = self.keys.0.set(keys);
    }

    /// Encodes all metrics as text of media type [`MEDIA_TYPE`].
    pub fn text(&self) -> String {
        Self::text_of(&[("", self)])
    }

    /// Encodes the metrics of one engine without further labels, those of several with the name of each one's model as
    /// the label `model`. Metrics of the server are those of the first engine.
    pub(crate) fn text_of(models: &[(&str, &Self)]) -> String {
        let texts: Vec<_> = models.iter().map(|(model, metrics)| (*model, encoded(&metrics.registry))).collect();
        let mut text = match &texts[..] {
            [(_, only)] => only.clone(),
            several => by_model::joined(several),
        };
        text += &models.first().map(|(_, first)| encoded(&first.of_server)).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = encode_eof(&mut text);
        text
    }
}

fn encoded(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode_registry(&mut text, registry);
    text
}

impl EngineMetrics {
    fn new(registry: &mut Registry) -> Self {
        let rows = || Histogram::new(exponential_buckets(1.0, 2.0, 11));
        let mut add = Adder(registry);
        Self {
            queue: add
                .times("queue", "From a pass being asked for to the first run of the model that takes something of it"),
            pass: add.times("pass", "From a pass being asked for to its logits"),
            passes: add.metric("passes", "Passes answered"),
            runs: add.metric("runs", "Runs of the model"),
            run: add.times("run", "One run of the model, for all who share it"),
            run_rows: add.this("run_rows", "Tokens in one run of the model, of all sessions", rows()),
            tokens: add.metric("tokens_read", "Tokens that passes asked to be read"),
            tokens_again: add.metric("tokens_read_again", "Tokens read again because their session had been parked"),
            parkings: add.metric("parkings", "Caches of sessions dropped to make room"),
            parked: add.metric("sessions_parked", "Sessions without the cache they had"),
            kv: add.bytes("kv", "Bytes of KV caches held"),
        }
    }

    /// Observes one run of the model.
    pub(crate) fn run(&self, rows: usize, took: Duration) {
        self.runs.inc();
        self.run.observe(took.as_secs_f64());
        self.run_rows.observe(rows as f64);
    }
}

impl SessionMetrics {
    fn new(registry: &mut Registry) -> Self {
        let mut add = Adder(registry);
        let metrics = Self {
            connected: add.metric("sessions_connected", "Sessions that are connected"),
            opened: add.metric("sessions", "Sessions begun"),
            refused: add.metric("sessions_refused", "Sessions refused, by cause"),
            generating: add.metric("sessions_generating", "Sessions that generate"),
            errors: add.metric("errors", "Errors that clients were told, by cause"),
            received: add.bytes("received", "Bytes of frames from clients"),
            sent: add.bytes("sent", "Bytes of frames to clients"),
            committed: add.metric("tokens_committed", "Tokens added to texts"),
            proposed: add.metric("draft_tokens_proposed", "Drafts that came for verification"),
            accepted: add.metric("draft_tokens_accepted", "Drafts that were accepted"),
            resampled: add.metric("tokens_resampled", "Rejected drafts that another token replaced"),
            guesses: add.metric("guesses", "Guesses that came ahead of a text, or late"),
            guesses_late: add.metric("guesses_late", "Guesses at tokens that were written already"),
            guesses_judged: add.metric("guesses_judged", "Guesses that a pass judged"),
            guesses_right: add.metric("guesses_right", "Guesses that a pass judged and found right"),
            guesses_branched: add.metric("guesses_branched", "Right guesses that were not the first at their position"),
            own_drafts: add.metric("own_drafts_judged", "Drafts of the server's own that a pass judged"),
            own_drafts_right: add.metric("own_drafts_right", "Drafts of the server's own that were right"),
            held: add.times("pass_held", "How long a pass was held for guesses on their way"),
            proposed_at: add.metric(
                "draft_positions_proposed",
                "Drafts that came for verification, by their position in the round",
            ),
            accepted_at: add
                .metric("draft_positions_accepted", "Drafts that were accepted, by their position in the round"),
            first_token: add.times("time_to_first_token", "From a request to the first tokens that are sent for it"),
            inter_token: add.times("inter_token", "Time between tokens, those of a verdict spread evenly"),
        };
        // Series exist from the start, so that a rate is known before the first event is counted.
        for scheme in SchemeName::ALL.iter().map(|scheme| scheme.name()).chain([CLOUD_ONLY]) {
            for family in [
                &metrics.proposed,
                &metrics.accepted,
                &metrics.resampled,
                &metrics.guesses,
                &metrics.guesses_late,
                &metrics.guesses_judged,
                &metrics.guesses_right,
                &metrics.own_drafts,
                &metrics.own_drafts_right,
            ] {
                family.get_or_create_owned(&[("scheme", scheme)]);
            }
        }
        metrics.refused.get_or_create_owned(&[("cause", ErrorCode::ServerFull.name())]);
        metrics.errors.get_or_create_owned(&[("cause", ErrorCode::Internal.name())]);
        metrics
    }
}

impl GatewayMetrics {
    fn new(registry: &mut Registry) -> Self {
        let mut add = Adder(registry);
        let tokens = Histogram::new(exponential_buckets(1.0, 2.0, 7));
        Self {
            chunk_tokens: add.this("chunk_tokens", "Tokens that the engine streamed together", tokens),
            streams_cut: add
                .metric("streams_cut", "Streams of the engine that were cut or refused, and asked for again"),
            workers: add.metric("guess_workers", "Workers of the engine that take guesses, by state"),
            guesses_sent: add.metric("guess_messages_sent", "Messages of guesses that a worker was sent"),
            guesses_dropped: add
                .metric("guess_messages_dropped", "Messages of guesses that a worker did not take in time"),
        }
    }

    /// Gauge of the workers in a state.
    pub(crate) fn workers_in(&self, state: &'static str) -> Gauge {
        self.workers.get_or_create_owned(&[("state", state)])
    }
}

/// Counter of dropped log lines. It is a count of the process, whatever the number of engines in it.
#[derive(Debug)]
struct LogLines;

impl Collector for LogLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let dropped = ConstCounter::new(log_writer::dropped_lines());
        let help = "Lines of the log that were dropped because they could not be written, or not fast enough";
        dropped.encode(encoder.encode_descriptor("log_lines_dropped", help, None, dropped.metric_type())?)
    }
}

/// Memory and open files of the process, where the operating system reports them.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(bytes) = resident_bytes() {
            let (gauge, help) = (ConstGauge::new(bytes), "Memory that the process holds");
            let unit = Some(&Unit::Bytes);
            gauge.encode(encoder.encode_descriptor("process_resident_memory", help, unit, gauge.metric_type())?)?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            let (gauge, help) = (ConstGauge::new(files.count() as i64), "Files and sockets that the process has open");
            gauge.encode(encoder.encode_descriptor("process_open_files", help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// Memory that the process holds, in bytes, if the operating system reports it.
fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))?;
    Some(kib.parse::<i64>().ok()? << 10)
}

/// Registers metrics as they are made.
struct Adder<'r>(&'r mut Registry);

impl Adder<'_> {
    fn this<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }

    fn metric<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.this(name, help, M::default())
    }

    fn bytes<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register_with_unit(name, help, Unit::Bytes, metric.clone());
        metric
    }

    fn times(&mut self, name: &str, help: &str) -> Histogram {
        let metric = times();
        self.0.register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }
}

/// Histogram of times from a quarter of a millisecond to half a minute.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 18))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_as_prometheus_wants_them() {
        let limits = EngineLimits { kv_bytes: 1 << 30, ..EngineLimits::default() };
        let metrics = Metrics::new(limits, "portable", "bit-identical");
        metrics.refused(ErrorCode::ServerFull);
        metrics.engine.run(5, Duration::from_millis(3));
        let text = metrics.text();
        for line in [
            "outrider_sessions_refused_total{cause=\"server-full\"} 1",
            "outrider_run_seconds_count 1",
            "outrider_run_rows_bucket{le=\"8.0\"} 1",
            "outrider_kv_limit_bytes 1073741824",
            "outrider_runs_total 1",
            "outrider_log_lines_dropped_total 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        #[cfg(target_os = "linux")]
        for name in ["outrider_process_resident_memory_bytes ", "outrider_process_open_files "] {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
            assert!(value.is_some_and(|value| value > 0), "{name} is not in\n{text}");
        }
        let names: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert!(names.iter().all(|name| name.starts_with("outrider_")), "{names:?}");
    }
}
