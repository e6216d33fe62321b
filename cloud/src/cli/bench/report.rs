//! Measurements of `outrider bench verify`, as tables and as JSON.

use std::fmt::{self, Write};

use serde::Serialize;

/// All measurements of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the measured device.
    pub device: String,
    /// Memory bandwidth, in bytes per second.
    pub bandwidth: f64,
    pub correctness: Option<Correctness>,
    pub models: Vec<ModelReport>,
}

/// Comparison of the pair's target on the device with the CPU's own kernels.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Correctness {
    /// Number of compared rows.
    pub rows: usize,
    /// Number of these rows whose largest logit is another one.
    pub other_greedy: usize,
    /// Largest |a − b| / max |b| of a row.
    pub largest_error: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelReport {
    pub model: &'static str,
    /// Size of the weights that a pass reads, in bytes.
    pub weight_bytes: u64,
    /// Time to read them once, in milliseconds.
    pub floor_ms: f64,
    pub passes: Vec<PassTime>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassTime {
    pub sessions: usize,
    /// Number of rows of each session.
    pub rows: usize,
    /// Median time, in milliseconds.
    pub ms: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "device {}, memory bandwidth {:.1} GB/s (copying)", self.device, self.bandwidth / 1e9)?;
        if let Some(Correctness { rows, other_greedy, largest_error }) = &self.correctness {
            writeln!(
                f,
                "pair, {rows} rows beside the CPU's kernels: {other_greedy} with another largest logit, largest error {largest_error:.1e}"
            )?;
        }
        self.models.iter().try_for_each(|model| write!(f, "\n{model}"))
    }
}

impl fmt::Display for ModelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, weight_bytes, floor_ms, passes } = self;
        writeln!(f, "{model}: {:.3} GB of weights, {floor_ms:.3} ms to read them", *weight_bytes as f64 / 1e9)?;
        writeln!(f, "{:>9}{:>6}{:>12}{:>10}{:>17}", "sessions", "rows", "ms", "x floor", "x one session")?;
        for PassTime { sessions, rows, ms } in passes {
            let one = passes.iter().find(|pass| pass.sessions == 1 && pass.rows == *rows);
            let mut line = String::new();
            write!(line, "{sessions:>9}{rows:>6}{ms:>12.3}{:>10.2}", ms / floor_ms)?;
            if let Some(one) = one.filter(|_| *sessions > 1) {
                write!(line, "{:>17.2}", ms / one.ms)?;
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}
