//! `cargo xtask bench page`: what a visit takes until there is text, from what `web/e2e/page/bench.mjs` measured.
//!
//! ```text
//! page FOLDER      reads FOLDER/page-measured.json and FOLDER/page-races.json
//! ```

use std::{fmt::Write, fs, path::Path};

use outrider_papers::report::estimate::Estimate;
use serde_json::{Value, json};

use crate::{
    passes::Failure,
    report,
    samples::{Samples, array, digits},
};

/// Steps of the first visit that wait for each other, one round trip each: connection, page, script; connections and
/// requests of engine and model; connection, upgrade and greeting of the session.
const ROUND_TRIPS: [&str; 8] =
    ["connection", "page", "script and worker", "connections", "engine and model", "connection", "upgrade", "greeting"];
/// Owners of bytes, as the browser's part names them.
const PARTS: [&str; 4] = ["page", "engine", "model", "session"];

/// Runs the report with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let [folder] = *arguments else { return Err("a folder is expected".into()) };
    let folder = Path::new(folder);
    let read =
        |file: &str| -> Result<Value, Failure> { Ok(serde_json::from_str(&fs::read_to_string(folder.join(file))?)?) };
    let (visits, races) = (read("page-measured.json")?, read("page-races.json")?);
    let text = text(&visits)? + &races_text(&races)?;
    report::write(folder, "page", &text, json!({ "visits": visits, "races": races }), None)
}

fn text(measured: &Value) -> Result<String, Failure> {
    let mut text = format!(
        "# From an address to text\n\n\
         The demo page with the built-in pair in Chromium {}, server and browser on one machine, a proxy between \
         them that is as slow as the link in both directions and for all connections together; a new connection \
         takes a round trip. Slow 4G is Lighthouse's; 4G has WebPageTest's round trip, and 10 Mbit/s for its 9. \
         Cold: the first visit of a profile; warm: its second. Seconds from the address being opened; median [range] \
         of {} visits. The first token is of an answer in the chat, asked for as soon as the page is there; the draft \
         model joins when it is ready. The last two columns are seconds from the question: until that first token, \
         and until the first of the server's own stream, for which a page that has loaded nothing else asks with a \
         bare `fetch`.\n\n\
         | link | Mbit/s | round trip, ms | visit | first paint | ready | first token | from the question \
         | server's stream |\n\
         |---|--:|--:|---|--:|--:|--:|--:|--:|\n",
        measured["browser"].as_str().unwrap_or("of unknown version"),
        array(&measured["links"]).next().map_or(0, |link| array(&link["cold"]).count()),
    );
    for link in array(&measured["links"]) {
        for visit in ["cold", "warm"] {
            let [paint, ready, token, answer] =
                ["paintMs", "readyMs", "tokenMs", "answerMs"].map(|key| seconds(&link[visit], key));
            writeln!(
                text,
                "| {} | {} | {} | {visit} | {} | {} | {} | {} | {} |",
                link["name"].as_str().ok_or("a link has no name")?,
                rate(link).map_or_else(|| "–".to_owned(), |bits| (bits / 1e6).to_string()),
                link["roundTripMs"],
                paint.map_or_else(|| "–".to_owned(), |paint| paint.to_string()),
                ready.ok_or("a visit was never ready")?,
                token.ok_or("a visit had no token")?,
                answer.ok_or("a visit had no token")?,
                seconds(&link["bare"], "answerMs").ok_or("the server's own stream was not measured")?,
            )?;
        }
    }
    bytes(&mut text, measured)?;
    floor(&mut text, measured)?;
    Ok(text)
}

/// Reports the page's races: the default beside the server alone and beside rounds.
fn races_text(measured: &Value) -> Result<String, Failure> {
    let mut text = String::from(
        "\n## Races\n\nThe page's race on one machine, without an emulated link, with ten seeds: tokens/s, median \
         [range], and the default's speed, × that of the other, ± one standard error. As in the demo, \
         the server of the built-in target makes no drafts of its own.\n\n\
         | target | server alone | rounds | default | × server alone | × rounds |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for target in array(&measured["targets"]) {
        let of = |lane: &str| array(&target["races"]).filter_map(|race| race[lane].as_f64()).collect::<Vec<_>>();
        let lanes = ["alone", "rounds", "ahead"].map(of);
        let [alone, rounds, default] = &lanes;
        write!(text, "| {} |", target["name"].as_str().ok_or("a target has no name")?)?;
        for lane in &lanes {
            write!(text, " {} |", Samples::of(lane).ok_or("there was no race")?)?;
        }
        for other in [alone, rounds] {
            let times: Vec<_> = other.iter().zip(default).map(|(other, own)| (1.0 / other, 1.0 / own)).collect();
            write!(text, " {:.2} |", Estimate::of(&times))?;
        }
        writeln!(text)?;
    }
    Ok(text)
}

