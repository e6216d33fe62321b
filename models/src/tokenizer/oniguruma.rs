//! Patterns of `tokenizer.json`, which are Oniguruma's in Ruby's syntax, in the syntax of `fancy-regex`.
//!
//! The two differ in three points that tokenizers meet: an interval followed by `+` repeats it (`{1,3}+` is not
//! possessive), `^` and `$` match at every line, and `(?m)` lets `.` match a line break. Source: Oniguruma's doc/RE,
//! sections "Quantifier", "Anchors" and "Extended groups" for ONIG_SYNTAX_RUBY.

/// Translates a pattern; most stay as they are.
pub(super) fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    // Where the last atom begins in `out`, and where each open group does.
    let (mut atom, mut groups) = (0, Vec::new());
    while let Some(first) = rest.chars().next() {
        let begin = out.len();
        let (length, text) = match first {
            '\\' => (escape(rest), None),
            '[' => (class(rest), None),
            '^' => (1, Some("(?m:^)")),
            '$' => (1, Some("(?m:$)")),
            '(' => {
                groups.push(begin);
                let flags = flags(rest);
                out.push_str(&rest[..flags].replace('m', "s"));
                rest = &rest[flags..];
                atom = out.len();
                continue;
            }
            ')' => {
                out.push(')');
                rest = &rest[1..];
                atom = groups.pop().unwrap_or(begin);
                continue;
            }
            '{' => {
                let length = interval(rest);
                if length > 1 && rest[length..].starts_with('+') {
                    // Repeating the repeated atom once or more often.
                    out.insert_str(atom, "(?:");
                    out.push_str(&rest[..length]);
                    out.push_str(")+");
                    rest = &rest[length + 1..];
                } else {
                    out.push_str(&rest[..length]);
                    rest = &rest[length..];
                }
                continue;
            }
            '*' | '+' | '?' => {
                out.push(first);
                rest = &rest[1..];
                continue;
            }
            c => (c.len_utf8(), None),
        };
        atom = begin;
        out.push_str(text.unwrap_or(&rest[..length]));
        rest = &rest[length..];
    }
    out
}

/// The length of an escape with its braces, as in `\p{N}` and `\x{41}`.
fn escape(text: &str) -> usize {
    let Some(kind) = text[1..].chars().next() else { return text.len() };
    let head = 1 + kind.len_utf8();
    let has_braces = "pPxkg".contains(kind) && text[head..].starts_with('{');
    if has_braces { text.find('}').map_or(text.len(), |end| end + 1) } else { head }
}

/// The length of a character class, others inside it included.
fn class(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        at += if c == '\\' { escape(&text[at..]) } else { c.len_utf8() };
        match c {
            '[' => {
                depth += 1;
                let inside = &text[at..];
                at += usize::from(inside.starts_with('^'));
                // A bracket at the beginning is a character.
                at += usize::from(text[at..].starts_with(']'));
            }
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of an interval such as `{1,3}`; 1 for a brace that is a character.
fn interval(text: &str) -> usize {
    let Some(end) = text.find('}') else { return 1 };
    let inside = &text[1..end];
    let is_interval =
        inside.chars().any(|c| c.is_ascii_digit()) && inside.chars().all(|c| c.is_ascii_digit() || c == ',');
    if is_interval { end + 1 } else { 1 }
}

/// The length of the head of a group: `(`, or `(?im-x` with its flags and without the colon.
fn flags(text: &str) -> usize {
    let Some(flags) = text.strip_prefix("(?") else { return 1 };
    let length = flags.find(|c: char| !"imx-".contains(c)).unwrap_or(flags.len());
    if length > 0 && flags[length..].starts_with([':', ')']) { 2 + length } else { 1 }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::translated;

    #[test]
    fn what_the_two_syntaxes_share_stays() {
        let llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        let classes = r"[\]^$]+|[^$^]{2}|[[:alpha:]&&[^a]]?+|a{,3}|{a}|\{1}+|\$";
        for pattern in [llama, classes, "(a|b)*?", r"(?<!\d)(?<name>x)\k<name>", ""] {
            assert_eq!(translated(pattern), pattern);
        }
    }

    /// The right sides mean in fancy-regex what the left ones mean in Oniguruma's documents.
    #[test]
    fn intervals_anchors_and_dots_are_translated() {
        for (ruby, expected) in [
            (r"\p{N}{1,3}+", r"(?:\p{N}{1,3})+"),
            ("[ab]{2}+c", "(?:[ab]{2})+c"),
            ("(a(b)){2,}+", "(?:(a(b)){2,})+"),
            ("xa{1,2}+", "x(?:a{1,2})+"),
            ("^a$|b", "(?m:^)a(?m:$)|b"),
            ("(?m:.)(?im-x:a)", "(?s:.)(?is-x:a)"),
            ("(?m).", "(?s)."),
        ] {
            assert_eq!(translated(ruby), expected);
        }
    }
}
