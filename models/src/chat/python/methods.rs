//! Methods of Python's strings, lists and dictionaries that minijinja's `pycompat` lacks or computes otherwise.

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Kwargs, ValueKind, from_args},
};
use minijinja_contrib::pycompat;

use super::format::{self, Style, tuple};

/// Calls a method of a value by Python's name and meaning. Positions count characters.
///
/// # Errors
/// [`ErrorKind::UnknownMethod`] for a method that is not implemented, and the errors that Python raises.
pub(super) fn call(state: &State<'_, '_>, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match (value.as_str(), value.kind()) {
        (Some(text), _) => of_string(text, method, args)?,
        (None, ValueKind::Seq | ValueKind::Iterable) => of_list(value, method, args)?,
        (None, ValueKind::Map) if method == "copy" => from_args(args).map(|()| Some(value.clone()))?,
        (None, ValueKind::Map) if method == "items" && value.get_attr(method)?.is_undefined() => {
            let () = from_args(args)?;
            let item = |key: Value| Ok(tuple(vec![key.clone(), value.get_item(&key)?]));
            Some(value.try_iter()?.map(item).collect::<Result<Vec<_>, Error>>().map(Value::from)?)
        }
        _ => None,
    };
    own.map_or_else(|| pycompat::unknown_method_callback(state, value, method, args), Ok)
}

fn of_list(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(match method {
        "index" => {
            let (item,): (Value,) = from_args(args)?;
            let at = list.try_iter()?.position(|other| other == item);
            Some(Value::from(at.ok_or_else(|| invalid("the value is not in the list"))?))
        }
        _ => None,
    })
}

fn of_string(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let affix = || from_args(args).map(|(affix,): (String,)| affix);
    let has_all =
        |test: fn(char) -> bool| from_args(args).map(|()| Value::from(!text.is_empty() && text.chars().all(test)));
    // Python asks that there is a letter with a case, and none with the other.
    let has_case = |this: fn(char) -> bool, other: fn(char) -> bool| {
        from_args(args).map(|()| Value::from(text.chars().any(this) && !text.chars().any(other)))
    };
    Ok(Some(match method {
        "format" => Value::from(format::format(Style::Braces, text, args)?),
        "swapcase" => {
            let swap =
                |c: char| if c.is_lowercase() { c.to_uppercase().to_string() } else { c.to_lowercase().to_string() };
            from_args(args).map(|()| Value::from(text.chars().map(swap).collect::<String>()))?
        }
        // The one character whose folding is not its lower case in texts that people write.
        "casefold" => from_args(args).map(|()| Value::from(text.to_lowercase().replace('ß', "ss")))?,
        "removeprefix" => Value::from(affix().map(|affix| text.strip_prefix(&*affix).unwrap_or(text))?),
        "removesuffix" => Value::from(affix().map(|affix| text.strip_suffix(&*affix).unwrap_or(text))?),
        "partition" | "rpartition" => {
            let affix = affix()?;
            let separator = separator(&affix)?;
            let parts = match (method, text.split_once(separator), text.rsplit_once(separator)) {
                ("partition", Some((before, after)), _) | ("rpartition", _, Some((before, after))) => {
                    [before, separator, after]
                }
                ("partition", ..) => [text, "", ""],
                _ => ["", "", text],
            };
            tuple(parts.into_iter().map(Value::from).collect())
        }
        "split" | "rsplit" => {
            let (by, most, named): (Option<&str>, Option<i64>, Kwargs) = from_args(args)?;
            let by = by.map_or_else(|| named.get("sep"), |by| Ok(Some(by)))?;
            let most = most.map_or_else(|| named.get("maxsplit"), |most| Ok(Some(most)))?;
            named.assert_all_used()?;
            let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
            Value::from(match by {
                Some(by) if method == "split" => {
                    text.splitn(most.saturating_add(1), separator(by)?).map(Value::from).collect()
                }
                Some(by) => reversed(text.rsplitn(most.saturating_add(1), separator(by)?)),
                None if method == "split" => words(text, most),
                None => last_words(text, most),
            })
        }
        "find" | "rfind" | "index" | "rindex" | "startswith" | "endswith" => {
            let (wanted, begin, end): (Value, Option<i64>, Option<i64>) = from_args(args)?;
            let (text, skipped) = slice(text, begin, end);
            match (method, wanted.as_str()) {
                ("startswith" | "endswith", _) => {
                    let wanted = if wanted.as_str().is_some() { vec![wanted] } else { wanted.try_iter()?.collect() };
                    let has = |wanted: &str| {
                        if method == "startswith" { text.starts_with(wanted) } else { text.ends_with(wanted) }
                    };
                    Value::from(wanted.iter().filter_map(Value::as_str).any(has))
                }
                (_, Some(wanted)) => {
                    let at = if method.starts_with('r') { text.rfind(wanted) } else { text.find(wanted) };
                    match at {
                        Some(at) => Value::from(skipped + text[..at].chars().count()),
                        None if method.ends_with("find") => Value::from(-1),
                        None => return Err(invalid("substring not found")),
                    }
                }
                (_, None) => return Err(invalid("the argument must be a string")),
            }
        }
        "ljust" | "rjust" | "center" | "zfill" => {
            let (width, fill): (usize, Option<char>) = from_args(args)?;
            let missing = width.saturating_sub(text.chars().count());
            let (sign, text) = match method {
                "zfill" => text.split_at(usize::from(text.starts_with(['+', '-']))),
                _ => ("", text),
            };
            let left = match method {
                "ljust" => 0,
                // CPython puts the odd one to the left if the width is odd.
                "center" => missing / 2 + (missing & width & 1),
                _ => missing,
            };
            let fill = fill.unwrap_or(if method == "zfill" { '0' } else { ' ' });
            let pad = |count| std::iter::repeat_n(fill, count).collect::<String>();
            Value::from(format!("{sign}{}{text}{}", pad(left), pad(missing - left)))
        }
        "expandtabs" => {
            let (size,): (Option<usize>,) = from_args(args)?;
            Value::from(without_tabs(text, size.unwrap_or(8)))
        }
        "isalpha" => has_all(char::is_alphabetic)?,
        "isalnum" => has_all(char::is_alphanumeric)?,
        "isnumeric" => has_all(char::is_numeric)?,
        // Superscripts are digits to `isdigit` alone, and fractions to neither.
        "isdigit" => has_all(|c| c.is_ascii_digit() || "⁰¹²³⁴⁵⁶⁷⁸⁹".contains(c) || is_decimal(c))?,
        "isdecimal" => has_all(is_decimal)?,
        "isspace" => has_all(char::is_whitespace)?,
        "isupper" => has_case(char::is_uppercase, char::is_lowercase)?,
        "islower" => has_case(char::is_lowercase, char::is_uppercase)?,
        "isprintable" => from_args(args).map(|()| Value::from(text.chars().all(format::is_printable)))?,
        "isidentifier" => {
            let begins = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
            from_args(args).map(|()| Value::from(begins && text.chars().all(|c| c.is_alphanumeric() || c == '_')))?
        }
        "istitle" => from_args(args).map(|()| Value::from(is_title(text)))?,
        _ => return Ok(None),
    }))
}

