//! BLEU (Papineni et al. 2002), as `sacrebleu` computes it by default: tokens of mteval-v13a, n-grams of up to four
//! tokens, one reference, exponential smoothing.
//!
//! With m_n the n-grams that answer and reference share, each counted as often as both have it, and t_n those of the
//! answer, p_n = m_n/t_n. The score is 100·B·(p_1 p_2 p_3 p_4)^¼ with the brevity penalty B = min(1, exp(1 − r/c)), c
//! and r the tokens of answer and reference. The k-th p_n with m_n = 0 becomes 1/(2^k t_n). Counts are sums over
//! answers.

use std::sync::LazyLock;

use regex::Regex;

use super::grams::shared;

/// Length of the longest n-gram.
const ORDERS: usize = 4;

/// Counts of an answer: m_1 to m_4, t_1 to t_4, c, r.
pub fn counts(answer: &str, reference: &str) -> Vec<f64> {
    let (answer, reference) = (tokens(answer), tokens(reference));
    let grams = (1..=ORDERS).map(|n| shared(&answer, &reference, n));
    let (matches, totals): (Vec<f64>, Vec<f64>) = grams.map(|[answers, _, both]| (both as f64, answers as f64)).unzip();
    [matches, totals, vec![answer.len() as f64, reference.len() as f64]].concat()
}

/// BLEU of summed counts, from 0 to 100. For one answer the mean is over the orders of which it has n-grams.
pub fn score(counts: &[f64], is_one_answer: bool) -> f64 {
    let (matches, totals, lengths) = (&counts[..ORDERS], &counts[ORDERS..2 * ORDERS], &counts[2 * ORDERS..]);
    let present = totals.iter().take_while(|total| **total > 0.0).count();
    let orders = if is_one_answer { present } else { ORDERS };
    if matches.iter().all(|count| *count == 0.0) || present < orders {
        return 0.0;
    }
    let mut smoothing = 1.0;
    let logarithm = |(matches, total): (&f64, &f64)| {
        if *matches == 0.0 {
            smoothing *= 2.0;
            return (1.0 / (smoothing * total)).ln();
        }
        (matches / total).ln()
    };
    let mean = matches.iter().zip(totals).take(orders).map(logarithm).sum::<f64>() / orders as f64;
    100.0 * (mean + (1.0 - lengths[1] / lengths[0]).min(0.0)).exp()
}

/// Tokens of mteval-v13a: punctuation stands alone, but for full stops, commas and hyphens inside numbers.
fn tokens(text: &str) -> Vec<String> {
    static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let rules = [
            (r"([\x7B-\x7E\x5B-\x60\x20-\x26\x28-\x2B\x3A-\x40\x2F])", " $1 "),
            (r"([^0-9])([.,])", "$1 $2 "),
            (r"([.,])([^0-9])", " $1 $2"),
            (r"([0-9])(-)", "$1 $2 "),
        ];
        rules.into_iter().filter_map(|(rule, with)| Some((Regex::new(rule).ok()?, with))).collect()
    });
    let text = text.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    let spaced =
        RULES.iter().fold(format!(" {text} "), |text, (rule, with)| rule.replace_all(&text, *with).into_owned());
    spaced.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::tests::TEXTS, *};

    /// Numbers of `sacrebleu` 2.6.0 for these texts.
    const SCORES: [f64; 6] = [48.892_302_243_490_086, 9.425_159_511_373_677, 100.0, 0.0, 0.0, 58.772_837_251_053_24];

    #[test]
    fn answers_score_what_sacrebleu_gives() {
        for ((answer, reference), expected) in TEXTS.into_iter().zip(SCORES) {
            let found = score(&counts(answer, reference), true);
            assert!((found - expected).abs() < 1e-9, "{answer}: {found} and {expected}");
        }
    }

    #[test]
    fn a_corpus_is_scored_by_its_sums() {
        let corpus = |pairs: &[(&str, &str)]| {
            let sum = |mut sum: Vec<f64>, (answer, reference): &(&str, &str)| {
                sum.iter_mut().zip(counts(answer, reference)).for_each(|(sum, count)| *sum += count);
                sum
            };
            score(&pairs.iter().fold(vec![0.0; 10], sum), false)
        };
        assert!((corpus(&TEXTS) - 35.942_900_988_915_66).abs() < 1e-9);
        assert!((corpus(&TEXTS[..2]) - 21.835_982_064_613_155).abs() < 1e-9);
        assert_eq!(corpus(&TEXTS[2..5]), 0.0, "no answer has three tokens");
    }

    #[test]
    fn tokens_are_those_of_13a() {
        let spaced = |text| tokens(text).join(" ");
        assert_eq!(spaced(TEXTS[1].0), "It costs $ 1,234.50 , doesn't it ? ( Yes-ish )");
        assert_eq!(spaced(TEXTS[5].0), "Das Haus ist klein & schön - 12 - mal !");
    }
}
