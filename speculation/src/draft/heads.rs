//! Heads on the draft model's last hidden state: two questions about a token that cost one dot product.
//!
//! A head is σ(w·h + b), with h the hidden state that the token's distribution q was read from: what comes before the
//! token. A head that *sees the token* has three more terms, of its [`TokenFeatures`].
//!
//! - SPRINTER's **gate** (Zhong et al., "Speeding up Speculative Decoding via Sequential Approximate Verification",
//!   §3.2): will the token be acceptable, q(x) ≤ λ·p(x)? It may see the token, which §3.2 allows. At a score of τ and
//!   above it passes without the target's verification. What that does to the text is in
//!   `theory::sprinter` of `outrider-papers`; the text is then not the target's any more.
//! - SpecDec++'s **stop** head (Huang et al., "SpecDec++: Boosting Speculative Decoding via Adaptive Candidate
//!   Lengths"): with which probability, min(1, p(x)/q(x)) on average, will the target accept the token? A round ends
//!   where the product of the scores says that some draft is likely to be rejected. It may see the token too, which is
//!   sent all the same: the round ends after it. The text stays the target's.
//!
//! `outrider train-gate` trains both; `outrider-models` reads and writes their file.

use crate::sample::Distribution;

/// Features of a token x drawn from q = S(draft) that a head may see besides the hidden state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenFeatures(pub [f32; TokenFeatures::COUNT]);

impl TokenFeatures {
    /// Number of features of a token.
    pub(crate) const COUNT: usize = 3;

    /// Makes the features of a token `id` that `q` has: ln q(x), H(q) in nats, and max q.
    pub fn of(q: &Distribution<'_>, id: u32) -> Self {
        let peak = q.most_likely(1).first().map_or(0.0, |&id| q.probability(id));
        Self([q.probability(id).ln(), q.entropy(), peak].map(|number| number as f32))
    }
}

/// Error of numbers that do not make a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// The head has no weights.
    #[error("a head needs weights")]
    Empty,
    /// A weight or the bias is NaN or infinite.
    #[error("the head is not finite (first at {index}; the bias comes last)")]
    NotFinite {
        /// Index of the number. The bias has the index after the weights', then come those of the token.
        index: usize,
    },
    /// The token has other numbers.
    #[error("the head weighs {found} numbers of a token, not {}", TokenFeatures::COUNT)]
    Token {
        /// The number of features that the head weighs.
        found: usize,
    },
    /// The head is for hidden states of another width.
    #[error("the head is for hidden states of {head} numbers, the draft model's have {hidden}")]
    Width {
        /// Weights of the head.
        head: usize,
        /// Width of the draft's hidden state.
        hidden: usize,
    },
}

/// σ(w·h + b), or σ(w·h + b + u·t) with t of a token: a probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The weights w; not empty, finite.
    weights: Vec<f32>,
    /// The bias b, a finite number.
    bias: f32,
    /// The weights u of the token's features, finite, as many as [`TokenFeatures`] has; empty if the head does not see
    /// the token.
    token: Vec<f32>,
}

/// The heads of a draft model.
#[derive(Debug, Clone, PartialEq)]
pub struct Heads {
    /// SPRINTER's gate, if there is one.
    pub gate: Option<Head>,
    /// SpecDec++'s stop head, if there is one.
    pub stop: Option<Head>,
    /// Score τ at which and above which the gate passes a token. The paper takes ½.
    pub threshold: f64,
}

impl Head {
    /// A head of weights w and bias b, and of weights u of the `token`'s features; empty if it does not see the token.
    pub fn new(weights: Vec<f32>, bias: f32, token: Vec<f32>) -> Result<Self, HeadError> {
        if weights.is_empty() {
            return Err(HeadError::Empty);
        }
        if !token.is_empty() && token.len() != TokenFeatures::COUNT {
            return Err(HeadError::Token { found: token.len() });
        }
        let bad = weights.iter().chain([&bias]).chain(&token).position(|number| !number.is_finite());
        match bad {
            Some(index) => Err(HeadError::NotFinite { index }),
            None => Ok(Self { weights, bias, token }),
        }
    }

