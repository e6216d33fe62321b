//! `outrider reproduce` and `outrider sweep` as researchers run them: on the built-in prompts and on their own.
#![cfg(feature = "papers")]
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[expect(dead_code, reason = "other tests use the rest")]
mod process;

use std::fs;

use process::{complaint, outrider, scratch, stdout};
use serde_json::Value;

/// One item of each kind, one that is there already, and one that does not exist.
#[test]
fn reproduce_gives_an_item_once() {
    let list = stdout(&outrider(&["reproduce"]));
    for line in ["tk-slt    table-1", "sqs       figure-2", "not offline    Medusa and Eagle-2"] {
        assert!(list.contains(line), "{line} in {list}");
    }
    let folder = scratch("reproduced", b"").with_extension("d");
    let _ = fs::remove_dir_all(&folder);
    let out = folder.to_str().unwrap();
    let printed = stdout(&outrider(&["reproduce", "tk-slt", "table-1", "--out", out]));
    assert!(printed.contains("| 0.8 | 14 | 6 | 4 | 2 | 1 |"), "{printed}");
    // For this pair, the trend that the paper reports: at T = 0 alpha falls with K, at T = 1 it grows.
    let measured = ["reproduce", "tk-slt", "figure-3", "--prompts", "2", "--out", out];
    let first = outrider(&measured);
    let numbers: Value = serde_json::from_slice(&fs::read(folder.join("tk-slt-figure-3.json")).unwrap()).unwrap();
    let rates = |index: usize| -> Vec<f64> {
        let rates = numbers["samples"]["measured"][index]["acceptanceRates"].as_array().unwrap();
        rates.iter().map(|rate| rate["value"].as_f64().unwrap()).collect()
    };
    assert!(rates(0).windows(2).all(|pair| pair[0] >= pair[1]), "{:?}", rates(0));
    assert!(rates(1).windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", rates(1));
    assert!(fs::read_to_string(folder.join("tk-slt-figure-3.svg")).unwrap().starts_with("<svg"));
    let again = outrider(&measured);
    assert!(String::from_utf8_lossy(&again.stderr).contains("is there already"), "{again:?}");
    assert_eq!(stdout(&first).trim(), stdout(&again).trim());
    // Other logits are another measurement.
    let finer = outrider(&[&measured[..], &["--activation-bits", "16"]].concat());
    assert!(finer.status.success() && !String::from_utf8_lossy(&finer.stderr).contains("is there already"));
    assert!(stderr_of(&["reproduce", "sprinter", "table-3", "--out", out]).contains("nothing could be made"));
    let kept = scratch("kept.csv", b"kept\n");
    stderr_of(&[&measured[..], &["--csv", kept.to_str().unwrap(), "--data", "/nowhere.jsonl"]].concat());
    assert_eq!(fs::read(&kept).unwrap(), b"kept\n");
    assert!(complaint(&["reproduce", "tk-slt", "table-7"]).contains("tk-slt has no table-7; it has figure-2, table-1"));
    assert!(complaint(&["reproduce", "nobody"]).contains("unknown paper nobody"));
    fs::remove_dir_all(&folder).unwrap();
}

/// Cascades on a folder of texts, with a metric and a link of the user's, and every text in a file.
#[test]
fn reproduce_takes_texts_metric_and_link_of_a_user() {
    let folder = scratch("own-texts", b"").with_extension("d");
    let _ = fs::remove_dir_all(&folder);
    let (texts, out) = (folder.join("texts"), folder.join("out"));
    fs::create_dir_all(&texts).unwrap();
    fs::write(texts.join("a.txt"), "Once upon a time there was a king who had three daughters.").unwrap();
    fs::write(texts.join("b.txt"), "The old man went down to the river to catch a fish.").unwrap();
    let csv = folder.join("texts.csv");
    let [texts, out, csv] = [&texts, &out, &csv].map(|path| path.to_str().unwrap());
    let common = ["reproduce", "cascades", "figure-5", "--data", texts, "--out", out];
    let times = ["--times", "draft=8,row=2,pass=40"];
    let further = ["--metric", "chrf", "--link", "rate=10,rtt=50", "--csv", csv];
    let printed = stdout(&outrider(&[&common[..], &times, &further].concat()));
    for part in ["2 questions of the file", "the mean chrF of the answers", "10 Mbit/s and a round-trip time of 50 ms"]
    {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    let rows = fs::read_to_string(csv).unwrap();
    assert!(rows.starts_with("setting,prompt,seed,"), "{rows}");
    let target: Vec<&str> = rows.lines().filter(|row| row.contains("target alone: T = 0, P = 1, γ = 1")).collect();
    assert_eq!(target.len(), 2, "a row for each prompt: {rows}");
    // A pass a token and one round trip.
    let fields: Vec<f64> =
        target[0].rsplit('"').next().unwrap().split(',').filter_map(|field| field.parse().ok()).collect();
    assert!((fields.last().unwrap() - (0.04 * fields[2] + 0.05)).abs() < 1e-9, "{target:?}");
    let metric = [&common[..], &["--metric", "meteor"]].concat();
    assert!(stderr_of(&metric).contains("unknown metric \"meteor\": use exact-match"));
    fs::remove_dir_all(&folder).unwrap();
}

/// A researcher's own questions: a conversation of two turns among them, and one that does not fit.
#[test]
fn sweep_compares_settings_on_questions_of_a_user() {
    let folder = scratch("swept", b"").with_extension("d");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (data, csv, out) = (folder.join("questions.jsonl"), folder.join("texts.csv"), folder.join("out"));
    let long = "word ".repeat(4000);
    let questions = [
        r#"{"prompt": "Once upon a time", "reference": " there was a king.", "category": "qa"}"#.to_owned(),
        r#"{"category": "writing", "turns": ["Tell a tale.", "Another."], "reference": ["A king.", "A queen."]}"#
            .to_owned(),
        format!(r#"{{"prompt": "{long}", "reference": "none"}}"#),
        r#"{"question": "The king had", "answer": "three sons\n#### 3"}"#.to_owned(),
    ];
    fs::write(&data, questions.join("\n")).unwrap();
    let [data, csv, out_path] = [&data, &csv, &out].map(|path| path.to_str().unwrap());
    let arguments: [&[&str]; 3] = [
        &["sweep", "--data", data, "--out", out_path, "--csv", csv, "--seeds", "2", "--max-tokens", "12"],
        &["--metric", "rouge", "--times", "draft=8,row=2,pass=40", "--link", "rate=1,rtt=20"],
        &["--scheme", "k-sqs,coupled", "--support-size", "4,8", "--draft-length", "2,4", "--temperature", "1"],
    ];
    let output = outrider(&arguments.concat());
    let printed = stdout(&output);
    for part in [
        "3 prompts, 2 seeds each, texts of at most 12 tokens. 1 more prompts are left out",
        "| setting | mean accepted length | acceptance rate | uplink bits a token | ms a token | speed-up | ROUGE-L |",
        "| target alone, T = 1, top-p = 0.95 | 1 |",
        "| scheme k-sqs, support-size 8, draft-length 4 |",
        "a link of 1 Mbit/s and a round-trip time of 20 ms",
        "Best of 6 settings by speed-up: ",
        "Best of 6 settings by ROUGE-L: ",
        "| setting | qa (1) | writing (1) |",
    ] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    let rows = fs::read_to_string(csv).unwrap();
    assert!(rows.starts_with("scheme,support-size,draft-length,setting,prompt,seed,tokens,"), "{rows}");
    // Six settings and the target, three prompts, two seeds.
    assert_eq!(rows.lines().count(), 1 + 7 * 3 * 2, "{rows}");
    let report: Value = serde_json::from_slice(&fs::read(out.join("sweep.json")).unwrap()).unwrap();
    let first = &report["samples"]["measured"]["settings"][0]["measured"]["acceptedLength"];
    let (low, high) = (first["interval"]["low"].as_f64().unwrap(), first["interval"]["high"].as_f64().unwrap());
    assert!((1.0..=3.0).contains(&low) && low <= high && high <= 3.0, "two drafts and a token at most: {first}");
    // The same command gives the same numbers.
    assert_eq!(stdout(&outrider(&arguments.concat())), printed);
    // What cannot be measured is refused before anything is.
    let rule = ["sweep", "--rule", "exact,bild", "--scheme", "k-sqs", "--temperature", "1", "--out", out_path];
    let refused = stderr_of(&[&rule[..], &["--times", "draft=8,row=2,pass=40"]].concat());
    assert!(refused.contains("rule bild: the settings cannot be used") && !refused.contains("[1/2]"), "{refused}");
    let metric = ["sweep", "--metric", "bleu", "--times", "draft=8,row=2,pass=40", "--out", out_path];
    assert!(stderr_of(&metric).contains("prompt 1 has no reference, which BLEU needs"));
    let scheme = ["sweep", "--scheme", "ahead"];
    assert!(stderr_of(&scheme).contains("--scheme ahead adapts to real time"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_gate_is_trained_again_to_the_same_bytes() {
    let file = scratch("gate.safetensors", b"");
    let arguments =
        ["train-gate", "--texts", "24", "--length", "24", "--lambda", "1.5", "--out", file.to_str().unwrap()];
    let printed = stdout(&outrider(&arguments));
    for figure in ["AU-ROC of the gate", "eta_TP, eta_FP at tau = 0.5", "(Theorem A.4)", "eta_TP 1 |", "written to"] {
        assert!(printed.contains(figure), "{figure} in {printed}");
    }
    let bytes = fs::read(&file).unwrap();
    let output = outrider(&[&arguments[..], &["--json"]].concat());
    assert_eq!(fs::read(&file).unwrap(), bytes);
    // Without a terminal, progress is shown in lines.
    assert!(String::from_utf8_lossy(&output.stderr).lines().any(|line| line == "drafting and judging: 24 of 24"));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&report["lambda"], &report["texts"], &report["seed"]), (&1.5.into(), &24.into(), &1.into()));
    assert!(report["auRoc"].as_f64().unwrap() > 0.0 && report["curve"].as_array().unwrap().len() == 21, "{report}");
    outrider(&[&arguments[..], &["--seed", "2"]].concat());
    assert_ne!(fs::read(&file).unwrap(), bytes);

    let lines = scratch("lines.txt", b"Once upon a time there was a king.\nHe had no sons.\n");
    let prompts = [&arguments[..], &["--prompts", lines.to_str().unwrap()]].concat();
    assert!(complaint(&prompts).contains("2 prompts"));
    assert!(complaint(&["train-gate", "--out", "/nowhere/gate.safetensors"]).contains("no folder /nowhere"));
    // The repository's file is the built-in pair's.
    assert!(complaint(&["train-gate", "--draft", "mine.gguf"]).contains("--out is missing"));
}

/// Standard error of a command, which has to fail.
fn stderr_of(arguments: &[&str]) -> String {
    let output = outrider(arguments);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}
