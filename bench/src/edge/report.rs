//! Tables, bars and numbers of `cargo xtask bench edge`.

use std::{fmt::Write, fs, path::Path};

use outrider_papers::report::chart::{self, Chart};
use serde_json::Value;

use crate::{
    passes::Failure,
    report,
    samples::{Samples, array, digits},
};

/// Columns of the tables: the name of a pass, its heading, and tokens of a pass.
const PASSES: [(&str, &str, f64); 4] = [
    ("decode16", "decode at 16, tok/s", 1.0),
    ("decode1024", "at 1024", 1.0),
    ("prefill128", "prompt of 128, tok/s", 128.0),
    ("rows8", "8 rows, ms", 0.0),
];

/// Prints the tables and leaves `edge.md`, `edge.svg` and `edge.json` in `folder`.
pub fn write(folder: &Path) -> Result<(), Failure> {
    let measured: Value = serde_json::from_str(&fs::read_to_string(folder.join("edge").join("measured.json"))?)?;
    let mut text = format!(
        "Chromium {}. Medians and ranges; the engines, each in a worker of its own, take turns on the same file. \
         Decoding: passes of one token behind so many; wllama's times are its own and of 16 tokens; ONNX Runtime Web \
         is given the KV cache in each pass and gives it back, as in transformers.js, and on the processor its \
         Q8_0 has one scale for each output, transformers.js's q8. 8 rows: behind 16 tokens with all logits; \
         candle gives the last row's only, wllama has no such pass. Of the roofline: weights \
         read in each decoding step at 16, by the speed at which as many workers read memory in wasm, measured between \
         the passes; weights that stay in a cache can be above it. Memory: of wasm, at the end.\n",
        measured["browser"].as_str().unwrap_or_default()
    );
    let mut charts = Vec::new();
    for model in measured["models"].as_array().ok_or("nothing was measured")? {
        let rows: Vec<Row> = array(&model["engines"]).map(|engine| Row::read(engine, model)).collect();
        table(&mut text, model, &rows)?;
        charts.push(chart(model, &rows));
    }
    report::write(folder, "edge", &text, measured, Some(chart::svg(&charts)))
}

/// Measurements of one engine on one model.
struct Row {
    name: String,
    engine: String,
    threads: u64,
    /// Milliseconds of each of [`PASSES`].
    times: [Option<Samples>; PASSES.len()],
    /// Share of the speed of memory that the first of [`PASSES`] reaches.
    roofline: Option<f64>,
    memory: Option<f64>,
    file_bytes: f64,
    load_ms: Option<f64>,
    gzipped: f64,
    /// True if it is on the browser's GPU.
    is_on_gpu: bool,
    gpu: Option<OnGpu>,
    errors: Vec<String>,
}

/// Measurements of a browser's GPU.
struct OnGpu {
    adapter: String,
    /// Logits of a row that are enough, and milliseconds of such a draft.
    k: u64,
    largest: Samples,
    /// Number of guesses in a group.
    most: u64,
    /// Milliseconds of a guess that the GPU chooses, in a group.
    guess: Samples,
    /// Submissions, read-backs, bytes of these and dispatches a draft: where its logits come back, where the largest
    /// do, and where guesses do.
    counts: [[f64; 4]; 3],
}

impl OnGpu {
    fn read(gpu: &Value) -> Option<Self> {
        let count = |key: &str, at: usize| gpu[key][at].as_f64().unwrap_or(f64::NAN);
        let counts = ["ofRows", "ofLargest", "ofGuesses"].map(|key| [0, 1, 2, 3].map(|at| count(key, at)));
        let (adapter, most, k) = (gpu["adapter"].as_str()?, gpu["most"].as_u64()?, gpu["k"].as_u64()?);
        let (largest, guess) = (samples(&gpu["largestMs"])?, samples(&gpu["guessMs"])?);
        Some(Self { adapter: adapter.to_owned(), k, largest, most, guess, counts })
    }

    /// `streamed`: bytes of weights that a draft reads.
    fn sentence(&self, streamed: f64) -> String {
        let [rows, largest, guesses] = self.counts.map(|[submissions, read_backs, bytes, dispatches]| {
            format!("{submissions:.2}, {read_backs:.2}, {bytes:.0} and {dispatches:.0}")
        });
        let Self { adapter, k, most, .. } = self;
        format!(
            "WebGPU on {adapter}: {} tokens/s where the {k} largest logits come back with the mass of the others, {} in \
             groups of {most} that it chooses by itself. Submissions, read-backs, bytes read back and dispatches \
             a draft: {rows} where logits come back, {largest} where the largest do, {guesses} where guesses do. A \
             draft reads {:.1} MB of weights. Adapters in software say nothing of speed.",
            self.largest.rate(1e3),
            self.guess.rate(1e3),
            streamed / 1e6
        )
    }
}

