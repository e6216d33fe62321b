//! Runs every target over its committed corpus, without libFuzzer.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test says which seed failed")]

use std::fs;
use std::path::Path;

/// Calls `check` with every file of the target's corpus.
fn run(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut seeds: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(seeds.len() >= 10, "{} is all but empty", folder.display());
    seeds.sort();
    for seed in seeds {
        // Shown with a failure: which seed it was.
        println!("{}", seed.display());
        check(&fs::read(&seed).unwrap());
    }
}

#[test]
fn frame() {
    run("frame", outrider_fuzz::frame::check);
}

#[test]
fn payload() {
    run("payload", outrider_fuzz::payload::check);
}

#[test]
fn edge() {
    run("edge", outrider_fuzz::edge::check);
}

#[test]
fn cloud() {
    run("cloud", outrider_fuzz::cloud::check);
}

#[test]
fn session() {
    run("session", outrider_fuzz::session::check);
}
