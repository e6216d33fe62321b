//! Figures 3, 12 and 13: what gates tell apart, and the gates of Table 4.
//!
//! A gate is trained on all texts of a kind that are for training, four kinds of author each (§3.2), and tried on those
//! held out. Training stops by the loss on the last fifth of the former. Errors of AU-ROC are jackknife's over prompts:
//! positions of one text are not independent.

use std::sync::Arc;

use outrider_speculation::{
    draft::{Head, Heads},
    sample::{End, Randomness},
};
use serde_json::{Value, json};

use super::{
    super::{
        laboratory::Laboratory,
        sessions::{DEFAULT_SAMPLING, Failure},
        table::{markdown, row},
    },
    methods,
    texts::{Kind, LENGTH, Use, Window},
};
use crate::report::{
    curves::{self, Bounds, Curve, Mark, Panel},
    estimate::Estimate,
    files::Report,
};
use crate::training::{
    examples::{self, Example, Job, Text},
    logistic::{Schedule, fit},
    parts::samples,
    roc::{self, Rates},
};

/// λ of Figures 12 and 13.
pub const RATIOS: [f64; 3] = [1.0, 1.2, 1.5];
/// λ that the paper settled on, and τ (Table 5).
pub const RATIO: f64 = 1.2;
const THRESHOLD: f64 = 0.5;
/// Passes of each author along each text for training, with other draws.
const TRAINING_REPEATS: u64 = 3;
const HELD_OUT_REPEATS: u64 = 2;

/// The origin of a gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Origin {
    /// The gate that comes with the pair.
    Pair,
    /// A gate that was trained here.
    Trained {
        /// Kind of text that it was trained on.
        kind: Kind,
        /// Ratio λ of acceptable tokens.
        ratio: f64,
        /// True if the gate sees the token.
        sees: bool,
    },
}

/// A gate on a kind of text that it was not trained on, or on other texts of that kind.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Origin of the gate that was tried.
    pub origin: Origin,
    /// The gate that was tried.
    pub gate: Head,
    /// Kind of text that it was tried on.
    pub kind: Kind,
    /// Area under the ROC curve.
    pub area: Estimate,
    /// Rates at thresholds from 0 to 1.
    curve: Vec<Rates>,
    /// Rates at the threshold τ.
    at_threshold: Rates,
    /// Share of acceptable tokens.
    base_rate: f64,
}

/// Texts that were gone along, each with the index of the window that it began with.
struct Corpus(Vec<(usize, Text)>);

/// The gate that was trained on a kind of text at λ = 1.2 and sees the token, with the pair's stop head.
///
/// # Errors
/// If a model fails.
pub fn trained(laboratory: &mut Laboratory, kind: Kind, tried: Kind) -> Result<(Trial, Arc<Heads>), Failure> {
    let origin = Origin::Trained { kind, ratio: RATIO, sees: true };
    let found = trials(laboratory)?.into_iter().find(|trial| trial.origin == origin && trial.kind == tried);
    let trial = found.ok_or("a gate was left out")?;
    let stop = laboratory.pair.heads.as_ref().and_then(|heads| heads.stop.clone());
    let heads = Heads { gate: Some(trial.gate.clone()), stop, threshold: THRESHOLD };
    Ok((trial, Arc::new(heads)))
}

pub fn figure3(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let trials = trials(laboratory)?;
    let shown = |kind: Kind| {
        let own = move |sees| Origin::Trained { kind, ratio: RATIO, sees };
        [("trained on it, token unseen", own(false)), ("trained on it", own(true)), ("the pair's", Origin::Pair)]
    };
    let printed = |kind: Kind| match kind {
        Kind::Tales => 0.8,
        Kind::Notes => 0.9,
    };
    let text = format!(
        "ROC of gates at λ = {RATIO} on held-out texts: those that were trained on other texts of the same kind, with \
        and without sight of the token, and the pair's own. The paper's gate reads the draft model's hidden state; it \
        prints AU-ROC 0.8 on LM1B and 0.9 on Wiki-Summary in its text, and the reverse order in its caption. ± is the \
        jackknife's standard error over prompts.\n\n"
    );
    Ok(report(text, &trials, &Kind::ALL.map(|kind| (kind, shown(kind).to_vec(), Some(printed(kind))))))
}

pub fn figure12(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    by_ratio(laboratory, Kind::Tales, "Wiki-Summary")
}

pub fn figure13(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    by_ratio(laboratory, Kind::Notes, "LM1B")
}

