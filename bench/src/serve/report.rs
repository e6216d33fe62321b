//! Tables, charts and numbers of `cargo xtask bench serve`.

use std::{fmt::Write, path::Path};

use outrider_papers::report::chart::{self, Chart};
use serde::Serialize;

use crate::{
    passes::Failure,
    report,
    serve::batches::{CACHED, ROWS, Shared},
};

const MIB: f64 = 1024.0 * 1024.0;

/// Result at one number of sessions at a time.
#[derive(Serialize)]
pub struct Level {
    pub sessions: usize,
    pub tokens_per_second: f64,
    /// Milliseconds from a Draft sent to its Verdict read, ascending.
    pub latencies_ms: Vec<f64>,
    pub rows_per_run: f64,
    /// Milliseconds between the request of a pass and its first run.
    pub queue_ms: f64,
    pub bytes_per_session: f64,
}

/// Result of a few active sessions among many.
#[derive(Serialize)]
pub struct Crowd {
    pub connected: usize,
    pub active: usize,
    /// Resident bytes of the server before any session, with the idle ones, and with the active ones.
    pub before_bytes: f64,
    pub idle_bytes: f64,
    pub resident_bytes: f64,
    pub kv_bytes: f64,
    pub parked: f64,
    /// Tokens a second of each active session, ascending.
    pub tokens_per_session: Vec<f64>,
    pub latencies_ms: Vec<f64>,
    pub errors: f64,
}

/// Results of the whole measurement.
#[derive(Serialize)]
pub struct Report {
    pub is_chat: bool,
    pub passes: Vec<Shared>,
    pub levels: Vec<Level>,
    pub crowd: Option<Crowd>,
}

impl Report {
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        let text = self.tables()?;
        let name = if self.is_chat { "serve-smollm2" } else { "serve" };
        report::write(folder, name, &text, serde_json::to_value(self)?, Some(chart::svg(&self.charts())))
    }

    fn tables(&self) -> Result<String, Failure> {
        let mut text = format!(
            "The target of {}. A pass of sessions with {ROWS} rows each behind {CACHED} tokens, in turn: median and range.\n\n\
             | sessions | rows | ms | × one session's | µs a row |\n|--:|--:|--:|--:|--:|\n",
            if self.is_chat { "SmolLM2-135M-Instruct" } else { "the default pair" },
        );
        let one = self.passes.first().map_or(f64::NAN, |shared| quantile(&shared.times_ms, 0.5));
        for Shared { sessions, times_ms } in &self.passes {
            let (median, rows) = (quantile(times_ms, 0.5), sessions * ROWS);
            writeln!(
                text,
                "| {sessions} | {rows} | {median:.2} [{:.2}–{:.2}] | {:.1} | {:.0} |",
                quantile(times_ms, 0.0),
                quantile(times_ms, 1.0),
                median / one,
                median * 1e3 / rows as f64
            )?;
        }
        text.push_str(
            "\nSessions whose drafts were recorded, each sending its next round at once. Latency: from a Draft to its Verdict, \
             over loopback; the server and those who ask it share the processor.\n\n\
             | sessions | tokens/s | p50, ms | p99, ms | p99 / p50 | rows a run | waiting, ms | memory a session, KiB \
             |\n\
             |--:|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        for level in &self.levels {
            let (p50, p99) = level.percentiles();
            writeln!(
                text,
                "| {} | {:.0} | {p50:.2} | {p99:.2} | {:.1} | {:.1} | {:.2} | {:.0} |",
                level.sessions,
                level.tokens_per_second,
                p99 / p50,
                level.rows_per_run,
                level.queue_ms,
                level.bytes_per_session / 1024.0
            )?;
        }
        let Some(crowd) = &self.crowd else { return Ok(text) };
        let tokens = |q| quantile(&crowd.tokens_per_session, q);
        writeln!(
            text,
            "\n{} sessions connected, of which {} are active:\n\n\
             | | |\n|---|--:|\n\
             | memory before anyone came, MiB | {:.0} |\n\
             | with the idle ones, which have half a text each, MiB | {:.0} |\n\
             | with the active ones, MiB | {:.0} |\n\
             | of these, KV caches, MiB | {:.0} |\n\
             | parked | {:.0} |\n\
             | tokens/s of an active session: lowest, median, highest | {:.1}, {:.1}, {:.1} |\n\
             | latency: p50, p99, ms | {:.2}, {:.2} |\n\
             | errors | {:.0} |",
            crowd.connected,
            crowd.active,
            crowd.before_bytes / MIB,
            crowd.idle_bytes / MIB,
            crowd.resident_bytes / MIB,
            crowd.kv_bytes / MIB,
            crowd.parked,
            tokens(0.0),
            tokens(0.5),
            tokens(1.0),
            quantile(&crowd.latencies_ms, 0.5),
            quantile(&crowd.latencies_ms, 0.99),
            crowd.errors
        )?;
        Ok(text)
    }

    fn charts(&self) -> Vec<Chart> {
        let chart = |title: &str, series: Vec<&'static str>, values: &dyn Fn(&Level) -> Vec<f64>| Chart {
            title: title.to_owned(),
            series,
            groups: self.levels.iter().map(|level| (format!("{} sessions", level.sessions), values(level))).collect(),
            ..Chart::default()
        };
        vec![
            chart("Tokens a second, all sessions together", vec!["tokens/s"], &|level| vec![level.tokens_per_second]),
            chart("From a Draft to its Verdict, ms", vec!["p50", "p99"], &|level| {
                let (p50, p99) = level.percentiles();
                vec![p50, p99]
            }),
            chart("Rows in a run of the target", vec!["rows"], &|level| vec![level.rows_per_run]),
            Chart {
                title: format!("A pass of sessions with {ROWS} rows each, ms"),
                series: vec!["median"],
                groups: (self.passes.iter())
                    .map(|shared| (shared.sessions.to_string(), vec![quantile(&shared.times_ms, 0.5)]))
                    .collect(),
                ..Chart::default()
            },
        ]
    }
}

impl Level {
    fn percentiles(&self) -> (f64, f64) {
        (quantile(&self.latencies_ms, 0.5), quantile(&self.latencies_ms, 0.99))
    }
}

/// The nearest of ascending values to quantile `q`; not a number if there are none.
fn quantile(ascending: &[f64], q: f64) -> f64 {
    let last = ascending.len().saturating_sub(1);
    ascending.get((last as f64 * q).round() as usize).copied().unwrap_or(f64::NAN)
}
