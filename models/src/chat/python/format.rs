//! Text of values as Python writes it: `str()`, `repr()`, `%` and `str.format()`.

use std::{fmt::Write, sync::Arc};

use minijinja::{
    Error, FormatStyle, Value, format_filter,
    value::{Enumerator, Kwargs, Object, ObjectRepr, ValueKind},
};

/// The two languages of format strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// The style of `'%s' % value`.
    Percent,
    /// `'{}'.format(value)`
    Braces,
}

/// A list that prints as a tuple.
#[derive(Debug)]
struct Tuple(Vec<Value>);

impl Object for Tuple {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

/// A tuple of values, such as Python's methods return.
pub(super) fn tuple(values: Vec<Value>) -> Value {
    Value::from_object(Tuple(values))
}

/// Fills a format string, with lists and objects as Python writes them.
pub(super) fn format(style: Style, template: &str, args: &[Value]) -> Result<String, Error> {
    let (template, quoted) = conversions(style, template);
    let mut index = 0;
    let mut shown = |value: &Value| {
        let quote = quoted.get(index).copied().unwrap_or(false);
        index += 1;
        match value.kind() {
            ValueKind::Number | ValueKind::String if !quote => value.clone(),
            _ => Value::from(if quote { repr(value) } else { text(value) }),
        }
    };
    let mut args_shown = Vec::with_capacity(args.len());
    for value in args {
        if value.is_kwargs() {
            let named = Kwargs::try_from(value.clone())?;
            let named: Vec<_> =
                named.args().map(|name| Ok((name, shown(&named.get(name)?)))).collect::<Result<_, Error>>()?;
            args_shown.push(Value::from(named.into_iter().collect::<Kwargs>()));
        } else {
            args_shown.push(shown(value));
        }
    }
    let style = if style == Style::Percent { FormatStyle::Printf } else { FormatStyle::StrFormat };
    format_filter(style, &template, &args_shown)
}

/// A format string with `%s` and `{}` for each `%r` and `{!r}`, and for each argument in order whether it had that.
fn conversions(style: Style, template: &str) -> (String, Vec<bool>) {
    let (mut out, mut quoted) = (String::with_capacity(template.len()), Vec::new());
    let mut rest = template;
    let mark = if style == Style::Percent { '%' } else { '{' };
    while let Some(at) = rest.find(mark) {
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        if rest.starts_with(mark) {
            out.push(mark);
            rest = &rest[1..];
        } else if style == Style::Percent {
            let end = rest.find(|c: char| c.is_alphabetic()).unwrap_or(rest.len());
            let is_quoted = rest[end..].starts_with('r');
            quoted.push(is_quoted);
            out.push_str(&rest[..end]);
            out.push_str(if is_quoted { "s" } else { "" });
            rest = &rest[end + usize::from(is_quoted)..];
        } else {
            let end = rest.find('}').unwrap_or(rest.len());
            quoted.push(rest[..end].contains("!r"));
            out.push_str(&rest[..end].replace("!r", "").replace("!s", ""));
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    (out, quoted)
}

/// Python's `str()` of a value.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    print(&mut text, value, false);
    text
}

/// Python's `repr()` of a value.
pub(super) fn repr(value: &Value) -> String {
    let mut text = String::new();
    print(&mut text, value, true);
    text
}

/// Writes a value; strings are quoted inside lists, and at the top if `quoted`.
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
        ValueKind::Undefined if quoted => out.push_str("Undefined"),
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
        ValueKind::Seq if value.downcast_object_ref::<Tuple>().is_some() => {
            list('(', ')', &|out, item| print(out, &item, true));
        }
        ValueKind::Seq | ValueKind::Iterable => list('[', ']', &|out, item| print(out, &item, true)),
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
        let _ = match c {
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\\' => out.write_str("\\\\"),
            c if c == quote => write!(out, "\\{c}"),
            c if is_printable(c) => out.write_char(c),
            c => match u32::from(c) {
                code @ ..0x100 => write!(out, "\\x{code:02x}"),
                code @ ..0x1_0000 => write!(out, "\\u{code:04x}"),
                code => write!(out, "\\U{code:08x}"),
            },
        };
    }
    out.push(quote);
}

/// Returns true if Python prints a character as it is: not a control, a format mark, a private one or a space other
/// than ' '.
pub(super) fn is_printable(c: char) -> bool {
    c == ' '
        || !(c.is_control()
            || c.is_whitespace()
            || matches!(c, '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
                | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0001}'..='\u{e007f}' | '\u{f0000}'..))
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