fn by_ratio(laboratory: &mut Laboratory, kind: Kind, set: &str) -> Result<Report, Failure> {
    let trials = trials(laboratory)?;
    let names = [("λ = 1", 1.0), ("λ = 1.2", 1.2), ("λ = 1.5", 1.5)];
    let of = |sees: bool| names.map(|(name, ratio)| (name, Origin::Trained { kind, ratio, sees })).to_vec();
    let text = format!(
        "Gates trained on {} at three λ, ROC on held-out texts of that kind (the paper: {set}). The paper draws the \
         curves, prints no areas, and says that the area is largest at λ = 1.2. First gates that see the drawn token, \
         then gates that read the hidden state alone, as the paper's. ± is the jackknife's standard error over \
         prompts.\n\n",
        kind.name(),
    );
    Ok(report(text, &trials, &[(kind, of(true), None), (kind, of(false), None)]))
}

/// Gates by their names.
type Gates = Vec<(&'static str, Origin)>;

/// Panels, each of gates on a kind of text, with the AU-ROC that the paper prints.
fn report(text: String, trials: &[Trial], panels: &[(Kind, Gates, Option<f64>)]) -> Report {
    let (mut rows, mut numbers, mut pictures): (Vec<_>, Vec<Value>, Vec<Panel>) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, gates, printed) in panels {
        let chance = [0.0, 1.0].map(|x| Mark { x, y: x, error: 0.0 });
        let mut lines = vec![Curve { name: "chance".to_owned(), points: chance.to_vec() }];
        for (name, origin) in gates {
            let Some(trial) = trials.iter().find(|trial| trial.origin == *origin && trial.kind == *kind) else {
                continue;
            };
            let unseen = matches!(origin, Origin::Trained { sees: false, .. }) && !name.contains("unseen");
            let name = if unseen { format!("{name}, token unseen") } else { (*name).to_owned() };
            let Rates { true_positive, false_positive, .. } = trial.at_threshold;
            rows.push(row(
                kind.name(),
                [
                    name.clone(),
                    format!("{:.3}", trial.area),
                    printed.map_or("–".to_owned(), |area| area.to_string()),
                    format!("{:.3}", trial.base_rate),
                    format!("{true_positive:.3}"),
                    format!("{false_positive:.3}"),
                ],
            ));
            numbers.push(json!({
                "texts": kind.name(), "gate": name, "auRoc": trial.area, "printed": printed,
                "acceptable": trial.base_rate, "atThreshold": trial.at_threshold, "curve": trial.curve,
            }));
            let mark = |rates: &Rates| Mark { x: rates.false_positive, y: rates.true_positive, error: 0.0 };
            lines.push(Curve { name, points: trial.curve.iter().rev().map(mark).collect() });
        }
        pictures.push(Panel {
            title: kind.name().to_owned(),
            across: "η_FP",
            up: "η_TP",
            bounds: Bounds { x: (0.0, 1.0), y: (0.0, 1.0) },
            curves: lines,
        });
    }
    let head = row("texts", ["gate", "AU-ROC", "printed", "acceptable", "η_TP at τ = 0.5", "η_FP"]);
    let text = format!("{text}{}\n\n", methods::sampled());
    Report { text: text + &markdown(&head, &rows), numbers: Value::Array(numbers), svg: Some(curves::svg(&pictures)) }
}

/// Every gate on every kind of text; measured once.
fn trials(laboratory: &mut Laboratory) -> Result<Vec<Trial>, Failure> {
    let known = laboratory.kept::<Vec<Trial>>()?;
    if !known.is_empty() {
        return Ok(known.clone());
    }
    let mut gates = Vec::new();
    for kind in Kind::ALL {
        laboratory.say(&format!("training gates on {}", kind.name()));
        let corpus = corpus(laboratory, kind, Use::Training)?;
        for (ratio, sees) in RATIOS.iter().flat_map(|&ratio| [(ratio, true), (ratio, false)]) {
            gates.push((Origin::Trained { kind, ratio, sees }, corpus.train(ratio, sees)?));
        }
    }
    gates.extend(laboratory.pair.heads.iter().filter_map(|heads| Some((Origin::Pair, heads.gate.clone()?))));
    let mut trials = Vec::new();
    for kind in Kind::ALL {
        laboratory.say(&format!("trying gates on {}", kind.name()));
        let corpus = corpus(laboratory, kind, Use::HeldOut)?;
        for (origin, gate) in &gates {
            trials.push(corpus.trial(*origin, gate, kind)?);
        }
    }
    laboratory.kept::<Vec<Trial>>()?.clone_from(&trials);
    Ok(trials)
}

