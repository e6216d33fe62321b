//! `outrider rules`.

use std::fmt::Write;

use clap::Args;
use outrider_speculation::{
    judge::rules::{Rule, RuleInfo},
    session::options::{GateName, StopName},
};
use serde::Serialize;

use super::{CommandError, print};

/// List the acceptance rules, the gates and the stop rules
///
/// A rule says when the server accepts a draft and what takes the place of one that falls. Lossy rules and gates keep
/// more of the draft model's text: they cost fewer rejections, and the text is not distributed as the target's own.
#[derive(Debug, Args)]
pub struct Rules {
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    rules: Vec<RuleEntry>,
    gates: Vec<Choice>,
    stop_rules: Vec<Choice>,
}

#[derive(Serialize)]
struct RuleEntry {
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

/// A gate or a stop rule.
#[derive(Serialize)]
struct Choice {
    name: &'static str,
    explanation: &'static str,
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
        Self {
            rules: Rule::all().iter().map(RuleEntry::new).collect(),
            gates: choices(GateName::NAMES, GateName::EXPLANATIONS),
            stop_rules: choices(StopName::NAMES, StopName::EXPLANATIONS),
        }
    }

    fn text(&self) -> String {
        let mut out = String::from("Acceptance rules: --rule NAME --rule-parameter VALUE\n");
        for RuleEntry { name, lossy, parameter, explanation, paper } in &self.rules {
            let law = if *lossy { "lossy" } else { "exact" };
            let parameter = parameter.as_ref().map(|Parameter { symbol, range, default }| {
                format!("   {symbol} in {range}, {default} if it is not given")
            });
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {name:<18}{law}{}", parameter.unwrap_or_default());
            let _ = writeln!(out, "{:20}{explanation}\n{:20}{paper}", "", "");
        }
        for (title, choices) in [
            ("Gates, which commit tokens without asking: --gate NAME --gate-threshold VALUE", &self.gates),
            ("Stop rules, which end a round: --stop-rule NAME --stop-threshold VALUE", &self.stop_rules),
        ] {
            let _ = writeln!(out, "\n{title}");
            for Choice { name, explanation } in choices {
                let _ = writeln!(out, "  {name:<18}{explanation}");
            }
        }
        out
    }
}

impl RuleEntry {
    fn new(info: &'static RuleInfo) -> Self {
        let &RuleInfo { name, symbol, default, range, explanation, paper, lossy, .. } = info;
        let parameter = symbol.map(|symbol| Parameter { symbol, range: range.to_string(), default });
        Self { name, lossy, parameter, explanation, paper }
    }
}

fn choices(names: &[&'static str], explanations: &[&'static str]) -> Vec<Choice> {
    names.iter().zip(explanations).map(|(name, explanation)| Choice { name, explanation }).collect()
}
