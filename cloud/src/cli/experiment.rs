//! Options of experiments, which `reproduce` and `sweep` share: prompts, quality, times and files.

use std::{
    fs,
    path::{Path, PathBuf},
    rc::Rc,
    str::FromStr,
};

use clap::Args;
use outrider_models::{Conversation, Model};
use outrider_papers::reproduce::{
    data::{self, Ask, Data},
    laboratory::{Laboratory, LinkSpeed, PassTimes, Times},
    metric::Metric,
    sessions::Pair,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::output::{CommandError, tell};
use crate::{both_ends, chat, pair::PairPaths};

#[derive(Debug, Args)]
pub(super) struct ExperimentArgs {
    /// Prompts per setting: more give smaller errors and take longer
    #[arg(long, value_name = "COUNT", default_value_t = 24, value_parser = clap::value_parser!(u16).range(2..))]
    pub(super) prompts: u16,
    /// Prompts of your own: a file of JSON lines, Parquet or text, or a folder of such files
    ///
    /// An object has "prompt" or "messages" and, for most metrics, a "reference", the right answer; or the fields of
    /// MT-Bench, Spec-Bench, CNN/DailyMail, XSum, WMT, GSM8K or LM1B as they are published. Of a text the first 30 %
    /// are the prompt and the rest is the reference: each line of a file, or each file of a folder.
    #[arg(long, value_name = "PATH")]
    pub(super) data: Option<PathBuf>,
    /// Quality of answers: exact-match, rouge (ROUGE-L), rouge-1, rouge-2, bleu, chrf, regex=EXPRESSION (the first
    /// match, or its group, is that in the reference) or log-likelihood (of the answer under the target)
    #[arg(long, value_name = "NAME")]
    pub(super) metric: Option<Metric>,
    /// Texts of each prompt at each setting, each with its own seed
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) seeds: u16,
    /// Times of passes in milliseconds, such as draft=7.9,row=2.3,pass=41.5: one of the draft model, each further row
    /// of the target's, and one of the target. Without it they are measured once and kept in times.json in the folder
    /// of the results
    #[arg(long, value_name = "TIMES")]
    pub(super) times: Option<PassMilliseconds>,
    /// Link of the virtual clock, such as rate=10,rtt=50: its rate in Mbit/s, either way, and its round-trip time in
    /// milliseconds
    #[arg(long, value_name = "LINK")]
    pub(super) link: Option<LinkArg>,
    /// File for every text that is measured: a row for each setting, prompt and seed
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    #[command(flatten)]
    pub(super) pair: PairPaths,
}

/// Date for chat templates that write it, 2025-01-01 in seconds: prompts repeat on another day.
const DATE: i64 = 1_735_689_600;

/// File of measured times, in the folder of the results.
const TIMES_FILE: &str = "times.json";

impl ExperimentArgs {
    /// Loads the pair and its prompts.
    pub(super) fn laboratory(&self) -> Result<Laboratory, CommandError> {
        outrider_models::check_instruction_set()?;
        let pair = both_ends::open(&self.pair)?;
        let target = self.pair.target_with(&pair.tokenizer)?;
        let data = self.data.as_deref().map(|path| self.data(path, (&pair, &target))).transpose()?;
        let count = self.prompts.into();
        let laboratory = Laboratory::new((pair, target), self.pair.is_built_in(), both_ends::start, count, step);
        let mut laboratory =
            laboratory.with_seeds(self.seeds.into()).with_metric(self.metric.clone().unwrap_or_default());
        if let Some(data) = data {
            laboratory = laboratory.with_data(data);
        }
        if let Some(LinkArg(link)) = self.link {
            laboratory = laboratory.with_link(link);
        }
        Ok(match self.times {
            Some(PassMilliseconds(times)) => laboratory.with_times(times),
            None => laboratory,
        })
    }

