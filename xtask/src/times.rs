//! Times that commands usually take: a table in CONTRIBUTING.md, which `--record` rewrites with those of a run.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::workspace::Workspace;

const DOCUMENT: &str = include_str!("../../CONTRIBUTING.md");

/// Column of the table: a run in an empty folder, or one in which everything is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// Nothing is installed or built yet
    First,
    /// Nothing has changed since the last run
    Later,
}

impl Column {
    const fn index(self) -> usize {
        match self {
            Self::First => 2,
            Self::Later => 3,
        }
    }
}

/// Gives a sentence on how long the row `name` of the table takes, such as `4 min the first time, 8 s later`.
pub fn usual(name: &str) -> String {
    let cell = |column: Column| row(DOCUMENT, name).and_then(|row| row.split('|').nth(column.index()).map(str::trim));
    match (cell(Column::First), cell(Column::Later)) {
        (Some(first), Some(later)) if !first.is_empty() => format!("{first} the first time, {later} later"),
        _ => "no usual time is known".to_owned(),
    }
}

/// Writes times into their rows of CONTRIBUTING.md.
pub fn record(workspace: &Workspace, column: Column, times: &[(String, Duration)]) -> Result<()> {
    let path = workspace.root().join("CONTRIBUTING.md");
    let mut text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    for (name, time) in times {
        text = with_time(&text, name, column, *time)?;
    }
    fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
}

fn with_time(text: &str, name: &str, column: Column, time: Duration) -> Result<String> {
    let old = row(text, name).with_context(|| format!("CONTRIBUTING.md has no row `{name}` in its table of times"))?;
    let time = format!(" {} ", shown(time));
    let mut cells: Vec<&str> = old.split('|').collect();
    *cells.get_mut(column.index()).with_context(|| format!("the row `{name}` has too few columns"))? = &time;
    Ok(text.replacen(old, &cells.join("|"), 1))
}

fn row<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find(|line| line.starts_with(&format!("| `{name}`")))
}

/// Writes a duration for readers: `42 s`, `3 min 5 s`.
pub fn shown(time: Duration) -> String {
    match time.as_secs_f64().round() as u64 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::Step;

    #[test]
    fn every_step_has_a_row() {
        for step in Step::value_variants() {
            assert!(row(DOCUMENT, &step.name()).is_some(), "{}", step.name());
        }
        assert_eq!(usual("no such step"), "no usual time is known");
    }

    #[test]
    fn a_recorded_time_replaces_its_cell() {
        let text = "before\n| `check` | 1 s | 2 s |\n| `e2e` | | |\n";
        let text = with_time(text, "check", Column::Later, Duration::from_secs(185)).unwrap();
        let text = with_time(&text, "e2e", Column::First, Duration::from_millis(900)).unwrap();
        assert_eq!(text, "before\n| `check` | 1 s | 3 min 5 s |\n| `e2e` | 1 s | |\n");
        assert!(with_time(&text, "native", Column::First, Duration::ZERO).is_err());
    }
}
