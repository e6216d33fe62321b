//! Names and descriptions of values that a user chooses from.

use clap::ValueEnum;

/// Gives the name that a user types.
pub fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Gives the line that help shows for it.
pub fn help(value: impl ValueEnum) -> String {
    value.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default()
}
