//! The `outrider` command as its users run it: what it prints, and how it fails.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

const TARGET: &[u8] = include_bytes!("../../pair/target/target-f16.gguf");
const PROMPT: &str = "Once upon a time";

fn outrider(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outrider")).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one line that a failing run says on stderr.
fn complaint(arguments: &[&str]) -> String {
    let output = outrider(arguments);
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    line
}

fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn help_teaches_both_commands() {
    let help = stdout(&outrider(&["--help"]));
    assert!(help.contains("serve") && help.contains("generate"), "{help}");
    let help = stdout(&outrider(&["generate", "--help"]));
    for option in ["--local", "--json", "--temperature", "--support-size", "--bit-budget", "[default: 128]"] {
        assert!(help.contains(option), "{option} in {help}");
    }
    assert!(stdout(&outrider(&["serve", "--help"])).contains("--listen"));
}

#[test]
fn a_local_run_prints_the_text_and_its_figures() {
    let printed = stdout(&outrider(&["generate", "--local", "--max-tokens", "16", PROMPT]));
    let (text, summary) = printed.split_once("\n\n").unwrap();
    assert!(!text.trim().is_empty());
    for figure in ["tokens/s", "server passes per token", "acceptance rate", "uplink bits per drafted token"] {
        assert!(summary.contains(figure), "{figure} in {summary}");
    }
}

#[test]
fn json_is_one_object_whose_rounds_add_up() {
    let printed = stdout(&outrider(&["generate", "--local", "--json", "--max-tokens", "32", PROMPT]));
    let run: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(run["promptTokenIds"][0], 0, "prompts begin with the document token");
    assert_eq!(run["settings"]["maxTokens"], 32);
    let tokens = run["tokenIds"].as_array().unwrap().len();
    assert!(tokens == 32 || run["finish"] != "length");
    let rounds = run["rounds"].as_array().unwrap();
    assert_eq!(run["statistics"]["rounds"], rounds.len());
    let drafted: usize = rounds.iter().map(|round| round["drafted"].as_array().unwrap().len()).sum();
    assert_eq!(run["statistics"]["drafted"], drafted);
}

#[test]
fn every_scheme_can_be_chosen() {
    for scheme in ["dense", "qs", "k-sqs", "c-sqs", "tk-slt", "dssd", "coupled"] {
        for code in ["enumerative", "adaptive"] {
            let options = ["--scheme", scheme, "--code", code, "--bit-budget", "0"];
            let arguments =
                [&["generate", "--local", "--json", "--max-tokens", "16"], &options[..], &[PROMPT]].concat();
            let run: Value = serde_json::from_str(&stdout(&outrider(&arguments))).unwrap();
            assert_eq!((&run["settings"]["scheme"], &run["settings"]["code"]), (&scheme.into(), &code.into()));
            assert!(run["statistics"]["accepted"].as_u64().unwrap() > 0, "{scheme} {code}");
        }
    }
    let printed = stdout(&outrider(&["generate", "--local", "--max-tokens", "4", "--scheme", "dense", PROMPT]));
    assert!(printed.contains("no token fits into the bit budget"), "{printed}");
    let output = outrider(&["generate", "--local", "--scheme", "sqs", PROMPT]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("one of dense, qs, k-sqs, c-sqs"));
}

/// At the default settings: at least 30 % below the papers' 372 bits for the same q̂.
#[test]
fn the_adaptive_code_takes_less_than_seven_tenths_of_the_papers_bits() {
    let (mut bits, mut drafted) = (0, 0);
    for prompt in [PROMPT, "The old king had three sons", "The wolf looked at the lamb and said"] {
        let printed = stdout(&outrider(&["generate", "--local", "--json", "--code", "adaptive", prompt]));
        let run: Value = serde_json::from_str(&printed).unwrap();
        for round in run["rounds"].as_array().unwrap() {
            bits += round["payloadBits"].as_u64().unwrap();
            drafted += round["drafted"].as_array().unwrap().len() as u64;
        }
    }
    assert!(drafted > 300 && 10 * bits < 7 * 372 * drafted, "{bits} bits for {drafted} drafts");
}

#[test]
fn served_and_local_runs_of_one_seed_are_one_text() {
    let server = Server::start();
    let ids = |place: &[&str]| -> Value {
        let arguments = [&["generate", "--json", "--max-tokens", "32"], place, &[PROMPT]].concat();
        let run: Value = serde_json::from_str(&stdout(&outrider(&arguments))).unwrap();
        run["tokenIds"].clone()
    };
    assert_eq!(ids(&["--server", &server.url]), ids(&["--local"]));
}

#[test]
fn a_corrupt_target_is_named_with_what_is_wrong() {
    let cut = scratch("cut.gguf", &TARGET[..TARGET.len() / 2]);
    let html = scratch("page.gguf", b"<!doctype html>");
    for path in [cut, html] {
        let path = path.to_str().unwrap();
        let line = complaint(&["generate", "--local", "--target", path, PROMPT]);
        assert!(line.contains("target model") && line.contains(path), "{line}");
        let line = complaint(&["serve", "--listen", "127.0.0.1:0", "--target", path]);
        assert!(line.contains("target model") && line.contains(path), "{line}");
    }
}

#[test]
fn other_mistakes_get_a_sentence_too() {
    let tokenizer = scratch("no.tokenizer.json", b"{}");
    let line = complaint(&["generate", "--local", "--tokenizer", tokenizer.to_str().unwrap(), PROMPT]);
    assert!(line.contains("tokenizer"), "{line}");
    // The discard port, where nothing listens.
    let line = complaint(&["generate", "--server", "ws://127.0.0.1:9/session", PROMPT]);
    assert!(line.contains("outrider serve") && line.contains("--local"), "{line}");
    let line = complaint(&["generate", "--local", "--temperature=-1", PROMPT]);
    assert!(line.contains("temperature"), "{line}");
    let long = "word ".repeat(600);
    let line = complaint(&["generate", "--local", &long]);
    assert!(line.contains("prompt has") && line.contains("at most 511"), "{line}");
}

/// `outrider serve` on a free port, until dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_outrider"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().rsplit_once("http://").unwrap().1;
        Self { url: format!("ws://{address}/session"), process }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
