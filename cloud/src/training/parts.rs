//! Texts for training, for stopping early and held out, as rows of features.

use outrider_models::LinearHead;

use super::{
    examples::{Example, Text},
    logistic::Samples,
};

/// Texts, divided by prompt.
pub(super) struct Parts {
    pub(super) training: Vec<Text>,
    pub(super) validation: Vec<Text>,
    pub(super) test: Vec<Text>,
}

/// Features and labels of the texts' examples.
pub(super) fn samples(texts: &[Text], label: &dyn Fn(&Example) -> f64) -> Samples {
    let examples = || texts.iter().flat_map(|text| &text.examples);
    Samples {
        features: examples().flat_map(|example| example.hidden.iter().copied()).collect(),
        labels: examples().map(label).collect(),
    }
}

/// The head's scores of rows of features, by the code that sessions run.
pub(super) fn scores(head: &LinearHead, features: &[f32]) -> Vec<f64> {
    match outrider_speculation::policy::heads::Head::new(head.weights.clone(), head.bias) {
        Ok(head) => features.chunks_exact(head.width()).map(|row| head.score(row)).collect(),
        // A head that is not finite tells nothing apart.
        Err(_) => features.chunks_exact(head.weights.len().max(1)).map(|_| 0.0).collect(),
    }
}
