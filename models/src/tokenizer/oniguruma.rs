//! Patterns of `tokenizer.json`, which are Oniguruma's in Ruby's syntax, in the syntax of `fancy-regex`.
//!
//! The two differ in these points that tokenizers meet:
//!
//! - An interval followed by `+` repeats it: `{1,3}+` is not possessive.
//! - `^` and `$` match at every line, `\Z` at the end and before a last line break. `(?m)` lets `.` match a line break.
//! - Classes in brackets such as `[:alpha:]` are Unicode's, not ASCII's. `[:punct:]` has symbols, too.
//! - The joiners U+200C and U+200D are not word characters of `\w`, `\b` and `\B`. `¹²³¼½¾` are, except in a class.
//! - `\<` and `\>` are characters.
//!
//! `\d`, `\s`, `\h` and `\p{Punct}` are the same sets in both. Source: Oniguruma's doc/RE, sections "Quantifier",
//! "Anchors", "Character class" and "Extended groups" for ONIG_SYNTAX_RUBY. Sets are those that Oniguruma 6.9
//! was seen to match among all characters; newer versions of Unicode have more letters.

/// Characters of words, as the inside of a character class.
const WORD: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}";
/// Characters of words outside character classes, where Oniguruma takes those below U+0100 from a table of ISO 8859-1.
const WORD_OUTSIDE: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}¹²³¼-¾";

/// Names of classes, and their characters as the inside of a character class.
const CLASSES: [(&str, &str); 13] = [
    ("alnum", r"\p{Alphabetic}\p{Nd}"),
    ("alpha", r"\p{Alphabetic}"),
    ("blank", r"\p{Zs}\t"),
    ("cntrl", r"\p{Cc}"),
    ("digit", r"\p{Nd}"),
    ("graph", r"[^\p{White_Space}\p{Cc}\p{Cn}]"),
    ("lower", r"\p{Lowercase}"),
    ("print", r"[^\p{White_Space}\p{Cc}\p{Cn}]\p{Zs}"),
    ("punct", r"\p{P}\p{S}"),
    ("space", r"\p{White_Space}"),
    ("upper", r"\p{Uppercase}"),
    ("word", WORD),
    ("xdigit", "0-9A-Fa-f"),
];

/// Translates a pattern; most stay as they are.
pub(super) fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    // Where the last atom begins in `out`, and where each open group does.
    let (mut atom, mut groups) = (0, Vec::new());
    while let Some(first) = rest.chars().next() {
        let begin = out.len();
        let (length, text) = match first {
            '\\' => escaped(rest),
            '[' => class(rest),
            '^' => (1, "(?m:^)".to_owned()),
            '$' => (1, "(?m:$)".to_owned()),
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
            c => (c.len_utf8(), c.to_string()),
        };
        atom = begin;
        out.push_str(&text);
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

/// The length of an escape outside character classes, and its translation.
fn escaped(text: &str) -> (usize, String) {
    if let Some(translated) = set(text, false) {
        return translated;
    }
    let length = escape(text);
    let translated = match &text[..length] {
        r"\b" => boundary("!", "="),
        r"\B" => boundary("=", "!"),
        r"\Z" => r"(?=\n?\z)".to_owned(),
        r"\<" => "<".to_owned(),
        r"\>" => ">".to_owned(),
        own => own.to_owned(),
    };
    (length, translated)
}

/// Position between characters: `!` for no word character after it and `=` for one, if there is one before it or not.
fn boundary(after_word: &str, otherwise: &str) -> String {
    let word = WORD_OUTSIDE;
    format!("(?:(?<=[{word}])(?{after_word}[{word}])|(?<![{word}])(?{otherwise}[{word}]))")
}

/// The length of a character class, others inside it included, and its translation.
fn class(text: &str) -> (usize, String) {
    let (mut depth, mut at, mut out) = (0, 0, String::new());
    while let Some(c) = text[at..].chars().next() {
        if let Some((length, set)) = set(&text[at..], true).filter(|_| depth > 0) {
            // No range ends with a set: its sign is a character.
            if let Some(before) = out.strip_suffix('-').filter(|before| !before.ends_with(['[', '^', '\\'])) {
                out = format!(r"{before}\-");
            }
            out.push_str(&set);
            at += length;
            continue;
        }
        let begin = at;
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
        out.push_str(&text[begin..at]);
        if depth == 0 {
            break;
        }
    }
    (at, out)
}

/// The length and the translation of a set at the beginning of a text: `[:alpha:]`, `[:^alpha:]`, `\w` or `\W`.
fn set(text: &str, in_class: bool) -> Option<(usize, String)> {
    let word = if in_class { WORD } else { WORD_OUTSIDE };
    let (length, is_negated, class) = if text.starts_with(r"\w") {
        (2, false, word)
    } else if text.starts_with(r"\W") {
        (2, true, word)
    } else {
        let stated = text.strip_prefix("[:")?.split_once(":]")?.0;
        let name = stated.strip_prefix('^').unwrap_or(stated);
        let (_, class) = CLASSES.iter().find(|(known, _)| *known == name)?;
        (stated.len() + 4, stated.starts_with('^'), *class)
    };
    let sign = if is_negated { "^" } else { "" };
    Some((length, format!("[{sign}{class}]")))
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
        let classes = r"[\]^$]+|[^$^]{2}|[[[:ascii:]]\d&&[^a\]\s]]?+|[:alpha:]|\p{L}|a{,3}|{a}|\{1}+|\$";
        for pattern in [llama, classes, "(a|b)*?", r"(?<!\d)(?<name>x)\k<name>", ""] {
            assert_eq!(translated(pattern), pattern);
        }
    }

    /// The right sides mean in fancy-regex what the left ones mean in Oniguruma's documents.
    #[test]
    fn what_differs_is_translated() {
        for (ruby, expected) in [
            (r"\p{N}{1,3}+", r"(?:\p{N}{1,3})+"),
            ("[ab]{2}+c", "(?:[ab]{2})+c"),
            ("(a(b)){2,}+", "(?:(a(b)){2,})+"),
            ("xa{1,2}+", "x(?:a{1,2})+"),
            ("^a$|b", "(?m:^)a(?m:$)|b"),
            ("(?m:.)(?im-x:a)", "(?s:.)(?is-x:a)"),
            ("(?m).", "(?s)."),
            ("[[:alpha:]&&[^a]]?+", r"[[\p{Alphabetic}]&&[^a]]?+"),
            ("[^[:^space:][:punct:]]", r"[^[^\p{White_Space}][\p{P}\p{S}]]"),
            (r"\w{2}+[\W-]", r"(?:[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}¹²³¼-¾]{2})+[[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]-]"),
            (r"\<a\>\Z", r"<a>(?=\n?\z)"),
            (r"[.-\w][-\W]", r"[.\-[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]][-[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]]"),
        ] {
            assert_eq!(translated(ruby), expected);
        }
    }
}
