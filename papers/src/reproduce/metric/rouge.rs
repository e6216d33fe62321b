//! ROUGE (Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries"): how much of a reference text another
//! text has, by words.
//!
//! ROUGE-N counts n-grams, each as often as both texts have it; ROUGE-L the longest common subsequence. With m the
//! count, precision is m over the n-grams (or words) of the candidate, recall m over those of the reference, and the
//! score their harmonic mean F₁ = 2m/(candidate + reference). There is one reference, no stemming, and no stop words
//! are left out.

use super::grams::shared;

/// F₁ of each kind, in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rouge {
    /// ROUGE-1, of single words.
    pub one: f64,
    /// ROUGE-2, of pairs of neighbours.
    pub two: f64,
    /// ROUGE-L, of the longest common subsequence.
    pub longest: f64,
}

impl Rouge {
    /// Scores a candidate beside a reference.
    pub fn of(candidate: &str, reference: &str) -> Self {
        let (candidate, reference) = (words(candidate), words(reference));
        Self {
            one: n_grams(&candidate, &reference, 1),
            two: n_grams(&candidate, &reference, 2),
            longest: f1(common_subsequence(&candidate, &reference), candidate.len(), reference.len()),
        }
    }

    /// ROUGE-1, ROUGE-2 and ROUGE-L.
    pub fn scores(self) -> [f64; 3] {
        [self.one, self.two, self.longest]
    }
}

/// Runs of the letters a to z and digits, in small letters: the words of the package `rouge_score`.
fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// 2m/(a + b); 0 where neither has anything.
fn f1(matches: usize, candidate: usize, reference: usize) -> f64 {
    2.0 * matches as f64 / (candidate + reference).max(1) as f64
}

fn n_grams(candidate: &[String], reference: &[String], n: usize) -> f64 {
    let [candidates, references, both] = shared(candidate, reference, n);
    f1(both, candidates, references)
}

/// The length of the longest common subsequence: L(i, j) = L(i−1, j−1) + 1 where the words are equal, else
/// max(L(i−1, j), L(i, j−1)). O(ab).
fn common_subsequence(a: &[String], b: &[String]) -> usize {
    let mut above = vec![0; b.len() + 1];
    for word in a {
        let mut row = vec![0; b.len() + 1];
        for (j, other) in b.iter().enumerate() {
            row[j + 1] = if word == other { above[j] + 1 } else { above[j + 1].max(row[j]) };
        }
        above = row;
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Rouge, expected: [f64; 3]) {
        for (found, expected) in found.scores().iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
        }
    }

    /// Lin's example (§3.1): both candidates share "the" and "gunman" with the reference and have ROUGE-2 with it alike
    /// in part; only the order distinguishes them. By hand: reference "police killed the gunman", four words, three
    /// pairs.
    #[test]
    fn sentences_of_the_paper() {
        let reference = "police killed the gunman";
        // Three words, the pair "the gunman", and "police the gunman" in order.
        close(Rouge::of("police kill the gunman", reference), [6.0 / 8.0, 2.0 / 6.0, 6.0 / 8.0]);
        // The same three words and one pair; in order only "the gunman" (or "police").
        close(Rouge::of("the gunman kill police", reference), [6.0 / 8.0, 2.0 / 6.0, 4.0 / 8.0]);
    }

    #[test]
    fn words_count_as_often_as_both_have_them() {
        // "the" twice in the candidate, once in the reference: one match of 3 + 2 words.
        close(Rouge::of("the the cat", "the dog"), [2.0 / 5.0, 0.0, 2.0 / 5.0]);
        // "a b" occurs twice in both, "b a" once: three of three pairs.
        close(Rouge::of("a b a b", "A, b; a b!"), [1.0; 3]);
        // Of different lengths: matches 2, pairs 1 of 1 + 3, subsequence 2, of 2 + 4 words.
        close(Rouge::of("king said", "the king said no"), [4.0 / 6.0, 2.0 / 4.0, 4.0 / 6.0]);
    }

    #[test]
    fn a_subsequence_may_have_gaps() {
        // "w a x b y c" and "a b c": all three, of 6 + 3 words.
        close(Rouge::of("w a x b y c", "a b c"), [6.0 / 9.0, 0.0, 6.0 / 9.0]);
    }

    /// Numbers of `rouge_score` 0.1.2, without its stemmer: é is no letter of its words.
    #[test]
    fn texts_score_what_the_package_gives() {
        close(Rouge::of("The cat sat on the mat.", "The cat is on the mat."), [5.0 / 6.0, 0.6, 5.0 / 6.0]);
        let (said, right) = ("It costs $1,234.50, doesn't it? (Yes-ish)", "It cost 1,234.50 dollars, didn't it? Yes!");
        close(Rouge::of(said, right), [0.7, 4.0 / 9.0, 0.7]);
        close(Rouge::of("Café noir, 3x", "cafe noir 3X"), [2.0 / 3.0, 0.5, 2.0 / 3.0]);
    }

    #[test]
    fn nothing_scores_nothing() {
        close(Rouge::of("", "a b"), [0.0; 3]);
        close(Rouge::of("?!", ""), [0.0; 3]);
        // One word has no pairs.
        close(Rouge::of("a", "a"), [1.0, 0.0, 1.0]);
    }
}
