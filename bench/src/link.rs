//! `cargo xtask bench link`: tables and curves of what `web/e2e/link/bench.mjs` measured.
//!
//! ```text
//! link ahead FOLDER [PAIRS...]       reads what `web/e2e/link/ahead.mjs` wrote to FOLDER, of these pairs or of all
//! link report FOLDER                 reads FOLDER/link-measured.json
//! ```

mod ahead;

use std::{fmt::Write, fs, path::Path};

use outrider_papers::report::curves::{self, Bounds, Curve, Mark, Panel};
use serde_json::Value;

use self::ahead::{SECTIONS, Section};
use crate::{
    passes::Failure,
    report,
    samples::{Samples, array, digits},
};

/// Runs the report with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    match *arguments {
        ["ahead", folder, ref pairs @ ..] => write_ahead(Path::new(folder), pairs),
        ["report", folder] => write_rounds(Path::new(folder)),
        _ => Err("`ahead` or `report` and a folder are expected".into()),
    }
}

fn read(folder: &Path, file: &str) -> Result<Value, Failure> {
    let file = folder.join(file);
    let text = fs::read_to_string(&file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Writes the report on drafting ahead of these pairs, or of all if none is named.
fn write_ahead(folder: &Path, pairs: &[&str]) -> Result<(), Failure> {
    let chosen = SECTIONS.iter().filter(|section| pairs.is_empty() || pairs.contains(&section.name));
    let load = |section: &'static Section| -> Result<(&Section, Value), Failure> {
        Ok((section, read(folder, section.file)?))
    };
    let sections = chosen.map(load).collect::<Result<Vec<_>, _>>()?;
    let text = ahead::report(&sections)?;
    let panels = ahead::panels(&sections)?;
    let svg = (!panels.is_empty()).then(|| curves::svg(&panels));
    let measured = sections.into_iter().map(|(section, measured)| (section.key.to_owned(), measured)).collect();
    let name = ["ahead"].iter().chain(pairs).copied().collect::<Vec<_>>().join("-");
    report::write(folder, &name, &text, Value::Object(measured), svg)
}

/// Writes the report on rounds of drafts.
fn write_rounds(folder: &Path) -> Result<(), Failure> {
    let measured = read(folder, "link-measured.json")?;
    let links = array(&measured["links"]).map(Link::read).collect::<Result<Vec<_>, _>>()?;
    let text = tables(&links)?;
    report::write(folder, "link", &text, measured, Some(curves::svg(&panels(&links))))
}

/// Results over a link of one rate and round trip.
struct Link {
    /// Rate in megabits per second; infinite without an emulated link.
    megabits: f64,
    round_trip_ms: f64,
    /// Results of the schemes; the server alone comes first.
    schemes: Vec<Scheme>,
}

struct Scheme {
    name: String,
    /// Number of rounds that may be in flight, where that is compared.
    in_flight: Option<u64>,
    /// Tokens a second, over the prompts.
    rate: Samples,
    passes_per_token: f64,
    bits_up_per_token: f64,
    /// Accepted per judged draft; not a number where nothing is drafted.
    acceptance: f64,
    /// Rounds of drafts a token; 0 for the server alone.
    rounds_per_token: f64,
    /// Drafts a token that were sent after a rejected one.
    wasted_per_token: f64,
    /// Milliseconds of a token by part; rounds that are in flight together have their times counted twice.
    parts: Parts,
}

/// Milliseconds of a token, by part.
struct Parts {
    drafting: f64,
    /// The server's runs of the target.
    verifying: f64,
    /// Time from drafts to verdicts, without verifying.
    link: f64,
    /// The rest of the time.
    overhead: f64,
}

impl Parts {
    const NAMES: [&str; 4] = ["drafting", "verifying", "link", "overhead"];

    fn values(&self) -> [f64; 4] {
        [self.drafting, self.verifying, self.link, self.overhead]
    }
}

impl Link {
    fn read(link: &Value) -> Result<Self, Failure> {
        let schemes = array(&link["schemes"]).map(Scheme::read);
        Ok(Self {
            megabits: link["megabits"].as_f64().unwrap_or(f64::INFINITY),
            round_trip_ms: link["roundTripMs"].as_f64().ok_or("a link has no round trip")?,
            schemes: schemes.collect::<Result<_, _>>()?,
        })
    }
}

impl Scheme {
    fn read(scheme: &Value) -> Result<Self, Failure> {
        let runs: Vec<&Value> = array(&scheme["runs"]).collect();
        let sum = |key: &str| runs.iter().filter_map(|run| run[key].as_f64()).sum::<f64>();
        let rates: Vec<f64> =
            runs.iter().filter_map(|run| Some(run["tokens"].as_f64()? / run["elapsedMs"].as_f64()? * 1e3)).collect();
        let tokens = sum("tokens");
        let [drafting, verifying, waiting, elapsed] =
            ["draftMs", "verifyMs", "waitMs", "elapsedMs"].map(|key| sum(key) / tokens);
        // The server alone waits for no verdict; its passes are then part of the rest.
        let link = (waiting - verifying).max(0.0);
        Ok(Self {
            name: scheme["scheme"].as_str().ok_or("a scheme has no name")?.to_owned(),
            rate: Samples::of(&rates).ok_or("a scheme has no runs")?,
            passes_per_token: sum("serverPasses") / tokens,
            bits_up_per_token: sum("uplinkBits") / tokens,
            acceptance: sum("accepted") / sum("judged"),
            in_flight: scheme["inFlight"].as_u64(),
            rounds_per_token: sum("rounds") / tokens,
            wasted_per_token: sum("wasted") / tokens,
            parts: Parts { drafting, verifying, link, overhead: elapsed - drafting - verifying - link },
        })
    }
}

fn tables(links: &[Link]) -> Result<String, Failure> {
    let mut text = String::from(
        "The default pair, default settings, the page in Chromium and the server on one machine; the link is emulated. \
         Tokens/s: median and range over generations of 48 tokens; × the server alone over the same link.\n",
    );
    for link in links.iter().filter(|link| link.megabits.is_infinite()) {
        accounting(&mut text, link)?;
    }
    text.push_str(
        "\n| Mbit/s | round trip, ms | scheme | tokens/s | × alone | passes / token | acceptance | bits up / token |\n\
         |--:|--:|---|--:|--:|--:|--:|--:|\n",
    );
    for link in links.iter().filter(|link| link.megabits.is_finite()) {
        let alone = link.schemes.first().map_or(f64::NAN, |scheme| scheme.rate.median);
        for scheme in link.schemes.iter().filter(|scheme| scheme.in_flight.is_none()) {
            writeln!(
                text,
                "| {} | {} | {} | {} | {:.2} | {:.2} | {} | {:.0} |",
                link.megabits,
                link.round_trip_ms,
                scheme.name,
                scheme.rate,
                scheme.rate.median / alone,
                scheme.passes_per_token,
                if scheme.acceptance.is_finite() { digits(scheme.acceptance) } else { "–".to_owned() },
                scheme.bits_up_per_token,
            )?;
        }
    }
    flights(&mut text, links)?;
    Ok(text)
}

/// Rounds in flight, against the sequential loop.
fn flights(text: &mut String, links: &[Link]) -> Result<(), Failure> {
    text.push_str(
        "\nRounds in flight: k-sqs with drafts of two, as many as that drafted on before a verdict. × one: against one \
         round at a time over the same link. Discarded: drafts sent behind a rejected one.\n\n\
         | Mbit/s | round trip, ms | in flight | tokens/s | × one | × alone | passes / token | acceptance | \
         discarded / token | bits up / token |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for link in links {
        let alone = link.schemes.first().map_or(f64::NAN, |scheme| scheme.rate.median);
        let one = link.schemes.iter().find(|scheme| scheme.in_flight == Some(1));
        let one = one.map_or(f64::NAN, |scheme| scheme.rate.median);
        for scheme in &link.schemes {
            let Some(in_flight) = scheme.in_flight else { continue };
            let rate = if link.megabits.is_finite() { link.megabits.to_string() } else { "no link".to_owned() };
            writeln!(
                text,
                "| {rate} | {} | {in_flight} | {} | {:.2} | {:.2} | {:.2} | {} | {:.2} | {:.0} |",
                link.round_trip_ms,
                scheme.rate,
                scheme.rate.median / one,
                scheme.rate.median / alone,
                scheme.passes_per_token,
                digits(scheme.acceptance),
                scheme.wasted_per_token,
                scheme.bits_up_per_token,
            )?;
        }
    }
    Ok(())
}

/// Writes the parts of a token's time over a link without delay.
fn accounting(text: &mut String, link: &Link) -> Result<(), Failure> {
    writeln!(
        text,
        "\nWithout an emulated link, over the machine's own loopback: milliseconds a token. Drafting: in the page's worker, \
         coding included. Verifying: the server's runs of the target. Link: from drafts sent to verdict read, without \
         verifying. Overhead: what remains. The server alone sends tokens as they come, so that its passes overlap \
         with the page's work.\n\n\
         | scheme | tokens/s | × alone | rounds / token | {} | together |\n|---|--:|--:|--:|{}",
        Parts::NAMES.join(" | "),
        "--:|".repeat(Parts::NAMES.len() + 1)
    )?;
    let alone = link.schemes.first().map_or(f64::NAN, |scheme| scheme.rate.median);
    for scheme in link.schemes.iter().filter(|scheme| scheme.in_flight.is_none()) {
        let parts = scheme.parts.values();
        writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {} | {:.2} |",
            scheme.name,
            scheme.rate,
            scheme.rate.median / alone,
            scheme.rounds_per_token,
            parts.map(|ms| format!("{ms:.2}")).join(" | "),
            parts.iter().sum::<f64>()
        )?;
    }
    Ok(())
}

