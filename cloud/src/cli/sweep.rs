//! Command `outrider sweep`: any settings on any prompts, with the models loaded once.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind};
use outrider_codec::frame::SamplingParameters;
use outrider_papers::reproduce::grid::{Grid, Setting};
use outrider_speculation::{
    judge::Rule,
    session::{
        edge::{Mode, Speculation},
        options::{
            DraftingOptions, NAMES,
            numbers::{NumberInfo, TEMPERATURE, TOP_K, TOP_P},
        },
    },
};
use serde_json::{Map, Value, json};

use super::{
    drafting::{drafting_numbers, flag, name_arg, number_arg, number_value, parameter_arg},
    experiment::{ExperimentArgs, program},
    output::{CommandError, print, tell},
};

/// Measure every combination of settings on prompts, with the models loaded once
///
/// Each option of drafting and sampling takes a list, such as --support-size 4,8,16. All combinations are measured,
/// each on the same prompts and seeds, and the target alone at each sampling. The table has intervals of the bootstrap
/// over prompts, and the best of all settings with a correction for the choice. Seconds are those of a virtual clock
/// with the pair's own times of passes, unless --times gives others. It is left in a folder as sweep.md, sweep.json and
/// sweep.svg.
#[derive(Debug, Args)]
pub struct Sweep {
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "sweep")]
    out: PathBuf,
    /// Tokens of a text at most
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_tokens: u32,
    #[command(flatten)]
    lists: Lists,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

/// Names and numbers that mean something to a virtual clock: it knows rounds, one at a time.
const NOT_SWEPT: [&str; 2] = ["goal", "maxInFlight"];
const SAMPLING: [&NumberInfo; 3] = [&TEMPERATURE, &TOP_K, &TOP_P];
/// Scheme of rounds if none is given: only ids travel.
const SCHEME: &str = "coupled";

