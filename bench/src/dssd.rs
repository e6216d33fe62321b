//! `cargo xtask bench dssd`: DSSD's Tables 2 and 3 (Ning et al.) with a browser as the device at the edge, from what
//! `web/e2e/link/dssd.mjs` measured.
//!
//! ```text
//! dssd FOLDER      reads FOLDER/dssd-measured.json
//! ```

use std::{fmt::Write, fs, path::Path};

use outrider_papers::report::estimate::Estimate;
use outrider_papers::reproduce::dssd::printed;
use serde_json::Value;

use crate::{passes::Failure, report, samples::array};

/// Runs it with the arguments behind its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let [folder] = *arguments else { return Err("a folder is expected".into()) };
    let folder = Path::new(folder);
    let measured: Value = serde_json::from_str(&fs::read_to_string(folder.join("dssd-measured.json"))?)?;
    let text = table(&measured)?;
    report::write(folder, "dssd", &text, measured, None)
}

fn table(measured: &Value) -> Result<String, Failure> {
    let mut text = String::from(
        "Rounds that are waited for, in real time: a draft that costs what 135M parameters do in Chromium, on a \
         core; a target that costs what 1.1B do, on another; the link is emulated. Both are the built-in pair \
         grown: they write its text, with its acceptance rate. T = 1, top-k 10, up to 128 tokens a text. DSD sends \
         every distribution up, 4096 probabilities of 16 bits a draft; DSSD has one of 32 bits come down after a \
         rejection, of which top-k leaves ten that are not zero: nothing beside the link. Speed-up over the \
         server alone, which streams over the same link; ± is one standard error over texts. \
         Printed: DSD's and DSSD's by the paper, for 125M → 6.7B and 50272 probabilities.\n\n\
         | NTT, ms | Mbit/s | γ | α | alone, tokens/s | DSD: speed-up | DSSD: speed-up | a draft, ms | DSD, kB up / \
         token | DSSD, kB down / token | printed |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n",
    );
    for link in array(&measured["links"]) {
        let ways: Vec<Vec<&Value>> = array(&link["ways"]).map(|way| array(&way["runs"]).collect()).collect();
        let [alone, dsd, dssd] = ways.as_slice() else { return Err("three ways are expected".into()) };
        let (ntt, megabits, gamma) = (&link["roundTripMs"], &link["megabits"], &link["draftLength"]);
        let number = |value: &Value| value.as_f64().ok_or("a number is expected");
        let papers = printed(number(ntt)?, number(megabits)?, number(gamma)? as u32);
        let papers: Vec<String> =
            papers.iter().map(|(table, [dsd, dssd])| format!("{dsd:.2} and {dssd:.2} (Table {table})")).collect();
        writeln!(
            text,
            "| {ntt} | {megabits} | {gamma} | {:.3} | {:.1} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} | {} |",
            ratio(dssd, "accepted", "judged"),
            1e3 * ratio(alone, "tokens", "elapsedMs").value,
            speedup(alone, dsd),
            speedup(alone, dssd),
            ratio(dssd, "draftMs", "drafted").value,
            ratio(dsd, "uplinkBits", "tokens").value / 8e3,
            ratio(dssd, "downlinkBits", "tokens").value / 8e3,
            papers.join(", "),
        )?;
    }
    Ok(text)
}

fn sum(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or(f64::NAN)
}

fn ratio(runs: &[&Value], above: &str, below: &str) -> Estimate {
    Estimate::of(&runs.iter().map(|run| (sum(run, above), sum(run, below))).collect::<Vec<_>>())
}

/// Of the same prompts, by the time that a token takes: texts may end early.
fn speedup(alone: &[&Value], way: &[&Value]) -> Estimate {
    let a_token = |run: &&Value| sum(run, "elapsedMs") / sum(run, "tokens");
    Estimate::of(&alone.iter().zip(way).map(|(alone, way)| (a_token(alone), a_token(way))).collect::<Vec<_>>())
}
