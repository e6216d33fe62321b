//! Sources of the settings of `outrider serve`: flags, then the environment, then a file, then defaults.
//!
//! This module knows no setting by name. A flag `--max-sessions` is `OUTRIDER_MAX_SESSIONS` in the environment and
//! `max-sessions` in the file, which becomes the flag's default. The flag's own parser checks values. Therefore a new
//! flag is a field of [`Serve`](super::serve::Serve) and nothing else, except for `docs/outrider.toml`, which
//! `--print-config` writes.

use std::{env, fmt::Write, fs, io, path::Path};

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    builder::{OsStr, Resettable},
    error::{ContextKind, ContextValue},
};
use toml::de::{DeTable, DeValue};

/// Name of the command that has settings.
pub(super) const COMMAND: &str = "serve";
/// Flags that are not settings.
const NO_SETTINGS: [&str; 2] = ["config", "print-config"];

/// Prefix of the variables in the environment.
const PREFIX: &str = "OUTRIDER_";
/// Suffixes of variables that are not settings of the command: the key of the target's engine, a client's token, the
/// log's filter.
const OTHER_VARIABLES: [&str; 3] = ["TARGET_KEY", "TOKEN", "LOG"];

/// Reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration {path} cannot be read: {error}")]
    Read { path: String, error: io::Error },
    /// The file is not valid TOML.
    #[error("the configuration {path} is not valid TOML at line {line}: {message}")]
    Syntax { path: String, line: usize, message: String },
    /// The file has a key that is no setting.
    #[error(
        "the configuration {path} sets \"{key}\" at line {line}, which is not a setting: `outrider serve --help` lists them, without the dashes"
    )]
    Unknown { path: String, line: usize, key: String },
    /// The file has a value that its setting cannot have.
    #[error("the configuration {path} is invalid at line {line}: {message}")]
    Value { path: String, line: usize, message: String },
}

/// Source of a wrong value: a variable in the environment.
#[derive(Debug, thiserror::Error)]
#[error("the environment variable {0} is invalid:")]
pub(super) struct FromVariable(pub(super) String);

/// Adds a variable in the environment to every setting of the command. An empty one counts as unset.
pub(super) fn with_environment(command: Command) -> Command {
    command.mut_subcommand(COMMAND, |serve| {
        serve.mut_args(|arg| {
            let is_config = arg.get_long() == Some("config");
            let name = setting(&arg).or(is_config.then_some("config")).map(variable);
            match name.filter(|name| env::var_os(name).is_none_or(|value| !value.is_empty())) {
                Some(name) => arg.env(name),
                None => arg,
            }
        })
    })
}

/// Name of the variable that has a wrong value, unless the value is a flag's.
pub(super) fn variable_of(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    // The argument has the form of a usage line: `--max-sessions <COUNT>`.
    let flag = argument.split(' ').next()?;
    let is_given = env::args().any(|given| given.split('=').next() == Some(flag));
    let name = variable(flag.strip_prefix("--")?);
    (!is_given && env::var_os(&name).is_some()).then_some(name)
}

/// Variables that look like settings and are not. Programs may set such variables: a Kubernetes service of this name
/// gives its pods a few.
pub(super) fn unknown_variables(command: &Command) -> Vec<String> {
    let arguments = command.find_subcommand(COMMAND).into_iter().flat_map(Command::get_arguments);
    let known: Vec<String> = arguments.filter_map(|arg| Some(arg.get_env()?.to_string_lossy().into_owned())).collect();
    let is_unknown = |name: &String| {
        name.starts_with(PREFIX) && !OTHER_VARIABLES.contains(&&name[PREFIX.len()..]) && !known.contains(name)
    };
    let mut unknown: Vec<String> =
        env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(is_unknown).collect();
    unknown.sort();
    unknown
}

/// Makes the values of a file the defaults of the command's settings.
pub(super) fn with_file(mut command: Command, path: &Path) -> Result<Command, ConfigError> {
    let name = || path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| ConfigError::Read { path: name(), error })?;
    let line_of = |offset: usize| text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1;
    let table = DeTable::parse(&text).map_err(|error| ConfigError::Syntax {
        path: name(),
        line: line_of(error.span().map_or(text.len(), |span| span.start)),
        message: error.message().replace('\n', ", "),
    })?;
    for (key, value) in table.get_ref() {
        let line = line_of(key.span().start);
        let key = key.get_ref().as_ref();
        let serve = command.find_subcommand(COMMAND);
        let known = serve.and_then(|serve| serve.get_arguments().find(|arg| setting(arg) == Some(key)));
        let Some((serve, arg)) = serve.zip(known) else {
            return Err(ConfigError::Unknown { path: name(), line, key: key.to_owned() });
        };
        let id = arg.get_id().clone();
        let wrong = |message| ConfigError::Value { path: name(), line, message };
        let values = values(value.get_ref())
            .ok_or_else(|| wrong(format!("{key} is a text, a number, true or false, or a list of these")))?;
        check(serve, arg, key, &values).map_err(wrong)?;
        // `mut_arg` would move the flag to the end.
        let with_default = |arg: Arg| if *arg.get_id() == id { arg.default_values(values.clone()) } else { arg };
        command = command.mut_subcommand(COMMAND, |serve| serve.mut_args(with_default));
    }
    Ok(command)
}

