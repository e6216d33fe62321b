//! Tables, charts and numbers of `cargo xtask bench fleet`.

use std::{collections::HashMap, fmt::Write, path::Path, time::Duration};

use outrider_papers::report::{
    chart::{self, Chart},
    estimate::Estimate,
};
use serde::Serialize;
use serde_json::json;

use super::{
    engine::{Counts, dtype},
    players::{Played, TOKENS, Text},
    way::Way,
};
use crate::{
    passes::Failure,
    report,
    samples::{Samples, digits},
};

/// Conditions of one measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Case {
    pub target: &'static str,
    pub round: usize,
    pub way: Way,
    pub sessions: usize,
    pub round_trip_ms: u32,
}

impl Case {
    /// Returns true if both are of the same cell of the tables, in any round and way.
    fn is_beside(&self, other: &Self) -> bool {
        let key = |case: &Self| (case.target, case.sessions, case.round_trip_ms);
        key(self) == key(other)
    }
}

/// Results of one measurement.
#[derive(Debug, Serialize)]
pub struct Level {
    #[serde(flatten)]
    case: Case,
    /// Tokens a second of all sessions together, and of the one that got least.
    pub rate: f64,
    least: f64,
    /// Guesses that edges sent, per token that the engine wrote.
    sent: f64,
    /// Guesses that were judged by the engine's own count, per token that it wrote.
    judged: f64,
    accepted: f64,
    #[serde(skip)]
    texts: Vec<Text>,
}

impl Level {
    pub fn new(case: Case, played: Played, counts: Counts, sent: f64) -> Self {
        let tokens: Vec<usize> =
            played.sessions.iter().map(|texts| texts.iter().map(|text| text.ids.len()).sum()).collect();
        Self {
            case,
            rate: tokens.iter().sum::<usize>() as f64 / played.seconds,
            least: tokens.into_iter().min().unwrap_or(0) as f64 / played.seconds,
            sent: sent / counts.written,
            judged: counts.judged / counts.written,
            accepted: counts.accepted / counts.written,
            texts: played.sessions.into_iter().flatten().collect(),
        }
    }
}

/// Memory of an engine after all measurements of its target.
#[derive(Debug, Serialize)]
pub struct Memory {
    pub target: &'static str,
    pub way: Way,
    pub mib: f64,
}

/// Prints all levels and the memory of engines, and leaves them in `folder`.
pub fn write(
    folder: &Path,
    version: &str,
    targets: &[(&str, Duration)],
    levels: &[Level],
    memory: &[Memory],
) -> Result<(), Failure> {
    let cells = cells(levels);
    let times = targets.iter().map(|(target, time)| format!("{} s ({target})", time.as_secs()));
    let times = times.collect::<Vec<_>>().join(" and ");
    let dtype = dtype();
    let mut text = format!(
        "vLLM {version} on the CPU in {dtype}, one thread on a core of its own; gateway, edges and plain clients on \
         another. The link is emulated: a delay, the same for every client, without a limit of rate. The gateway is \
         beside vLLM. Greedy texts of up to {TOKENS} tokens after eight words, for {times} each time; ways \
         take turns. No two sessions write the same text, and the proposer forgets all guesses before each time. \
         Edges draft with the built-in draft on the processor, not in a browser. The target of \
         135M is the built-in one grown: the cost of such a model, the text and the acceptance rate of the small one. \
         The proposer, no guesses: plain clients of the vLLM that has it. That vLLM calls its workers by the \
         package's executor, once a step where its own calls them three times; alone it calls them twice. \
         Two workers are two processes of vLLM on the same core, over which a relay spreads connections.\n\n\
         Tokens/s of all sessions: median and range. × alone: vLLM alone in the same round, with its standard error. \
         Sent: guesses of edges, a token. Judged and accepted: drafts a token, as vLLM counts them. Parted: \
         texts that are not what vLLM wrote alone, of those that it wrote in any cell. Batches and rows round \
         differently, so that near-ties fall either way; and on CPUs vLLM reads the temperature at which its \
         n-grams are judged from unwritten memory (issue 55005).\n"
    );
    let mut alone = Alone::new();
    for level in levels.iter().filter(|level| level.case.way == Way::Alone) {
        for text in &level.texts {
            let known = alone.entry((level.case.target, text.prompt)).or_insert(text);
            if text.ids.len() > known.ids.len() {
                *known = text;
            }
        }
    }
    let mut target = "";
    for cell in &cells {
        if target != cell.case().target {
            target = cell.case().target;
            write!(
                text,
                "\n## {target}\n\n\
                 | sessions | round trip, ms | way | tokens/s | × alone | of the slowest | sent / token | \
                 judged / token | accepted / token | parted |\n|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|\n"
            )?;
        }
        row(&mut text, cell, levels, &alone)?;
    }
    text.push_str("\n## Memory of a worker\n\n| target | way | MiB |\n|---|---|--:|\n");
    for Memory { target, way, mib } in memory {
        writeln!(text, "| {target} | {} | {mib:.0} |", way.name())?;
    }
    let samples = json!({ "levels": levels, "memory": memory });
    report::write(folder, "fleet", &text, samples, Some(chart::svg(&charts(&cells))))
}

