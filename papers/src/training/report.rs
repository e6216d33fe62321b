//! Figures of trained heads on texts that they were not trained on.

use serde::Serialize;

use super::{
    examples::{Example, Kind, Text},
    logistic::{self, Fit},
    parts::{Parts, samples, scores},
    roc,
    settings::Settings,
};
use crate::theory::sprinter::GateRates;

/// The figures of a run; rates of the gate are on held-out texts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Temperature of the sampling S.
    pub temperature: f32,
    /// Top-k of the sampling S.
    pub top_k: u32,
    /// Top-p of the sampling S.
    pub top_p: f32,
    /// Ratio λ of acceptable tokens.
    pub lambda: f64,
    /// Positions for training, for stopping early and held out.
    pub positions: usize,
    /// Number of held-out positions.
    pub test_positions: usize,
    /// Number of held-out texts.
    pub test_texts: usize,
    /// Epochs until the gate was best.
    pub epochs: usize,
    /// Share of tokens that are acceptable at λ.
    pub base_rate: f64,
    /// Area under the ROC curve.
    pub au_roc: f64,
    /// The curve at thresholds from 0 to 1.
    pub curve: Vec<roc::Rates>,
    /// η_TP and η_FP at τ, where acceptable is q ≤ λ·p.
    pub at_threshold: roc::Rates,
    /// Rates at the threshold if acceptable is q ≤ p, as in the paper's theorems.
    pub at_threshold_exact: roc::Rates,
    /// Figures of each kind of text.
    pub kinds: Vec<KindReport>,
    /// 1 − TV(p, q): how often a draft is accepted if all are verified.
    pub acceptance_verified: f64,
    /// 1 − (1 − η_FP)·TV(p, q) (Theorem A.4): what the paper expects of the gate, η_FP where acceptable is q ≤ p.
    pub acceptance_theory: f64,
    /// η_FP·TV(p, q) (Theorem 3.1): how far it expects the text to be from the target's.
    pub distance_theory: f64,
    /// Measured behaviour of the gate.
    pub measured: Measured,
    /// Figures of SpecDec++'s head.
    pub stop: StopReport,
}

/// Means over held-out positions, without the theorems' assumption that errors are independent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Share of tokens that the gate passes.
    pub passed: f64,
    /// Share of accepted tokens: all that skip verification, and those of the others that the target accepts.
    pub acceptance: f64,
    /// TV between the committed token and the target's, where q̂ is q: Σ V(x)·max(0, q(x) − p(x)) with V(x) = 1 for the
    /// tokens that the gate passes; TV(p, q) where it passes all, nothing where it passes none.
    pub distance: f64,
}

/// Figures of one kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindReport {
    /// Kind of text reported on.
    pub kind: Kind,
    /// Number of held-out positions of the kind.
    pub positions: usize,
    /// Share of acceptable tokens.
    pub base_rate: f64,
    /// AU-ROC of the gate among these; `None` if all labels are the same.
    pub au_roc: Option<f64>,
}

/// Figures of SpecDec++'s head on held-out positions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StopReport {
    /// Epochs until it was best.
    pub epochs: usize,
    /// AU-ROC for its soft labels.
    pub au_roc: f64,
    /// Mean of the probability that a draft is accepted, and of the head's scores.
    pub mean_label: f64,
    /// Mean of the head's scores.
    pub mean_score: f64,
    /// Mean binary cross-entropy in nats.
    pub loss: f64,
    /// Mean binary cross-entropy if every score were the mean label, in nats.
    pub base_loss: f64,
}