    /// True if the head needs the token's features.
    pub(crate) fn sees_token(&self) -> bool {
        !self.token.is_empty()
    }

    /// Numbers in the hidden states that it scores.
    pub(crate) fn width(&self) -> usize {
        self.weights.len()
    }

    /// The score σ(w·h + b + u·t), in [0, 1], with t the [`TokenFeatures`]; those that are missing count as 0. Summed
    /// in f64 from the first element on, so that it has the same bits everywhere but for what `exp` differs in. NaN if
    /// `hidden` has one.
    ///
    /// # Panics
    /// If `hidden` is not as wide as the head; `Heads::check_width` finds that beforehand.
    pub fn score(&self, hidden: &[f32], token: &[f32]) -> f64 {
        assert_eq!(hidden.len(), self.weights.len(), "a hidden state of another width than the head's");
        let dot = |weights: &[f32], numbers: &[f32]| -> f64 {
            weights.iter().zip(numbers).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum()
        };
        sigmoid(dot(&self.weights, hidden) + f64::from(self.bias) + dot(&self.token, token))
    }
}

impl Heads {
    /// True if the gate sees the token.
    pub(crate) fn gate_sees_token(&self) -> bool {
        self.gate.as_ref().is_some_and(Head::sees_token)
    }

    /// True if the stop head sees the token.
    pub(crate) fn stop_sees_token(&self) -> bool {
        self.stop.as_ref().is_some_and(Head::sees_token)
    }

    /// True if the gate lets the token drawn from this hidden state pass without the target: its score is at least
    /// `threshold`, or τ where that is `None` (SPRINTER, Algorithm 2). `token` has the features that the gate may see.
    /// `false` without a gate, for a score that is NaN, and where the gate sees the token and is not shown it.
    ///
    /// # Panics
    /// As [`Head::score`].
    pub(crate) fn passes(&self, hidden: &[f32], token: Option<&TokenFeatures>, threshold: Option<f64>) -> bool {
        let threshold = threshold.unwrap_or(self.threshold);
        let token = token.map(|token| &token.0[..]);
        self.gate.as_ref().is_some_and(|gate| {
            (token.is_some() || !gate.sees_token()) && gate.score(hidden, token.unwrap_or_default()) >= threshold
        })
    }

    /// Checks that the heads are for hidden states of `hidden` numbers.
    pub(crate) fn check_width(&self, hidden: usize) -> Result<(), HeadError> {
        match self.gate.iter().chain(&self.stop).map(Head::width).find(|&head| head != hidden) {
            Some(head) => Err(HeadError::Width { head, hidden }),
            None => Ok(()),
        }
    }
}

