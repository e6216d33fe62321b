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

/// Features and labels of the texts' examples: hidden states, each followed by the token's features if a head
/// `sees` it.
pub(crate) fn samples(texts: &[Text], sees: bool, label: &dyn Fn(&Example) -> f64) -> Samples {
    let examples = || texts.iter().flat_map(|text| &text.examples);
    let seen = |example: &Example| if sees { example.seen.0.to_vec() } else { Vec::new() };
    Samples {
        features: examples().flat_map(|example| [&example.hidden[..], &seen(example)].concat()).collect(),
        labels: examples().map(label).collect(),
    }
}

/// The head's scores of rows of features, by the code that sessions run.
pub(crate) fn scores(head: &LinearHead, features: &[f32]) -> Vec<f64> {
    let (hidden, width) = (head.weights.len(), (head.weights.len() + head.token.len()).max(1));
    match outrider_speculation::draft::Head::new(head.weights.clone(), head.bias, head.token.clone()) {
        Ok(head) => features.chunks_exact(width).map(|row| head.score(&row[..hidden], &row[hidden..])).collect(),
        // A head that is not finite separates nothing.
        Err(_) => features.chunks_exact(width).map(|_| 0.0).collect(),
    }
}
