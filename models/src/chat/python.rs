//! Python features for chat templates: printing, methods, operators, JSON and dates.

use std::fmt::Write;

use chrono::DateTime;
use minijinja::{
    Environment, Error, ErrorKind, Output, State, Value,
    value::{Kwargs, Rest, ValueKind},
};
use minijinja_contrib::{filters, globals};

use self::format::Style;

mod format;
mod methods;
mod operators;

pub(super) use self::operators::rewritten;

/// The most steps of rendering: a template of published models takes some hundred for a message, and one that loops
/// would hold a server's thread for good.
const FUEL: u64 = 20_000_000;

/// Configures an environment with what transformers offers to templates. The time is the variable `now`, in seconds
/// since 1970.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.set_fuel(Some(FUEL));
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(|out: &mut Output<'_>, _: &State<'_, '_>, value: &Value| {
        out.write_str(&format::text(value)).map_err(Error::from)
    });
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", |value: &Value| format::text(value));
    environment
        .add_filter("format", |template: &str, args: Rest<Value>| format::format(Style::Percent, template, &args));
    environment.add_filter("join", join);
    environment.add_filter("truncate", filters::truncate);
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::String)
    });
    environment.add_test("number", |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
    environment.add_filter("wordcount", |text: &str| text.split_whitespace().count());
    environment.add_filter("int", int);
    environment.add_filter("round", round);
    environment.add_function("cycler", |items: Rest<Value>| globals::cycler(items.0));
    environment.add_function("joiner", globals::joiner);
    environment.add_function("raise_exception", |reason: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, reason))
    });
    environment.add_function("strftime_now", strftime_now);
}

/// Converts to an integer; what is none becomes `default`.
fn int(value: &Value, default: Option<Value>) -> Value {
    let truncated = |number: f64| number as i64;
    let number = match value.as_str().map(str::trim) {
        Some(text) => text.parse().ok().or_else(|| text.parse().ok().map(truncated)),
        None => value.as_i64().or_else(|| f64::try_from(value.clone()).ok().map(truncated)),
    };
    number.map_or_else(|| default.unwrap_or_else(|| Value::from(0)), Value::from)
}

/// Rounds to `precision` digits after the point, halves to the even digit as Python does.
fn round(number: f64, precision: Option<i32>) -> f64 {
    let scale = 10_f64.powi(precision.unwrap_or(0));
    (number * scale).round_ties_even() / scale
}

/// Joins the text of values, or of an attribute of theirs.
fn join(values: &Value, separator: Option<String>, named: Kwargs) -> Result<String, Error> {
    let separator = separator.map_or_else(|| named.get("d"), |separator| Ok(Some(separator)))?.unwrap_or_default();
    let attribute: Option<String> = named.get("attribute")?;
    named.assert_all_used()?;
    let text = |value: Value| match &attribute {
        Some(name) => value.get_attr(name).map(|value| format::text(&value)),
        None => Ok(format::text(&value)),
    };
    let texts: Vec<String> = values.try_iter()?.map(text).collect::<Result<_, _>>()?;
    Ok(texts.join(&separator))
}

/// Equivalent of transformers' `tojson`, which is Python's `json.dumps` with `ensure_ascii=False`: spaces after commas
/// and colons, no HTML escapes.
fn to_json(value: &Value, named: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = named.get("indent")?;
    let separators: Option<Vec<String>> = named.get("separators")?;
    let sorted: Option<bool> = named.get("sort_keys")?;
    // Accepted and ignored: output is never escaped to ASCII.
    let _: Option<bool> = named.get("ensure_ascii")?;
    named.assert_all_used()?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.as_str(), key.as_str()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "separators are two texts")),
        None => (if indent.is_some() { "," } else { ", " }, ": "),
    };
    let mut json = String::new();
    Layout { indent, item, key, sorted: sorted.unwrap_or(false) }.write(&mut json, value, 0)?;
    Ok(json)
}

/// Layout of JSON output, as for Python's `json.dumps`.
struct Layout<'a> {
    /// Spaces per level of indentation; without it the output is one line.
    indent: Option<usize>,
    /// Separator between items.
    item: &'a str,
    /// Separator between a key and its value.
    key: &'a str,
    /// True if keys are sorted.
    sorted: bool,
}

impl Layout<'_> {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::String => out.push_str(&text(value)?),
            ValueKind::Number => out.push_str(&format::text(value)),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?;
                self.list(out, ['[', ']'], depth, items, |out, item| self.write(out, &item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                self.list(out, ['{', '}'], depth, keys.into_iter(), |out, key| {
                    out.push_str(&text(&key)?);
                    out.push_str(self.key);
                    self.write(out, &value.get_item(&key)?, depth + 1)
                })?;
            }
            kind => return Err(Error::new(ErrorKind::InvalidOperation, format!("there is no JSON of {kind}"))),
        }
        Ok(())
    }

    fn list(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        depth: usize,
        items: impl Iterator<Item = Value>,
        write: impl Fn(&mut String, Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |out: &mut String, depth| {
            if let Some(indent) = self.indent {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent * depth));
            }
        };
        out.push(open);
        let mut is_empty = true;
        for item in items {
            if !is_empty {
                out.push_str(self.item);
            }
            is_empty = false;
            line(out, depth + 1);
            write(out, item)?;
        }
        if !is_empty {
            line(out, depth);
        }
        out.push(close);
        Ok(())
    }
}

/// JSON string literal of a value.
fn text(value: &Value) -> Result<String, Error> {
    let wrong = |error: serde_json::Error| Error::new(ErrorKind::InvalidOperation, error.to_string());
    serde_json::to_string(&value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)).map_err(wrong)
}

/// Formats the current date and time, which is the variable `now`.
fn strftime_now(state: &State<'_, '_>, format: String) -> Result<String, Error> {
    let now = state.lookup("now").and_then(|now| i64::try_from(now).ok()).unwrap_or_default();
    let wrong = || Error::new(ErrorKind::InvalidOperation, format!("{format:?} is no format of a date"));
    let date = DateTime::from_timestamp(now, 0).ok_or_else(wrong)?;
    let mut text = String::new();
    write!(text, "{}", date.format(&format)).map_err(|_| wrong())?;
    Ok(text)
}

#[cfg(test)]
mod tests;