fn corpus(laboratory: &Laboratory, kind: Kind, used: Use) -> Result<Corpus, Failure> {
    let windows = methods::windows(laboratory, kind, used)?;
    let repeats = if used == Use::Training { TRAINING_REPEATS } else { HELD_OUT_REPEATS };
    let job = |(index, window): (usize, &Window)| {
        let Window { tokens, prefix } = window;
        let jobs = examples::Kind::ALL.into_iter().flat_map(move |author| (0..repeats).map(move |turn| (author, turn)));
        let (beginning, original) = (tokens[..*prefix].to_vec(), tokens.clone());
        jobs.map(move |(author, turn)| (index, author, turn, beginning.clone(), original.clone())).collect::<Vec<_>>()
    };
    let planned: Vec<_> = windows.iter().enumerate().flat_map(job).collect();
    let jobs: Vec<Job<'_>> = planned
        .iter()
        .zip(1..)
        .map(|((_, author, _, beginning, original), seed)| Job {
            kind: *author,
            beginning,
            original: Some(original),
            length: LENGTH,
            // Held-out texts have other draws than those for training.
            seed: if used == Use::Training { seed } else { seed | 1 << 32 },
        })
        .collect();
    let pair = examples::Pair { draft: &laboratory.pair.draft, target: &laboratory.target, sampling: DEFAULT_SAMPLING };
    let texts = pair.go_along(&jobs, |_| {})?;
    Ok(Corpus(planned.iter().map(|job| job.0).zip(texts).collect()))
}

impl Corpus {
    /// The texts that began with some windows.
    fn texts(&self, wanted: impl Fn(usize) -> bool) -> Vec<Text> {
        self.0.iter().filter(|(window, _)| wanted(*window)).map(|(_, text)| text.clone()).collect()
    }

    fn windows(&self) -> usize {
        self.0.last().map_or(0, |(window, _)| window + 1)
    }

    fn train(&self, ratio: f64, sees: bool) -> Result<Head, Failure> {
        let last = self.windows() * 4 / 5;
        let label = |example: &Example| f64::from(u8::from(example.drawn.acceptable(ratio)));
        let part = |texts: &[Text]| samples(texts, sees, &label);
        let (training, validation) =
            (part(&self.texts(|window| window < last)), part(&self.texts(|window| window >= last)));
        let width = self.0.iter().find_map(|(_, text)| text.examples.first()).map_or(0, |first| first.hidden.len());
        let mut randomness = Randomness::new(1, End::Cloud);
        let mut head = fit(&training, &validation, &Schedule::default(), &mut randomness).head;
        let token = head.weights.split_off(width);
        Ok(Head::new(head.weights, head.bias, token)?)
    }

    fn trial(&self, origin: Origin, gate: &Head, kind: Kind) -> Result<Trial, Failure> {
        let ratio = if let Origin::Trained { ratio, .. } = origin { ratio } else { RATIO };
        let label = |example: &Example| f64::from(u8::from(example.drawn.acceptable(ratio)));
        let (mut found, mut labels, mut windows) = (Vec::new(), Vec::new(), Vec::new());
        for (window, text) in &self.0 {
            for example in &text.examples {
                found.push(gate.score(&example.hidden, &example.seen.0));
                labels.push(label(example));
                windows.push(*window);
            }
        }
        let area = |left_out: Option<usize>| {
            let kept: Vec<usize> = (0..found.len()).filter(|&index| Some(windows[index]) != left_out).collect();
            let pick = |from: &[f64]| kept.iter().map(|&index| from[index]).collect::<Vec<_>>();
            roc::area(&pick(&found), &pick(&labels)).ok_or("all tokens are acceptable, or none is")
        };
        let value = area(None)?;
        let without = (0..self.windows()).map(|window| area(Some(window))).collect::<Result<Vec<_>, _>>()?;
        Ok(Trial {
            origin,
            gate: gate.clone(),
            kind,
            area: Estimate { value, error: jackknife(&without) },
            curve: (0..=40).map(|step| roc::rates(&found, &labels, f64::from(step) / 40.0)).collect(),
            at_threshold: roc::rates(&found, &labels, THRESHOLD),
            base_rate: labels.iter().sum::<f64>() / labels.len() as f64,
        })
    }
}

/// The standard error of a statistic from its values with one of the samples left out each time:
/// √((n − 1)/n · Σ(θᵢ − θ̄)²) (Efron & Stein 1981).
fn jackknife(without: &[f64]) -> f64 {
    let count = without.len() as f64;
    let mean = without.iter().sum::<f64>() / count;
    ((count - 1.0) / count * without.iter().map(|value| (value - mean).powi(2)).sum::<f64>()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The jackknife of a mean is the usual error: of 1, 2, 3, 4 that is √(5/3)/2.
    #[test]
    fn the_jackknife_of_a_mean_is_its_error() {
        let samples = [1.0, 2.0, 3.0, 4.0];
        let without: Vec<f64> = samples.iter().map(|left_out| (10.0 - left_out) / 3.0).collect();
        assert!((jackknife(&without) - (5.0f64 / 3.0).sqrt() / 2.0).abs() < 1e-12);
        assert_eq!(jackknife(&[0.5; 7]), 0.0);
    }
}
