//! Links of the documents lead to something: linked files and headings exist, and so do the files and folders that they
//! name.

use std::{collections::BTreeSet, fs, path::Path};

use crate::files::listed;

/// A document that also names files of the past.
const EXEMPT: &str = "CHANGELOG.md";
/// Paths of build outputs, which documents may name.
const BUILT: [&str; 6] = ["target/", "web/dist", "web/npm", "dist/", "npm/", "src/wasm/"];
/// Names that end like this are files of the repository.
const SOURCES: [&str; 6] = [".rs", ".ts", ".mjs", ".py", ".md", ".html"];

#[test]
fn documents_point_at_what_is_there() {
    let (root, files) = listed();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let documents: Vec<&String> = files.iter().filter(|file| file.ends_with(".md") && *file != EXEMPT).collect();
    assert!(documents.len() > 15, "the documents were not found");
    let folders = |file: &String| Path::new(file).ancestors().map(|path| path.to_string_lossy().into_owned()).collect();
    let paths: BTreeSet<String> = files.iter().flat_map::<Vec<_>, _>(folders).collect();
    let found: Vec<String> = documents.iter().flat_map(|path| problems(path, &read(path), &paths, &read)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_not_there_is_caught() {
    let paths: BTreeSet<String> =
        ["docs", "docs/a.md", "src", "src/judge", "src/judge/rules.rs"].map(str::to_owned).into();
    let read = |_: &str| "# Of γ, K\n```\n# no heading\n```\n## `serve --all` twice\n".to_owned();
    let of = |text: &str| problems("docs/b.md", text, &paths, &read);
    for sound in [
        "[a](a.md), [b](../docs/a.md#of-γ-k), [c](a.md#serve---all-twice) [d](https://a.b/c.md), ![e](../src/judge)",
        "`rules.rs`, `judge/rules.rs`, `src/judge/`, `target/bench/`, `judge` and `a rules.rs`",
        "```\n[a](gone.md) `gone.rs`\n```",
    ] {
        assert_eq!(of(sound), Vec::<String>::new(), "{sound}");
    }
    for broken in [
        "[a](gone.md)",
        "[a](a.md) and [b](a.md#of-k)",
        "[a](a.md#no-heading)",
        "[a](#here)",
        "`gone.rs`",
        "`ules.rs`",
        "`src/rules.rs`",
        "`judges/`",
    ] {
        assert_eq!(of(broken).len(), 1, "{broken}");
    }
}

/// Returns a sentence for everything that the document at `path` points at and that does not exist.
fn problems(path: &str, text: &str, paths: &BTreeSet<String>, read: &dyn Fn(&str) -> String) -> Vec<String> {
    let mut problems = Vec::new();
    let text = without_code(text);
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
        if link.contains("://") {
            continue;
        }
        let file = if file.is_empty() { path.to_owned() } else { join(path, file) };
        // A document may link to itself by its headings.
        let linked = || if file == path { text.clone() } else { without_code(&read(&file)) };
        if !(paths.contains(&file) || file == path) {
            problems.push(format!("{path}: there is no {file}"));
        } else if let Some(heading) = heading.filter(|&heading| !headings(&linked()).any(|found| found == heading)) {
            problems.push(format!("{path}: {file} has no heading #{heading}"));
        }
    }
    // The odd parts are between backticks.
    for name in text.split('`').skip(1).step_by(2) {
        let is_path = SOURCES.iter().any(|end| name.ends_with(end)) || name.ends_with('/') && name.len() > 1;
        let is_plain = name.chars().all(|character| character.is_ascii_alphanumeric() || "_-./".contains(character));
        let from_here = if name.starts_with("..") { join(path, name) } else { name.trim_end_matches('/').to_owned() };
        let end = format!("/{from_here}");
        let is_there = || paths.iter().any(|path| format!("/{path}").ends_with(&end));
        if is_path && is_plain && !BUILT.iter().any(|built| name.starts_with(built)) && !is_there() {
            problems.push(format!("{path}: there is no `{name}`"));
        }
    }
    problems
}

/// The text without its blocks of code.
fn without_code(text: &str) -> String {
    let lines = text.lines().scan(false, |inside, line| {
        let fence = line.trim_start().starts_with("```");
        *inside ^= fence;
        Some(if *inside || fence { "" } else { line })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Anchors of the headings of a text, as links write them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    titles.map(|title| {
        let kept = title.to_lowercase();
        let kept = kept.chars().filter(|&character| character.is_alphanumeric() || " -_".contains(character));
        kept.map(|character| if character == ' ' { '-' } else { character }).collect()
    })
}

/// Path that a link in the document at `path` leads to.
fn join(path: &str, link: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
