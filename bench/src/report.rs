//! What every report begins with, and its numbers beside it.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::passes::Failure;

/// Prints a report and leaves it in `folder`: NAME.md under a line that says what was measured, when and on what;
/// NAME.json with the same and the samples; NAME.svg with the charts.
pub fn write(folder: &Path, name: &str, text: &str, samples: Value, svg: Option<String>) -> Result<(), Failure> {
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
    // Files that git does not know are no part of what is measured.
    let dirty = !output("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    let (date, processor) = (output("date", &["-u", "+%Y-%m-%d"]), processor());
    let changed = if dirty { " with changes" } else { "" };
    let text = format!("Commit {commit}{changed}, {date}, {processor}.\n\n{text}");
    println!("\n{text}");
    fs::write(folder.join(name).with_extension("md"), text)?;
    let numbers = json!({ "commit": commit, "dirty": dirty, "date": date, "processor": processor, "samples": samples });
    fs::write(folder.join(name).with_extension("json"), serde_json::to_string_pretty(&numbers)?)?;
    if let Some(svg) = svg {
        fs::write(folder.join(name).with_extension("svg"), svg)?;
    }
    println!("Written to {name}.md and {name}.json in {}", folder.display());
    Ok(())
}

/// What a program says, or that it is unknown.
fn output(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let said = said.ok().filter(|output| output.status.success());
    said.map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The processor's name and which of the instructions that matter here it has.
fn processor() -> String {
    let Ok(text) = fs::read_to_string("/proc/cpuinfo") else {
        return "unknown".to_owned();
    };
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| Some(line.split_once(':')?.1.trim())).unwrap_or_default()
    };
    let flags: Vec<&str> = field("flags").split(' ').collect();
    let has = ["avx2", "avx512f", "avx512_vnni", "amx_int8"].map(|name| match flags.contains(&name) {
        true => name.to_owned(),
        false => format!("no {name}"),
    });
    format!("{} ({})", field("model name"), has.join(", "))
}