/// Formats all settings as a file that sets them again, with the help of each; those without a value are commented out.
pub(super) fn show(command: &Command, matches: &ArgMatches) -> String {
    let mut file = "\
# The settings of `outrider serve`: give this file with --config. Flags have the same names; the environment has
# OUTRIDER_LISTEN for listen, and so on. A flag counts more than the environment, that more than this file, and this
# file more than the default. Written by `outrider serve --print-config`.
"
    .to_owned();
    let arguments = command.find_subcommand(COMMAND).into_iter().flat_map(Command::get_arguments);
    for (arg, key) in arguments.filter_map(|arg| Some((arg, setting(arg)?))) {
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        file.push('\n');
        for line in help.lines() {
            file.push_str(&wrapped(line));
        }
        let values: Vec<String> = matches
            .get_raw(arg.get_id().as_str())
            .map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect())
            .unwrap_or_default();
        let literals: Vec<String> = values.iter().map(|value| literal(value)).collect();
        // Writing to a String cannot fail.
        let _ = match (arg.get_action(), &literals[..]) {
            (ArgAction::Append, literals) => writeln!(file, "{key} = [{}]", literals.join(", ")),
            (_, [literal, ..]) => writeln!(file, "{key} = {literal}"),
            (_, []) => writeln!(file, "# {key} ="),
        };
    }
    file
}

/// Key of an argument in the file, if it is a setting.
fn setting(arg: &Arg) -> Option<&str> {
    arg.get_long().filter(|long| !NO_SETTINGS.contains(long))
}

fn variable(long: &str) -> String {
    format!("{PREFIX}{}", long.to_uppercase().replace('-', "_"))
}

/// Value of the file in the form of command-line values.
fn values(value: &DeValue<'_>) -> Option<Vec<String>> {
    Some(match value {
        DeValue::String(text) => vec![text.as_ref().to_owned()],
        DeValue::Integer(number) if number.radix() == 10 => vec![number.as_str().to_owned()],
        DeValue::Float(number) => vec![number.as_str().to_owned()],
        DeValue::Boolean(truth) => vec![truth.to_string()],
        DeValue::Array(elements) => {
            let mut all = Vec::new();
            for element in elements {
                match values(element.get_ref())?.as_slice() {
                    [one] if !element.get_ref().is_array() => all.push(one.clone()),
                    _ => return None,
                }
            }
            all
        }
        _ => return None,
    })
}

/// Checks values of the file with the flag's own parser.
fn check(serve: &Command, arg: &Arg, key: &str, values: &[String]) -> Result<(), String> {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return match values {
            [truth] if truth == "true" || truth == "false" => Ok(()),
            _ => Err(format!("{key} is true or false")),
        };
    }
    let alone = serve.clone().no_binary_name(true).mut_args(|arg| arg.env(Resettable::<OsStr>::Reset));
    let flags = values.iter().map(|value| format!("--{key}={value}"));
    alone.try_get_matches_from(flags).map(drop).map_err(|error| {
        let text = error.render().to_string();
        // The second line may have the values that are possible.
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let lines = lines.join(" ");
        lines.strip_prefix("error: ").unwrap_or(&lines).to_owned()
    })
}

/// Formats a number as it is, and any other value in quotes.
fn literal(value: &str) -> String {
    let is_whole = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = is_whole && (value == "0" || !value.starts_with('0')) && value.len() < 19;
    if is_number { value.to_owned() } else { toml::Value::from(value).to_string() }
}

/// Wraps a text into lines of a comment.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 120;
    let (mut lines, mut line) = (String::new(), "#".to_owned());
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = "#".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn file(name: &str, text: &str) -> PathBuf {
        let path = env::temp_dir().join(format!("outrider-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        path
    }

    /// Settings from `arguments` and a file, as `--print-config` prints them.
    fn shown(arguments: &[&str], path: Option<&Path>) -> Result<String, ConfigError> {
        let mut command = Cli::command();
        if let Some(path) = path {
            command = with_file(command, path)?;
        }
        let matches = command.clone().get_matches_from([&["outrider", "serve"], arguments].concat());
        Ok(show(&command, matches.subcommand_matches(COMMAND).unwrap()))
    }

    #[test]
    fn the_example_is_what_is_printed_and_changes_nothing() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/outrider.toml");
        let defaults = shown(&[], None).unwrap();
        assert_eq!(
            fs::read_to_string(&example).unwrap(),
            defaults,
            "write it again: outrider serve --print-config > docs/outrider.toml"
        );
        assert_eq!(shown(&[], Some(&example)).unwrap(), defaults);
    }

    #[test]
    fn a_flag_counts_more_than_the_file_and_the_file_more_than_the_default() {
        let path = file(
            "order.toml",
            "max-sessions = 7\nlisten = \"127.0.0.1:1\"\nallow-origin = [\"https://a.b\", \"http://c:8\"]\n",
        );
        let shown = shown(&["--listen", "127.0.0.1:2"], Some(&path)).unwrap();
        for line in [
            "max-sessions = 7",
            "listen = \"127.0.0.1:2\"",
            "idle-timeout = 300",
            "allow-origin = [\"https://a.b\", \"http://c:8\"]",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
        }
    }

    #[test]
    fn mistakes_are_told_by_name_and_line() {
        for (text, parts) in [
            ("max-sessions = 7\n\nmax-session = 8\n", &["\"max-session\"", "line 3"][..]),
            ("# nothing\nmax-sessions = \"many\"\n", &["line 2", "'many'", "--max-sessions"]),
            ("own-draft = true\n", &["line 1", "'true'", "possible values", "lookup"]),
            ("listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n", &["line 1", "listen"]),
            ("listen = { port = 1 }\n", &["line 1", "listen"]),
            ("max-sessions = 7\nmax-sessions = 8\n", &["line 2"]),
            ("max-sessions 7\n", &["not valid TOML", "line 1"]),
            ("config = \"other.toml\"\n", &["\"config\"", "not a setting"]),
        ] {
            let error = shown(&[], Some(&file("wrong.toml", text))).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)) && !error.contains('\n'), "{error}");
        }
        assert!(matches!(with_file(Cli::command(), Path::new("/nowhere.toml")), Err(ConfigError::Read { .. })));
    }
}