/// Tokens a second by rate, a panel for each round trip; then by round trip at the highest rate, for rounds in flight.
fn panels(links: &[Link]) -> Vec<Panel> {
    let links: Vec<&Link> = links.iter().filter(|link| link.megabits.is_finite()).collect();
    let mut trips: Vec<f64> = links.iter().map(|link| link.round_trip_ms).collect();
    trips.dedup();
    let panel = |trip: f64| {
        let links: Vec<&&Link> = links.iter().filter(|link| link.round_trip_ms == trip).collect();
        let most = links.iter().flat_map(|link| &link.schemes).map(|scheme| scheme.rate.median).fold(1.0, f64::max);
        let names = links.first().map(|link| &link.schemes[..]).unwrap_or_default();
        let names = names.iter().enumerate().filter(|(_, scheme)| scheme.in_flight.is_none());
        let curves = names.map(|(index, scheme)| Curve {
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
    let mut panels: Vec<Panel> = trips.into_iter().map(panel).collect();
    panels.extend(flight_panel(&links));
    panels
}

/// Tokens a second by round trip, a curve for each number of rounds in flight.
fn flight_panel(links: &[&Link]) -> Option<Panel> {
    let fastest = links.iter().map(|link| link.megabits).fold(0.0, f64::max);
    let links: Vec<&&Link> = links.iter().filter(|link| link.megabits == fastest).collect();
    let longest = links.last()?.round_trip_ms.max(1.0);
    let of = |link: &Link, in_flight| {
        let scheme = link.schemes.iter().find(|scheme| scheme.in_flight == Some(in_flight))?;
        Some(Mark { x: link.round_trip_ms, y: scheme.rate.median, error: 0.0 })
    };
    let numbers = links.first()?.schemes.iter().filter_map(|scheme| scheme.in_flight);
    let curves: Vec<Curve> = numbers
        .map(|in_flight| Curve {
            name: format!("{in_flight} in flight"),
            points: links.iter().filter_map(|link| of(link, in_flight)).collect(),
        })
        .collect();
    let most = curves.iter().flat_map(|curve| &curve.points).map(|mark| mark.y).fold(1.0, f64::max);
    Some(Panel {
        title: format!("k-sqs, drafts of 2, {fastest} Mbit/s"),
        across: "round trip, ms",
        up: "tokens/s",
        bounds: Bounds { x: (0.0, longest), y: (0.0, most * 1.05) },
        curves,
    })
}
