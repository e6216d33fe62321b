//! Files of a report, which begin with the time and the machine of the measurement.

use std::{error::Error, fs, path::Path, process::Command};

use serde_json::{Value, json};

/// A measurement as text, numbers and charts.
#[derive(Debug)]
pub struct Report {
    /// The report in Markdown.
    pub text: String,
    /// The numbers of the tables.
    pub numbers: Value,
    /// The charts as one picture.
    pub svg: Option<String>,
}

impl Report {
    /// Writes NAME.md to a folder, with a line below its title that names the measurement, its time and its machine;
    /// NAME.json with the same and the numbers; NAME.svg with the charts. Returns the text.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
        let (commit, dirty) = commit();
        let date = output("date", &["-u", "+%Y-%m-%d"]).unwrap_or_else(|| "unknown".to_owned());
        let processor = processor();
        let changed = if dirty { " with changes" } else { "" };
        // Below the title, if there is one.
        let is_title = |text: &(&str, &str)| text.0.starts_with("# ");
        let (title, rest) = self.text.split_once("\n\n").filter(is_title).unwrap_or(("", &self.text));
        let title = if title.is_empty() { String::new() } else { format!("{title}\n\n") };
        let text = format!("{title}Commit {commit}{changed}, {date}, {processor}.\n\n{rest}");
        fs::write(folder.join(name).with_extension("md"), &text)?;
        let numbers = json!({
            "commit": commit, "dirty": dirty, "date": date, "processor": processor, "samples": self.numbers,
        });
        fs::write(folder.join(name).with_extension("json"), serde_json::to_string(&numbers)?)?;
        if let Some(svg) = &self.svg {
            fs::write(folder.join(name).with_extension("svg"), svg)?;
        }
        Ok(text)
    }
}

/// Commit of this program, and whether its files have changed since: by the build's variable, or else by git in the
/// folder that it was built in.
fn commit() -> (String, bool) {
    if let Some(commit) = option_env!("OUTRIDER_COMMIT") {
        return (commit.to_owned(), false);
    }
    let Some(commit) = output("git", &["rev-parse", "--short=12", "HEAD"]) else {
        return ("unknown".to_owned(), false);
    };
    // Files that git does not know are no part of what is measured.
    let changes = output("git", &["status", "--porcelain", "--untracked-files=no"]);
    (commit, changes.is_some_and(|changes| !changes.is_empty()))
}

/// Output of a program; `None` if it fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let said = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let said = said.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_three_files_and_its_title_stands_above_all() -> Result<(), Box<dyn Error + Send + Sync>> {
        let folder = std::env::temp_dir().join(format!("outrider-report-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let report = |text: &str| Report { text: text.to_owned(), numbers: json!([1]), svg: Some("<svg/>".to_owned()) };
        let titled = report("# Title\n\nText\n\nMore\n").write(&folder, "a")?;
        assert!(titled.starts_with("# Title\n\nCommit ") && titled.ends_with("\n\nText\n\nMore\n"), "{titled}");
        assert!(report("Text\n\nMore\n").write(&folder, "b")?.ends_with(".\n\nText\n\nMore\n"));
        let numbers: Value = serde_json::from_str(&fs::read_to_string(folder.join("a.json"))?)?;
        assert_eq!(numbers["samples"], json!([1]));
        assert_eq!(fs::read_to_string(folder.join("b.svg"))?, "<svg/>");
        Ok(fs::remove_dir_all(&folder)?)
    }
}
