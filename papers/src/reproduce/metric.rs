//! Quality of answers beside references: one number of an answer, and one of a corpus.
//!
//! Each metric turns an answer into counts. Counts of a corpus are the sums of those of its answers, so that BLEU and
//! chrF are those of the corpus, and the others means over answers.
//!
//! | module | metric |
//! |---|---|
//! | [`rouge`] | ROUGE-1, -2 and -L |
//! | `bleu` | BLEU |
//! | `chrf` | chrF |
//! | `grams` | n-grams that two sequences share |

mod bleu;
mod chrf;
mod grams;
pub mod rouge;

use std::str::FromStr;

use outrider_models::{Chunk, Model, Tokenizer};
use regex::Regex;

use self::rouge::Rouge;
use super::sessions::{Failure, Session};

/// A way to score answers.
#[derive(Debug, Clone, Default)]
pub enum Metric {
    /// Share of answers that are the reference to the letter, but for white space at the ends.
    #[default]
    ExactMatch,
    /// ROUGE-1, ROUGE-2 or ROUGE-L: F₁ as `rouge_score` has it, from 0 to 1.
    Rouge(RougeKind),
    /// BLEU as `sacrebleu` has it, from 0 to 100.
    Bleu,
    /// chrF as `sacrebleu` has it, from 0 to 100.
    Chrf,
    /// Share of answers in which the expression's first match is that in the reference. With a group it is the text
    /// of the first group.
    Regex(Regex),
    /// ln p of an answer under the target at T = 1, in nats a token. It needs no reference.
    LogLikelihood,
}

/// A kind of ROUGE, by its units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RougeKind {
    /// ROUGE-1, of single words.
    One,
    /// ROUGE-2, of pairs of neighbours.
    Two,
    /// ROUGE-L, of the longest common subsequence.
    Longest,
}

/// Error of a metric's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// There is no metric of this name.
    #[error(
        "unknown metric {0:?}: use exact-match, rouge, rouge-1, rouge-2, bleu, chrf, regex=EXPRESSION or log-likelihood"
    )]
    Unknown(String),
    /// The regular expression is malformed.
    #[error("{0}")]
    Regex(#[from] regex::Error),
}

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        Ok(match name {
            "exact-match" => Self::ExactMatch,
            "rouge" | "rouge-l" => Self::Rouge(RougeKind::Longest),
            "rouge-1" => Self::Rouge(RougeKind::One),
            "rouge-2" => Self::Rouge(RougeKind::Two),
            "bleu" => Self::Bleu,
            "chrf" => Self::Chrf,
            "log-likelihood" => Self::LogLikelihood,
            _ => match name.strip_prefix("regex=") {
                Some(expression) => Self::Regex(Regex::new(expression)?),
                None => return Err(MetricError::Unknown(name.to_owned())),
            },
        })
    }
}

impl Metric {
    /// Name of the metric with its unit, for tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ExactMatch => "exact match",
            Self::Rouge(RougeKind::One) => "ROUGE-1",
            Self::Rouge(RougeKind::Two) => "ROUGE-2",
            Self::Rouge(RougeKind::Longest) => "ROUGE-L",
            Self::Bleu => "BLEU",
            Self::Chrf => "chrF",
            Self::Regex(_) => "regex match",
            Self::LogLikelihood => "nats a token",
        }
    }

    /// Returns true if answers are scored beside references.
    pub fn needs_reference(&self) -> bool {
        !matches!(self, Self::LogLikelihood)
    }

    /// Counts of an answer, which the `turns` of a conversation write. `target` reads it where the metric is its
    /// likelihood.
    ///
    /// # Errors
    /// If there is no reference and the metric needs one, or if the target fails.
    pub fn counts(
        &self,
        turns: &[Session],
        reference: Option<&str>,
        tokenizer: &Tokenizer,
        target: &Model,
    ) -> Result<Vec<f64>, Failure> {
        if matches!(self, Self::LogLikelihood) {
            let (mut sum, mut tokens) = (0.0, 0.0);
            for turn in turns {
                let rows = log_probabilities(target, turn)?;
                sum += rows.iter().zip(&turn.tokens).map(|(row, &token)| row[token as usize]).sum::<f64>();
                tokens += turn.tokens.len() as f64;
            }
            return Ok(vec![sum, tokens]);
        }
        let reference = reference.ok_or_else(|| format!("there is no reference, which {} needs", self.name()))?;
        let answers: Vec<String> = turns.iter().map(|turn| tokenizer.decode(&turn.tokens)).collect();
        Ok(self.text_counts(&answers.join("\n"), reference))
    }

    /// Counts of an answer beside its reference; of the likelihood, none.
    fn text_counts(&self, answer: &str, reference: &str) -> Vec<f64> {
        let scored = |score: f64| vec![score, 1.0];
        match self {
            Self::ExactMatch => scored(f64::from(u8::from(answer.trim() == reference.trim()))),
            Self::Rouge(kind) => {
                let [one, two, longest] = Rouge::of(answer, reference).scores();
                scored(match kind {
                    RougeKind::One => one,
                    RougeKind::Two => two,
                    RougeKind::Longest => longest,
                })
            }
            Self::Bleu => bleu::counts(answer, reference),
            Self::Chrf => chrf::counts(answer, reference),
            Self::Regex(expression) => {
                let found = first(expression, answer);
                scored(f64::from(u8::from(found.is_some() && found == first(expression, reference))))
            }
            Self::LogLikelihood => scored(0.0),
        }
    }

    /// Score of a corpus from the sums of its counts.
    pub fn score(&self, counts: &[f64]) -> f64 {
        match self {
            Self::Bleu => bleu::score(counts, false),
            Self::Chrf => chrf::score(counts),
            _ => counts[0] / counts[1],
        }
    }

    /// Score of one answer on a scale from 0, of which shares can be kept: a likelihood becomes the geometric mean of
    /// its tokens' probabilities.
    pub fn share(&self, score: f64) -> f64 {
        if matches!(self, Self::LogLikelihood) { score.exp() } else { score }
    }

    /// Score of one answer from its counts.
    pub fn answer_score(&self, counts: &[f64]) -> f64 {
        if matches!(self, Self::Bleu) { bleu::score(counts, true) } else { self.score(counts) }
    }
}