/// 1 / (1 + e^(−x)), without overflow.
fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::PLAIN;
    use outrider_codec::frame::SamplingParameters;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn head(weights: &[f32], bias: f32) -> Head {
        Head::new(weights.to_vec(), bias, vec![]).unwrap()
    }

    #[test]
    fn a_score_is_the_sigmoid_of_the_affine_form() {
        assert_eq!(head(&[1.0, -2.0], 0.0).score(&[2.0, 1.0], &[]), 0.5);
        // w·h + b = ln 3: three to one.
        assert!((head(&[3f32.ln(), 9.0], 0.0).score(&[1.0, 0.0], &[]) - 0.75).abs() < 1e-7);
        assert!((head(&[9.0], -(3f32.ln())).score(&[0.0], &[]) - 0.25).abs() < 1e-7);
        assert_eq!(head(&[f32::MAX], 0.0).score(&[f32::MAX], &[]), 1.0);
        assert_eq!(head(&[f32::MAX], 0.0).score(&[f32::MIN], &[]), 0.0);
        assert!(head(&[1.0], 0.0).score(&[f32::NAN], &[]).is_nan());
    }

    #[test]
    fn the_gate_passes_at_its_threshold() {
        let mut heads = Heads { gate: Some(head(&[1.0], 0.0)), stop: None, threshold: 0.5 };
        assert!(passes(&heads, 0.0, None) && passes(&heads, 0.1, None) && !passes(&heads, -0.1, None));
        assert!(!passes(&heads, f32::NAN, None) && !passes(&heads, 0.1, Some(0.9)));
        heads.threshold = 0.51;
        assert!(!passes(&heads, 0.0, None) && passes(&heads, 0.1, None));
        assert!(!passes(&Heads { gate: None, stop: heads.gate, threshold: 0.0 }, 9.0, None));
    }

    fn passes(heads: &Heads, hidden: f32, threshold: Option<f64>) -> bool {
        heads.passes(&[hidden], None, threshold)
    }

    /// ln q(x), H(q) and max q of S(q), each with its weight.
    #[test]
    fn a_head_may_see_the_token() {
        let row = [0.5f32, 0.25, 0.25].map(f32::ln);
        let q = Distribution::new(&row, &PLAIN).unwrap();
        let seen = TokenFeatures::of(&q, 1);
        let ln2 = core::f32::consts::LN_2;
        for (found, expected) in seen.0.iter().zip([-2.0 * ln2, 1.5 * ln2, 0.5]) {
            assert!((found - expected).abs() < 1e-6, "{seen:?}");
        }
        let greedy = Distribution::new(&row, &SamplingParameters { temperature: 0.0, ..PLAIN }).unwrap();
        assert_eq!(TokenFeatures::of(&greedy, 0).0, [0.0, 0.0, 1.0]);
        for (index, weight) in [(0, 3.0), (1, -2.0), (2, 5.0)] {
            let mut weights = vec![0.0; TokenFeatures::COUNT];
            weights[index] = weight;
            let head = Head::new(vec![1.0], 0.5, weights).unwrap();
            let expected = sigmoid(0.25 + 0.5 + f64::from(weight) * f64::from(seen.0[index]));
            assert!((head.score(&[0.25], &seen.0) - expected).abs() < 1e-12);
            let heads = Heads { gate: Some(head), stop: None, threshold: expected };
            assert!(heads.gate_sees_token() && heads.passes(&[0.2501], Some(&seen), None));
            assert!(!heads.passes(&[0.2499], Some(&seen), None) && !heads.passes(&[9.0], None, None));
        }
        assert_eq!(Head::new(vec![1.0], 0.0, vec![1.0]), Err(HeadError::Token { found: 1 }));
        let bad = Head::new(vec![1.0], 0.0, vec![0.0, f32::NAN, 0.0]);
        assert_eq!(bad, Err(HeadError::NotFinite { index: 3 }));
    }

    #[test]
    fn bad_numbers_and_widths_are_errors() {
        assert_eq!(Head::new(vec![], 0.0, vec![]), Err(HeadError::Empty));
        assert_eq!(Head::new(vec![0.0, f32::NAN], 0.0, vec![]), Err(HeadError::NotFinite { index: 1 }));
        assert_eq!(Head::new(vec![0.0, 1.0], f32::INFINITY, vec![]), Err(HeadError::NotFinite { index: 2 }));
        let heads = Heads { gate: Some(head(&[1.0], 0.0)), stop: Some(head(&[1.0, 2.0], 0.0)), threshold: 0.5 };
        assert_eq!(heads.check_width(1), Err(HeadError::Width { head: 2, hidden: 1 }));
        assert_eq!(heads.check_width(2), Err(HeadError::Width { head: 1, hidden: 2 }));
        assert_eq!(Heads { stop: None, ..heads }.check_width(1), Ok(()));
    }

    #[test]
    #[should_panic(expected = "another width")]
    fn another_width_is_not_scored() {
        head(&[1.0, 2.0], 0.0).score(&[1.0], &[]);
    }

    proptest! {
        #[test]
        fn scores_are_probabilities_that_mirror(x in -1e3f32..1e3, bias in -1e3f32..1e3) {
            let (up, down) = (head(&[1.0], bias).score(&[x], &[]), head(&[-1.0], -bias).score(&[x], &[]));
            prop_assert!((0.0..=1.0).contains(&up));
            prop_assert!((up + down - 1.0).abs() < 1e-12);
        }
    }
}
