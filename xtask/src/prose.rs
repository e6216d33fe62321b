//! Lint of comments and documents: how doc comments open, words that the field does not use, width of Markdown.
//!
//! A first sentence has to stand alone in a list of items, so it opens with a noun phrase or a verb and has at least
//! 20 characters.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Result, ensure};

use crate::process;
use crate::workspace::Workspace;

/// Openers of sentences that leave out their noun.
const OPENERS: [&str; 16] = [
    "What",
    "Which",
    "Who",
    "Whose",
    "Whom",
    "How",
    "Of",
    "As",
    "Where",
    "Whether",
    "Behind",
    "That",
    "So",
    "In what",
    "By what",
    "With what",
];
/// Words and phrases that need a plainer one, in lower case.
const FLAGGED: [&str; 14] = [
    "behind",
    "nobody",
    "whoever",
    "told",
    "tells",
    "so many",
    "so long",
    "so much",
    "anew",
    "by itself",
    "in vain",
    "moot",
    "gone on with",
    "none of the",
];
/// Fewest characters of a first sentence.
const SHORTEST: usize = 20;
/// Most characters in a line of Markdown outside tables and code.
const WIDEST: usize = 120;

/// Most characters shown of an offence.
const SHOWN: usize = 110;

/// Fails with a list of all offences.
pub fn check(workspace: &Workspace) -> Result<()> {
    let files = process::capture(workspace.command("git").args(["ls-files", "*.rs", "*.ts", "*.tsx", "*.md"]))?;
    let (mut count, mut list) = (0, String::new());
    for name in files.lines().filter(|name| !name.starts_with("docs/bench/")) {
        // A file that was deleted and not yet committed is still listed.
        let Ok(text) = fs::read_to_string(workspace.root().join(name)) else { continue };
        for Offence { line, kind, text } in offences(name, &text) {
            count += 1;
            let text: String = text.chars().take(SHOWN).collect();
            let _ = write!(list, "\n{name}:{line}: {kind}: {text}");
        }
    }
    ensure!(count == 0, "{count} sentences to rewrite as CONTRIBUTING.md, \"Words\", describes:{list}");
    Ok(())
}

/// An offence: one sentence, word or line to rewrite.
struct Offence {
    line: usize,
    kind: &'static str,
    text: String,
}

/// A comment, or a line of Markdown, with the number of its first line.
struct Block {
    line: usize,
    doc: bool,
    text: String,
}

fn offences(name: &str, text: &str) -> Vec<Offence> {
    let markdown = name.ends_with(".md");
    let blocks = if name.ends_with(".rs") {
        rust(text)
    } else if markdown {
        if name.ends_with("CHANGELOG.md") { Vec::new() } else { prose(text) }
    } else {
        typescript(text)
    };
    let mut found = Vec::new();
    for Block { line, doc, text } in blocks {
        let mut add = |kind, text: &str| found.push(Offence { line, kind, text: text.to_owned() });
        let sentence = first_sentence(&text);
        if doc && !sentence.is_empty() && sentence != "@internal" {
            if OPENERS.iter().any(|opener| starts_with_word(sentence, opener)) {
                add("opener", sentence);
            }
            if sentence.chars().count() < SHORTEST {
                add("short", sentence);
            }
        }
        // Names in code are not words of the sentence.
        let lower: String = text.to_lowercase().split('`').step_by(2).collect();
        if FLAGGED.iter().any(|word| has_word(&lower, word)) {
            add("word", &text);
        }
        if markdown && text.chars().count() > WIDEST {
            add("wide", &text);
        }
    }
    found
}

/// Doc comments of a Rust file, and each line's other comment.
fn rust(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (line, code) in (1..).zip(text.lines()) {
        let code = code.trim();
        let doc = code.strip_prefix("///").or_else(|| code.strip_prefix("//!"));
        match (doc, blocks.last_mut()) {
            (Some(words), Some(block)) if open => {
                block.text.push(' ');
                block.text.push_str(words.trim());
            }
            (Some(words), _) => blocks.push(Block { line, doc: true, text: words.trim().to_owned() }),
            (None, _) => {
                // The slashes of an address begin no comment.
                if let Some((_, words)) = code.split_once("//").filter(|(before, _)| !before.ends_with(':')) {
                    blocks.push(Block { line, doc: false, text: words.trim().to_owned() });
                }
            }
        }
        open = doc.is_some();
    }
    blocks
}

/// The `/** … */` comments of a TypeScript file.
fn typescript(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find("/**").map(|found| at + found) {
        let Some(end) = text[start + 3..].find("*/").map(|found| start + 3 + found) else { break };
        let words: Vec<_> =
            text[start + 3..end].lines().map(|line| line.trim().trim_start_matches('*').trim()).collect();
        let line = 1 + text[..start].matches('\n').count();
        blocks.push(Block { line, doc: true, text: words.join(" ").trim().to_owned() });
        at = end;
    }
    blocks
}

/// The lines of a Markdown file outside code and tables.
fn prose(text: &str) -> Vec<Block> {
    let mut code = false;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| {
        code ^= line.starts_with("```");
        !code && !line.starts_with('|')
    });
    lines.map(|(line, text)| Block { line, doc: false, text: text.to_owned() }).collect()
}

fn first_sentence(text: &str) -> &str {
    let text = text.trim();
    let ends = text.char_indices().zip(text.chars().skip(1));
    let end = ends.filter(|((_, mark), next)| ".!?".contains(*mark) && next.is_whitespace()).map(|((at, _), _)| at + 1);
    &text[..end.min().unwrap_or(text.len())]
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(in_word))
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| !text[..at].ends_with(in_word) && starts_with_word(&text[at..], word))
}

fn in_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(name: &str, text: &str) -> Vec<(usize, &'static str)> {
        offences(name, text).into_iter().map(|offence| (offence.line, offence.kind)).collect()
    }

    #[test]
    fn a_sentence_without_its_noun_a_fragment_and_an_odd_word_are_found() {
        let odd = FLAGGED[0];
        let text = format!(
            "/// What the server holds in memory.\nstruct A;\n\n/// Which. The kind of head.\nfn b() {{}} // {odd}\n"
        );
        assert_eq!(kinds("a.rs", &text), [(1, "opener"), (4, "opener"), (4, "short"), (5, "word")]);
        assert_eq!(kinds("a.ts", "/** How it is. */\n"), [(1, "opener"), (1, "short")]);
    }

    #[test]
    fn plain_sentences_code_and_tables_pass() {
        let text =
            "/// Whatever-length buffer of logits, [vocab_size].\n/// Behindness and retold tales are no words here.\n";
        assert_eq!(kinds("a.rs", text), []);
        let text = format!("/// True if `{0}` is set. @internal\nlet at = \"http://{0}\";\n", FLAGGED[0]);
        assert_eq!(kinds("a.rs", &text), []);
        let wide = "x".repeat(121);
        assert_eq!(kinds("a.md", &format!("```\n{wide}\n```\n| {wide} |\n")), []);
        assert_eq!(kinds("a.md", &format!("{wide}\n")), [(1, "wide")]);
    }
}