/// Text of the first match, or of its first group.
fn first<'t>(expression: &Regex, text: &'t str) -> Option<&'t str> {
    let found = expression.captures(text)?;
    found.get(1).or(found.get(0)).map(|found| found.as_str().trim())
}

/// ln p at T = 1 at each token of a session's answer, in nats, `[tokens][vocab_size]`.
///
/// # Errors
/// If the model fails.
pub fn log_probabilities(model: &Model, session: &Session) -> Result<Vec<Vec<f64>>, Failure> {
    let text = [&session.prompt[..], &session.tokens].concat();
    // The row that gives a token is that of the one before.
    let rows: Vec<usize> = (session.prompt.len() - 1..text.len() - 1).collect();
    let mut cache = model.new_cache();
    let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: &text, positions: &rows }])?;
    let normalised = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let normaliser = f64::from(most) + row.iter().map(|&logit| f64::from(logit - most).exp()).sum::<f64>().ln();
        row.iter().map(|&logit| f64::from(logit) - normaliser).collect()
    };
    Ok(logits[0].iter().map(normalised).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers and references whose scores the golden numbers of BLEU and chrF are.
    pub(super) const TEXTS: [(&str, &str); 6] = [
        ("The cat sat on the mat.", "The cat is on the mat."),
        ("It costs $1,234.50, doesn't it? (Yes-ish)", "It cost 1,234.50 dollars, didn't it? Yes!"),
        ("a b", "a b"),
        ("hello world", "the cat"),
        ("", "the cat"),
        ("Das Haus ist klein &amp; schön - 12-mal!", "Das Haus ist klein & schön, 12-mal."),
    ];

    fn score(metric: &str, answer: &str, reference: &str) -> f64 {
        let metric: Metric = metric.parse().unwrap();
        metric.answer_score(&metric.text_counts(answer, reference))
    }

    /// The strict match of lm-evaluation-harness for GSM8K.
    #[test]
    fn an_expression_finds_the_answer_in_both() {
        let gsm8k = r"regex=#### (-?[0-9.,]+)";
        assert_eq!(score(gsm8k, "3 + 4 = 7\n#### 7\nQuestion: #### 9", "He has 3 + 4 = <<3+4=7>>7.\n#### 7"), 1.0);
        assert_eq!(score(gsm8k, "#### 8", "#### 7"), 0.0);
        assert_eq!(score(gsm8k, "seven", "seven"), 0.0, "no match is no answer");
        assert_eq!(score("regex=[A-D]", "It is B.", "B"), 1.0);
    }

    #[test]
    fn names_are_metrics_or_errors() {
        assert_eq!(score("exact-match", " right \n", "right"), 1.0);
        assert_eq!(score("rouge", "the cat", "cat the"), 0.5);
        assert_eq!(score("rouge-1", "the cat", "cat the"), 1.0);
        let error = |name: &str| name.parse::<Metric>().unwrap_err().to_string();
        assert!(error("meteor").starts_with("unknown metric \"meteor\": use exact-match, rouge,"));
        assert!(error("regex=(").contains("unclosed group"));
    }
}
