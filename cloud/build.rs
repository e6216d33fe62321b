//! Gives the crate the version that `--version` shows, and the commit that it is built from.
//!
//! The commit is `OUTRIDER_COMMIT` in the environment of the build, or git's if the sources lie in a repository of their
//! own. Without either, the crate is built without a commit.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Digits of a commit that are shown.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=OUTRIDER_COMMIT");
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let given = env::var("OUTRIDER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| from_git(folder.parent()?)).unwrap_or_default();
    let commit: String = commit.chars().filter(char::is_ascii_alphanumeric).take(DIGITS).collect();
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let shown = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo::rustc-env=OUTRIDER_VERSION={shown}");
    println!("cargo::rustc-env=OUTRIDER_COMMIT={commit}");
}

/// Commit of the repository whose top folder this is.
fn from_git(folder: &Path) -> Option<String> {
    let top = fs::canonicalize(git(folder, &["rev-parse", "--show-toplevel"])?).ok()?;
    if top != fs::canonicalize(folder).ok()? {
        return None;
    }
    // This file changes with each commit and each checkout.
    let log = folder.join(git(folder, &["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.is_file() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(folder, &["rev-parse", "HEAD"])
}

/// Standard output of git in a folder, if it succeeds.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}
