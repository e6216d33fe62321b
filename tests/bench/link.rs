//! `cargo xtask bench link`: tables and curves of what `web/e2e/link/bench.mjs` measured.
//!
//! ```text
//! link report FOLDER      reads FOLDER/link-measured.json
//! ```
#![expect(clippy::print_stdout, reason = "a program for the command line")]

use std::{fmt::Write, fs, path::Path};

use serde_json::{Value, json};

use crate::{
    curves::{Bounds, Curve, Mark, Panel},
    samples::{Samples, digits},
};

#[expect(dead_code, reason = "other programs draw bars")]
mod chart;
mod curves;
#[expect(dead_code, reason = "rates come as they are")]
mod samples;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ["report", folder] = arguments[..] else {
        return Err("`report` and a folder are expected".into());
    };
    let folder = Path::new(folder);
    let measured: Value = serde_json::from_str(&fs::read_to_string(folder.join("link-measured.json"))?)?;
    let links = array(&measured["links"]).map(Link::read).collect::<Result<Vec<_>, _>>()?;
    let text = tables(&links)?;
    println!("{text}");
    fs::write(folder.join("link.md"), text)?;
    fs::write(folder.join("link.svg"), curves::svg(&panels(&links)))?;
    let links: Vec<Value> = links.iter().map(Link::json).collect();
    let numbers = json!({ "browser": measured["browser"], "links": links });
    fs::write(folder.join("link.json"), serde_json::to_string_pretty(&numbers)?)?;
    Ok(())
}

/// One rate and round trip.
struct Link {
    megabits: f64,
    round_trip_ms: f64,
    /// The server alone comes first.
    schemes: Vec<Scheme>,
}

struct Scheme {
    name: String,
    /// Tokens a second, over the prompts.
    rate: Samples,
    passes_per_token: f64,
    bits_up_per_token: f64,
    /// Accepted per judged draft; not a number where nothing is drafted.
    acceptance: f64,
    /// Milliseconds a round: drafting, and all else but the emulated round trip.
    draft_ms: f64,
    rest_ms: f64,
}

impl Link {
    fn read(link: &Value) -> Result<Self, Failure> {
        let number = |key: &str| link[key].as_f64().ok_or_else(|| format!("a link has no {key}"));
        let (megabits, round_trip_ms) = (number("megabits")?, number("roundTripMs")?);
        let schemes = array(&link["schemes"]).map(|scheme| Scheme::read(scheme, round_trip_ms));
        Ok(Self { megabits, round_trip_ms, schemes: schemes.collect::<Result<_, _>>()? })
    }

    fn json(&self) -> Value {
        let schemes = self.schemes.iter().map(|scheme| {
            json!({
                "scheme": scheme.name,
                "tokens_per_second": scheme.rate.json(),
                "server_passes_per_token": scheme.passes_per_token,
                "uplink_bits_per_token": scheme.bits_up_per_token,
                "acceptance": scheme.acceptance,
                "draft_ms_per_round": scheme.draft_ms,
                "other_ms_per_round": scheme.rest_ms,
            })
        });
        json!({
            "megabits_per_second": self.megabits,
            "round_trip_ms": self.round_trip_ms,
            "schemes": schemes.collect::<Vec<_>>(),
        })
    }
}

impl Scheme {
    fn read(scheme: &Value, round_trip_ms: f64) -> Result<Self, Failure> {
        let runs: Vec<&Value> = array(&scheme["runs"]).collect();
        let sum = |key: &str| runs.iter().filter_map(|run| run[key].as_f64()).sum::<f64>();
        let rates: Vec<f64> =
            runs.iter().filter_map(|run| Some(run["tokens"].as_f64()? / run["elapsedMs"].as_f64()? * 1e3)).collect();
        let (tokens, rounds) = (sum("tokens"), sum("rounds"));
        let draft_ms = sum("draftMs") / rounds;
        Ok(Self {
            name: scheme["scheme"].as_str().ok_or("a scheme has no name")?.to_owned(),
            rate: Samples::of(&rates).ok_or("a scheme has no runs")?,
            passes_per_token: sum("serverPasses") / tokens,
            bits_up_per_token: sum("uplinkBits") / tokens,
            acceptance: sum("accepted") / sum("judged"),
            draft_ms,
            rest_ms: sum("elapsedMs") / rounds - draft_ms - round_trip_ms,
        })
    }
}

fn tables(links: &[Link]) -> Result<String, Failure> {
    let mut text = String::from(
        "The default pair, default settings, the page in Chromium and the server on one machine; the link is emulated. \
         Tokens/s: median and range over prompts; × the server alone over the same link. Of a round: milliseconds of \
         drafting, and of everything but drafting and the emulated round trip (verifying, bytes on the link, overhead).\n\n\
         | Mbit/s | round trip, ms | scheme | tokens/s | × alone | passes / token | acceptance | bits up / token | drafting | rest |\n\
         |--:|--:|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for link in links {
        let alone = link.schemes.first().map_or(f64::NAN, |scheme| scheme.rate.median);
        for scheme in &link.schemes {
            let dash = |value: f64| if value.is_finite() { digits(value) } else { "–".to_owned() };
            writeln!(
                text,
                "| {} | {} | {} | {} | {:.2} | {:.2} | {} | {:.0} | {} | {} |",
                link.megabits,
                link.round_trip_ms,
                scheme.name,
                scheme.rate,
                scheme.rate.median / alone,
                scheme.passes_per_token,
                dash(scheme.acceptance),
                scheme.bits_up_per_token,
                dash(scheme.draft_ms),
                dash(scheme.rest_ms)
            )?;
        }
    }
    Ok(text)
}

/// Tokens a second by rate, a panel for each round trip; then passes by scheme.
fn panels(links: &[Link]) -> Vec<Panel> {
    let most = links.iter().flat_map(|link| &link.schemes).map(|scheme| scheme.rate.median).fold(1.0, f64::max);
    let mut trips: Vec<f64> = links.iter().map(|link| link.round_trip_ms).collect();
    trips.dedup();
    let panel = |trip: f64| {
        let links: Vec<&Link> = links.iter().filter(|link| link.round_trip_ms == trip).collect();
        let names = links.first().map(|link| &link.schemes[..]).unwrap_or_default();
        let curves = names.iter().enumerate().map(|(index, scheme)| Curve {
            name: scheme.name.clone(),
            points: (links.iter().filter_map(|link| Some((link, link.schemes.get(index)?))))
                .map(|(link, scheme)| Mark { x: link.megabits.log10(), y: scheme.rate.median, error: 0.0 })
                .collect(),
        });
        Panel {
            title: format!("Round trip {trip} ms"),
            across: "log10 of the rate, Mbit/s",
            up: "tokens/s",
            bounds: Bounds { x: (-1.0, 2.0), y: (0.0, most * 1.05) },
            curves: curves.collect(),
        }
    };
    trips.into_iter().map(panel).collect()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