fn invalid(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.to_owned())
}

fn separator(text: &str) -> Result<&str, Error> {
    if text.is_empty() { Err(invalid("empty separator")) } else { Ok(text) }
}

fn reversed<'a>(parts: impl Iterator<Item = &'a str>) -> Vec<Value> {
    let mut parts: Vec<Value> = parts.map(Value::from).collect();
    parts.reverse();
    parts
}

/// Words between white space from the left; after `most` cuts the rest stays whole.
fn words(text: &str, most: usize) -> Vec<Value> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let end = if words.len() < most { rest.find(char::is_whitespace) } else { None };
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(Value::from(word));
        rest = after.trim_start();
    }
    words
}

/// Words between white space from the right, in the order of the text.
fn last_words(text: &str, most: usize) -> Vec<Value> {
    let (mut words, mut rest) = (Vec::new(), text.trim_end());
    while !rest.is_empty() {
        let space = if words.len() < most { rest.char_indices().rfind(|(_, c)| c.is_whitespace()) } else { None };
        let (before, word) = rest.split_at(space.map_or(0, |(at, c)| at + c.len_utf8()));
        words.push(Value::from(word));
        rest = before.trim_end();
    }
    words.reverse();
    words
}

/// The characters from `begin` to `end`, negative ones counted from the end, and the number of those before.
fn slice(text: &str, begin: Option<i64>, end: Option<i64>) -> (&str, usize) {
    if begin.is_none() && end.is_none() {
        return (text, 0);
    }
    let length = text.chars().count();
    let place = |place: i64| {
        let distance = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
        if place < 0 { length.saturating_sub(distance) } else { distance.min(length) }
    };
    let byte = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    let begin = begin.map_or(0, place);
    let end = end.map_or(length, place).max(begin);
    (&text[byte(begin)..byte(end)], begin)
}

fn without_tabs(text: &str, size: usize) -> String {
    let (mut out, mut column) = (String::with_capacity(text.len()), 0_usize);
    for c in text.chars() {
        if c == '\t' {
            let spaces = size - column.checked_rem(size).unwrap_or(size);
            out.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        } else {
            out.push(c);
            column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
        }
    }
    out
}

/// Digits of the scripts in which `char::is_numeric` holds for ten characters in a row; fractions are none.
fn is_decimal(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '٠'..='٩' | '۰'..='۹' | '०'..='९' | '০'..='৯' | '０'..='９')
}

fn is_title(text: &str) -> bool {
    let (mut after_letter, mut has_letter) = (false, false);
    for c in text.chars() {
        let cased = c.is_uppercase() || c.is_lowercase();
        if cased && c.is_uppercase() == after_letter {
            return false;
        }
        (after_letter, has_letter) = (cased, has_letter || cased);
    }
    has_letter
}
