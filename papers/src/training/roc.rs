//! The receiver operating characteristic: how well scores separate acceptable tokens from others.
//!
//! With a threshold τ, samples of score τ and above are passed. η_TP(τ) is the part of the positive samples that is
//! passed, η_FP(τ) that of the negative ones (SPRINTER, §3.1); the curve is (η_FP, η_TP) over all τ, and the area
//! below it, AU-ROC, the probability that a positive sample scores above a negative one, ties counting half. A soft
//! label y counts as y of a positive sample and 1 − y of a negative one.

use serde::Serialize;

/// A threshold, and what is passed at it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// Threshold of the scores, τ.
    pub threshold: f64,
    /// η_TP: positive samples that are passed.
    pub true_positive: f64,
    /// η_FP: negative samples that are passed.
    pub false_positive: f64,
}

/// AU-ROC; `None` unless there are positive and negative samples. O(n log n).
pub fn area(scores: &[f64], labels: &[f64]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let (mut above, mut positive, mut negative) = (0.0, 0.0, 0.0);
    // Every negative sample counts the positive ones above it, and half of those beside it.
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let ones: f64 = tied.iter().map(|&sample| labels[sample]).sum();
        let zeros = tied.len() as f64 - ones;
        above += zeros * (positive + ones / 2.0);
        positive += ones;
        negative += zeros;
    }
    (positive > 0.0 && negative > 0.0).then(|| above / (positive * negative))
}

/// Rates of passed samples at `threshold`; 0 for a class without samples.
pub fn rates(scores: &[f64], labels: &[f64], threshold: f64) -> Rates {
    let (mut passed, mut all) = ([0.0; 2], [0.0; 2]);
    for (&score, &label) in scores.iter().zip(labels) {
        for (class, weight) in [label, 1.0 - label].into_iter().enumerate() {
            all[class] += weight;
            passed[class] += if score >= threshold { weight } else { 0.0 };
        }
    }
    let rate = |class: usize| if all[class] > 0.0 { passed[class] / all[class] } else { 0.0 };
    Rates { threshold, true_positive: rate(0), false_positive: rate(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every pair of a positive and a negative sample.
    fn naive(scores: &[f64], labels: &[f64]) -> Option<f64> {
        let (mut won, mut pairs) = (0.0, 0.0);
        for (a, y) in scores.iter().zip(labels) {
            for (b, z) in scores.iter().zip(labels) {
                let weight = y * (1.0 - z);
                pairs += weight;
                won += weight
                    * if a > b {
                        1.0
                    } else if a == b {
                        0.5
                    } else {
                        0.0
                    };
            }
        }
        (pairs > 0.0).then(|| won / pairs)
    }

    #[test]
    fn a_worked_example() {
        let (scores, labels) = ([0.9, 0.7, 0.7, 0.4, 0.1], [1.0, 0.0, 1.0, 1.0, 0.0]);
        // Six pairs: 0.9 beats both, 0.7 ties one and beats one, 0.4 beats one.
        assert_eq!(area(&scores, &labels), Some(4.5 / 6.0));
        let at = |threshold| {
            let rates = rates(&scores, &labels, threshold);
            (rates.true_positive, rates.false_positive)
        };
        assert_eq!(at(0.0), (1.0, 1.0));
        assert_eq!(at(0.7), (2.0 / 3.0, 0.5));
        assert_eq!(at(0.71), (1.0 / 3.0, 0.0));
        assert_eq!(at(1.0), (0.0, 0.0));
        assert_eq!((area(&scores, &[1.0; 5]), area(&scores, &[0.0; 5]), area(&[], &[])), (None, None, None));
    }

    proptest! {
        /// Few distinct scores, so that ties are common; some labels soft.
        #[test]
        fn the_area_is_that_of_all_pairs(
            samples in prop::collection::vec((0u8..12, prop_oneof![Just(0.0), Just(1.0), Just(0.25)]), 0..60),
        ) {
            let scores: Vec<f64> = samples.iter().map(|&(score, _)| f64::from(score) / 11.0).collect();
            let hard: Vec<f64> = samples.iter().map(|&(_, label): &(u8, f64)| label.round()).collect();
            match (area(&scores, &hard), naive(&scores, &hard)) {
                (Some(a), Some(b)) => prop_assert!((a - b).abs() < 1e-12, "{a} and {b}"),
                (a, b) => prop_assert_eq!(a, b),
            }
        }

        /// A soft label counts as the same share of hard ones.
        #[test]
        fn soft_labels_are_shares(samples in prop::collection::vec((0u8..6, 0u8..=4), 1..20)) {
            let scores: Vec<f64> = samples.iter().map(|&(score, _)| f64::from(score)).collect();
            let soft: Vec<f64> = samples.iter().map(|&(_, fourths)| f64::from(fourths) / 4.0).collect();
            let split = |&(score, fourths): &(u8, u8)| {
                (0..4).map(move |i| (f64::from(score), f64::from(u8::from(i < fourths))))
            };
            let (many, hard): (Vec<f64>, Vec<f64>) = samples.iter().flat_map(split).unzip();
            match (area(&scores, &soft), area(&many, &hard)) {
                (Some(a), Some(b)) => prop_assert!((a - b).abs() < 1e-12, "{a} and {b}"),
                (a, b) => prop_assert_eq!(a, b),
            }
        }
    }
}
