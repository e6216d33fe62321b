//! chrF (Popović 2015), as `sacrebleu` computes it by default: n-grams of up to six letters without white space, β = 2,
//! one reference.
//!
//! P and R are the means of precision and recall over the orders n of which answer and reference have n-grams; the
//! score is 100·(1 + β²)PR/(β²P + R). Counts are sums over answers.

use super::grams::shared;

/// Length of the longest n-gram.
const ORDERS: usize = 6;
/// Weight of recall, β².
const RECALL: f64 = 4.0;

/// Counts of an answer: for each order the n-grams of the answer, of the reference, and those that they share.
pub fn counts(answer: &str, reference: &str) -> Vec<f64> {
    let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<Vec<char>>();
    let (answer, reference) = (letters(answer), letters(reference));
    let counted = |n| {
        let [answers, references, both] = shared(&answer, &reference, n);
        // Without n-grams of the reference those of the answer do not count.
        [if references == 0 { 0 } else { answers }, references, both].map(|count| count as f64)
    };
    (1..=ORDERS).flat_map(counted).collect()
}

/// chrF of summed counts, from 0 to 100.
pub fn score(counts: &[f64]) -> f64 {
    let present = || counts.chunks(3).filter(|counts| counts[0] > 0.0 && counts[1] > 0.0);
    let mean = |of: usize| present().map(|counts| counts[2] / counts[of]).sum::<f64>() / present().count() as f64;
    let (precision, recall) = (mean(0), mean(1));
    // NaN of no order, too, is no quality.
    if precision + recall > 0.0 {
        100.0 * (1.0 + RECALL) * precision * recall / (RECALL * precision + recall)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::TEXTS, *};

    /// Numbers of `sacrebleu` 2.6.0.
    #[test]
    fn answers_score_what_sacrebleu_gives() {
        let scores =
            [67.172_734_923_302_33, 43.748_096_485_015_11, 100.0, 7.777_777_777_777_779_5, 0.0, 70.528_782_223_916_95];
        let mut sum = vec![0.0; 18];
        for ((answer, reference), expected) in TEXTS.into_iter().zip(scores) {
            let counts = counts(answer, reference);
            let found = score(&counts);
            assert!((found - expected).abs() < 1e-9, "{answer}: {found} and {expected}");
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        assert!((score(&sum) - 53.400_807_910_286_59).abs() < 1e-9);
    }
}
