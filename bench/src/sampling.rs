//! `cargo xtask bench sampling`: time from logits to coded bytes and to verdicts.
//!
//! `FOLDER` has what the browser measured, if it did; the table goes there.

use std::{fmt::Write, fs, path::Path, time::Instant};

use serde_json::{Value, json};

use crate::{
    path::{Failure, SAMPLINGS, Time, Times, VOCABULARIES},
    report,
};

const BATCH_MS: f64 = 0.5;
/// Bytes of weights that a draft step of the 0.5 B shape reads: 494 million in Q8_0, 34 bytes each 32.
const STEP_BYTES: f64 = 494e6 * 34.0 / 32.0;

/// Runs it with the arguments behind its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let [folder] = *arguments else { return Err("a folder is expected".into()) };
    let folder = Path::new(&folder);
    let origin = Instant::now();
    let native = Times::measure(&|| origin.elapsed().as_secs_f64() * 1e3, BATCH_MS)?;
    let browser = fs::read_to_string(folder.join("sampling-browser.txt")).ok();
    let browser = browser.map(|text| read(&text).ok_or("the browser's times cannot be read")).transpose()?;
    let markdown = markdown(&native, browser.as_ref())?;
    let rows = |times: &Times| -> Value {
        let row = |time: &Time| {
            json!({
                "end": time.end,
                "vocabSize": time.vocab_size,
                "sampling": time.sampling,
                "name": time.name,
                "microseconds": time.microseconds,
            })
        };
        json!({ "bytesPerSecond": times.bandwidth, "rows": times.rows.iter().map(row).collect::<Vec<_>>() })
    };
    let samples = json!({ "native": rows(&native), "browser": browser.as_ref().map(rows) });
    report::write(folder, "sampling", &markdown, samples, None)
}

/// What [`Times::write`] wrote.
fn read(text: &str) -> Option<Times> {
    let mut lines = text.lines();
    let bandwidth = lines.next()?.parse().ok()?;
    let rows = lines.map(|line| {
        let [end, vocab_size, sampling, name, microseconds] = line.split(',').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (vocab_size, microseconds) = (vocab_size.parse().ok()?, microseconds.parse().ok()?);
        Some(Time {
            end: end.to_owned(),
            vocab_size,
            sampling: sampling.to_owned(),
            name: name.to_owned(),
            microseconds,
        })
    });
    Some(Times { rows: rows.collect::<Option<_>>()?, bandwidth })
}

fn markdown(native: &Times, browser: Option<&Times>) -> Result<String, Failure> {
    let step = |times: &Times| STEP_BYTES / times.bandwidth * 1e6;
    let mut out = format!(
        "One thread reads {:.1} GB/s here{}. So a draft step of the 0.5 B shape, {:.0} MB of weights in Q8_0, takes at least \
         {:.1} ms{}.\n",
        native.bandwidth / 1e9,
        browser.map_or(String::new(), |times| format!(", {:.1} GB/s in Chromium", times.bandwidth / 1e9)),
        STEP_BYTES / 1e6,
        step(native) / 1e3,
        browser.map_or(String::new(), |times| format!(", {:.1} ms in Chromium", step(times) / 1e3)),
    );
    for (end, title) in [
        ("edge", "From logits to coded bytes, µs a drafted token (rounds of four); share of a draft step"),
        ("cloud", "From logits to a verdict, µs a judged row"),
    ] {
        for (sampling, parameters) in SAMPLINGS {
            let (t, p) = (parameters.temperature, parameters.top_p);
            write!(out, "\n## {title}: T = {t}, top-p {p}\n\n|  |")?;
            let mut rule = String::from("|---|");
            for v in VOCABULARIES {
                write!(out, " V={v} | Chromium |")?;
                rule.push_str("--:|--:|");
            }
            write!(out, "\n{rule}\n")?;
            let of = |times: &Times, v: usize, name: &str| {
                let mut rows = times.rows.iter();
                let is_it = |row: &&Time| {
                    (row.end.as_str(), row.vocab_size, row.sampling.as_str(), row.name.as_str())
                        == (end, v, sampling, name)
                };
                rows.find(is_it).map(|row| row.microseconds)
            };
            let first = native.rows.iter().filter(|row| {
                (row.end.as_str(), row.vocab_size, row.sampling.as_str()) == (end, VOCABULARIES[0], sampling)
            });
            for Time { name, .. } in first {
                write!(out, "| {name} |")?;
                for v in VOCABULARIES {
                    for times in [Some(native), browser] {
                        let time = times.and_then(|times| Some((of(times, v, name)?, step(times))));
                        let cell = time.map_or("–".to_owned(), |(time, step)| match end {
                            "edge" => format!("{time:.0} ({:.1} %)", 100.0 * time / step),
                            _ => format!("{time:.0}"),
                        });
                        write!(out, " {cell} |")?;
                    }
                }
                out.push('\n');
            }
        }
    }
    Ok(out)
}