impl Row {
    fn read(engine: &Value, model: &Value) -> Self {
        let threads = engine["threads"].as_u64().unwrap_or(1);
        let text = |key: &str| engine[key].as_str().unwrap_or_default().to_owned();
        let times = PASSES.map(|(pass, ..)| samples(&engine["passes"][pass]));
        let bandwidth = bandwidth(model, threads);
        let streamed = model["streamedBytes"].as_f64().unwrap_or(f64::NAN);
        let roofline = times[0].zip(bandwidth).map(|(ms, bandwidth)| streamed / (ms.median / 1e3) / bandwidth.median);
        let plural = if threads == 1 { "" } else { "s" };
        let is_on_gpu = text("build").ends_with("webgpu");
        Self {
            name: format!("{} {}, {threads} thread{plural}", text("engine"), text("build")),
            engine: text("engine"),
            threads,
            times,
            // That is the processor's.
            roofline: roofline.filter(|_| !is_on_gpu),
            memory: engine["memoryBytes"].as_f64(),
            file_bytes: model["fileBytes"].as_f64().unwrap_or(f64::NAN),
            load_ms: engine["loadMs"].as_f64(),
            gzipped: engine["gzippedBytes"].as_f64().unwrap_or(f64::NAN),
            is_on_gpu,
            gpu: OnGpu::read(&engine["gpu"]),
            errors: array(&engine["errors"]).filter_map(|error| Some(error.as_str()?.to_owned())).collect(),
        }
    }

    /// A pass in the unit of its table: tokens a second, or milliseconds.
    fn shown(&self, pass: usize) -> Option<Samples> {
        let (.., tokens) = PASSES[pass];
        self.times[pass].map(|ms| if tokens > 0.0 { ms.rate(tokens * 1e3) } else { ms })
    }
}

fn table(out: &mut String, model: &Value, rows: &[Row]) -> Result<(), Failure> {
    let [one, two] = [1, 2].map(|threads| bandwidth(model, threads).map_or(f64::NAN, |rate| rate.median / 1e9));
    let megabytes = |key: &str| model[key].as_f64().unwrap_or(f64::NAN) / 1e6;
    writeln!(
        out,
        "\n### {}\n\n{:.0} MB, of which a pass reads {:.0}; memory is read at {one:.1} GB/s by one worker, {two:.1} by two.\n",
        title(model),
        megabytes("fileBytes"),
        megabytes("streamedBytes")
    )?;
    let headings = PASSES.map(|(_, heading, _)| heading).join(" | ");
    writeln!(out, "| | {headings} | of the roofline | memory, MB, × the file | load, ms | wasm, kB gzipped |")?;
    writeln!(out, "|---|{}", "--:|".repeat(PASSES.len() + 4))?;
    for row in rows {
        let passes: Vec<String> =
            (0..PASSES.len()).map(|pass| or_dash(row.shown(pass).map(|s| s.to_string()))).collect();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {:.0} |",
            row.name,
            passes.join(" | "),
            or_dash(row.roofline.map(|share| format!("{share:.2}"))),
            or_dash(row.memory.map(|bytes| format!("{:.0}, {:.2}×", bytes / 1e6, bytes / row.file_bytes))),
            or_dash(row.load_ms.map(digits)),
            row.gzipped / 1e3
        )?;
    }
    for gpu in rows.iter().filter_map(|row| row.gpu.as_ref()) {
        writeln!(out, "\n{}", gpu.sentence(model["streamedBytes"].as_f64().unwrap_or(f64::NAN)))?;
    }
    for row in rows {
        for error in &row.errors {
            writeln!(out, "\n{}: {error}", row.name)?;
        }
    }
    Ok(())
}

/// Tokens a second of the fastest build of each engine, at each number of threads.
fn chart(model: &Value, rows: &[Row]) -> Chart {
    let series = ["candle", "ONNX Runtime Web", "Outrider", "wllama"];
    let rate = |row: &Row, pass| row.shown(pass).map_or(f64::NAN, |samples| samples.median);
    let mut groups = Vec::new();
    for (pass, at) in [(0, 16), (1, 1024)] {
        for (threads, plural) in [(1, ""), (2, "s")] {
            let fastest = |engine: &str| {
                let rows = rows.iter().filter(|row| row.engine == engine && row.threads == threads && !row.is_on_gpu);
                rows.map(|row| rate(row, pass)).fold(f64::NAN, f64::max)
            };
            groups.push((format!("at {at}, {threads} thread{plural}"), series.map(fastest).to_vec()));
        }
    }
    let title = format!("{}: decoding, tokens/s, each engine's fastest build", title(model));
    Chart { title, series: series.to_vec(), groups, ..Chart::default() }
}

fn title(model: &Value) -> String {
    let text = |key: &str| model[key].as_str().unwrap_or_default();
    format!("{} {}", text("name"), text("format"))
}

/// Bytes per second by as many workers.
fn bandwidth(model: &Value, threads: u64) -> Option<Samples> {
    samples(&model["bytesPerSecond"][threads.to_string()])
}

fn samples(values: &Value) -> Option<Samples> {
    Samples::of(&array(values).filter_map(Value::as_f64).collect::<Vec<_>>())
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}
