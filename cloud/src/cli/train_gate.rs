//! Command `outrider train-gate`, which trains heads of the draft.

use std::{
    fs,
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outrider_codec::frame::SamplingParameters;
use outrider_papers::training::{self, Progress, Report, Settings};
use serde::Serialize;

use super::output::{CommandError, print, tell};
use crate::pair::PairPaths;

const SYMBOLS: &str = "\
Symbols:
  p, q      what the target and the draft model give for the next token, at the sampling asked for
  lambda    a token that the draft drew is acceptable if q <= lambda p
  tau       the gate passes a token at this score and above
  eta_TP    how often the gate passes a token that is acceptable
  eta_FP    how often it passes one that is not
  AU-ROC    how often an acceptable token scores above one that is not
  TV        total variation distance: how often the target would reject a token of the draft

Labels belong to the sampling they were drawn at: train with what your sessions use.";

/// Heads of the built-in pair, in the repository.
const BUILT_IN_HEADS: &str = "pair/draft/gate.safetensors";

/// Train SPRINTER's gate and SpecDec++'s stop head for a pair
///
/// The gate predicts from the draft's hidden state and token probabilities whether a token may pass without asking the
/// server. The stop head predicts from the same how likely the server is to accept it. Both models read texts written
/// by their author, by either model and by both; the figures are on texts that were held out. One seed gives one file.
#[derive(Debug, Args)]
#[command(after_help = SYMBOLS)]
pub struct TrainGate {
    #[command(flatten)]
    pair: PairPaths,
    /// Texts to train on, some dozens of tokens each: one per line, or separated by blank lines; a tale and texts that
    /// the target writes if not given
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// A token is acceptable if q <= lambda p; the paper tries 1, 1.2 and 1.5
    #[arg(long, value_name = "lambda", default_value_t = Settings::default().lambda, value_parser = not_negative)]
    lambda: f64,
    /// The gate passes a token at this score and above
    #[arg(long, value_name = "tau", default_value_t = Settings::default().threshold, value_parser = rate)]
    tau: f64,
    /// Temperature of both models
    #[arg(long, value_name = "T", default_value_t = Settings::default().sampling.temperature, value_parser = temperature)]
    temperature: f32,
    /// Keep the k most likely tokens; 0 keeps all
    #[arg(long, value_name = "k", default_value_t = Settings::default().sampling.top_k)]
    top_k: u32,
    /// Keep the fewest most likely tokens whose probabilities reach this
    #[arg(long, value_name = "p", default_value_t = Settings::default().sampling.top_p, value_parser = top_p)]
    top_p: f32,
    /// Hide the token from the heads: they judge by the tokens before it alone
    #[arg(long)]
    unseen: bool,
    /// Number of texts, four per prompt
    #[arg(long, value_name = "COUNT", default_value_t = Settings::default().texts)]
    texts: usize,
    /// Most tokens in a text
    #[arg(long, value_name = "COUNT", default_value_t = Settings::default().length)]
    length: usize,
    /// Seed of all random draws
    #[arg(long, default_value_t = Settings::default().seed)]
    seed: u64,
    /// File to write the heads to [default: pair/draft/gate.safetensors for the built-in pair]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the figures as one JSON object
    #[arg(long)]
    json: bool,
}

impl TrainGate {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        // Checked before minutes of work.
        let built_in = self.pair.is_built_in().then(|| PathBuf::from(BUILT_IN_HEADS));
        let out =
            self.out.clone().or(built_in).ok_or("--out is missing: the file to write the heads of this pair to")?;
        let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(format!("{} cannot be written: there is no folder {}", out.display(), folder.display()).into());
        }
        if out.is_dir() {
            return Err(format!("{} cannot be written: it is a folder", out.display()).into());
        }
        let prompts = self.prompts.as_deref().map(read_prompts).transpose()?;
        self.pair.fetch().await?;
        let tokenizer = self.pair.tokenizer()?;
        let (draft, target) = (self.pair.draft_with(&tokenizer)?, self.pair.target_with(&tokenizer)?);
        let settings = Settings {
            texts: self.texts,
            length: self.length,
            sampling: SamplingParameters { temperature: self.temperature, top_k: self.top_k, top_p: self.top_p },
            lambda: self.lambda,
            threshold: self.tau,
            sees_token: !self.unseen,
            seed: self.seed,
        };
        let mut shown = Shown::new();
        let trained = training::train(&draft, &target, &tokenizer, prompts.as_deref(), &settings, &mut |progress| {
            shown.show(progress);
        })?;
        shown.finish();
        fs::write(&out, trained.heads.to_bytes())
            .map_err(|error| format!("{} cannot be written: {error}", out.display()))?;
        if self.json {
            let output = Output {
                file: &out,
                texts: trained.texts,
                length: self.length,
                seed: self.seed,
                report: &trained.report,
            };
            print(&format!("{}\n", serde_json::to_string(&output)?));
        } else {
            print(&format!("{}\nwritten to {}\n", trained.report.text(), out.display()));
        }
        Ok(())
    }
}

/// JSON object that `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    file: &'a Path,
    texts: usize,
    length: usize,
    seed: u64,
    #[serde(flatten)]
    report: &'a Report,
}

fn read_prompts(path: &Path) -> Result<Vec<String>, CommandError> {
    let text = fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    // Some editors begin a file with a byte order mark.
    Ok(split(text.strip_prefix('\u{feff}').unwrap_or(&text)))
}

/// Splits a text into paragraphs if there are blank lines, else into lines.
fn split(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n");
    let separator = if text.trim().contains("\n\n") { "\n\n" } else { "\n" };
    text.split(separator).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}

/// Progress on standard error: a bar in a terminal, else a line for every stage and quarter.
struct Shown {
    bar: Option<ProgressBar>,
    last: Option<(&'static str, usize)>,
}

impl Shown {
    fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{msg:<20} {bar:40} {pos}/{len} {eta}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Self { bar, last: None }
    }

    fn show(&mut self, progress: Progress) {
        let Progress { stage, total, done } = progress;
        if let Some(bar) = &self.bar {
            if self.last.is_none_or(|(last, _)| last != stage) {
                bar.reset();
                bar.set_message(stage);
            }
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }
        let quarter = 4 * done / total.max(1);
        if self.last != Some((stage, quarter)) {
            self.last = Some((stage, quarter));
            if self.bar.is_none() {
                tell(&format!("{stage}: {done} of {total}"));
            }
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn within<T: FromStr + PartialOrd>(text: &str, accepted: impl Fn(&T) -> bool, expected: &str) -> Result<T, String> {
    text.parse().ok().filter(accepted).ok_or_else(|| format!("must be {expected}"))
}

fn not_negative(text: &str) -> Result<f64, String> {
    within(text, |&x: &f64| x.is_finite() && x >= 0.0, "a number, not negative")
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, |x: &f64| (0.0..=1.0).contains(x), "between 0 and 1")
}

fn temperature(text: &str) -> Result<f32, String> {
    within(text, |&x: &f32| x.is_finite() && x >= 0.0, "a number, not negative")
}

fn top_p(text: &str) -> Result<f32, String> {
    within(text, |&x: &f32| x > 0.0 && x <= 1.0, "above 0 and at most 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_paragraphs_or_lines() {
        assert_eq!(split("one\ntwo\n\n"), ["one", "two"]);
        assert_eq!(split("one\nstill one\r\n\r\ntwo\n"), ["one\nstill one", "two"]);
        assert!(split(" \n\n").is_empty());
    }
}
