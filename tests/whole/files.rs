//! Files that can be read in one sitting, in lines that fit, and without unsafe code but for a few.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::layering::metadata;

/// Lines of a file, data aside.
const LONGEST_FILE: usize = 500;
/// Characters of a line.
const LONGEST_LINE: usize = 120;
/// The files with exceptions from the lint that denies unsafe code: kernels, and a test that counts allocations.
const UNSAFE: [&str; 2] = ["models/src/kernels/", "models/tests/memory.rs"];

/// The folder of the repository, and every file in it that git knows.
pub(crate) fn listed() -> (PathBuf, Vec<String>) {
    let root = metadata().unwrap().workspace_root.into_std_path_buf();
    let mut git = Command::new("git");
    let listed = git.arg("-C").arg(&root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let listed = String::from_utf8(listed.output().unwrap().stdout).unwrap();
    // A file may be gone and not yet forgotten.
    let names = listed.split('\0').filter(|name| root.join(name).is_file()).map(str::to_owned).collect();
    (root, names)
}

/// Every file of these kinds, with its text.
fn sources(kinds: &[&str]) -> Vec<(String, String)> {
    let (root, mut names) = listed();
    names.retain(|name| kinds.iter().any(|kind| Path::new(name).extension().is_some_and(|end| end == *kind)));
    assert!(names.len() > 10, "the files were not found");
    let text = |name: &String| fs::read_to_string(root.join(name)).unwrap();
    names.into_iter().map(|name| (name.clone(), text(&name))).collect()
}

#[test]
fn files_are_short() {
    let sources = sources(&["rs", "ts", "js", "mjs", "py", "css", "html", "c", "h"]);
    let long = sources.iter().map(|(name, text)| (name, text.lines().count()));
    let long: Vec<_> = long.filter(|(_, lines)| *lines > LONGEST_FILE).collect();
    assert!(long.is_empty(), "more than {LONGEST_FILE} lines: {long:#?}");
}

/// Limits the width of lines of Rust, whose formatter leaves comments as they are. It leaves strings too: a line with
/// one may be longer, as what is said to a user is not cut to fit. So may a row of a table.
#[test]
fn lines_are_short() {
    let mut long = Vec::new();
    for (name, text) in sources(&["rs"]) {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > LONGEST_LINE);
        let is_row = |line: &str| line.starts_with("//! |") || line.starts_with("/// |");
        let is_code = |line: &str| !line.starts_with("//") && line.contains('"');
        let lines = lines.filter(|(_, line)| !is_row(line.trim_start()) && !is_code(line.trim_start()));
        long.extend(lines.map(|(number, _)| format!("{name}:{number}")));
    }
    assert!(long.is_empty(), "more than {LONGEST_LINE} characters: {long:#?}");
}

#[test]
fn exceptions_from_safety_stand_in_kernels_only() {
    for package in metadata().unwrap().workspace_packages() {
        let manifest = fs::read_to_string(&package.manifest_path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true\n"), "{} has lints of its own", package.name);
    }
    // In two parts, so that this file has none.
    let lint = concat!("unsafe", "_code");
    let has_exception = |text: &str| text.replace(&format!("forbid({lint})"), "").contains(lint);
    let sources = sources(&["rs"]);
    let excepted = sources.iter().filter(|(_, text)| has_exception(text)).map(|(name, _)| name);
    let (kernels, others): (Vec<_>, Vec<_>) = excepted.partition(|name| UNSAFE.iter().any(|at| name.starts_with(at)));
    assert!(!kernels.is_empty(), "the exceptions were not found");
    assert!(others.is_empty(), "exceptions for unsafe code: {others:?}");
}
