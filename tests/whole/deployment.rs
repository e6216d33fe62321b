//! Settings that the files for containers, and the page about gateways, ask of `outrider serve`: all of them exist.

use std::collections::BTreeSet;

use crate::files::listed;

/// Files with command lines of both programs.
const FILES: [&str; 3] = ["docs/gateway.md", "docs/gateway/compose.yaml", "docs/gateway/kubernetes.yaml"];
/// Options that are vLLM's, Docker's, pip's and those of other programs on the page.
const OTHERS: [&str; 15] = [
    "host",
    "port",
    "served-model-name",
    "speculative-config",
    "distributed-executor-backend",
    "api-key",
    "max-logprobs",
    "max-model-len",
    "enforce-eager",
    "no-deps",
    "file",
    "filename",
    "from-literal",
    "tag",
    "recursive",
];
/// Flags that `outrider` has beside its settings, cargo's and curl's.
const NOT_SETTINGS: [&str; 9] =
    ["explain", "top-k", "release", "test", "ignored", "nocapture", "gpus", "fail", "silent"];
/// Variables of the proposer and of tests.
const VARIABLES: [&str; 5] =
    ["OUTRIDER_GUESSES", "OUTRIDER_GUESSES_TOKEN_FILE", "OUTRIDER_ENGINE", "OUTRIDER_VLLM", "OUTRIDER_FULL"];

#[test]
fn deployments_name_settings_that_there_are() {
    let (root, _) = listed();
    let settings = settings(include_str!("../../docs/outrider.toml"));
    assert!(settings.len() > 30, "{settings:?}");
    for file in FILES {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(unknown(&text, &settings), Vec::<String>::new(), "{file}");
    }
}

/// Kubernetes gives a pod variables with each service's address, such as VLLM_PORT=tcp://…, which vLLM refuses.
#[test]
fn pods_have_no_variables_of_services() {
    let manifest = include_str!("../../docs/gateway/kubernetes.yaml");
    let pods: Vec<&str> = manifest.split("\n---\n").filter(|document| document.contains("      containers:")).collect();
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod.contains("\n      enableServiceLinks: false\n")), "{pods:?}");
}

/// A key made as the files say stays out of commits and images.
#[test]
fn keys_of_engines_are_ignored() {
    let (git, image) = (include_str!("../../.gitignore"), include_str!("../../.dockerignore"));
    for name in ["engine-key", "guesses-token"] {
        assert!(git.lines().any(|line| line == name), "{name}");
        assert!(image.lines().any(|line| line == format!("**/{name}")), "{name}");
    }
    assert!(include_str!("../../docs/gateway/compose.yaml").contains("> docs/gateway/engine-key\n"));
}

#[test]
fn a_setting_that_is_not_there_is_caught() {
    let settings = settings("# guesses-to =\nlisten = \"127.0.0.1:8787\"\n# A word = of prose\n");
    assert_eq!(settings, ["guesses-to", "listen"].map(str::to_owned).into());
    assert_eq!(unknown("serve --listen X --guesses-to=Y\nOUTRIDER_LISTEN: 1 --host", &settings), Vec::<String>::new());
    assert_eq!(unknown("serve --guesses-at Y OUTRIDER_LISTENS=1", &settings), ["--guesses-at", "OUTRIDER_LISTENS"]);
}

/// The names in a file of settings, those that are commented out included.
fn settings(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| line.trim_start_matches("# ").split_once(" ="));
    names.map(|(name, _)| name).filter(|name| !name.contains(' ')).map(str::to_owned).collect()
}

/// Options and variables of a text that do not exist.
fn unknown(text: &str, settings: &BTreeSet<String>) -> Vec<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    let words = text.split(|character| !is_part(character));
    let is_unknown = |word: &&str| {
        if let Some(option) = word.strip_prefix("--").filter(|option| option.starts_with(char::is_alphabetic)) {
            return !(settings.contains(option) || OTHERS.contains(&option) || NOT_SETTINGS.contains(&option));
        }
        let Some(variable) = word.strip_prefix("OUTRIDER_") else { return false };
        !(settings.contains(&variable.to_lowercase().replace('_', "-")) || VARIABLES.contains(word))
    };
    words.filter(is_unknown).map(str::to_owned).collect()
}
