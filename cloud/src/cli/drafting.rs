//! Options of drafting as command-line arguments, generated from their tables.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind};
use outrider_speculation::session::options::{
    DraftingOptions, Entry, NAMES, NameInfo,
    numbers::{Group, NUMBERS, NumberInfo},
};
use serde::Serialize;
use serde_json::{Map, Value};

/// Name of the option that switches AS² on.
const ADAPTIVE_MODE: &str = "adaptiveMode";

/// Options that fix the plan of `ahead`, which its controller chooses better. They are for measurements, not for the
/// command line.
const FIXED_PLAN: [&str; 4] = ["groupSize", "patience", "lead", "candidates"];

/// Options of drafting, all with defaults.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct DraftingArgs(pub(super) DraftingOptions);

impl Args for DraftingArgs {
    fn augment_args(command: Command) -> Command {
        let names = NAMES.iter().flat_map(|kind| [Some(name_arg(kind)), parameter_arg(kind)]).flatten();
        let adaptive = Arg::new(ADAPTIVE_MODE).long(flag(ADAPTIVE_MODE)).action(ArgAction::SetTrue);
        command
            .args(names)
            .args(drafting_numbers().map(number_arg))
            .arg(adaptive.help("Let the target write alone while that is faster (AS²)"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DraftingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut options = Map::new();
        for kind in NAMES {
            options.insert(kind.name.to_owned(), matches.get_one::<String>(kind.name).cloned().into());
            if let Some((parameter, _)) = kind.parameter {
                options.insert(parameter.to_owned(), matches.get_one::<f64>(parameter).copied().into());
            }
        }
        for number in drafting_numbers() {
            let value = matches.get_one::<f64>(number.name).map_or(Value::Null, |&value| number_value(number, value));
            options.insert(number.name.to_owned(), value);
        }
        options.insert(ADAPTIVE_MODE.to_owned(), matches.get_flag(ADAPTIVE_MODE).into());
        let options = serde_json::from_value(Value::Object(options));
        options.map(Self).map_err(|error| Error::raw(ErrorKind::ValueValidation, format!("{error}\n")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(super) fn drafting_numbers() -> impl Iterator<Item = &'static NumberInfo> {
    let is_argument = |number: &&NumberInfo| number.group != Group::Sampling && !FIXED_PLAN.contains(&number.name);
    NUMBERS.iter().copied().filter(is_argument)
}

/// A number as JSON, without a fraction where it is a whole one.
pub(super) fn number_value(number: &NumberInfo, value: f64) -> Value {
    if number.bounds.integer { Value::from(value as u64) } else { Value::from(value) }
}

/// Converts a name such as `supportSize` to `support-size`.
pub(super) fn flag(name: &str) -> String {
    name.chars().flat_map(|c| c.is_uppercase().then_some('-').into_iter().chain(c.to_lowercase())).collect()
}

pub(super) fn name_arg(kind: &'static NameInfo) -> Arg {
    let entries = (kind.entries)();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    let names = names.join(", ");
    let help = format!("{}: {names}", kind.explanation);
    let sentences = entries.iter().map(|entry| format!("- {}: {}", entry.name, entry.explanation));
    let sentences = sentences.collect::<Vec<_>>().join("\n");
    let parse = move |name: &str| {
        // A rule is checked together with its parameter.
        let is_known = kind.name == "rule" || entries.iter().any(|entry| entry.name == name);
        if is_known { Ok(name.to_owned()) } else { Err(format!("it must be one of {names}")) }
    };
    Arg::new(kind.name)
        .long(flag(kind.name))
        .value_name("NAME")
        .default_value(kind.default)
        .value_parser(parse)
        .long_help(format!("{}{}\n{sentences}", kind.explanation, readers(kind.name)))
        .help(help)
}

pub(super) fn parameter_arg(kind: &'static NameInfo) -> Option<Arg> {
    let (name, label) = kind.parameter?;
    let parameters = (kind.entries)().into_iter().filter_map(|Entry { name, parameter, .. }| {
        parameter.map(|parameter| format!("{} of {name} ({})", parameter.symbol, parameter.default))
    });
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    let help = format!("{label} of the {}, if not its default: {parameters}", kind.label.to_lowercase());
    let parse = |text: &str| match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("it must be a number".to_owned()),
    };
    let arg = Arg::new(name).long(flag(name)).value_name("VALUE").value_parser(parse).help(help);
    Some(arg.allow_negative_numbers(true))
}

/// Parses a number within the bounds of an option.
pub(super) fn within(number: &NumberInfo, text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "it must be a number".to_owned())?;
    number.bounds.check(value).map(|()| value).map_err(|reason| format!("it {reason}"))
}

pub(super) fn number_arg(number: &'static NumberInfo) -> Arg {
    let unset = if number.unset.is_empty() { String::new() } else { format!(" [default: {}]", number.unset) };
    let help = format!("{}{}{unset}", number.explanation, readers(number.name));
    let unit = if number.bounds.integer { "COUNT" } else { "NUMBER" };
    let arg = Arg::new(number.name)
        .long(flag(number.name))
        .value_name(if number.symbol.is_empty() { unit } else { number.symbol })
        .value_parser(|text: &str| within(number, text))
        .allow_negative_numbers(true);
    let arg = if number.unset.is_empty() { arg.default_value(number.default.to_string()) } else { arg };
    if number.details.is_empty() {
        arg.help(help)
    } else {
        arg.long_help(format!("{help}\n\n{}", number.details)).help(help)
    }
}

/// Lists in brackets the entries that use an option; empty if all do.
fn readers(option: &str) -> String {
    let entries = NAMES.iter().flat_map(|kind| (kind.entries)());
    let names: Vec<&str> = entries.filter(|entry| entry.options.contains(&option)).map(|entry| entry.name).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}