/// Writes the bytes until the page is ready, by their owner.
fn bytes(text: &mut String, measured: &Value) -> Result<(), Failure> {
    writeln!(
        text,
        "\nkB over the network until the page is ready, heads of answers included. Engine: its \
         WebAssembly; page: all else, with the worker in its script; model: draft, tokenizer, chat template.\n\n\
         | link | visit | {} | together |\n|---|---|{}",
        PARTS.join(" | "),
        "--:|".repeat(PARTS.len() + 1)
    )?;
    for link in array(&measured["links"]) {
        for visit in ["cold", "warm"] {
            let parts = PARTS.map(|part| kilobytes(&link[visit], part));
            let sum = parts.iter().sum::<f64>();
            let parts: Vec<String> = parts.into_iter().chain([sum]).map(|kb| format!("{kb:.1}")).collect();
            writeln!(text, "| {} | {visit} | {} |", link["name"].as_str().unwrap_or_default(), parts.join(" | "))?;
        }
    }
    let first = array(&measured["links"]).next().ok_or("there is no link")?;
    let sum: f64 = PARTS.iter().map(|part| kilobytes(&first["cold"], part)).sum();
    let shares = PARTS.map(|part| format!("{part} {:.0} %", 100.0 * kilobytes(&first["cold"], part) / sum));
    writeln!(text, "\nWhat the bytes of a first visit are: {}.", shares.join(", "))?;
    Ok(())
}

/// Writes the floor of a page of these bytes, and the time that remains beyond it.
fn floor(text: &mut String, measured: &Value) -> Result<(), Failure> {
    writeln!(
        text,
        "\nOf the first visit, in seconds. Bytes: all of them at the link's rate. Round trips: {} that wait for \
         each other ({}). Computing: what a visit takes without a link. Floor: bytes and round trips. Beyond it: \
         what remains of the time until the page is ready.\n\n\
         | link | bytes | round trips | computing | floor | ready | beyond it |\n|---|--:|--:|--:|--:|--:|--:|",
        ROUND_TRIPS.len(),
        ROUND_TRIPS.join(", "),
    )?;
    let ready = |link: &Value| seconds(&link["cold"], "readyMs").map_or(f64::NAN, |ready| ready.median);
    let computing = array(&measured["links"]).find(|link| rate(link).is_none()).map_or(f64::NAN, ready);
    for link in array(&measured["links"]) {
        let Some(bits) = rate(link) else { continue };
        let kilobytes: f64 = PARTS.iter().map(|part| kilobytes(&link["cold"], part)).sum();
        let transfer = kilobytes * 8e3 / bits;
        let trips = ROUND_TRIPS.len() as f64 * link["roundTripMs"].as_f64().unwrap_or(f64::NAN) / 1e3;
        let [floor, ready] = [transfer + trips, ready(link)];
        let columns = [transfer, trips, computing, floor, ready, ready - floor].map(digits);
        writeln!(text, "| {} | {} |", link["name"].as_str().unwrap_or_default(), columns.join(" | "))?;
    }
    Ok(())
}

/// Rate of a link in bits per second; none without a link.
fn rate(link: &Value) -> Option<f64> {
    link["bitsPerSecond"].as_f64()
}

/// Seconds of the visits that were measured; none without any.
fn seconds(visits: &Value, key: &str) -> Option<Samples> {
    let times: Vec<f64> = array(visits).filter_map(|visit| Some(visit[key].as_f64()? / 1e3)).collect();
    Samples::of(&times)
}

/// The median over visits.
fn kilobytes(visits: &Value, part: &str) -> f64 {
    let bytes: Vec<f64> = array(visits).filter_map(|visit| visit["bytes"][part].as_f64()).collect();
    Samples::of(&bytes).map_or(f64::NAN, |bytes| bytes.median / 1e3)
}
