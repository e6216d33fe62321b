//! Command `outrider reproduce`, which measures the papers' results again.

use std::{
    env, fs,
    path::{Path, PathBuf},
    str::FromStr,
    time::Instant,
};

use clap::Args;
use outrider_models::{Conversation, Model};
use outrider_papers::reproduce::{
    data::{self, Ask, Data, Line},
    items::{ITEMS, Item, State},
    laboratory::{Laboratory, PassTimes, Times},
    sessions::Pair,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::output::{CommandError, print};
use crate::{both_ends, pair::PairPaths};

/// Reproduce the papers' tables and figures
///
/// Without a paper, this lists all items and the state of each. Results of formulas are computed. Acceptance and bits
/// are measured in real sessions of the pair, with real codes; seconds are those of a virtual clock with given times
/// for passes. Each item leaves a table, a chart and its numbers in a folder. Existing results of the same program and
/// settings are not measured again.
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
    /// Prompts of your own: a file of JSON lines, each with "prompt" or "messages" and, for cascades, a "reference",
    /// the right answer. The items of sprinter keep their texts
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Texts of each prompt at each setting, each with its own seed
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    seeds: u16,
    /// Times of passes in milliseconds, such as draft=7.9,row=2.3,pass=41.5: one of the draft model, each further row
    /// of the target's, and one of the target. Without it they are measured, and differ from run to run
    #[arg(long, value_name = "TIMES")]
    times: Option<PassMilliseconds>,
    /// Measure again, and write every text as a row of texts.csv
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    pair: PairPaths,
}

/// Date for chat templates that write it, 2025-01-01 in seconds: prompts repeat on another day.
const DATE: i64 = 1_735_689_600;

impl Reproduce {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        if self.paper.is_none() && !self.all {
            print(&list());
            return Ok(());
        }
        let chosen = self.chosen()?;
        self.pair.fetch().await?;
        fs::create_dir_all(&self.out).map_err(|error| format!("{} cannot be made: {error}", self.out.display()))?;
        let (mut laboratory, count, program) = (None, chosen.len(), program());
        for (index, item) in chosen.into_iter().enumerate() {
            let name = format!("{}-{}", item.paper, item.name);
            let title = format!("{}, {}: {}", item.paper, item.name, item.shows);
            let settings = self.settings(item, program.as_deref());
            if !self.again && !self.csv && is_there(&self.out, &name, &settings) {
                tell(&format!("[{}/{count}] {title}: is there already", index + 1));
                print(&fs::read_to_string(self.out.join(&name).with_extension("md"))?);
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
        if let Some(laboratory) = laboratory.filter(|_| self.csv) {
            fs::write(self.out.join("texts.csv"), laboratory.records.csv()?)?;
        }
        tell(&format!("Tables, charts and numbers are in {}", self.out.display()));
        Ok(())
    }

    fn laboratory(&self) -> Result<Laboratory, CommandError> {
        let pair = both_ends::open(&self.pair)?;
        let target = self.pair.target_with(&pair.tokenizer)?;
        let data = self.data.as_deref().map(|path| self.data(path, (&pair, &target))).transpose()?;
        let count = self.prompts.into();
        let laboratory = Laboratory::new((pair, target), self.is_built_in(), both_ends::start, count, step);
        let mut laboratory = laboratory.with_seeds(self.seeds.into());
        if let Some(data) = data {
            laboratory = laboratory.with_data(data);
        }
        Ok(match self.times {
            Some(PassMilliseconds(times)) => laboratory.with_times(times),
            None => laboratory,
        })
    }

    fn is_built_in(&self) -> bool {
        self.pair.draft.is_none() && self.pair.target.is_none()
    }

    /// Reason why an item is left out.
    fn warning(&self, item: &Item) -> Option<&'static str> {
        let asks_built_in = item.paper == "cascades" && self.data.is_none() && !self.is_built_in();
        (asks_built_in && matches!(item.state, State::Measured(_))).then_some(
            "  left out: the built-in questions are those that the task pair was trained on, and this pair does not know \
             them. Give questions of your own: --data FILE.jsonl",
        )
    }

    /// Reads the user's prompts and encodes them for a pair.
    fn data(&self, path: &Path, (pair, target): (&Pair, &Model)) -> Result<Data, CommandError> {
        let text = fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let lines = data::read(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let model = self.pair.target.as_deref().or(self.pair.draft.as_deref());
        let template = crate::chat::find(None, model, target.config(), &pair.tokenizer)?;
        let mut data = Data::default();
        for Line { ask, reference } in lines {
            data.prompts.push(match ask {
                Ask::Prompt(prompt) => pair.encode(&prompt)?,
                Ask::Messages(messages) => {
                    let conversation = Conversation { messages, ..Conversation::default() };
                    template.encode(&pair.tokenizer, target.config().first_token(), &conversation, DATE)?
                }
            });
            data.references.push(reference);
        }
        Ok(data)
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
            State::Measured(_) => {
                let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
                let PairPaths { draft, target, tokenizer, heads, .. } = &self.pair;
                let pair = [draft, target, tokenizer, heads].map(path);
                let data = self.data.as_ref().and_then(|path| fs::read(path).ok()).map(|bytes| digest(&bytes));
                let times =
                    self.times.map(|PassMilliseconds(times)| [times.small.pass, times.large.row, times.large.pass]);
                json!({
                    "program": program, "prompts": self.prompts, "pair": pair, "data": data, "seeds": self.seeds,
                    "times": times,
                })
            }
            _ => json!({ "program": program }),
        }
    }
}

/// Digest of the running program; `None` if its file cannot be read.
fn program() -> Option<String> {
    fs::read(env::current_exe().ok()?).ok().map(|bytes| digest(&bytes))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Times of passes, given in milliseconds.
#[derive(Debug, Clone, Copy)]
struct PassMilliseconds(Times);

impl FromStr for PassMilliseconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("times are draft=MS,row=MS,pass=MS, each a number of milliseconds, not {text:?}");
        let mut found = [None; 3];
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let place = ["draft", "row", "pass"].iter().position(|known| *known == name.trim()).ok_or_else(wrong)?;
            let value: f64 = value.trim().parse().map_err(|_| wrong())?;
            let is_right = value.is_finite() && (value > 0.0 || value == 0.0 && name.trim() == "row");
            found[place] = Some(value / 1e3).filter(|_| is_right);
        }
        let [Some(draft), Some(row), Some(pass)] = found else { return Err(wrong()) };
        Ok(Self(Times { small: PassTimes { pass: draft, row: 0.0 }, large: PassTimes { pass, row } }))
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

fn step(text: &str) {
    tell(&format!("  {text}"));
}

#[expect(clippy::print_stderr, reason = "progress of a command line")]
fn tell(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_three_numbers_of_milliseconds() {
        let Ok(PassMilliseconds(times)) = "draft=7.9,row=0,pass=41.5".parse() else { panic!("they are right") };
        assert_eq!((times.small.pass, times.large.row, times.large.pass), (0.0079, 0.0, 0.0415));
        for wrong in
            ["", "draft=1,row=1", "draft=0,row=1,pass=1", "draft=1,row=1,pass=x", "draft=1,row=-1,pass=1", "a=1"]
        {
            let error = wrong.parse::<PassMilliseconds>().unwrap_err();
            assert!(error.starts_with("times are draft=MS,row=MS,pass=MS"), "{wrong}: {error}");
        }
    }

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
