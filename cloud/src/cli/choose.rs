//! Command `outrider choose`: the way of writing that computes least on the server at a wanted quality.

use std::path::PathBuf;

use clap::Args;
use outrider_papers::{
    choose::{self, Aim},
    reproduce::laboratory::{PassTimes, Times},
};

use super::{
    experiment::ExperimentArgs,
    output::{CommandError, print},
};

/// Answers of each question by each method, at least, where they are drawn: chance hides small losses.
const LEAST_SEEDS: u16 = 4;

/// Choose the cascade with the fewest target rows a token at a wanted quality
///
/// Exact speculation computes at least one row of the target for each token; cascades may compute fewer and answer
/// worse.
/// Cascades at several thresholds answer your questions beside the target alone. Those that keep the
/// quality with the given confidence are marked, however many were tried, and the cheapest is named. Answers need
/// references (--data), or --metric log-likelihood; the tasks that come with the program are taken if there is no data.
/// A hundred questions can show a loss of 5 %, some four hundred one of 2 %. It is left in a folder as choose.md and
/// choose.json.
#[derive(Debug, Args)]
pub struct Choose {
    /// Least share of the target's score
    #[arg(long, value_name = "SHARE", default_value_t = 0.98, value_parser = share)]
    quality: f64,
    /// Probability with which it is kept
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = share)]
    confidence: f64,
    /// Temperature of both models; above 0 each question is answered four times at least
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Keep the fewest most likely tokens whose probabilities reach this
    #[arg(long, value_name = "p", default_value_t = 1.0)]
    top_p: f32,
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "chosen")]
    out: PathBuf,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

impl Choose {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        let Self { quality, confidence, temperature, top_p, .. } = self;
        self.experiment.pair.fetch().await?;
        self.experiment.prepare(&self.out)?;
        if temperature > 0.0 {
            self.experiment.seeds = self.experiment.seeds.max(LEAST_SEEDS);
        }
        // Rows are counted, and no time matters.
        let any = PassTimes { pass: 1.0, row: 1.0 };
        let mut laboratory = self.experiment.laboratory()?.with_times(Times { small: any, large: any });
        let mut report = choose::report(&mut laboratory, Aim { quality, confidence, temperature, top_p })?;
        report.text = format!("# Fewest target rows at {quality} of the target's score\n\n{}", report.text);
        print(&format!("{}\n", report.write(&self.out, "choose")?));
        self.experiment.write_texts(&laboratory)
    }
}

/// Reads a share between 0 and 1.
fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if share > 0.0 && share < 1.0 { Ok(share) } else { Err("expected a share between 0 and 1".to_owned()) }
}
