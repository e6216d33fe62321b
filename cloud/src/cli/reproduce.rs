//! Command `outrider reproduce`, which measures the papers' results again.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;
use outrider_papers::reproduce::{
    items::{ITEMS, Item, State},
    laboratory::Laboratory,
};
use serde_json::{Value, json};

use super::output::{CommandError, print};
use crate::{both_ends, pair::PairPaths};

/// Reproduce the papers' tables and figures
///
/// Without a paper, this lists all items and the state of each. Results of formulas are computed. Acceptance and bits
/// are measured in real sessions of the pair, with real codes; seconds are those of a virtual clock with given times
/// for passes. Each item leaves a table, a chart and its numbers in a folder. Existing results of the same settings are
/// not measured again.
#[derive(Debug, Args)]
pub struct Reproduce {
    /// sqs, tk-slt, dssd, sprinter or cascades
    paper: Option<String>,
    /// Item of the paper, such as table-1 or figure-2; without it, the whole paper
    item: Option<String>,
    /// Reproduce all items of all papers
    #[arg(long, conflicts_with = "paper")]
    all: bool,
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "reproduced")]
    out: PathBuf,
    /// Prompts per setting: more give smaller errors and take longer; cascades use 20 times as many
    #[arg(long, value_name = "COUNT", default_value_t = 24, value_parser = clap::value_parser!(u16).range(2..))]
    prompts: u16,
    /// Measure existing results again
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    pair: PairPaths,
}

impl Reproduce {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        if self.paper.is_none() && !self.all {
            print(&list());
            return Ok(());
        }
        let chosen = self.chosen()?;
        self.pair.fetch().await?;
        fs::create_dir_all(&self.out).map_err(|error| format!("{} cannot be made: {error}", self.out.display()))?;
        let (mut laboratory, count) = (None, chosen.len());
        for (index, item) in chosen.into_iter().enumerate() {
            let name = format!("{}-{}", item.paper, item.name);
            let title = format!("{}, {}: {}", item.paper, item.name, item.shows);
            let settings = self.settings(item);
            if !self.again && is_there(&self.out, &name, &settings) {
                tell(&format!("[{}/{count}] {title}: is there already", index + 1));
                print(&fs::read_to_string(self.out.join(&name).with_extension("md"))?);
                continue;
            }
            tell(&format!("[{}/{count}] {title}", index + 1));
            let began = Instant::now();
            let mut report = match item.state {
                State::Exact(compute) => compute(),
                State::Measured(measure) => {
                    if laboratory.is_none() {
                        outrider_models::check_instruction_set()?;
                        laboratory = Some(self.laboratory()?);
                    }
                    let Some(laboratory) = &mut laboratory else { continue };
                    measure(laboratory)?
                }
                State::Absent(why) => {
                    print(&format!("{title}\n  cannot be had: {why}.\n\n"));
                    continue;
                }
            };
            report.text = format!("# {title}\n\n{}", report.text);
            report.numbers = json!({ "settings": settings, "measured": report.numbers });
            print(&format!("{}\n", report.write(&self.out, &name)?));
            tell(&format!("  {:.0} s", began.elapsed().as_secs_f64()));
        }
        tell(&format!("Tables, charts and numbers are in {}", self.out.display()));
        Ok(())
    }

    fn laboratory(&self) -> Result<Laboratory, CommandError> {
        let pair = both_ends::open(&self.pair)?;
        let target = self.pair.target_with(&pair.tokenizer)?;
        let is_built_in = self.pair.draft.is_none() && self.pair.target.is_none();
        Ok(Laboratory::new((pair, target), is_built_in, both_ends::start, self.prompts.into(), step))
    }

    fn chosen(&self) -> Result<Vec<&'static Item>, CommandError> {
        let papers = || ITEMS.iter().filter(|item| self.paper.as_ref().is_none_or(|paper| item.paper == paper));
        let chosen: Vec<_> = papers().filter(|item| self.item.as_ref().is_none_or(|name| item.name == name)).collect();
        match (&self.paper, &self.item) {
            (Some(paper), Some(name)) if chosen.is_empty() && papers().next().is_some() => {
                let names: Vec<&str> = papers().map(|item| item.name).collect();
                Err(format!("{paper} has no {name}; it has {}", names.join(", ")).into())
            }
            (Some(paper), _) if chosen.is_empty() => {
                Err(format!("unknown paper {paper}: use sqs, tk-slt, dssd, sprinter or cascades").into())
            }
            _ => Ok(chosen),
        }
    }

    /// Settings on which an item's numbers depend.
    fn settings(&self, item: &Item) -> Value {
        let version = env!("CARGO_PKG_VERSION");
        match item.state {
            State::Measured(_) => {
                let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
                let PairPaths { draft, target, tokenizer, heads, .. } = &self.pair;
                let pair = [draft, target, tokenizer, heads].map(path);
                json!({ "version": version, "prompts": self.prompts, "pair": pair })
            }
            _ => json!({ "version": version }),
        }
    }
}

/// Returns true if an earlier run left results of the same settings.
fn is_there(folder: &Path, name: &str, settings: &Value) -> bool {
    let Ok(text) = fs::read_to_string(folder.join(name).with_extension("json")) else { return false };
    let numbers: Value = serde_json::from_str(&text).unwrap_or_default();
    numbers["samples"]["settings"] == *settings && folder.join(name).with_extension("md").exists()
}

fn list() -> String {
    let mut text = String::new();
    for item in ITEMS {
        let Item { paper, name, shows, state } = item;
        text.push_str(&format!("{paper:<10}{name:<14}{:<15}{shows}\n", state.name()));
    }
    text.push_str(
        "\nexact: from the paper's formula. on our models: measured on the pair, seconds on a virtual clock.\n\
         `outrider reproduce PAPER [ITEM]` gives one, `outrider reproduce --all` all that can be had.\n",
    );
    text
}

fn step(text: &str) {
    tell(&format!("  {text}"));
}

#[expect(clippy::print_stderr, reason = "progress of a command line")]
fn tell(text: &str) {
    eprintln!("{text}");
}
