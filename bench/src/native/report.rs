//! Tables, bars and numbers of `cargo xtask bench native`.

use std::{fmt::Write, path::Path};

use outrider_papers::report::chart::{self, Chart};
use serde_json::{Value, json};

use crate::{
    passes::{Failure, Pass},
    report,
    samples::{Samples, digits},
    shapes::{Shape, Storage},
};

/// Engines in the order of the tables' columns and the charts' bars.
pub const ENGINES: [&str; 4] = ["llama.cpp", "Outrider", "llama.cpp, flash attention", "candle"];
/// Passes that are measured: the rows of a draft after a prompt, and a prompt.
pub const PASSES: [Pass; 5] = [
    Pass { rows: 1, cached: 256, all_logits: true },
    Pass { rows: 4, cached: 256, all_logits: true },
    Pass { rows: 8, cached: 256, all_logits: true },
    Pass { rows: 16, cached: 256, all_logits: true },
    Pass { rows: 128, cached: 0, all_logits: false },
];

/// Measurements of one model at one number of threads, in every engine.
pub struct Measured {
    model: String,
    threads: usize,
    /// Bytes of weights that a pass reads.
    streamed: f64,
    file_bytes: f64,
    /// Bytes per second, one a round.
    pub bandwidth: Vec<f64>,
    /// Milliseconds by pass, then by engine.
    pub times: [[Vec<f64>; ENGINES.len()]; PASSES.len()],
    /// Milliseconds of loading, by engine.
    pub load_ms: Vec<f64>,
    /// Peak resident bytes, by engine.
    pub peak_bytes: Vec<f64>,
    /// Builds of the engines, by engine.
    pub builds: Vec<String>,
}

impl Measured {
    pub fn new(shape: &Shape, format: Storage, threads: usize) -> Self {
        Self {
            model: format!("{} {}", shape.name, format.name()),
            threads,
            streamed: shape.streamed(format) as f64,
            file_bytes: shape.file_bytes(format) as f64,
            bandwidth: Vec::new(),
            times: Default::default(),
            load_ms: Vec::new(),
            peak_bytes: Vec::new(),
            builds: Vec::new(),
        }
    }

    /// Milliseconds that reading the weights takes at the measured speed of memory.
    fn floor(&self) -> f64 {
        Samples::of(&self.bandwidth).map_or(f64::NAN, |bandwidth| self.streamed / bandwidth.median * 1e3)
    }

    fn title(&self) -> String {
        let plural = if self.threads == 1 { "" } else { "s" };
        format!("{}, {} thread{plural}", self.model, self.threads)
    }

    fn table(&self, out: &mut String) -> Result<(), Failure> {
        let bandwidth = Samples::of(&self.bandwidth).ok_or("the bandwidth was not measured")?;
        writeln!(
            out,
            "\n### {}\n\nWeights of {:.0} MB at {} GB/s: no pass below {} ms.\n",
            self.title(),
            self.streamed / 1e6,
            Samples {
                median: bandwidth.median / 1e9,
                lowest: bandwidth.lowest / 1e9,
                highest: bandwidth.highest / 1e9
            },
            digits(self.floor())
        )?;
        writeln!(out, "| ms, × the floor | {} |\n|---|{}", ENGINES.join(" | "), "--:|".repeat(ENGINES.len()))?;
        for (pass, times) in PASSES.iter().zip(&self.times) {
            let cell = |times: &Vec<f64>| match Samples::of(times) {
                Some(ms) => format!("{ms}, {:.1}×", ms.median / self.floor()),
                None => "–".to_owned(),
            };
            writeln!(out, "| {} | {} |", pass_name(pass), times.iter().map(cell).collect::<Vec<_>>().join(" | "))?;
        }
        let row = |values: &[f64], show: &dyn Fn(f64) -> String| {
            values.iter().map(|&value| show(value)).collect::<Vec<_>>().join(" | ")
        };
        writeln!(out, "| load, ms | {} |", row(&self.load_ms, &|ms| format!("{ms:.0}")))?;
        let memory = |bytes: f64| format!("{:.0}, {:.2}×", bytes / 1e6, bytes / self.file_bytes);
        writeln!(out, "| peak memory, MB, × the file | {} |", row(&self.peak_bytes, &memory))?;
        Ok(())
    }

    /// Multiples of the floor, a group for each number of rows.
    fn chart(&self) -> Chart {
        let multiple = |times: &Vec<f64>| Samples::of(times).map_or(f64::NAN, |ms| ms.median / self.floor());
        let groups = (PASSES.iter().zip(&self.times))
            .filter(|(pass, _)| pass.cached > 0)
            .map(|(pass, times)| (pass_name(pass), times.iter().map(multiple).collect()));
        Chart {
            title: format!("{}: time of a pass, in times that reading the weights takes", self.title()),
            series: ENGINES.to_vec(),
            groups: groups.collect(),
            ..Chart::default()
        }
    }

    fn json(&self) -> Value {
        let engine = |index: usize| {
            let passes = (PASSES.iter().zip(&self.times)).map(|(pass, times)| {
                json!({
                    "rows": pass.rows,
                    "cached": pass.cached,
                    "ms": times[index],
                })
            });
            json!({
                "engine": ENGINES[index],
                "build": self.builds[index],
                "load_ms": self.load_ms[index],
                "peak_bytes": self.peak_bytes[index],
                "passes": passes.collect::<Vec<_>>(),
            })
        };
        json!({
            "model": self.model,
            "threads": self.threads,
            "streamed_bytes": self.streamed,
            "file_bytes": self.file_bytes,
            "bytes_per_second": self.bandwidth,
            "floor_ms": self.floor(),
            "engines": (0..self.builds.len()).map(engine).collect::<Vec<_>>(),
        })
    }
}

/// Report of all measurements.
pub struct Report {
    pub tables: Vec<Measured>,
}

impl Report {
    pub fn new() -> Self {
        Self { tables: Vec::new() }
    }

    /// Prints the tables and leaves `native.md`, `native.svg` and `native.json` in `folder`.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        let mut text = String::from(
            "Medians and ranges of passes, the engines taking turns on random weights of real shapes. \
             Rows of a draft: behind 256 tokens, with logits of every row (candle gives the last row's only); the \
             prompt: 128 tokens, the last row's logits. The floor: bytes of the weights by the speed of reading \
             memory, measured between the passes; weights that stay in a cache can beat it.\n",
        );
        if let Some(first) = self.tables.first() {
            text.push('\n');
            for (name, build) in ENGINES.iter().zip(&first.builds) {
                writeln!(text, "- {name}: {}", build.trim_end_matches(" | ").replace('|', "·"))?;
            }
        }
        for table in &self.tables {
            table.table(&mut text)?;
        }
        let charts: Vec<Chart> = self.tables.iter().map(Measured::chart).collect();
        let tables: Vec<Value> = self.tables.iter().map(Measured::json).collect();
        report::write(folder, "native", &text, tables.into(), Some(chart::svg(&charts)))
    }
}

fn pass_name(pass: &Pass) -> String {
    match pass {
        Pass { rows, cached: 0, .. } => format!("prompt of {rows}"),
        Pass { rows: 1, .. } => "1 row".to_owned(),
        Pass { rows, .. } => format!("{rows} rows"),
    }
}
