//! Acceptance rules from a file, by the command line.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[expect(dead_code, reason = "other tests use the rest")]
mod process;

use process::{complaint, outrider, scratch, stdout};
use serde_json::Value;

/// Token ids of a text at T = 1.
fn ids(file: &str, options: &str) -> Value {
    let fixed = "generate --local --json --scheme k-sqs --support-size 16 --temperature 1 --top-p 1 --max-tokens 96";
    let mut arguments: Vec<&str> = fixed.split(' ').chain(options.split(' ')).collect();
    arguments.extend(["--rules", file, "Once upon a time"]);
    serde_json::from_str::<Value>(&stdout(&outrider(&arguments))).unwrap()["tokenIds"].take()
}

const RULES: &str = r#"
[[rule]]
name = "near-best"
defer = "p < (1 - alpha) * max_p"
default = 0.3
most = 1

[[rule]]
name = "far"
defer = "min(1, tv * (1 if max_q < max_p else 0.5))"
"#;

/// token-v3 asks for the same at T = 1, and draws as many numbers.
#[test]
fn a_rule_of_a_file_writes_what_the_same_rule_of_the_table_writes() {
    let file = scratch("rules-same.toml", RULES.as_bytes());
    let file = file.to_str().unwrap();
    let known = ids(file, "--rule token-v3 --rule-parameter 0.6");
    assert_eq!(ids(file, "--rule near-best --rule-parameter 0.6"), known);
    assert_ne!(ids(file, "--rule near-best"), known, "its default is another parameter");
    assert_ne!(ids(file, "--rule far"), ids(file, "--rule exact"));
    let listed = stdout(&outrider(&["rules", "--rules", file]));
    assert!(listed.contains("near-best") && listed.contains("far"), "{listed}");
}

#[test]
fn what_is_wrong_with_a_file_of_rules_is_said() {
    let one = |name: &str, defer: &str| format!("[[rule]]\nname = {name:?}\ndefer = {defer:?}\n");
    let bounded = one("mine", "p < alpha") + "most = 1\n";
    for (rules, part) in [
        (one("lossy", "p < q"), "already"),
        (one("mine", "p < max_r"), "names max_r"),
        (one("mine", "0.5 if p < 0.5 else foo"), "names foo"),
        (one("mine", "0.5 if p < 0.5 else 2"), "from 0 to 1"),
        (one("mine", "0 if q < 0.5 else -7"), "from 0 to 1"),
        (one("mine", "p <"), "cannot be evaluated"),
        (one("mine", "2"), "from 0 to 1"),
        (one("mine", "'p'"), "from 0 to 1"),
        ("[[rule]]\nname = \"mine\"\n".to_owned(), "missing field `defer`"),
        (one("mine", "p < q").repeat(2), "already"),
        (bounded, "[0, 1]"),
    ] {
        let file = scratch("rules-wrong.toml", rules.as_bytes());
        let arguments = ["generate", "--local", "--rule", "mine", "--rule-parameter", "2", "a", "--rules"];
        let said = complaint(&[&arguments[..], &[file.to_str().unwrap()]].concat());
        assert!(said.contains(part), "{rules}: {said}");
    }
}