    /// Checks that results can be written to the folder and to the CSV file, before hours are spent on them.
    pub(super) fn prepare(&self, out: &Path) -> Result<(), CommandError> {
        fs::create_dir_all(out).map_err(|error| format!("{} cannot be made: {error}", out.display()))?;
        if let Some(path) = &self.csv {
            // What is there stays until there are results.
            let is_new = !path.exists();
            let opened = fs::OpenOptions::new().append(true).create(true).open(path);
            let opened = opened.and_then(|_| if is_new { fs::remove_file(path) } else { Ok(()) });
            opened.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Writes the texts of a laboratory to the CSV file, if one was given.
    pub(super) fn write_texts(&self, laboratory: &Laboratory) -> Result<(), CommandError> {
        if let Some(path) = &self.csv {
            fs::write(path, laboratory.records.csv()?)?;
            tell(&format!("The texts are in {}", path.display()));
        }
        Ok(())
    }

    /// Reads the user's prompts and encodes them for a pair.
    fn data(&self, path: &Path, (pair, target): (&Pair, &Model)) -> Result<Data, CommandError> {
        let lines = data::open(path, self.prompts.into())?;
        let model = self.pair.target.as_deref().or(self.pair.draft.as_deref());
        let template = chat::find(None, model, target.config(), &pair.tokenizer)?;
        let (pair, first) = (pair.clone(), target.config().first_token());
        let encode = move |ask: &Ask| match ask {
            Ask::Prompt(prompt) => pair.encode(prompt),
            Ask::Messages(messages) => {
                let conversation = Conversation { messages: messages.clone(), ..Conversation::default() };
                Ok(template.encode(&pair.tokenizer, first, &conversation, DATE)?)
            }
        };
        Data::new(lines, Rc::new(encode))
    }

    /// Settings on which all measurements depend.
    pub(super) fn settings(&self) -> Value {
        let data = self.data.as_ref().map(|path| digest_of_path(path));
        let times = self.times.map(|PassMilliseconds(times)| in_milliseconds(&times));
        let link = self.link.map(|LinkArg(link)| [link.bits_per_second, link.round_trip]);
        json!({
            "prompts": self.prompts, "pair": self.models(), "data": data, "seeds": self.seeds, "times": times,
            "link": link, "metric": self.metric.as_ref().map(|metric| format!("{metric:?}")),
        })
    }

    /// The models' files as they are now, and what else changes their logits.
    fn models(&self) -> Value {
        let PairPaths { draft, target, tokenizer, heads, activation_bits, ignore_setting, .. } = &self.pair;
        let files = [draft, target, tokenizer, heads].map(|path| path.as_deref().map(state));
        let bits = format!("{:?}", activation_bits.unwrap_or_default());
        json!({ "files": files, "activationBits": bits, "ignored": ignore_setting })
    }

    /// Times of passes that an earlier run of the same program left in the folder, for the same models: those `of` the
    /// papers' sizes, or else the pair's own.
    pub(super) fn kept_times(&self, out: &Path, of_pair: bool) -> Option<Times> {
        let text = fs::read_to_string(out.join(TIMES_FILE)).ok()?;
        let kept: Value = serde_json::from_str(&text).ok()?;
        let is_same = kept["of"] == self.timed(of_pair) && !kept["of"]["program"].is_null();
        let number = |name: &str| kept[name].as_f64().filter(|_| is_same);
        let (draft, row, pass) = (number("draft")?, number("row")?, number("pass")?);
        Some(from_milliseconds(draft, row, pass))
    }

    /// Keeps measured times in the folder for later runs.
    pub(super) fn keep_times(&self, out: &Path, of_pair: bool, times: &Times) -> Result<(), CommandError> {
        let mut kept = in_milliseconds(times);
        kept["of"] = self.timed(of_pair);
        Ok(fs::write(out.join(TIMES_FILE), format!("{}\n", serde_json::to_string_pretty(&kept)?))?)
    }

    /// Program and models whose passes are timed.
    fn timed(&self, of_pair: bool) -> Value {
        let models = if of_pair { json!(self.models()) } else { json!("135M and 1.1B weights") };
        json!({ "program": program(), "models": models })
    }
}

/// Digest of the running program; `None` if its file cannot be read.
pub(super) fn program() -> Option<String> {
    fs::read(std::env::current_exe().ok()?).ok().map(|bytes| digest(&bytes))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Path of a model with the length and the time of the last change of its file, or of the files in its folder.
fn state(path: &Path) -> String {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| Ok((data.len(), data.modified()?))).ok();
    match path.is_dir() {
        true => format!("{} {}", path.display(), digest_of_path(path)),
        false => format!("{} {:?}", path.display(), changed(path)),
    }
}

/// Digest of a file, or of the names and times of a folder's files.
fn digest_of_path(path: &Path) -> String {
    let Ok(entries) = fs::read_dir(path) else { return digest(&fs::read(path).unwrap_or_default()) };
    let entry = |entry: fs::DirEntry| {
        let changed = entry.metadata().and_then(|metadata| Ok((metadata.len(), metadata.modified()?))).ok();
        format!("{:?} {changed:?}", entry.file_name())
    };
    let mut entries: Vec<String> = entries.flatten().map(entry).collect();
    entries.sort();
    digest(entries.concat().as_bytes())
}

/// Times of passes, given in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassMilliseconds(pub(super) Times);

impl FromStr for PassMilliseconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("times are draft=MS,row=MS,pass=MS, each a number of milliseconds, not {text:?}");
        let [draft, row, pass] = named_numbers(text, ["draft", "row", "pass"]).ok_or_else(wrong)?;
        if draft <= 0.0 || pass <= 0.0 { Err(wrong()) } else { Ok(Self(from_milliseconds(draft, row, pass))) }
    }
}

