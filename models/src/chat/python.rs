//! Python features for chat templates: printing, JSON and dates.

use std::fmt::Write;

use chrono::DateTime;
use minijinja::{
    Environment, Error, ErrorKind, Output, State, Value,
    value::{Kwargs, ValueKind},
};
use minijinja_contrib::pycompat;

/// Configures an environment with what transformers offers to templates. The time is the variable `now`, in seconds
/// since 1970.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(pycompat::unknown_method_callback);
    environment.set_formatter(|out: &mut Output<'_>, _: &State<'_, '_>, value: &Value| {
        let mut text = String::new();
        print(&mut text, value, false);
        out.write_str(&text).map_err(Error::from)
    });
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |reason: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, reason))
    });
    environment.add_function("strftime_now", strftime_now);
}

/// Prints a value as Python does: strings are bare at the top level and quoted within lists.
fn print(out: &mut String, value: &Value, quoted: bool) {
    let mut list = |open: char, close: char, write: &dyn Fn(&mut String, Value)| {
        out.push(open);
        for (index, item) in value.try_iter().into_iter().flatten().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            write(out, item);
        }
        out.push(close);
    };
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String if quoted => quote(out, value.as_str().unwrap_or_default()),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) if number.is_finite() => out.push_str(&float(number)),
            _ => {
                let _ = write!(out, "{value}");
            }
        },
        ValueKind::Seq => list('[', ']', &|out, item| print(out, &item, true)),
        ValueKind::Map => list('{', '}', &|out, key| {
            print(out, &key, true);
            out.push_str(": ");
            print(out, &value.get_item(&key).unwrap_or_default(), true);
        }),
        _ => {
            let _ = write!(out, "{value}");
        }
    }
}

/// Python's `repr` of a string.
fn quote(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// Python's `repr` of a finite float: the shortest digits, with an exponent below 10⁻⁴ and from 10¹⁶ on.
fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse().unwrap_or(0) {
        -4..=15 => format!("{number:?}"),
        exponent => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, i32::abs(exponent)),
    }
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
            ValueKind::Number => print(out, value, false),
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
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// Expected output is that of CPython 3.12 and Jinja 3.1 with transformers' `tojson`.
    #[test]
    fn values_are_printed_as_python_prints_them() {
        let mut environment = Environment::new();
        add_to(&mut environment);
        let context = minijinja::context! { now => 1_795_392_000 };
        for (source, expected) in [
            ("{{ ['a', \"it's\", 1, 2.5, true, none] }}", "['a', \"it's\", 1, 2.5, True, None]"),
            ("{{ {'k': ['v'], 'n': {}} }}", "{'k': ['v'], 'n': {}}"),
            ("{{ ['a\\nb', '\\\\'] }}{{ missing }}|{{ 'plain' }}", "['a\\nb', '\\\\']|plain"),
            ("{{ {'b': 1, 'a': '<é>\\n'} | tojson }}", "{\"b\": 1, \"a\": \"<é>\\n\"}"),
            ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", "{\"a\": 2, \"b\": 1}"),
            ("{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }}", "{\"a\":[1,2]}"),
            ("{{ {'a': [1], 'b': []} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ],\n  \"b\": []\n}"),
            ("{{ [1.0, 1e16, 1.5e-5, 0.0001, 1e15] }}", "[1.0, 1e+16, 1.5e-05, 0.0001, 1000000000000000.0]"),
            ("{{ [1.0, 1e16, -2.5, 7] | tojson }}", "[1.0, 1e+16, -2.5, 7]"),
            ("{{ strftime_now('%d %b %Y') }}", "23 Nov 2026"),
        ] {
            assert_eq!(environment.render_str(source, &context).unwrap(), expected, "{source}");
        }
        for refused in ["{{ strftime_now('%!') }}", "{{ missing | tojson }}", "{{ [] | tojson(separators=',') }}"] {
            assert!(environment.render_str(refused, &context).is_err(), "{refused}");
        }
    }
}