impl Report {
    /// `None` if all held-out tokens have the same label.
    pub(super) fn new(settings: &Settings, parts: &Parts, gate: &Fit, stop: &Fit) -> Option<Self> {
        let acceptable = |lambda: f64| move |example: &Example| f64::from(u8::from(example.drawn.acceptable(lambda)));
        let examples: Vec<&Example> = parts.test.iter().flat_map(|text| &text.examples).collect();
        let held_out = samples(&parts.test, settings.sees_token, &acceptable(settings.lambda));
        let exact = samples(&parts.test, false, &acceptable(1.0)).labels;
        let gate_scores = scores(&gate.head, &held_out.features);
        let rates = |labels: &[f64]| roc::rates(&gate_scores, labels, settings.threshold);
        let (at_threshold, at_threshold_exact) = (rates(&held_out.labels), rates(&exact));
        let distance = mean(examples.iter().map(|example| example.total_variation));
        let theory = GateRates {
            true_positive: at_threshold_exact.true_positive,
            false_positive: at_threshold_exact.false_positive,
        };
        let passes: Vec<f64> =
            gate_scores.iter().map(|&score| f64::from(u8::from(score >= settings.threshold))).collect();
        // Σ V(x)·max(0, q(x) − p(x)) is the mean of V(x)·(1 − min(1, p(x)/q(x))) over x ~ q. If V is the same for all
        // x it is V·TV, which varies less.
        let cost = |example: &Example| match settings.sees_token {
            true => 1.0 - example.drawn.acceptance(),
            false => example.total_variation,
        };
        let passed_distance = mean(passes.iter().zip(&examples).map(|(passes, example)| passes * cost(example)));
        let count = |texts: &[Text]| texts.iter().map(|text| text.examples.len()).sum::<usize>();
        let curve = (0..=20).map(|step| roc::rates(&gate_scores, &held_out.labels, f64::from(step) / 20.0)).collect();
        Some(Self {
            temperature: settings.sampling.temperature,
            top_k: settings.sampling.top_k,
            top_p: settings.sampling.top_p,
            lambda: settings.lambda,
            positions: count(&parts.training) + count(&parts.validation) + count(&parts.test),
            test_positions: examples.len(),
            test_texts: parts.test.len(),
            epochs: gate.best_epoch,
            base_rate: mean(held_out.labels.iter().copied()),
            au_roc: roc::area(&gate_scores, &held_out.labels)?,
            curve,
            at_threshold,
            at_threshold_exact,
            kinds: Kind::ALL.map(|kind| of_kind(kind, settings, parts, gate)).into(),
            acceptance_verified: 1.0 - distance,
            acceptance_theory: theory.acceptance_rate(distance),
            distance_theory: theory.output_distance(distance),
            measured: Measured {
                passed: mean(passes.iter().copied()),
                acceptance: 1.0 - distance + passed_distance,
                distance: passed_distance,
            },
            stop: StopReport::new(settings, parts, stop)?,
        })
    }
}

impl StopReport {
    fn new(settings: &Settings, parts: &Parts, stop: &Fit) -> Option<Self> {
        let held_out = samples(&parts.test, settings.sees_token, &|example| example.drawn.acceptance());
        let scores = scores(&stop.head, &held_out.features);
        let mean_label = mean(held_out.labels.iter().copied());
        Some(Self {
            epochs: stop.best_epoch,
            au_roc: roc::area(&scores, &held_out.labels)?,
            mean_label,
            mean_score: mean(scores.iter().copied()),
            loss: logistic::cross_entropy(&scores, &held_out.labels),
            base_loss: logistic::cross_entropy(&vec![mean_label; scores.len()], &held_out.labels),
        })
    }
}

fn of_kind(kind: Kind, settings: &Settings, parts: &Parts, gate: &Fit) -> KindReport {
    let texts: Vec<Text> = parts.test.iter().filter(|text| text.kind == kind).cloned().collect();
    let held_out =
        samples(&texts, settings.sees_token, &|example| f64::from(u8::from(example.drawn.acceptable(settings.lambda))));
    KindReport {
        kind,
        positions: held_out.labels.len(),
        base_rate: mean(held_out.labels.iter().copied()),
        au_roc: roc::area(&scores(&gate.head, &held_out.features), &held_out.labels),
    }
}

/// The mean; 0 of no values.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}