/// A link, given in Mbit/s and milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkArg(LinkSpeed);

impl FromStr for LinkArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("a link is rate=MBITS,rtt=MS, in Mbit/s and milliseconds, not {text:?}");
        let [rate, round_trip] = named_numbers(text, ["rate", "rtt"]).ok_or_else(wrong)?;
        let link = LinkSpeed { bits_per_second: 1e6 * rate, round_trip: round_trip / 1e3 };
        if rate > 0.0 && round_trip <= 3.6e6 { Ok(Self(link)) } else { Err(wrong()) }
    }
}

/// Numbers that are not negative, from NAME=NUMBER parts in any order.
fn named_numbers<const N: usize>(text: &str, names: [&str; N]) -> Option<[f64; N]> {
    let mut found = [f64::NAN; N];
    for part in text.split(',') {
        let (name, value) = part.split_once('=')?;
        let place = names.iter().position(|known| *known == name.trim())?;
        found[place] = value.trim().parse().ok()?;
    }
    found.iter().all(|number| number.is_finite() && *number >= 0.0).then_some(found)
}

fn in_milliseconds(times: &Times) -> Value {
    let Times { small, large } = times;
    json!({ "draft": 1e3 * small.pass, "row": 1e3 * large.row, "pass": 1e3 * large.pass })
}

fn from_milliseconds(draft: f64, row: f64, pass: f64) -> Times {
    let small = PassTimes { pass: draft / 1e3, row: 0.0 };
    Times { small, large: PassTimes { pass: pass / 1e3, row: row / 1e3 } }
}

fn step(text: &str) {
    tell(&format!("  {text}"));
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

    #[test]
    fn a_link_is_a_rate_and_a_round_trip_time() {
        let Ok(LinkArg(link)) = "rtt=50, rate=10".parse() else { panic!("it is right") };
        assert_eq!((link.bits_per_second, link.round_trip), (1e7, 0.05));
        for wrong in ["10,50", "rate=0,rtt=5", "rate=1", "rate=1,rtt=-5"] {
            let error = wrong.parse::<LinkArg>().unwrap_err();
            assert!(error.starts_with("a link is rate=MBITS,rtt=MS"), "{wrong}: {error}");
        }
    }
}