/// Values of each option: one where the user gave none or one.
#[derive(Debug)]
struct Lists(Vec<(&'static str, Vec<Value>)>);

/// Arguments of the names and their parameters.
fn names() -> impl Iterator<Item = Arg> {
    let kinds = NAMES.iter().filter(|kind| !NOT_SWEPT.contains(&kind.name));
    kinds.flat_map(|kind| {
        let arg = if kind.name == "scheme" { name_arg(kind).default_value(SCHEME) } else { name_arg(kind) };
        [Some(arg), parameter_arg(kind)].into_iter().flatten()
    })
}

fn numbers() -> impl Iterator<Item = &'static NumberInfo> {
    SAMPLING.into_iter().chain(drafting_numbers()).filter(|number| !NOT_SWEPT.contains(&number.name))
}

impl Args for Lists {
    fn augment_args(command: Command) -> Command {
        command.args(names().chain(numbers().map(number_arg)).map(|arg| arg.value_delimiter(',')))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Lists {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut lists: Vec<(&str, Vec<Value>)> = Vec::new();
        for kind in NAMES.iter().filter(|kind| !NOT_SWEPT.contains(&kind.name)) {
            let names = matches.get_many::<String>(kind.name).into_iter().flatten();
            lists.push((kind.name, names.map(|name| Value::from(name.as_str())).collect()));
            if let Some((parameter, _)) = kind.parameter {
                let values = matches.get_many::<f64>(parameter).into_iter().flatten();
                lists.push((parameter, values.map(|&value| value.into()).collect()));
            }
        }
        for number in numbers() {
            let values = matches.get_many::<f64>(number.name).into_iter().flatten();
            lists.push((number.name, values.map(|&value| number_value(number, value)).collect()));
        }
        let schemes =
            lists.iter().find(|(name, _)| *name == "scheme").map(|(_, values)| &values[..]).unwrap_or_default();
        if let Some(scheme) = schemes.iter().filter_map(Value::as_str).find(|name| ["ahead", "auto"].contains(name)) {
            let message = format!(
                "--scheme {scheme} adapts to real time and has no virtual clock; `outrider bench` and `outrider \
                 generate` measure it\n"
            );
            return Err(Error::raw(ErrorKind::ValueValidation, message));
        }
        Ok(Self(lists))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Lists {
    /// All combinations of the values. One that has the same effect as an earlier one is left out: its scheme, gate or
    /// rule does not read what differs.
    fn settings(&self) -> Result<Vec<Setting>, CommandError> {
        let mut combinations = vec![Vec::new()];
        for (name, values) in self.0.iter().filter(|(_, values)| !values.is_empty()) {
            let with = |combination: &Vec<_>| {
                let combination = combination.clone();
                values.iter().map(move |value| [&combination[..], &[(*name, value.clone())]].concat())
            };
            combinations = combinations.iter().flat_map(with).collect();
        }
        let mut found: Vec<(Speculation, Setting)> = Vec::new();
        for combination in combinations {
            let mut named: Map<String, Value> =
                combination.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            if named.get("rule").and_then(Value::as_str).is_some_and(has_no_parameter) {
                named.remove("ruleParameter");
            }
            let number = |info: &NumberInfo| named.get(info.name).and_then(Value::as_f64).unwrap_or(info.default);
            let sampling = SamplingParameters {
                temperature: number(&TEMPERATURE) as f32,
                top_k: number(&TOP_K) as u32,
                top_p: number(&TOP_P) as f32,
            };
            let options: DraftingOptions = serde_json::from_value(Value::Object(named))?;
            let speculation = options.speculation()?;
            if found.iter().any(|(known, setting)| *known == speculation && setting.sampling == sampling) {
                continue;
            }
            let is_list = |name: &str| self.0.iter().any(|(other, values)| *other == name && values.len() > 1);
            let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
            let varied = combination.iter().filter(|(name, _)| is_list(name));
            let options: Vec<_> = varied.map(|(name, value)| (flag(name), text(value))).collect();
            let name = options.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
            let name = if name.is_empty() { "the setting".to_owned() } else { name };
            let mode = Mode::Speculative(speculation.clone());
            found.push((speculation, Setting { name, options, mode, sampling }));
        }
        Ok(found.into_iter().map(|(_, setting)| setting).collect())
    }
}

/// Returns true for a rule, such as `exact`, that has no parameter in a list either.
fn has_no_parameter(rule: &str) -> bool {
    Rule::new(rule, 0.0).is_ok_and(|rule| rule.info().symbol.is_none())
}

impl Sweep {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        let settings = self.lists.settings()?;
        self.experiment.pair.fetch().await?;
        self.experiment.prepare(&self.out)?;
        let mut laboratory = self.experiment.laboratory()?;
        let times = if self.experiment.times.is_none() { self.experiment.kept_times(&self.out, true) } else { None };
        if let Some(times) = times {
            laboratory = laboratory.with_times(times);
        }
        let is_measured = laboratory.known_times().is_none();
        laboratory.time_own_pair()?;
        if let Some(times) = laboratory.known_times().filter(|_| is_measured) {
            self.experiment.keep_times(&self.out, true, &times)?;
        }
        let grid = Grid { settings, tokens: self.max_tokens, metric: self.experiment.metric.clone() };
        let mut report = grid.run(&mut laboratory)?;
        let settings = json!({
            "program": program(), "experiment": self.experiment.settings(), "maxTokens": self.max_tokens,
            "options": self.lists.0.iter().map(|(name, values)| (flag(name), json!(values))).collect::<Map<_, _>>(),
        });
        report.text = format!("# Sweep\n\n{}", report.text);
        report.numbers = json!({ "settings": settings, "measured": report.numbers });
        print(&report.write(&self.out, "sweep")?);
        tell(&format!("Table, chart and numbers are in {}", self.out.display()));
        self.experiment.write_texts(&laboratory)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        sweep: Sweep,
    }

    fn settings(arguments: &str) -> Vec<String> {
        let cli = Cli::try_parse_from(std::iter::once("sweep").chain(arguments.split(' '))).unwrap();
        cli.sweep.lists.settings().unwrap().into_iter().map(|setting| setting.name).collect()
    }

    #[test]
    fn lists_are_multiplied_and_options_without_effect_are_not() {
        assert_eq!(
            settings("--scheme k-sqs,dense --support-size 4,8"),
            ["scheme k-sqs, support-size 4", "scheme k-sqs, support-size 8", "scheme dense, support-size 4"]
        );
        assert_eq!(
            settings("--rule exact,lossy --scheme dense --rule-parameter 0.1,0.5").len(),
            3,
            "exact has no parameter"
        );
        assert_eq!(settings("--temperature 0,0.5 --draft-length 2,4")[3], "temperature 0.5, draft-length 4");
        assert_eq!(settings("--max-tokens 8"), ["the setting"]);
    }

    #[test]
    fn schemes_of_real_time_are_refused() {
        let error = Cli::try_parse_from(["sweep", "--scheme", "k-sqs,ahead"]).err().unwrap().to_string();
        assert!(error.contains("--scheme ahead adapts to real time"), "{error}");
        assert!(Cli::try_parse_from(["sweep", "--support-size", "4,0"]).is_err());
    }
}
