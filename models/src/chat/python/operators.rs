//! The operators `~` and `%` with Python's meaning, by rewriting templates before minijinja compiles them.
//!
//! minijinja has no hook for operators: it joins lists as JSON with `~`, and knows `%` for numbers alone. So
//! `a ~ b` becomes `((a)|string) ~ ((b)|string)` and `'…' % (a, b)` becomes `'…'|format(a, b)`, where `string` and
//! `format` are the filters of [`super::add_to`]. All other text stays as it is.

/// Names and operators that end an operand of `~` on the left or right, outside brackets.
const ENDS: [&str; 20] = [
    "~", "+", "==", "!=", "<", ">", "<=", ">=", "and", "or", "if", "else", "elif", ",", ":", "=", "set", "do",
    "include", "return",
];

/// A template with the operators replaced.
pub(in super::super) fn rewritten(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min() {
        out.push_str(&rest[..at + 2]);
        let kind = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        if kind == b'#' {
            let end = rest.find("#}").unwrap_or(rest.len());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let (tokens, end) = tokens(rest, if kind == b'{' { "}}" } else { "%}" });
        let is_raw = tokens.iter().find(|token| !token.trim_matches(['-', '+']).trim().is_empty()) == Some(&"raw");
        out.push_str(&expression(&tokens));
        rest = &rest[end..];
        if kind == b'%' && is_raw {
            let end = rest.find("endraw").unwrap_or(rest.len());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out + rest
}

/// The tokens of a tag, white space among them, and the byte at which `close` begins.
fn tokens<'a>(text: &'a str, close: &str) -> (Vec<&'a str>, usize) {
    let (mut tokens, mut at, mut depth) = (Vec::new(), 0, 0_usize);
    while at < text.len() && (depth > 0 || !text[at..].starts_with(close)) {
        let rest = &text[at..];
        let first = rest.chars().next().unwrap_or_default();
        let same = |test: fn(char) -> bool| rest.find(|c| !test(c)).unwrap_or(rest.len());
        let length = match first {
            '\'' | '"' => string(rest, first),
            c if c.is_whitespace() => same(char::is_whitespace),
            c if c.is_alphanumeric() || c == '_' => same(|c| c.is_alphanumeric() || c == '_'),
            '=' | '!' | '<' | '>' if rest[1..].starts_with('=') => 2,
            '*' | '/' if rest[1..].starts_with(first) => 2,
            c => c.len_utf8(),
        };
        match first {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        tokens.push(&rest[..length]);
        at += length;
    }
    (tokens, at)
}

/// The length of a string literal with its quotes.
fn string(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = text[1..].find(|c| {
        let ends = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// Tokens of one level of brackets, rewritten; those inside brackets first.
fn expression(tokens: &[&str]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(&token) = tokens.get(at) {
        let end = if matches!(token, "(" | "[" | "{") { closing(tokens, at) } else { at };
        parts.push(if end > at + 1 {
            format!("{token}{}{}", expression(&tokens[at + 1..end]), tokens.get(end).copied().unwrap_or_default())
        } else {
            tokens[at..tokens.len().min(end + 1)].concat()
        });
        at = end + 1;
    }
    formatted(&mut parts);
    joined(&parts)
}

/// The index of the bracket that closes the one at `at`.
fn closing(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, &token) in tokens.iter().enumerate().skip(at) {
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len()
}

fn is_space(part: &str) -> bool {
    part.trim().is_empty()
}

/// Replaces `'…' % value` by the filter `format`.
fn formatted(parts: &mut Vec<String>) {
    let mut at = 0;
    while at < parts.len() {
        let before = parts[..at].iter().rposition(|part| !is_space(part));
        let after = (at + 1..parts.len()).find(|&index| !is_space(&parts[index]));
        if let ("%", Some(before), Some(after)) = (parts[at].as_str(), before, after)
            && parts[before].starts_with(['\'', '"'])
        {
            // The operand with its attributes, calls and filters.
            let mut end = after + 1;
            while end < parts.len() && (parts[end].starts_with(['.', '(', '[']) || parts[end - 1] == ".") {
                end += 1;
            }
            let operand = parts[after..end].concat();
            let is_tuple = end == after + 1 && operand.starts_with('(') && operand.contains(',');
            let arguments = if is_tuple { operand } else { format!("({operand})") };
            parts.splice(at..end, [format!("|format{arguments}")]);
        }
        at += 1;
    }
}

/// Puts each operand of `~` through the filter `string`.
fn joined(parts: &[String]) -> String {
    if !parts.iter().any(|part| part == "~") {
        return parts.concat();
    }
    let mut out = String::new();
    let mut operand: Vec<&str> = Vec::new();
    let mut after_join = false;
    // One more end at the end.
    for index in 0..=parts.len() {
        let part = parts.get(index).map_or("", String::as_str);
        if index < parts.len() && !ends_operand(parts, index, &operand) {
            operand.push(part);
            continue;
        }
        if (after_join || part == "~") && operand.iter().any(|part| !is_space(part)) {
            let text = operand.concat();
            let inner = text.trim();
            let begin = text.len() - text.trim_start().len();
            out.push_str(&text[..begin]);
            out.push_str(&format!("(({inner})|string)"));
            out.push_str(&text[begin + inner.len()..]);
        } else {
            out.extend(operand.iter().copied());
        }
        operand.clear();
        after_join = part == "~";
        out.push_str(part);
    }
    out
}

/// Returns true if the part at `index` ends an operand; a sign at its beginning and the `in` or `not` of a test do not.
fn ends_operand(parts: &[String], index: usize, operand: &[&str]) -> bool {
    let is_empty = operand.iter().all(|part| is_space(part));
    let in_test = || operand.iter().rev().find(|part| !is_space(part)) == Some(&"is");
    match parts[index].as_str() {
        "-" => !is_empty || index == 0,
        "in" | "not" => !in_test(),
        part => ENDS.contains(&part),
    }
}
