//! Command `outrider rules`, which lists rules and gates.

use std::fmt::Write;

use clap::Args;
use outrider_speculation::session::options::{Entry, NAMES};
use serde::Serialize;

use super::output::{CommandError, print};

/// List the acceptance rules, the gates and the stop rules
///
/// A rule decides if the server accepts a draft, and what replaces a rejected one. Lossy rules and gates keep more of
/// the draft model's text: fewer drafts are rejected, but the text is no longer distributed as the target's own.
#[derive(Debug, Args)]
pub struct Rules {
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
}

/// JSON object that `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    rules: Vec<Row>,
    gates: Vec<Row>,
    stop_rules: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    lossy: bool,
    parameter: Option<Parameter>,
    explanation: &'static str,
    paper: &'static str,
}

#[derive(Serialize)]
struct Parameter {
    symbol: &'static str,
    range: String,
    default: f64,
}

impl Rules {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let listing = Listing::new();
        print(&if self.json { format!("{}\n", serde_json::to_string(&listing)?) } else { listing.text() });
        Ok(())
    }
}

impl Listing {
    fn new() -> Self {
        Self { rules: rows("rule"), gates: rows("gate"), stop_rules: rows("stopRule") }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for (title, rows) in [
            ("Acceptance rules: --rule NAME --rule-parameter VALUE", &self.rules),
            ("\nGates, which commit tokens without asking: --gate NAME --gate-threshold VALUE", &self.gates),
            ("\nStop rules, which end a round: --stop-rule NAME --stop-threshold VALUE", &self.stop_rules),
        ] {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{title}");
            for Row { name, lossy, parameter, explanation, paper } in rows {
                let lossy = if *lossy { "lossy" } else { "exact" };
                let parameter = parameter.as_ref().map(|Parameter { symbol, range, default }| {
                    format!("   {symbol} in {range}, {default} if it is not given")
                });
                let _ = writeln!(out, "  {name:<18}{lossy}{}", parameter.unwrap_or_default());
                let _ = writeln!(out, "{:20}{explanation}\n{:20}{paper}", "", "");
            }
        }
        out
    }
}

fn rows(option: &str) -> Vec<Row> {
    let kinds = NAMES.iter().filter(|kind| kind.name == option);
    kinds.flat_map(|kind| (kind.entries)()).map(Row::new).collect()
}

impl Row {
    fn new(Entry { name, lossy, parameter, explanation, source: paper, .. }: Entry) -> Self {
        let parameter = parameter.map(|parameter| Parameter {
            symbol: parameter.symbol,
            range: parameter.bounds.to_string(),
            default: parameter.default,
        });
        Self { name, lossy, parameter, explanation, paper }
    }
}
