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

use super::{
    experiment::{ExperimentArgs, program},
    output::{CommandError, print, tell},
};

/// Reproduce the papers' tables and figures
///
/// Without a paper, this lists all items and the state of each. Results of formulas are computed. Acceptance and bits
/// are measured in real sessions of the pair, with real codes; seconds are those of a virtual clock with given times
/// for passes. Each item leaves a table, a chart and its numbers in a folder. Existing results of the same program and
/// settings are not measured again. Cascades use 20 times as many prompts as --prompts of the built-in tasks. With
/// --data, cascades need references; the items of sprinter keep their texts. --link does not change DSSD's links.
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
    /// Measure existing results again
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

impl Reproduce {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        if self.paper.is_none() && !self.all {
            print(&list());
            return Ok(());
        }
        let chosen = self.chosen()?;
        self.experiment.pair.fetch().await?;
        self.experiment.prepare(&self.out)?;
        let (mut laboratory, count, program) = (None::<Laboratory>, chosen.len(), program());
        let mut made = 0;
        for (index, item) in chosen.into_iter().enumerate() {
            let name = format!("{}-{}", item.paper, item.name);
            let title = format!("{}, {}: {}", item.paper, item.name, item.shows);
            let settings = self.settings(item, program.as_deref());
            if !self.again && self.experiment.csv.is_none() && is_there(&self.out, &name, &settings) {
                tell(&format!("[{}/{count}] {title}: is there already", index + 1));
                print(&fs::read_to_string(self.out.join(&name).with_extension("md"))?);
                made += 1;
                continue;
            }
            tell(&format!("[{}/{count}] {title}", index + 1));
            if let Some(warning) = self.warning(item) {
                tell(warning);
                continue;
            }
            let began = Instant::now();
            let mut report = match item.state {
                State::Exact(compute) => compute(),
                State::Measured(measure) => {
                    if laboratory.is_none() {
                        laboratory = Some(self.laboratory()?);
                    }
                    let Some(laboratory) = &mut laboratory else { continue };
                    let knows_times = laboratory.known_times().is_some();
                    let report = measure(laboratory)?;
                    if let Some(times) = laboratory.known_times().filter(|_| !knows_times) {
                        self.experiment.keep_times(&self.out, false, &times)?;
                    }
                    report
                }
                State::Absent(why) => {
                    print(&format!("{title}\n  cannot be had: {why}.\n\n"));
                    continue;
                }
            };
            report.text = format!("# {title}\n\n{}", report.text);
            report.numbers = json!({ "settings": settings, "measured": report.numbers });
            print(&format!("{}\n", report.write(&self.out, &name)?));
            made += 1;
            tell(&format!("  {:.0} s", began.elapsed().as_secs_f64()));
        }
        if let Some(laboratory) = laboratory {
            self.experiment.write_texts(&laboratory)?;
        }
        if made == 0 {
            return Err("nothing could be made; the lines above say why".into());
        }
        tell(&format!("Tables, charts and numbers are in {}", self.out.display()));
        Ok(())
    }

    fn laboratory(&self) -> Result<Laboratory, CommandError> {
        let laboratory = self.experiment.laboratory()?;
        if laboratory.known_times().is_some() {
            return Ok(laboratory);
        }
        Ok(match self.experiment.kept_times(&self.out, false) {
            Some(times) => laboratory.with_times(times),
            None => laboratory,
        })
    }

    /// Reason why an item is left out.
    fn warning(&self, item: &Item) -> Option<&'static str> {
        let asks_built_in =
            item.paper == "cascades" && self.experiment.data.is_none() && !self.experiment.pair.is_built_in();
        (asks_built_in && matches!(item.state, State::Measured(_))).then_some(
            "  left out: the built-in questions are those that the task pair was trained on, and this pair does not know \
             them. Give questions of your own: --data FILE.jsonl",
        )
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

    /// Settings on which an item's numbers depend. The digest of the `program` is one: another build may measure
    /// something else.
    fn settings(&self, item: &Item, program: Option<&str>) -> Value {
        match item.state {
            State::Measured(_) => json!({ "program": program, "experiment": self.experiment.settings() }),
            _ => json!({ "program": program }),
        }
    }
}

/// Returns true if an earlier run of the same program left results of the same settings.
fn is_there(folder: &Path, name: &str, settings: &Value) -> bool {
    if settings["program"].is_null() {
        return false;
    }
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

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    /// Results of another build are measured again: it may compute something else.
    #[test]
    fn results_of_another_program_are_not_taken() {
        let folder = env::temp_dir().join(format!("outrider-reproduced-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = program().unwrap();
        let settings = |program: Option<&str>| json!({ "program": program, "prompts": 24 });
        let numbers = json!({ "samples": { "settings": settings(Some(&program)), "measured": 1 } });
        fs::write(folder.join("a.json"), numbers.to_string()).unwrap();
        fs::write(folder.join("a.md"), "text").unwrap();
        let found = [Some(program.as_str()), Some("another"), None].map(|own| is_there(&folder, "a", &settings(own)));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [true, false, false]);
    }
}
