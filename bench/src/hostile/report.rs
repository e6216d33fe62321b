//! Table and numbers of the attacks.

use std::{fmt::Write, path::Path};

use serde::Serialize;

use super::stranger::Tally;
use crate::{passes::Failure, report};

const MIB: f64 = 1024.0 * 1024.0;

/// Result of one attack.
#[derive(Serialize)]
pub struct Outcome {
    pub name: &'static str,
    pub what: &'static str,
    pub strangers: usize,
    /// Milliseconds from a Draft of the witness to its Verdict, ascending.
    pub latencies_ms: Vec<f64>,
    /// Sessions of the witness that failed.
    pub witness_failures: usize,
    /// Answers that newcomers received.
    pub newcomers: Tally,
    pub strangers_saw: Tally,
    /// Resident bytes of the server before the attack, at most, and a few seconds later.
    pub before_bytes: u64,
    pub peak_bytes: u64,
    pub after_bytes: u64,
    /// Bytes of these in KV caches, of sessions whose clients may come back.
    pub caches_bytes: u64,
}

/// Results of all attacks.
#[derive(Serialize)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
}

impl Report {
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        let mut text = String::from(
            "Each row is a fresh `outrider serve` with the built-in pair and its own defaults, attacked from one \
             address. The witness is a session of another (drafts of four, played again); newcomers of a third ask \
             five times a second for a session. Memory is what the server's process holds, afterwards with \
             the KV caches of sessions whose clients may come back.\n\n\
             | attack | strangers | witness p50, p99, most (ms) | newcomers | strangers saw | MiB: before, most, \
             after; caches |\n\
             |---|--:|--:|---|---|--:|\n",
        );
        for outcome in &self.outcomes {
            let Outcome { name, what, strangers, newcomers, strangers_saw, witness_failures, .. } = outcome;
            let latency = |share: f64| percentile(&outcome.latencies_ms, share);
            let lost = if *witness_failures > 0 { format!(", {witness_failures} cut") } else { String::new() };
            let bytes = [outcome.before_bytes, outcome.peak_bytes, outcome.after_bytes, outcome.caches_bytes];
            let [before, peak, after, caches] = bytes.map(|bytes| bytes as f64 / MIB);
            writeln!(
                text,
                "| {name}: {what} | {strangers} | {:.1}, {:.1}, {:.0}{lost} | {newcomers} | {strangers_saw} | {before:.0}, \
                 {peak:.0}, {after:.0}; {caches:.0} |",
                latency(0.5),
                latency(0.99),
                latency(1.0),
            )?;
        }
        report::write(folder, "hostile", &text, serde_json::to_value(self)?, None)
    }
}

/// The value below which this share of them is; not a number if there is none.
fn percentile(ascending: &[f64], share: f64) -> f64 {
    let last = ascending.len().saturating_sub(1);
    ascending.get((share * last as f64).ceil() as usize).copied().unwrap_or(f64::NAN)
}