/// Results of one way in one cell, round by round.
struct Rounds<'a>(Vec<&'a Level>);

impl<'a> Rounds<'a> {
    fn case(&self) -> &'a Case {
        &self.0[0].case
    }

    fn of(&self, value: impl Fn(&Level) -> f64) -> Vec<f64> {
        self.0.iter().map(|level| value(level)).collect()
    }

    fn median(&self, value: impl Fn(&Level) -> f64) -> f64 {
        Samples::of(&self.of(value)).map_or(f64::NAN, |samples| samples.median)
    }
}

/// Groups results by cell and way, in the order of the first round.
fn cells(levels: &[Level]) -> Vec<Rounds<'_>> {
    let mut cells: Vec<Rounds<'_>> = Vec::new();
    for level in levels {
        match cells.iter_mut().find(|cell| cell.case().way == level.case.way && cell.case().is_beside(&level.case)) {
            Some(cell) => cell.0.push(level),
            None => cells.push(Rounds(vec![level])),
        }
    }
    cells
}

/// The longest texts that vLLM wrote alone, by target and prompt.
type Alone<'a> = HashMap<(&'static str, usize), &'a Text>;

fn row(text: &mut String, cell: &Rounds<'_>, levels: &[Level], texts_alone: &Alone<'_>) -> Result<(), Failure> {
    let case = cell.case();
    let alone = |level: &Level| {
        let alone = Case { way: level.case.way.alone(), ..level.case.clone() };
        levels.iter().find(|other| other.case == alone).map_or(f64::NAN, |other| other.rate)
    };
    let pairs: Vec<(f64, f64)> = cell.0.iter().map(|level| (level.rate, alone(level))).collect();
    let both = cell.0.iter().flat_map(|level| &level.texts);
    let both = both.filter_map(|text| Some((text, texts_alone.get(&(case.target, text.prompt))?)));
    let is_parted = |(text, alone): &(&Text, &&Text)| text.ids.iter().zip(&alone.ids).any(|(a, b)| a != b);
    let (texts, parted) = (both.clone().count(), both.filter(is_parted).count());
    writeln!(
        text,
        "| {} | {} | {} | {} | {:.2} | {} | {:.2} | {:.2} | {:.2} | {parted} of {texts} |",
        case.sessions,
        case.round_trip_ms,
        case.way.name(),
        Samples::of(&cell.of(|level| level.rate)).ok_or("a way has no rounds")?,
        Estimate::of(&pairs),
        digits(cell.median(|level| level.least)),
        cell.median(|level| level.sent),
        cell.median(|level| level.judged),
        cell.median(|level| level.accepted),
    )?;
    Ok(())
}

/// Charts of tokens a second by sessions and round trip, one for each target.
fn charts(cells: &[Rounds<'_>]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for cell in cells.iter().filter(|cell| Way::OF_ONE.contains(&cell.case().way)) {
        let case = cell.case();
        let title = format!("Tokens a second of all sessions, {} target", case.target);
        if charts.last().is_none_or(|chart| chart.title != title) {
            charts.push(Chart {
                title,
                series: Way::OF_ONE.map(Way::name).to_vec(),
                groups: Vec::new(),
                ..Chart::default()
            });
        }
        let Some(Chart { groups, .. }) = charts.last_mut() else { continue };
        let name = format!("{} × {} ms", case.sessions, case.round_trip_ms);
        if groups.last().is_none_or(|(last, _)| *last != name) {
            groups.push((name, vec![f64::NAN; Way::OF_ONE.len()]));
        }
        let series = Way::OF_ONE.iter().position(|way| *way == case.way);
        if let (Some((_, values)), Some(series)) = (groups.last_mut(), series) {
            values[series] = cell.median(|level| level.rate);
        }
    }
    charts
}
